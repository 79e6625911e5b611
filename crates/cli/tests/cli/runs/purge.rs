//! `checkpoint purge` from outside: what it deletes, what it leaves, and what is said of purged checkpoints.

use serde_json::{Value, json};

use crate::harness::text_of;
use crate::world::{Repo, VOICE, escalating, id_of};

const WHY: [&str; 4] = ["--by", "ada", "--reason", "once more"];
/// A day later than everything that happened, in hours.
const LATER: u64 = 25;

/// A run that was rolled back, went on and passed.
fn passed(repo: &Repo) -> String {
    let mut answers = escalating();
    let review = answers["phases"]["review"][0].clone();
    answers["phases"]["review"] = json!([review, review, review]);
    let id = id_of(&repo.run(&answers).exit(4));
    let to = format!("{id}/POST_build_v1");
    repo.windlass(&[&["checkpoint", "rollback", &to, "--resume"][..], &WHY].concat()).exit(4);
    assert_eq!(repo.approve(&id).exit(0).json()["outcome"], "PASS");
    id
}

fn purge(repo: &Repo, more: &[&str]) -> Value {
    let line = ["checkpoint", "purge", "--days", "1", "--approved", "--json"];
    repo.later(LATER, &[&line[..], more].concat()).exit(0).json()
}

fn references(repo: &Repo) -> Vec<String> {
    let private = format!("--git-dir={}", repo.place.state().join("snapshots.git").display());
    let all = repo.git(&[&private, "for-each-ref", "--format=%(refname)", "refs/windlass/"]);
    all.lines().map(str::to_owned).collect()
}

fn packets(repo: &Repo) -> Vec<String> {
    repo.artifacts().into_iter().filter(|name| name.starts_with("checkpoints/")).collect()
}

/// The files that show checkpoints.
fn documents_of(repo: &Repo) -> Vec<String> {
    let all = crate::world::tree(&repo.root().join(".windlass/checkpoints"));
    let mut names: Vec<String> = all.into_keys().filter(|name| name.starts_with("run-")).collect();
    names.sort();
    names
}

/// The files that the index of checkpoints names.
fn indexed(repo: &Repo) -> Vec<String> {
    let index = repo.root().join(".windlass/checkpoints/index.json");
    let index: Value = serde_json::from_slice(&std::fs::read(index).unwrap()).unwrap();
    let all = index["checkpoints"].as_array().unwrap();
    let mut names: Vec<String> = all.iter().map(|one| text_of(one, "path")).collect();
    names.sort();
    names
}

fn blobs(repo: &Repo) -> usize {
    let all = crate::world::tree(&repo.place.state().join("blobs"));
    all.keys().filter(|name| name.ends_with(".zst")).count()
}

#[test]
fn a_purge_leaves_nothing_of_a_run_behind_and_says_so() {
    let repo = Repo::new();
    let id = passed(&repo);
    assert!(references(&repo).iter().any(|name| name.contains("/rollback-")));
    assert!(!packets(&repo).is_empty());
    let told = purge(&repo, &["--keep", "0", "--dry-run"]);
    let before = (references(&repo), packets(&repo), blobs(&repo));
    assert!(!before.0.is_empty());
    let documents = documents_of(&repo);
    assert_eq!(told["documents"], json!(documents.len()));
    assert_eq!(told["checkpoints"].as_array().unwrap().len(), documents.len());
    let did = purge(&repo, &["--keep", "0"]);
    assert_eq!((&did["checkpoints"], &did["holds"]), (&told["checkpoints"], &told["holds"]));
    assert_eq!(did["references"], told["references"]);
    assert_eq!(did["holds"].as_array().unwrap().len(), before.1.len(), "{did}");
    assert_eq!((references(&repo), packets(&repo), blobs(&repo)), (vec![], vec![], 0));
    assert_eq!((&did["documents"], documents_of(&repo)), (&told["documents"], vec![]));
    assert_eq!(indexed(&repo), Vec::<String>::new());
    // What the record still has is shown as before.
    assert!(repo.artifacts().iter().any(|name| name.starts_with("terminal/")));
    repo.git(&["gc", "--quiet", "--prune=now"]);
    // Purged is not damaged.
    let list = repo.windlass(&["checkpoint", "list", &id, "--json"]).exit(0).json();
    assert!(list.as_array().unwrap().iter().all(|one| one["purged"] == json!(true)), "{list}");
    repo.windlass(&["checkpoint", "list", &id]).exit(0).says("purged");
    let (design, build) = (format!("{id}/POST_design_v1"), format!("{id}/POST_build_v1"));
    repo.windlass(&["checkpoint", "show", &build]).exit(0).says("purged: its files");
    let shown = repo.windlass(&["checkpoint", "show", &build, "--json"]).exit(0).json();
    assert_eq!(shown["purged"], json!(true));
    let entries = repo.counts(&text_of(&repo.stands(&id), "trace_id"));
    for line in [
        &["checkpoint", "rollback", &build, "--by", "ada", "--reason", "x"][..],
        &["checkpoint", "rollback", &build, "--by", "ada", "--reason", "x", "--force"],
        &["checkpoint", "rollback", &build, "--dry-run"],
        &["checkpoint", "diff", &design, &build],
    ] {
        let said = repo.windlass(line).fails_with(1, "CHECKPOINT_UNAVAILABLE");
        assert!(
            said.stderr.contains("POST_build_v1` was purged")
                || said.stderr.contains("POST_design_v1` was purged"),
            "{said}"
        );
    }
    assert_eq!(repo.counts(&text_of(&repo.stands(&id), "trace_id")), entries);
    repo.windlass(&["checkpoint", "check"]).exit(0);
    repo.is_whole();
    // Files that come back, or that a version before this has left, are found again.
    repo.windlass(&["export", &id]).exit(0);
    assert_eq!(documents_of(&repo), documents);
    let again = purge(&repo, &["--keep", "0"]);
    assert_eq!((&again["checkpoints"], &again["documents"]), (&json!([]), &told["documents"]));
    assert_eq!(documents_of(&repo), Vec::<String>::new());
}

