//! Bundles: made in one place, checked in another that has nothing but the file and a public key.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Outcome, Place, text_of};
use crate::world::{Repo, answers, build, escalating, id_of, passing, review, sh, trace_of, tree};

/// A repository whose builder leaves a file that checkpoints keep.
fn repo() -> Repo {
    Repo::with_spine(
        "doer: { agent: builder }",
        "doer: { agent: builder }\n    outputs: [built.txt]",
    )
}

/// Writes the bundle of a run beside the repository.
#[track_caller]
fn export(repo: &Repo, id: &str, name: &str) -> (PathBuf, Value) {
    let path = repo.place.base().join(name);
    let line = ["export", id, "--bundle", path.to_str().unwrap(), "--json"];
    let said = repo.windlass(&line).exit(0).quiet().json();
    (path, said)
}

/// The public key that a project signs with now, in a file beside it.
#[track_caller]
fn public(place: &Place, name: &str) -> PathBuf {
    let path = place.base().join(name);
    std::fs::write(&path, place.run(&["keys", "show"]).exit(0).quiet().stdout).unwrap();
    path
}

/// Checks a bundle in an empty folder, with an empty home.
fn check(bundle: &Path, keys: &[&Path]) -> Outcome {
    let place = Place::new();
    std::fs::copy(bundle, place.work().join("run.bundle")).unwrap();
    let mut line = vec!["verify".to_owned(), "run.bundle".to_owned(), "--json".to_owned()];
    for (number, key) in keys.iter().enumerate() {
        std::fs::copy(key, place.work().join(format!("{number}.pub"))).unwrap();
        line.extend(["--key".to_owned(), format!("{number}.pub")]);
    }
    place.run(&line.iter().map(String::as_str).collect::<Vec<_>>()).quiet()
}

/// A project of somebody else's, which has a key.
fn stranger() -> Place {
    let place = Place::with_project();
    place.run(&["anchor", "x.anchor"]).exit(0);
    place
}

#[test]
fn a_bundle_is_checked_elsewhere_with_nothing_but_the_public_key() {
    let repo = repo();
    let done = repo.run(&passing()).exit(0);
    let (id, commit) = (id_of(&done), text_of(&done.json(), "commit"));
    let (bundle, said) = export(&repo, &id, "run.bundle");
    let bytes = std::fs::read(&bundle).unwrap();
    assert_eq!(said["bytes"], bytes.len());
    assert_eq!(said["digest"], windlass_kernel::Digest::of(&bytes).to_string());
    assert_eq!((&said["run_id"], &said["contents"]), (&Value::from(id.clone()), &Value::from(1)));
    assert_eq!((&said["contents_left_out"], &said["checkpoints_left_out"]), (&0.into(), &0.into()));
    let listed = repo.windlass(&["checkpoint", "list", &id, "--json"]).exit(0).json();
    assert_eq!(said["checkpoints"], listed.as_array().unwrap().len());
    assert_eq!(said["traces"], repo.traces());
    let mode = bundle.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let key = public(&repo.place, "ours.pub");
    let found = check(&bundle, &[&key]).exit(0).json();
    assert_eq!((&found["result"], &found["outcome"]), (&"intact".into(), &"PASS".into()));
    assert_eq!(
        (&found["commit"], &found["signer"]),
        (&Value::from(commit.clone()), &said["key_id"])
    );
    for name in ["run_id", "trace_id", "traces", "entries", "checkpoints", "contents"] {
        assert_eq!(found[name], said[name], "{name}");
    }
    // What it says of the run can be read by any program.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    for part in [
        &format!(r#""subject":[{{"digest":{{"gitCommit":"{commit}"}},"name":"main"}}]"#),
        r#""id":"spine","variant":null,"version":"1""#,
        r#""materials":[{"digest":{"gitCommit":"#,
        "checkpoints/POST_build_v1.json",
    ] {
        assert!(text.contains(part), "no {part}");
    }
    // In the project its own keys are known; nobody else's are.
    let path = bundle.to_str().unwrap();
    repo.windlass(&["verify", path]).exit(0).quiet().says("intact: run_").says(", trusted");
    let unknown = check(&bundle, &[]).exit(3).json();
    assert_eq!((&unknown["result"], &unknown["trusted"]), (&"not_checked".into(), &false.into()));
    assert_eq!(
        (&unknown["error_code"], &unknown["faults"]),
        (&"BUNDLE_UNTRUSTED".into(), &Value::Array(vec![]))
    );
    let stranger = stranger();
    let other = public(&stranger, "other.pub");
    check(&bundle, &[&other]).exit(3);
    check(&bundle, &[&other, &key]).exit(0);
    stranger.run(&["verify", path]).exit(3).says("[BUNDLE_UNTRUSTED]").warns("--key PUB");
    // A key that is given stands in the place of the project's.
    repo.windlass(&["verify", path, "--key", other.to_str().unwrap()]).exit(3);
    repo.is_whole();
    assert_eq!(repo.status(), "");
}

