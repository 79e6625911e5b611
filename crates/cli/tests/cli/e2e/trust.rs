//! Trust: nothing acts by a configuration that the user has not seen.

use serde_json::Value;

use crate::e2e::snapshot::check;
use crate::harness::{Outcome, Place, finish, text_of};
use crate::world::{Repo, VOICE, escalating, id_of};

const AGENT: &str = "---\nname: mine\ndescription: A test.\n---\n\nWork.\n";

fn digest(place: &Place) -> String {
    text_of(&place.run(&["trust", "--show", "--json"]).exit(0).json(), "digest")
}

#[test]
fn what_init_wrote_is_trusted_and_every_kind_of_change_asks_again() {
    let place = Place::with_project();
    place.run(&["trust"]).exit(0).says("trusted");
    let old = place.read(".windlass/policy/default.toml");
    for (file, text) in [
        ("config.toml", "[journal]\n".to_owned()),
        ("tools.toml", format!("{}\n# more\n", place.read(".windlass/tools.toml"))),
        ("policy/default.toml", format!("{old}\n# more\n")),
        ("policy/governance/mine.md", "notes".to_owned()),
        ("policy/notes.txt", "notes".to_owned()),
        ("loops/driver/notes.txt", "notes".to_owned()),
        ("agents/mine.md", AGENT.to_owned()),
    ] {
        let path = format!(".windlass/{file}");
        let before = std::fs::read(place.work().join(&path)).ok();
        place.write_untrusted(&path, text);
        let word = if before.is_some() { "changed" } else { "added" };
        let refused = place.shell("shell/read", "ls", &[]).fails_with(3, "PROJECT_UNTRUSTED");
        refused.warns(&format!("{word} `{file}`")).warns("windlass trust");
        place.run(&["doctor"]).exit(0).says("warn").says("[PROJECT_UNTRUSTED]");
        place.run(&["doctor", "--servers"]).exit(1).says("[PROJECT_UNTRUSTED]");
        place.run(&["trust", "--show"]).exit(0).says(file).says(word);
        let shown = digest(&place);
        place.run(&["trust", "--yes", &shown]).exit(0).says(&shown);
        place.shell("shell/read", "ls", &[]).exit(0);
        match before {
            Some(bytes) => place.write_untrusted(&path, bytes),
            None => {
                std::fs::remove_file(place.work().join(&path)).unwrap();
                let refused = place.shell("shell/read", "ls", &[]);
                refused.fails_with(3, "PROJECT_UNTRUSTED").warns(&format!("removed `{file}`"));
                place.work()
            }
        };
        place.trust();
    }
    // What decides nothing asks nothing.
    place.write_untrusted(".windlass/artifacts/x", "x");
    place.write_untrusted(".windlass/.gitignore", "*");
    place.shell("shell/read", "ls", &[]).exit(0);
}

