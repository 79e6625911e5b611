//! The people of an account: a key for each, in files that only their user may read or change.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use tempfile::TempDir;
use windlass_kernel::{Digest, Statement, TraceId, Uuid7};
use windlass_seal::{NewKey, PeopleError, PeopleStore, SshPublicKey, Unlock};
use zeroize::Zeroizing;

use crate::world::{at, signer};

/// There is neither a passphrase nor an agent.
struct Nothing;

impl Unlock for Nothing {
    fn passphrase(&self, _: &str) -> Result<Zeroizing<String>, String> {
        Err("there is no passphrase".to_owned())
    }

    fn agent_socket(&self) -> Result<PathBuf, String> {
        Err("there is no agent".to_owned())
    }
}

fn statement() -> Statement<'static> {
    Statement {
        after: Digest::GENESIS,
        conditions: &[],
        decision: "APPROVE".into(),
        edit: None,
        files: &[],
        reason: "it is right",
        send_back: None,
        shown: Digest::of(b"shown"),
        trace_id: TraceId(Uuid7::from_parts(1, [1; 10])),
    }
}

#[track_caller]
fn same(error: &PeopleError, expected: &PeopleError) {
    assert_eq!(format!("{error:?}"), format!("{expected:?}"));
}

fn people() -> (TempDir, PeopleStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = PeopleStore::open(folder.path().join("people")).unwrap();
    (folder, store)
}

#[test]
fn a_key_is_one_persons() {
    let (_folder, store) = people();
    let key = || NewKey::Agent(SshPublicKey { key: signer(3).public(), application: None });
    let added = store.add("Ann", key(), at(1)).unwrap();
    same(&store.add("Bob", key(), at(2)).unwrap_err(), &PeopleError::KeyTaken);
    assert_eq!(store.all().unwrap(), [added]);
    // A key that was revoked is nobody else's either.
    let revoked = store.revoke("Ann", at(3)).unwrap();
    same(&store.add("Bob", key(), at(4)).unwrap_err(), &PeopleError::KeyTaken);
    assert_eq!(store.all().unwrap(), [revoked]);
}

#[test]
fn a_person_decides_until_the_key_is_revoked() {
    let (_folder, store) = people();
    let added = store.add("Ann", NewKey::Unprotected, at(1)).unwrap();
    assert_eq!(store.find("ann").unwrap(), added);
    let signed = store.sign("ann", &statement(), &Nothing).unwrap();
    assert!(signed.verifies(&statement()));
    store.revoke("Ann", at(2)).unwrap();
    let revoked =
        |name: &str| PeopleError::Unknown { name: name.to_owned(), revoked_at: Some(at(2)) };
    same(&store.find("ann").unwrap_err(), &revoked("ann"));
    same(&store.sign("Ann", &statement(), &Nothing).unwrap_err(), &revoked("Ann"));
}

#[test]
fn files_that_other_users_may_read_or_change_are_not_used() {
    let (folder, store) = people();
    let person = store.add("Ann", NewKey::Unprotected, at(1)).unwrap();
    let root = folder.path().join("people");
    let key = root.join(format!("{}.pem", person.key.id()));
    for mode in [0o640, 0o604, 0o620, 0o602] {
        set_permissions(&key, Permissions::from_mode(mode)).unwrap();
        let reason = "other users may read or change it".to_owned();
        let expected = PeopleError::Invalid { path: key.clone(), reason };
        same(&store.sign("Ann", &statement(), &Nothing).unwrap_err(), &expected);
    }
    for mode in [0o720, 0o702, 0o770] {
        set_permissions(&root, Permissions::from_mode(mode)).unwrap();
        let reason = "it is not a folder that only its user may change".to_owned();
        let expected = PeopleError::Invalid { path: root.clone(), reason };
        same(&PeopleStore::open(&root).unwrap_err(), &expected);
    }
}