#[test]
fn the_first_bundle_makes_the_key_and_says_so() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&passing()).exit(0));
    repo.windlass(&["keys", "show"]).fails_with(1, "KEY_MISSING").warns("--bundle");
    repo.windlass(&["keys", "rotate"]).fails_with(1, "KEY_MISSING");
    repo.windlass(&["keys", "list"]).exit(0).quiet().says("no keys");
    repo.windlass(&["export", &id]).exit(0);
    assert!(!repo.place.state().join("keys").exists());
    // A file that is in the way stays, and nothing is made for it.
    let path = repo.place.base().join("run.bundle");
    let line = ["export", &id, "--bundle", path.to_str().unwrap()];
    std::fs::write(&path, "mine").unwrap();
    repo.windlass(&line).fails_with(1, "FILE_UNWRITABLE").warns("--force");
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    assert!(!repo.place.state().join("keys").exists());
    let made = repo.windlass(&[&line[..], &["--force"]].concat()).exit(0);
    let shown = repo.windlass(&["keys", "show", "--json"]).exit(0).quiet().json();
    let (key, file) = (text_of(&shown, "key_id"), text_of(&shown, "file"));
    made.says(&format!("signed by {key}")).warns("a signing key was created").warns(&file);
    assert!(text_of(&shown, "public_key").starts_with("-----BEGIN PUBLIC KEY-----\n"));
    assert_eq!(std::fs::read(&file).unwrap(), repo.windlass(&["keys", "show"]).exit(0).stdout);
    repo.windlass(&[&line[..], &["--force"]].concat()).exit(0).quiet();
    repo.windlass(&line).fails_with(1, "FILE_UNWRITABLE");
    repo.windlass(&["verify", path.to_str().unwrap()]).exit(0);
    assert_eq!(repo.status(), "");
    let signing = repo.place.state().join("keys/signing.pem");
    std::fs::set_permissions(&signing, PermissionsExt::from_mode(0o644)).unwrap();
    repo.windlass(&[&line[..], &["--force"]].concat()).fails_with(1, "KEY_INVALID");
}

#[test]
fn every_change_of_a_bundle_is_found() {
    let repo = repo();
    let id = id_of(&repo.run(&passing()).exit(0));
    let (bundle, _) = export(&repo, &id, "run.bundle");
    let key = public(&repo.place, "ours.pub");
    let whole = std::fs::read(&bundle).unwrap();
    let changed = repo.place.base().join("changed");
    let is_found = |bytes: &[u8], what: &str| {
        std::fs::write(&changed, bytes).unwrap();
        for keys in [&[key.as_path()][..], &[]] {
            let found = check(&changed, keys).exit(5).json();
            assert_eq!(found["result"], "damaged", "{what}");
            assert_eq!(found["error_code"], "BUNDLE_INVALID", "{what}");
            assert!(!found["faults"].as_array().unwrap().is_empty(), "{what}");
        }
    };
    for at in (0..16).map(|part| part * (whole.len() - 1) / 15) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x20;
        is_found(&bytes, &format!("byte {at} of {}", whole.len()));
    }
    is_found(&whole[..whole.len() / 2], "half of it");
    is_found(&[], "nothing");
    is_found(&[&whole[..], &whole].concat(), "twice");
    // For people each fault is a line, and the last says what it comes to.
    let mut bytes = whole.clone();
    let outcome = b"\"outcome\":\"PASS\"";
    // The statement is the last member that says it in the clear.
    let at = whole.windows(outcome.len()).rposition(|window| window == outcome).unwrap();
    let at = at + outcome.len() - 5;
    bytes[at..at + 4].copy_from_slice(b"LOST");
    std::fs::write(&changed, &bytes).unwrap();
    repo.windlass(&["verify", changed.to_str().unwrap()])
        .exit(5)
        .says("`statement.json` is not the one that was signed")
        .says("`statement.json` does not say what the journal says")
        .says("damaged: ")
        .says("[BUNDLE_INVALID]");
}