#[test]
fn the_files_of_checkpoints_that_are_kept_stay() {
    let repo = Repo::new();
    passed(&repo);
    let (all, listed) = (documents_of(&repo), indexed(&repo));
    assert_eq!(all.len(), listed.len());
    let did = purge(&repo, &["--keep", "3"]);
    let gone: Vec<String> = did["checkpoints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("run-{}/{}.json", text_of(one, "run_id"), text_of(one, "name")))
        .collect();
    let left = |names: Vec<String>| -> Vec<String> {
        names.into_iter().filter(|name| !gone.contains(name)).collect()
    };
    assert_eq!(gone.len(), all.len() - 3);
    assert_eq!((documents_of(&repo), indexed(&repo)), (left(all), left(listed)));
    repo.is_whole();
}

#[test]
fn what_a_rollback_saved_is_kept_as_long_as_its_checkpoint() {
    let repo = Repo::new();
    let id = passed(&repo);
    let saved = || references(&repo).into_iter().filter(|name| name.contains("/rollback-")).count();
    let before = saved();
    // The newest ones begin with that of the rollback.
    let list = repo.windlass(&["checkpoint", "list", &id, "--json"]).exit(0).json();
    let list = list.as_array().unwrap();
    let at = list.iter().position(|one| one["kind"] == "rollback").unwrap();
    let keep = (list.len() - at).to_string();
    let did = purge(&repo, &["--keep", &keep]);
    assert_eq!(did["checkpoints"].as_array().unwrap().len(), at);
    assert_eq!((saved(), &did["references"]), (before, &json!([])));
    let keep = (list.len() - at - 1).to_string();
    purge(&repo, &["--keep", &keep]);
    assert_eq!(saved(), 0);
    // The run can still be rolled back to those that were kept.
    let last = text_of(list.last().unwrap(), "name");
    let to = format!("{id}/{last}");
    repo.windlass(&[&["checkpoint", "rollback", &to][..], &WHY].concat()).exit(0);
    repo.is_whole();
}

#[test]
fn a_purge_of_one_run_leaves_the_other_whole() {
    let repo = Repo::new();
    let (first, second) = (passed(&repo), passed(&repo));
    let of = |id: &str| {
        let all = references(&repo).into_iter();
        all.filter(|name| name.contains(id)).collect::<Vec<_>>()
    };
    let shown = |id: &str| packets(&repo).into_iter().filter(|name| name.contains(id)).count();
    let (references, packets) = (of(&second), shown(&second));
    let did = purge(&repo, &["--keep", "0", &first]);
    let purged = did["checkpoints"].as_array().unwrap();
    assert!(purged.iter().all(|one| one["run_id"] == json!(first)), "{did}");
    assert_eq!((of(&first), shown(&first)), (vec![], 0));
    assert_eq!((of(&second), shown(&second)), (references, packets));
    repo.git(&["gc", "--quiet", "--prune=now"]);
    let to = format!("{second}/POST_design_v1");
    repo.windlass(&[&["checkpoint", "rollback", &to, "--force"][..], &WHY].concat()).exit(0);
    assert!(!repo.root().join("built.txt").exists() || repo.read("built.txt") == "built\n");
    repo.windlass(&["checkpoint", "check"]).exit(0);
    repo.is_whole();
}

#[test]
fn a_run_that_goes_on_is_not_purged() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let before = references(&repo);
    let did = purge(&repo, &["--keep", "0"]);
    assert_eq!((&did["checkpoints"], &did["holds"]), (&json!([]), &json!([])));
    assert_eq!(references(&repo), before);
    let line = ["queue", "approve", &id, "--json", "--resume"];
    repo.windlass(&[&line[..], &VOICE].concat()).exit(0);
}