#[test]
fn without_trust_nothing_acts_and_everything_can_be_read() {
    let repo = Repo::new();
    let place = &repo.place;
    let held = id_of(&repo.run(&escalating()).exit(4));
    let call = place.held();
    let count = repo.traces();
    place.run(&["trust", "--revoke"]).exit(0).says("no longer trusted");
    place.run(&["trust", "--revoke"]).exit(0).says("it was not trusted");
    let approve = [&["queue", "approve", &held][..], &VOICE].concat();
    let reject = [&["queue", "reject", &held, "--resume"][..], &VOICE].concat();
    let decide = [&["call", "approve", &call][..], &VOICE].concat();
    let back = format!("{held}/POST_design");
    let rollback = ["checkpoint", "rollback", &back, "--reason", "again"];
    let acting: [&[&str]; 10] = [
        &["call", "run", "shell/read", "--args", r#"{"line":"ls"}"#],
        &decide,
        &["run", "one"],
        &["resume", &held],
        &["recover"],
        &["recover", &held],
        &approve,
        &reject,
        &rollback,
        &["backlog", "run"],
    ];
    let before = repo.snapshot();
    for words in acting {
        place.run(words).fails_with(3, "PROJECT_UNTRUSTED").warns("windlass trust");
    }
    assert_eq!((repo.snapshot(), repo.traces()), (before, count), "nothing has happened");
    let reading: [&[&str]; 16] = [
        &["status"],
        &["status", &held],
        &["verify"],
        &["trace", "list"],
        &["call", "list"],
        &["call", "show", &call],
        &["queue", "list"],
        &["queue", "show", &held],
        &["export", &held],
        &["policy", "check"],
        &["policy", "hash"],
        &["policy", "explain", "shell/read", "--args", r#"{"line":"ls"}"#],
        &["loop", "list"],
        &["checkpoint", "list", &held],
        &["checkpoint", "check"],
        &["doctor"],
    ];
    for words in reading {
        place.run(words).exit(0);
    }
    // A person can still say no, and stop.
    place.run(&["stop"]).exit(0);
    place.run(&["stop", "--clear"]).exit(0);
    place.run(&[&["call", "deny", &call][..], &VOICE].concat()).exit(0);
    place.run(&[&["queue", "reject", &held][..], &VOICE].concat()).exit(0).says("BLOCKED");
    let shown = digest(place);
    place.run(&["trust", "--yes", &shown]).exit(0);
    place.shell("shell/read", "ls", &[]).exit(0);
}

#[test]
fn an_untrusted_configuration_sends_and_writes_nothing_outside() {
    let repo = Repo::new();
    let held = id_of(&repo.run(&escalating()).exit(4));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = repo.read(".windlass/config.toml");
    let config = config.replace(".windlass/artifacts", "../outside");
    let config = format!("{config}\n[telemetry]\nendpoint = \"http://127.0.0.1:{port}\"\n");
    repo.place.write_untrusted(".windlass/config.toml", config);
    repo.windlass(&["telemetry", "push"]).fails_with(3, "PROJECT_UNTRUSTED").warns("config.toml");
    repo.windlass(&["export", &held]).exit(0);
    repo.windlass(&[&["queue", "reject", &held][..], &VOICE].concat()).exit(0);
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert!(!repo.place.base().join("outside").exists());
    let shown = repo.windlass(&["trust", "--show"]).exit(0);
    shown.says(&format!("telemetry to http://127.0.0.1:{port}")).says("../outside");
}

#[test]
fn a_change_while_a_run_waits_asks_again_and_then_ends_it() {
    let policy = "[[rule]]\nid = \"mine\"\nverdict = \"deny\"\nreason = \"no\"\ntool = \"shell/run\"\n\
                  command = \"nmap *\"\nmatches = [{ tool = \"shell/run\", args = { line = \"nmap x\" } }]\n";
    // What a run does not use may change.
    for (file, text, ends) in [
        ("agents/mine.md", AGENT, false),
        ("loops/notes.txt", "notes", false),
        ("policy/mine.toml", policy, true),
    ] {
        let repo = Repo::new();
        // In a work tree of its own: other changes of the project are not the question.
        let held = id_of(&repo.run_with(&escalating(), &["--worktree"]).exit(4));
        repo.place.write_untrusted(&format!(".windlass/{file}"), text);
        let approve = [&["queue", "approve", &held, "--resume"][..], &VOICE].concat();
        repo.windlass(&approve)
            .fails_with(3, "PROJECT_UNTRUSTED")
            .warns(&format!("added `{file}`"));
        repo.windlass(&["resume", &held]).fails_with(3, "PROJECT_UNTRUSTED");
        assert_eq!(repo.stands(&held)["state"], "CHECKPOINT");
        // Trusted or not, a run is judged by the policy that it began with.
        repo.place.trust();
        if !ends {
            repo.windlass(&approve).exit(0);
            continue;
        }
        let refused = repo.windlass(&approve).exit(3);
        let said = refused.text().to_owned() + &refused.stderr;
        assert!(said.contains("POLICY_CHANGED_MID_RUN"), "{refused}");
    }
}

#[test]
fn what_it_would_start_and_open_is_shown() {
    let place = Place::with_server();
    place.append(
        ".windlass/tools.toml",
        "[server.net]\nconnector = \"mcp-http\"\nurl = \"https://tools.example/mcp\"\nbearer_env = \"NET_TOKEN\"\n\
         [server.net.tool.get]\nclass = \"read\"\n\
         [server.lab]\nconnector = \"command\"\n\
         [server.lab.tool.free]\nclass = \"write\"\nargv = [\"make\", \"all of it\"]\nsandbox = false\n\
         [server.lab.tool.fetch]\nclass = \"read\"\nargv = [\"curl\", \"{/url}\"]\nnetwork = [\"files.example:443\"]\n",
    );
    place.write(
        ".windlass/policy/governance/mine.toml",
        "level = \"project\"\n[[gate]]\nid = \"lint\"\non_failure = \"warn\"\nremediation = \"tidy up\"\ntool = { command = [\"./lint.sh\"] }\n",
    );
    let shown = place.run(&["trust", "--show", "--json"]).exit(0).json();
    let powers = shown["powers"].as_array().unwrap();
    let has = |kind: &str, text: &str| {
        powers.iter().any(|power| power["kind"] == kind && text_of(power, "text").contains(text))
    };
    for (kind, text) in [
        ("unconfined", "counting_server"),
        ("server", "/nonexistent/server"),
        ("network", "https://tools.example/mcp"),
        ("secret", "NET_TOKEN"),
        ("unconfined", "make \"all of it\""),
        ("network", "curl"),
        ("command", "bash"),
        ("rule", "./lint.sh"),
        ("policy", "rules"),
    ] {
        assert!(has(kind, text), "{kind} {text}: {shown:#}");
    }
    assert_eq!(shown["trusted"], true);
    assert_eq!(shown["changes"], Value::Array(Vec::new()));
}

#[test]
fn nothing_slips_in_between() {
    let place = Place::with_project();
    place.write_untrusted(".windlass/agents/mine.md", AGENT);
    let seen = digest(&place);
    place.write_untrusted(".windlass/agents/other.md", AGENT.replace("mine", "other"));
    let refused = place.run(&["trust", "--yes", &seen]).fails_with(3, "PROJECT_UNTRUSTED");
    refused.warns("--show");
    place.shell("shell/read", "ls", &[]).fails_with(3, "PROJECT_UNTRUSTED");
    for wrong in ["", "yes", "0", &seen[..60]] {
        place.run(&["trust", "--yes", wrong]).fails_with(2, "REQUEST_INVALID");
    }
    // Where there is no terminal, nobody is taken to have said yes.
    let asked = place.feed(&["trust"], b"y\n").exit(2).warns("[REQUEST_INVALID]");
    asked.warns("--yes");
    place.run(&["trust", "--json"]).exit(2).warns("REQUEST_INVALID");
    place.run(&["trust", "--show", "--revoke"]).exit(2);
    place.shell("shell/read", "ls", &[]).fails_with(3, "PROJECT_UNTRUSTED");
    let shown = place.run(&["trust", "--show"]).exit(0);
    let trusted = place.run(&["trust", "--yes", &digest(&place)]).exit(0);
    check("trust", &place, &[shown, trusted]);
    place.shell("shell/read", "ls", &[]).exit(0);
}

/// Runs the binary on a terminal, with an answer typed; `None` where there is no `script`.
fn on_terminal(place: &Place, words: &str, answer: &str) -> Option<Outcome> {
    if !std::path::Path::new("/usr/bin/script").exists() {
        return None;
    }
    let mut command = std::process::Command::new("/usr/bin/script");
    let line = format!("{} {words}", env!("CARGO_BIN_EXE_windlass"));
    command.args(["-qec", &line, "/dev/null"]);
    place.settle(&mut command);
    Some(finish(command, answer.as_bytes()))
}

#[test]
fn on_a_terminal_the_user_is_asked() {
    let place = Place::with_project();
    place.write_untrusted(".windlass/agents/mine.md", AGENT);
    for answer in ["n\n", "\n", "yess\n"] {
        let Some(outcome) = on_terminal(&place, "trust", answer) else {
            windlass_testkit::skipped("there is no `script` here, so no terminal can be made");
            return;
        };
        outcome.exit(1).says("agents/mine.md").says("[y/N]").says("not trusted");
        place.shell("shell/read", "ls", &[]).fails_with(3, "PROJECT_UNTRUSTED");
    }
    on_terminal(&place, "trust", "y\n").unwrap().exit(0).says("trusted");
    place.shell("shell/read", "ls", &[]).exit(0);
    let remove = format!("state remove {} --force", &place.read(".windlass/id")[..8]);
    on_terminal(&place, &remove, "n\n").unwrap().exit(1).says("nothing was removed");
    place.run(&["verify"]).exit(0);
    on_terminal(&place, &remove, "y\n").unwrap().exit(0).says("removed");
    place.run(&["verify"]).fails_with(1, "STATE_MISSING");
}

#[test]
fn a_damaged_record_of_trust_is_no_trust() {
    let place = Place::with_project();
    let good = std::fs::read_to_string(place.state().join("trust.json")).unwrap();
    for text in ["", "{}", "not JSON", &good.replacen('{', "{\"x\":1,", 1)] {
        place.write_state("trust.json", text);
        place.shell("shell/read", "ls", &[]).fails_with(3, "PROJECT_UNTRUSTED").warns("damaged");
    }
    place.run(&["trust", "--yes", &digest(&place)]).exit(0);
    place.shell("shell/read", "ls", &[]).exit(0);
    // An invalid configuration can be neither shown nor trusted.
    place.write_untrusted(".windlass/tools.toml", "nonsense");
    place.run(&["trust", "--show"]).fails_with(2, "POLICY_INVALID");
    place.shell("shell/read", "ls", &[]).fails_with(2, "POLICY_INVALID");
}

#[test]
fn the_users_settings_are_the_users() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let place = Place::with_project();
    place.settings("[sandbox]\nlevel = \"landlock\"\nvisible = [\"~/x\"]\n");
    place.run(&["doctor"]).exit(0).says("sandbox level landlock; 1 visible");
    let path = place.home().join(".config/windlass/config.toml");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    let refused = place.shell("shell/read", "ls", &[]).fails_with(2, "CONFIG_INVALID");
    refused.warns("can be changed by other users").warns("chmod go-w");
    place.run(&["doctor"]).exit(1).says("[CONFIG_INVALID]");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    if chown(&path, Some(12345), None).is_ok() {
        place.shell("shell/read", "ls", &[]).fails_with(2, "CONFIG_INVALID").warns("another user");
        chown(&path, Some(0), None).unwrap();
    }
    place.shell("shell/read", "ls", &[]).exit(0);
    for text in ["colour = 1\n", "[sandbox]\nlevel = 7\n", "[helpers]\ngit = \"git\"\n"] {
        place.settings(text);
        let refused = place.shell("shell/read", "ls", &[]).fails_with(2, "CONFIG_INVALID");
        refused.warns("windlass/config.toml:").warns("hint: ");
    }
    place.settings(&format!("# {}\n", "x".repeat(100_000)));
    place.shell("shell/read", "ls", &[]).fails_with(2, "DOC_SIZE_EXCEEDED");
    let elsewhere = place.base().join("config");
    place.run_with("XDG_CONFIG_HOME", elsewhere.to_str().unwrap(), &["doctor"]).exit(0);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    place.shell("shell/read", "ls", &[]).fails_with(1, "FILE_UNREADABLE");
}
