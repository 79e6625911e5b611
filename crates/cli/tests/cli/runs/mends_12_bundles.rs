//! A bundle has what is needed to rebuild the workspace at each checkpoint, and its documents follow from its
//! journal.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_kernel::{Digest, canon};
use windlass_seal::KeyStore;

use crate::harness::{Outcome, Place};
use crate::world::{Repo, answers, build, id_of, passing, review, sh, tree};

/// Writes the bundle of a run, and the public key beside it.
#[track_caller]
fn export(repo: &Repo, id: &str, more: &[&str]) -> (PathBuf, PathBuf, Value) {
    let (bundle, key) = (repo.place.base().join("run.bundle"), repo.place.base().join("ours.pub"));
    let line = ["export", id, "--bundle", bundle.to_str().unwrap(), "--json", "--force"];
    let said = repo.windlass(&[&line[..], more].concat()).exit(0).json();
    std::fs::write(&key, repo.windlass(&["keys", "show"]).exit(0).stdout).unwrap();
    (bundle, key, said)
}

/// Restores a checkpoint where there is no project; returns the folder as well.
fn restore(bundle: &Path, key: &Path, checkpoint: &str) -> (Place, Outcome) {
    let place = Place::new();
    let (bundle, key) = (bundle.to_str().unwrap(), key.to_str().unwrap());
    let line =
        ["bundle", "restore", bundle, "--checkpoint", checkpoint, "--to", "out", "--key", key];
    let outcome = place.run(&[&line[..], &["--json"]].concat());
    (place, outcome)
}

/// Requires that nothing was written, and why.
#[track_caller]
fn refused((place, outcome): (Place, Outcome), exit: i32, code: &str, why: &str) {
    let outcome = outcome.exit(exit).warns(why);
    assert_eq!(outcome.error()["code"], code);
    assert_eq!(std::fs::read_dir(place.work()).unwrap().count(), 0);
}

#[test]
fn mend_12_the_workspace_at_each_checkpoint_is_rebuilt_from_a_bundle() {
    let repo = Repo::new();
    let steps = "echo built > built.txt; printf '#!/bin/sh\\n' > go.sh; chmod 755 go.sh; \
        ln -s built.txt link; rm README.md; mkdir deep; printf '\\0\\377' > deep/raw";
    let script = answers(&[build(&[sh(steps)])], &[review("approved")]);
    let tracked = repo.git(&["ls-files"]);
    let before: Vec<(String, Vec<u8>)> = tracked
        .lines()
        .map(|name| (name.to_owned(), std::fs::read(repo.root().join(name)).unwrap()))
        .collect();
    let id = id_of(&repo.run(&script).exit(0));
    let (bundle, key, said) = export(&repo, &id, &[]);
    assert_eq!((&said["workspaces"], &said["workspaces_left_out"]), (&json!(2), &json!(0)));
    // The project is gone: only the bundle and the key are left.
    let listed = repo.windlass(&["checkpoint", "list", &id, "--json"]).exit(0).json();
    let names: Vec<String> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap().to_owned())
        .collect();
    std::fs::remove_dir_all(repo.root()).unwrap();
    for name in &names {
        let (place, outcome) = restore(&bundle, &key, name);
        let said = outcome.exit(0).quiet().json();
        assert_eq!(said["checkpoint"], **name);
        let out = place.work().join("out");
        let mut found = tree(&out);
        assert_eq!(said["files"], found.len(), "{name}");
        let is_built = names.iter().position(|one| one == name)
            >= names.iter().position(|one| one == "POST_build_v1");
        if is_built {
            assert_eq!(found.remove("built.txt").unwrap(), b"built\n", "{name}");
            assert_eq!(found.remove("deep/raw").unwrap(), b"\0\xff");
            assert_eq!(std::fs::read_link(out.join("link")).unwrap(), Path::new("built.txt"));
            let mode = out.join("go.sh").metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o111, 0o111);
            found.retain(|path, _| path != "link" && path != "go.sh");
        }
        let expected = before.iter().filter(|(path, _)| !is_built || path != "README.md").cloned();
        assert_eq!(found, expected.collect(), "{name}");
    }
    let (_, newest) = restore(&bundle, &key, "POST_build");
    assert_eq!(newest.exit(0).json()["checkpoint"], "POST_build_v1");
    let by_id = listed[0]["id"].as_str().unwrap();
    assert_eq!(restore(&bundle, &key, by_id).1.exit(0).json()["checkpoint"], names[0]);
    refused(restore(&bundle, &key, "POST_nothing"), 1, "CHECKPOINT_UNAVAILABLE", "POST_build_v1");
}