#[test]
fn trust_follows_rotated_keys() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&passing()).exit(0));
    let (before, _) = export(&repo, &id, "before.bundle");
    let old = public(&repo.place, "old.pub");
    let rotated = repo.windlass(&["keys", "rotate", "--json"]).exit(0).quiet().json();
    let (after, said) = export(&repo, &id, "after.bundle");
    let new = public(&repo.place, "new.pub");
    assert_eq!(said["key_id"], rotated["new"]["key_id"]);
    assert_ne!(rotated["new"]["key_id"], rotated["old"]["key_id"]);
    for (bundle, key) in [(&before, &old), (&after, &old), (&after, &new)] {
        check(bundle, &[key]).exit(0);
    }
    // An old bundle knows nothing of the new key: the project does.
    check(&before, &[&new]).exit(3);
    let (path, key) = (before.to_str().unwrap(), new.to_str().unwrap());
    repo.windlass(&["verify", path, "--key", key]).exit(0);
    repo.windlass(&["verify", path]).exit(0);
    let keys = repo.windlass(&["keys", "list", "--json"]).exit(0).quiet().json();
    assert_eq!(keys.as_array().unwrap().len(), 2);
    assert_eq!(keys[0]["key_id"], rotated["old"]["key_id"]);
    assert!(keys[0]["retired_at"].is_string() && keys[1]["retired_at"].is_null(), "{keys}");
    repo.windlass(&["keys", "list"]).exit(0).quiet().says("current").says("retired 2");
    repo.windlass(&["keys", "rotate"]).exit(0).says("is the new signing key").warns(".pub");
    check(&export(&repo, &id, "third.bundle").0, &[&old]).exit(0);
}

#[test]
fn what_was_purged_is_left_out_and_counted() {
    let repo = repo();
    let id = id_of(&repo.run(&passing()).exit(0));
    let (_, said) = export(&repo, &id, "before.bundle");
    assert_eq!((&said["contents"], &said["contents_left_out"]), (&1.into(), &0.into()));
    let line = ["checkpoint", "purge", "--days", "0", "--keep", "0", "--approved"];
    repo.windlass(&line).exit(0);
    let (bundle, said) = export(&repo, &id, "after.bundle");
    assert_eq!((&said["contents"], &said["contents_left_out"]), (&0.into(), &1.into()));
    let found = check(&bundle, &[&public(&repo.place, "ours.pub")]).exit(0).json();
    assert_eq!((&found["contents"], &found["checkpoints"]), (&0.into(), &said["checkpoints"]));
    let path = repo.place.base().join("said.bundle");
    repo.windlass(&["export", &id, "--bundle", path.to_str().unwrap()])
        .exit(0)
        .warns("not included because purged or missing: 1 content");
}

#[test]
fn a_run_that_goes_on_is_exported_as_far_as_it_went() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let (held, said) = export(&repo, &id, "held.bundle");
    let key = public(&repo.place, "ours.pub");
    let found = check(&held, &[&key]).exit(0).json();
    assert_eq!((&found["outcome"], &found["commit"]), (&Value::Null, &Value::Null));
    repo.approve(&id).exit(0);
    let (ended, later) = export(&repo, &id, "ended.bundle");
    assert_eq!(check(&ended, &[&key]).exit(0).json()["outcome"], "PASS");
    assert!(later["entries"].as_u64() > said["entries"].as_u64(), "{said} {later}");
    check(&held, &[&key]).exit(0);
}

#[test]
fn a_call_that_was_under_way_when_the_process_died_is_inside() {
    let repo = Repo::new();
    let path = repo.answers(&passing());
    let line = ["run", "raise the price", "--answers", &path, "--by", "ada"];
    let died = repo.place.run_with("WINDLASS_CRASH_AT", "dispatch.after", &line);
    assert_eq!(died.code, None, "{died}");
    let runs = repo.windlass(&["status", "--json"]).exit(0).json();
    let id = text_of(&runs[0], "run_id");
    let (bundle, said) = export(&repo, &id, "died.bundle");
    assert_eq!((&said["traces"], repo.traces()), (&2.into(), 2));
    check(&bundle, &[&public(&repo.place, "ours.pub")]).exit(0);
}

