//! `.windlass/config.toml`.

use crate::e2e::snapshot::check;
use crate::harness::Place;

#[test]
fn what_is_not_a_setting_is_refused_and_named() {
    let place = Place::with_project();
    let texts = [
        "colour = true\n",
        "[journal]\nreads = \"write-ahead\"\nread = 1\n",
        "[journal]\nreads = \"sometimes\"\n",
        "[journal]\nreads = 7\n",
        "[store]\nbusy_timeout_ms = \"long\"\n",
        "[store]\nbusy_timeout_ms = -1\n",
        "[store]\nbusy_timeout_ms = 600001\n",
        "[store]\nbusy_timeout_ms = 99999999999999999999\n",
        "[sandbox]\n",
        "[sandbox]\nenabled = false\n",
        "[sandbox]\nwritable = [\"/srv\"]\n",
        "[sandbox]\nnetwork = true\n",
        "sandbox = 1\n",
        "[store\n",
        "[store]\n[store]\n",
    ];
    let outcomes: Vec<_> = texts
        .iter()
        .map(|text| {
            place.write(".windlass/config.toml", text);
            let outcome = place.run(&["call", "list"]).fails_with(2, "CONFIG_INVALID");
            place.shell("shell/read", "ls", &[]).fails_with(2, "CONFIG_INVALID");
            place.run(&["policy", "check"]).fails_with(2, "CONFIG_INVALID");
            assert!(outcome.stderr.contains("config.toml"), "{outcome}");
            outcome.warns("hint: ")
        })
        .collect();
    check("config", &place, &outcomes);
    place.write(".windlass/config.toml", [0xff]);
    place.run(&["call", "list"]).fails_with(2, "CONFIG_INVALID").warns("UTF-8");
    place.write(".windlass/config.toml", format!("# {}\n", "x".repeat(5 << 20)));
    place.run(&["call", "list"]).fails_with(2, "DOC_SIZE_EXCEEDED").warns("config.toml");
    std::fs::remove_file(place.work().join(".windlass/config.toml")).unwrap();
    place.run(&["call", "list"]).exit(0);
    place.write(".windlass/config.toml", "");
    place.run(&["call", "list"]).exit(0);
}