#[test]
fn mend_12_permissions_and_empty_folders_are_rebuilt_from_a_bundle() {
    let repo = Repo::new();
    repo.write("secret.txt", "x");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(repo.root().join("secret.txt"), private).unwrap();
    std::fs::create_dir_all(repo.root().join("empty/deep")).unwrap();
    repo.commit("files");
    let steps = "chmod 644 secret.txt; echo x > key; chmod 400 key; rmdir empty/deep; mkdir made";
    let script = answers(&[build(&[sh(steps)])], &[review("approved")]);
    let id = id_of(&repo.run(&script).exit(0));
    let (bundle, key, _) = export(&repo, &id, &[]);
    let rebuilt = |checkpoint: &str| {
        let (place, outcome) = restore(&bundle, &key, checkpoint);
        outcome.exit(0);
        place
    };
    let mode = |place: &Place, name: &str| {
        place.work().join("out").join(name).metadata().unwrap().permissions().mode() & 0o7777
    };
    let folders = |place: &Place| {
        ["empty/deep", "empty", "made"].map(|name| place.work().join("out").join(name).is_dir())
    };
    let before = rebuilt("PRE_build");
    assert_eq!(mode(&before, "secret.txt"), 0o600);
    assert_eq!(folders(&before), [true, true, false]);
    let after = rebuilt("POST_build");
    assert_eq!((mode(&after, "secret.txt"), mode(&after, "key")), (0o644, 0o400));
    assert_eq!(folders(&after), [false, true, true]);
}

#[test]
fn mend_12_nothing_is_restored_from_a_bundle_that_does_not_verify() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&passing()).exit(0));
    let (bundle, key, _) = export(&repo, &id, &[]);
    let other = Place::with_project();
    other.run(&["anchor", "x.anchor"]).exit(0);
    let stranger = other.base().join("other.pub");
    std::fs::write(&stranger, other.run(&["keys", "show"]).exit(0).stdout).unwrap();
    refused(restore(&bundle, &stranger, "POST_build"), 3, "BUNDLE_UNTRUSTED", "--key");
    let mut bytes = std::fs::read(&bundle).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&bundle, &bytes).unwrap();
    refused(restore(&bundle, &key, "POST_build"), 5, "BUNDLE_INVALID", "is not restored");
    // A folder with something in it is left alone.
    let (bundle, key, _) = export(&repo, &id, &[]);
    let place = Place::new();
    place.write("out/mine", "mine");
    let line = ["bundle", "restore", bundle.to_str().unwrap(), "--checkpoint", "POST_build"];
    let more = ["--to", "out", "--key", key.to_str().unwrap()];
    place.run(&[&line[..], &more].concat()).fails_with(1, "FILE_UNWRITABLE").warns("is not empty");
    assert_eq!(tree(&place.work()).len(), 1);
}

#[test]
fn mend_12_files_that_are_not_wanted_or_gone_are_left_out() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&passing()).exit(0));
    let (bundle, key, said) = export(&repo, &id, &["--without-files"]);
    assert_eq!(said["workspaces"], 0);
    assert!(!String::from_utf8_lossy(&std::fs::read(&bundle).unwrap()).contains("files.zst"));
    let why = "its files are not in the bundle";
    refused(restore(&bundle, &key, "POST_build"), 1, "CHECKPOINT_UNAVAILABLE", why);
    let line = ["checkpoint", "purge", "--days", "0", "--keep", "0", "--approved"];
    repo.windlass(&line).exit(0);
    repo.git(&["reflog", "expire", "--expire=now", "--all"]);
    repo.git(&["gc", "--quiet", "--prune=now"]);
    let (bundle, key, said) = export(&repo, &id, &[]);
    // What was committed is still there.
    assert_eq!(
        (&said["workspaces"], &said["workspaces_left_out"]),
        (&json!(2), &json!(0)),
        "{said}"
    );
    restore(&bundle, &key, "POST_build").1.exit(0);
}

/// A member of a bundle by its name: the offset of its bytes, and their number.
fn member(bytes: &[u8], name: &str) -> (usize, usize) {
    let mut at = 0;
    loop {
        let found = bytes[at..at + 100].split(|byte| *byte == 0).next().unwrap();
        let size = std::str::from_utf8(&bytes[at + 124..at + 135]).unwrap();
        let size = usize::from_str_radix(size, 8).unwrap();
        if found == name.as_bytes() {
            return (at + 512, size);
        }
        at += 512 + size.div_ceil(512) * 512;
    }
}