/// What is wrong, the code that says so, and how it came to be in a repository with this run's trace.
type Damage = (&'static str, &'static str, fn(&Repo, &str));

#[test]
fn what_does_not_hold_together_is_never_signed() {
    // Two calls, so that one can be taken away.
    let two = build(&[sh("echo one >> built.txt"), sh("echo two >> built.txt")]);
    let script = answers(&[two], &[review("approved")]);
    let damages: &[Damage] = &[
        ("an entry of the run was changed", "STATE_CHECKSUM_MISMATCH", |repo, trace| {
            let change = "UPDATE entries SET ts = ts + 1 WHERE id >> 24 = \
                (SELECT trace_number FROM traces WHERE lower(hex(trace_id)) = ?1) \
                AND id % 16777216 = 3";
            let changed = repo.place.meddle(change, [trace.replace('-', "")]);
            assert_eq!(changed, 1);
        }),
        ("a call is gone", "BUNDLE_INVALID", |repo, _| {
            let call = repo.windlass(&["call", "list", "--json"]).exit(0).json();
            let call = text_of(&call[0], "trace_id").replace('-', "");
            let gone = "DELETE FROM traces WHERE lower(hex(trace_id)) = ?1";
            assert_eq!(repo.place.tamper().execute(gone, [call]).unwrap(), 1);
        }),
        ("a content is damaged", "BUNDLE_INVALID", |repo, _| {
            let folder = repo.place.state().join("blobs");
            let name = tree(&folder).into_keys().find(|name| name.ends_with(".zst")).unwrap();
            let mut bytes = std::fs::read(folder.join(&name)).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            std::fs::write(folder.join(&name), bytes).unwrap();
        }),
    ];
    for (what, code, damage) in damages {
        let repo = repo();
        let done = repo.run(&script).exit(0);
        damage(&repo, &trace_of(&done));
        let path = repo.place.base().join("run.bundle");
        let line = ["export", &id_of(&done), "--bundle", path.to_str().unwrap()];
        let refused = repo.windlass(&line).exit(5);
        assert_eq!(refused.text(), "", "{what}");
        refused.warns(&format!("[{code}]"));
        assert!(!path.exists(), "{what}");
        let left: Vec<String> =
            tree(repo.place.base()).into_keys().filter(|name| name.contains(".tmp-")).collect();
        assert_eq!(left, Vec::<String>::new(), "{what}");
    }
}

#[test]
fn mistakes_with_bundles_are_told_apart() {
    let place = stranger();
    let anchor = place.work().join("x.anchor");
    public(&place, "ours.pub");
    place.run(&["verify", "no.bundle"]).fails_with(2, "ID_INVALID").warns("no such file");
    place.run(&["verify", "no.bundle", "--key", "x"]).exit(1);
    place.run(&["verify", "no", "--key", "../ours.pub"]).fails_with(1, "FILE_UNREADABLE");
    place.run(&["verify", "./", "--key", "../ours.pub"]).fails_with(1, "FILE_UNREADABLE");
    place.run(&["verify", "nonsense"]).fails_with(2, "ID_INVALID");
    place.run(&["verify", "--key", "x"]).fails_with(2, "REQUEST_INVALID");
    let path = anchor.to_str().unwrap();
    place.run(&["verify", path]).fails_with(2, "REQUEST_INVALID").warns("verify --anchor");
    let signing = place.state().join("keys/signing.pem");
    place.run(&["verify", path, "--key", signing.to_str().unwrap()]).fails_with(1, "KEY_INVALID");
    place.write("long.pub", vec![b'x'; 100_000]);
    place.run(&["verify", path, "--key", "long.pub"]).fails_with(2, "DOC_SIZE_EXCEEDED");
    place
        .run(&["export", "run_20260101_000000_00000000", "--bundle", "y"])
        .fails_with(2, "RUN_NOT_FOUND");
    place.run(&["export", "x", "--force"]).exit(2).warns("--bundle");
    let nowhere = Place::new();
    nowhere.run(&["keys", "show"]).fails_with(2, "PROJECT_MISSING");
    nowhere.run(&["verify", "--anchor", "x"]).fails_with(2, "PROJECT_MISSING");
}
