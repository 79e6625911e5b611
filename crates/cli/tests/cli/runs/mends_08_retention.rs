//! Mend 8: how long the checkpoints of gates are kept.

use crate::harness::text_of;
use crate::world::{Repo, escalating, id_of};

/// A run that passes: its gate `review` has checkpoints, and so have its other phases.
fn passed(repo: &Repo) -> String {
    let id = id_of(&repo.run(&escalating()).exit(4));
    assert_eq!(repo.approve(&id).exit(0).json()["outcome"], "PASS");
    id
}

/// The names of the purged checkpoints of a purge that is so many days later.
fn purged(repo: &Repo, days: u64, more: &[&str]) -> Vec<String> {
    let line = ["checkpoint", "purge", "--approved", "--json"];
    let done = repo.later(days * 24 + 1, &[&line[..], more].concat()).exit(0).json();
    let all = done["checkpoints"].as_array().unwrap();
    all.iter().map(|one| text_of(one, "name")).collect()
}

#[test]
fn mend_08_checkpoints_of_a_gate_are_kept_for_a_time_of_their_own() {
    let repo = Repo::new();
    let settings = "\n[retention]\ndays = 2\nkeep = 0\n\n[retention.gates.review]\ndays = 9\n";
    repo.place.append(".windlass/config.toml", settings);
    repo.commit("retention");
    passed(&repo);
    assert_eq!(purged(&repo, 1, &[]), Vec::<String>::new(), "none is two days old");
    let first = purged(&repo, 3, &[]);
    assert!(first.contains(&"POST_build_v1".to_owned()), "{first:?}");
    assert!(!first.iter().any(|name| name.contains("review")), "{first:?}");
    // The options of the command do not override the gate.
    assert_eq!(purged(&repo, 3, &["--days", "0", "--keep", "0"]), Vec::<String>::new());
    let second = purged(&repo, 10, &[]);
    assert!(!second.is_empty() && second.iter().all(|name| name.contains("review")), "{second:?}");
    repo.is_whole();
}

#[test]
fn mend_08_the_newest_checkpoints_of_a_gate_stay() {
    let repo = Repo::new();
    let settings = "\n[retention.gates.review]\nkeep = 1\n\n[retention.gates.nothing]\nkeep = 1\n";
    repo.place.append(".windlass/config.toml", settings);
    repo.commit("retention");
    let id = passed(&repo);
    let list = repo.windlass(&["checkpoint", "list", &id, "--json"]).exit(0).json();
    let all: Vec<String> =
        list.as_array().unwrap().iter().map(|one| text_of(one, "name")).collect();
    let newest = all.iter().rev().find(|name| name.contains("review")).unwrap();
    let gone = purged(&repo, 1, &["--days", "0", "--keep", "0"]);
    let kept: Vec<&String> = all.iter().filter(|name| !gone.contains(name)).collect();
    assert_eq!(kept, [newest]);
    let line = ["checkpoint", "purge", "--dry-run"];
    repo.windlass(&line).exit(0).warns("retention.gates.nothing");
}

#[test]
fn mend_08_settings_of_retention_are_checked() {
    for (settings, why) in [
        ("[retention]\ndays = 99999\n", "at most"),
        ("[retention.gates.review]\ndays = 99999\n", "retention.gates.review.days"),
        ("[retention.gates.review]\n", "is empty"),
        ("[retention.gates.review]\nyears = 1\n", "years"),
    ] {
        let repo = Repo::new();
        repo.place.append(".windlass/config.toml", &format!("\n{settings}"));
        repo.windlass(&["checkpoint", "purge"]).fails_with(2, "CONFIG_INVALID").warns(why);
    }
}