/// Replaces bytes of a member by as many others and signs the bundle again, as whoever has the key can.
fn forge(bundle: &Path, keys: &Path, name: &str, from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let mut bytes = std::fs::read(bundle).unwrap();
    let (at, size) = member(&bytes, name);
    let old = Digest::of(&bytes[at..at + size]).to_string();
    let text = std::str::from_utf8(&bytes[at..at + size]).unwrap().to_owned();
    assert!(text.contains(from), "{name} has no {from}: {text}");
    bytes[at..at + size].copy_from_slice(text.replacen(from, to, 1).as_bytes());
    let new = Digest::of(&bytes[at..at + size]).to_string();
    let (at, size) = member(&bytes, "manifest.json");
    let manifest = std::str::from_utf8(&bytes[at..at + size]).unwrap().replace(&old, &new);
    bytes[at..at + size].copy_from_slice(manifest.as_bytes());
    let signer = KeyStore::open(keys).unwrap().signer().unwrap();
    let mut signature = json!({
        "format": "windlass.bundle/v1", "key_id": signer.public().id(),
        "manifest": Digest::of(manifest.as_bytes()),
    });
    let signed = [b"windlass.bundle/v1\n", &*canon::to_bytes(&signature).unwrap()].concat();
    signature["signature"] = serde_json::to_value(signer.sign(&signed)).unwrap();
    let (at, size) = member(&bytes, "signature.json");
    let signature = canon::to_bytes(&signature).unwrap();
    assert_eq!(signature.len(), size);
    bytes[at..at + size].copy_from_slice(&signature);
    std::fs::write(bundle, bytes).unwrap();
}

#[test]
fn mend_12_a_changed_field_of_a_checkpoint_is_found_by_name() {
    let repo = Repo::with_spine(
        "doer: { agent: builder }",
        "doer: { agent: builder }\n    outputs: [built.txt]",
    );
    let id = id_of(&repo.run(&passing()).exit(0));
    let (bundle, key, _) = export(&repo, &id, &[]);
    let whole = std::fs::read(&bundle).unwrap();
    let keys = repo.place.state().join("keys");
    let name = "checkpoints/POST_build_v1.json";
    let verify = || {
        let line = ["verify", bundle.to_str().unwrap(), "--json", "--key", key.to_str().unwrap()];
        Place::new().run(&line)
    };
    verify().exit(0);
    for (from, to) in [
        ("\"artifact_type\": \"txt\"", "\"artifact_type\": \"rtf\""),
        ("\"attempt\": 1", "\"attempt\": 2"),
        ("\"input\": 100", "\"input\": 101"),
        ("\"kind\": \"succeeded\"", "\"kind\": \"succeedee\""),
        ("\"passed\": true", "\"passed\": null"),
        ("\"phase\": \"build\"", "\"phase\": \"guild\""),
        ("\"status\": \"complete\"", "\"status\": \"compleat\""),
        ("\"status\": \"passed\"", "\"status\": \"failed\""),
        ("\"success\": true", "\"success\": null"),
        ("\"summary\": \"built\"", "\"summary\": \"burnt\""),
        ("\"task\": \"raise the price\"", "\"task\": \"lower the price\""),
        ("\"tool_id\": \"shell/run\"", "\"tool_id\": \"shell/ran\""),
        ("\"version\": 1", "\"version\": 3"),
        ("\"design\"", "\"desing\""),
    ] {
        std::fs::write(&bundle, &whole).unwrap();
        forge(&bundle, &keys, name, from, to);
        let found = verify().exit(5).json();
        let fault = format!("`{name}` does not say what the journal says");
        assert_eq!(found["faults"], json!([fault]), "{from}");
        assert_eq!(found["error_code"], "BUNDLE_INVALID");
    }
    std::fs::write(&bundle, &whole).unwrap();
    verify().exit(0);
}

#[test]
fn mend_12_a_lost_signing_key_is_retired() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&passing()).exit(0));
    let (bundle, key, _) = export(&repo, &id, &[]);
    let old = std::fs::read(&bundle).unwrap();
    std::fs::remove_file(repo.place.state().join("keys/signing.pem")).unwrap();
    export(&repo, &id, &[]);
    let listed = repo.windlass(&["keys", "list", "--json"]).exit(0).json();
    let current = listed.as_array().unwrap().iter().filter(|key| key["retired_at"].is_null());
    assert_eq!((listed.as_array().unwrap().len(), current.count()), (2, 1), "{listed}");
    // What it has signed is still trusted.
    std::fs::write(&bundle, old).unwrap();
    repo.windlass(&["verify", bundle.to_str().unwrap()]).exit(0);
    assert!(key.exists());
}
