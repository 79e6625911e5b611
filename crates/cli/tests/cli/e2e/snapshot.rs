//! Snapshots: command line, exit code, standard output and standard error together, with all that
//! differs from run to run filtered out. `WINDLASS_SNAPSHOTS=update` writes them anew.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use crate::harness::{Outcome, Place};

static FILTERS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>"),
        (r"\b[0-9a-f]{64}\b", "<digest>"),
        (r"/windlass/work-[0-9a-f]{8}", "/windlass/work-<id>"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "<time>"),
        (r"Landlock \d and seccomp(.*); .*bwrap.*", "Landlock <n> and seccomp$1; <bwrap>"),
        (r#""duration_ms":\d+"#, r#""duration_ms":<n>"#),
    ]
    .into_iter()
    .map(|(pattern, name)| (Regex::new(pattern).expect("a pattern"), name))
    .collect()
});

/// Takes out what differs from run to run.
pub fn filter(place: &Place, text: &str) -> String {
    let mut text = text.replace(&place.home().display().to_string(), "<home>");
    text = text.replace(&place.base().display().to_string(), "<dir>");
    for (pattern, name) in FILTERS.iter() {
        text = pattern.replace_all(&text, *name).into_owned();
    }
    text.replace(env!("CARGO_PKG_VERSION"), "<version>")
}

/// Compares outcomes with the snapshot of that name.
#[track_caller]
pub fn check(name: &str, place: &Place, outcomes: &[Outcome]) {
    let found = outcomes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let found = filter(place, &found);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/e2e/snapshots");
    let path = folder.join(format!("{name}.txt"));
    if std::env::var_os("WINDLASS_SNAPSHOTS").is_some_and(|value| value == "update") {
        std::fs::write(&path, &found).expect("a snapshot");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if expected != found {
        let line = expected.lines().zip(found.lines()).take_while(|(old, new)| old == new).count();
        panic!(
            "snapshot `{name}` differs from line {}; it is now\n\n{found}\n\
             (WINDLASS_SNAPSHOTS=update takes this over)",
            line + 1
        );
    }
}
