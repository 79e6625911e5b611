//! The key folder.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use windlass_kernel::Code;
use windlass_seal::{KeyFile, KeyStore, PublicKey, Rotation, Signer};

use crate::world::{at, key_file, signer};

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    (folder, path)
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn names(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_key_is_generated_on_first_use() {
    let (_folder, path) = folder();
    let keys = KeyStore::open(&path).unwrap();
    assert_eq!(keys.current().unwrap(), None);
    assert_eq!(keys.signer().unwrap_err().code(), Code::KeyMissing);
    assert_eq!(keys.rotate(at(1)).unwrap_err().code(), Code::KeyMissing);
    assert_eq!(keys.all().unwrap(), []);
    assert!(!path.exists());
    let signer = keys.signer_or_generate(at(1)).unwrap();
    let expected = KeyFile { key: signer.public(), created_at: at(1), retired_at: None };
    assert_eq!(keys.current().unwrap(), Some(expected));
    assert_eq!(keys.signer_or_generate(at(2)).unwrap().public(), signer.public());
    assert_eq!(keys.generate(at(2)).unwrap_err().code(), Code::KeyInvalid);
    let id = signer.public().id();
    assert_eq!(keys.public(&id).unwrap(), Some(expected));
    assert_eq!(keys.public(&crate::world::signer(0).public().id()).unwrap(), None);
    let public = format!("{id}.pub");
    assert_eq!(names(&path), [".gitignore", ".lock", public.as_str(), "signing.pem"]);
    assert_eq!(std::fs::read(path.join(".gitignore")).unwrap(), b"*\n", "no key is committed");
    assert_eq!((mode(&path), mode(&path.join("signing.pem"))), (0o700, 0o600));
}

#[test]
fn generated_keys_are_random() {
    let generate = || {
        let (_folder, path) = folder();
        KeyStore::open(path).unwrap().generate(at(0)).unwrap().public().to_bytes()
    };
    assert_ne!(generate(), generate());
}

#[test]
fn concurrent_callers_generate_one_key() {
    let (_folder, path) = folder();
    let keys: Vec<[u8; 32]> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let keys = KeyStore::open(&path).unwrap();
                    keys.signer_or_generate(at(0)).unwrap().public().to_bytes()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(keys.iter().all(|key| *key == keys[0]));
}

#[test]
fn a_key_that_other_users_may_access_is_refused() {
    let (_folder, path) = folder();
    let keys = KeyStore::open(&path).unwrap();
    keys.generate(at(0)).unwrap();
    let file = path.join("signing.pem");
    for mode in [0o640, 0o604, 0o660, 0o610, 0o644] {
        set_mode(&file, mode);
        let error = keys.signer().unwrap_err();
        assert_eq!(error.code(), Code::KeyInvalid, "{mode:o}");
        assert!(error.to_string().contains("signing.pem"), "{error}");
    }
    set_mode(&file, 0o600);
    keys.signer().unwrap();
    for mode in [0o770, 0o702] {
        set_mode(&path, mode);
        assert_eq!(KeyStore::open(&path).unwrap_err().code(), Code::KeyInvalid, "{mode:o}");
    }
    set_mode(&path, 0o700);
}

#[test]
fn a_damaged_key_is_refused() {
    let (_folder, path) = folder();
    let keys = KeyStore::open(&path).unwrap();
    let id = keys.generate(at(0)).unwrap().public().id();
    let (private, public) = (path.join("signing.pem"), path.join(format!("{id}.pub")));
    let good = std::fs::read_to_string(&public).unwrap();
    for bad in [
        String::new(),
        good.replace("created", "made"),
        good.clone() + "\n",
        good.replace("id: ", "id:  "),
        key_file(&signer(1)).to_text(),
        good.repeat(2),
    ] {
        std::fs::write(&public, bad).unwrap();
        assert_eq!(keys.public(&id).unwrap_err().code(), Code::KeyInvalid);
        assert_eq!(keys.all().unwrap_err().code(), Code::KeyInvalid);
    }
    std::fs::remove_file(&public).unwrap();
    assert_eq!(keys.current().unwrap_err().code(), Code::KeyInvalid, "its public key is missing");
    std::fs::write(&private, "-----BEGIN PRIVATE KEY-----\n").unwrap();
    assert_eq!(keys.signer().unwrap_err().code(), Code::KeyInvalid);
    std::fs::write(&private, vec![b'x'; 1 << 20]).unwrap();
    assert_eq!(keys.signer().unwrap_err().code(), Code::FileUnreadable, "far too large");
    std::fs::remove_file(&private).unwrap();
    symlink("/dev/zero", &private).unwrap();
    assert_eq!(keys.signer().unwrap_err().code(), Code::FileUnreadable, "a link");
}

#[test]
fn a_rotation_keeps_the_public_key_and_destroys_the_private_one() {
    let (_folder, path) = folder();
    let keys = KeyStore::open(&path).unwrap();
    let old = keys.generate(at(0)).unwrap();
    let open_file = std::fs::File::open(path.join("signing.pem")).unwrap();
    let rotated = keys.rotate(at(5)).unwrap();
    assert_eq!(
        rotated.old,
        KeyFile { key: old.public(), created_at: at(0), retired_at: Some(at(5)) }
    );
    assert_eq!((rotated.new.created_at, rotated.new.retired_at), (at(5), None));
    assert_eq!(keys.signer().unwrap().public(), rotated.new.key);
    assert_eq!(keys.current().unwrap(), Some(rotated.new));
    assert_eq!(keys.all().unwrap(), [rotated.old, rotated.new]);
    assert!(rotated.statement.is_valid());
    assert_eq!(keys.rotations().unwrap(), std::slice::from_ref(&rotated.statement));
    // The old file is overwritten, even for a process that still has it open.
    let left = std::io::read_to_string(open_file).unwrap();
    assert!(!left.is_empty() && left.bytes().all(|byte| byte == 0));
    let third = keys.rotate(at(9)).unwrap();
    assert_eq!(keys.all().unwrap().len(), 3);
    assert_eq!(keys.rotations().unwrap(), [rotated.statement, third.statement]);
    assert_eq!(names(&path).iter().filter(|name| name.ends_with(".pem")).count(), 1);
}

#[test]
fn a_rotation_without_a_statement_is_undone() {
    let (_folder, path) = folder();
    let keys = KeyStore::open(&path).unwrap();
    let old = keys.generate(at(0)).unwrap();
    let (half, half_path) = folder_with(&signer(3));
    let id = signer(3).public().id();
    for name in ["signing.pem".to_owned(), format!("{id}.pub")] {
        let target = if name == "signing.pem" { "next.pem" } else { &name };
        std::fs::copy(half_path.join(&name), path.join(target)).unwrap();
    }
    std::fs::write(path.join(".next.pem.tmp-1-1"), "an unknown key").unwrap();
    drop(half);
    assert_eq!(keys.signer().unwrap().public(), old.public());
    assert_eq!(keys.all().unwrap().len(), 1);
    assert_eq!(names(&path).len(), 4, "{:?}", names(&path));
}

#[test]
fn a_rotation_with_a_statement_is_finished() {
    let (_folder, path) = folder_with(&signer(0));
    let keys = KeyStore::open(&path).unwrap();
    let (old, new) = (signer(0), signer(3));
    let (_other, other_path) = folder_with(&new);
    std::fs::copy(other_path.join("signing.pem"), path.join("next.pem")).unwrap();
    std::fs::write(path.join(format!("{}.pub", new.public().id())), key_file(&new).to_text())
        .unwrap();
    let statement = Rotation::sign(&old, &new, at(7)).unwrap();
    let list = windlass_kernel::canon::to_bytes(&vec![&statement]).unwrap();
    std::fs::write(path.join("rotations.json"), list).unwrap();
    assert_eq!(keys.signer().unwrap().public(), new.public());
    let retired = keys.public(&old.public().id()).unwrap().unwrap();
    assert_eq!(retired.retired_at, Some(at(7)));
    assert!(!path.join("next.pem").exists());
}

/// A folder with this signing key, whose files are written without the library.
fn folder_with(signer: &Signer) -> (tempfile::TempDir, PathBuf) {
    use base64::Engine as _;
    let (folder, path) = folder();
    let keys = KeyStore::open(&path).unwrap();
    let random = keys.generate(at(0)).unwrap().public().id();
    std::fs::remove_file(path.join(format!("{random}.pub"))).unwrap();
    std::fs::write(path.join(format!("{}.pub", signer.public().id())), key_file(signer).to_text())
        .unwrap();
    let number = (0..=u8::MAX)
        .find(|number| crate::world::signer(*number).public() == signer.public())
        .unwrap();
    let mut der = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20".to_vec();
    der.extend(crate::world::seed(number));
    let base64 = base64::engine::general_purpose::STANDARD.encode(der);
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{base64}\n-----END PRIVATE KEY-----\n");
    std::fs::write(path.join("signing.pem"), pem).unwrap();
    assert_eq!(keys.signer().unwrap().public(), signer.public());
    (folder, path)
}

#[test]
fn a_forged_rotation_is_refused() {
    let (_folder, path) = folder_with(&signer(0));
    let keys = KeyStore::open(&path).unwrap();
    let statement = Rotation::sign(&signer(0), &signer(1), at(1)).unwrap();
    let good =
        String::from_utf8(windlass_kernel::canon::to_bytes(&vec![statement]).unwrap()).unwrap();
    for bad in [
        good.replace("20:26:41", "20:26:42"),
        good.replace("rotation/v1", "rotation/v2"),
        good.replace("\"ts\"", "\"surplus\":1,\"ts\""),
        good.clone() + " ",
        "{}".to_owned(),
    ] {
        assert_ne!(bad, good);
        std::fs::write(path.join("rotations.json"), bad).unwrap();
        assert_eq!(keys.rotations().unwrap_err().code(), Code::KeyInvalid);
        assert_eq!(keys.signer().unwrap_err().code(), Code::KeyInvalid);
    }
    std::fs::write(path.join("rotations.json"), good).unwrap();
    assert_eq!(keys.rotations().unwrap().len(), 1);
}

#[test]
fn openssl_reads_our_keys_and_signatures() {
    if Command::new("openssl").arg("version").output().is_err() {
        windlass_testkit::skipped("openssl is not installed");
        return;
    }
    let (_folder, path) = folder();
    let keys = KeyStore::open(&path).unwrap();
    let signer = keys.generate(at(0)).unwrap();
    let public = path.join(format!("{}.pub", signer.public().id()));
    let message = path.join("message");
    std::fs::write(&message, b"signed by us").unwrap();
    std::fs::write(path.join("signature"), signer.sign(b"signed by us").as_bytes()).unwrap();
    let openssl = |args: &[&str]| {
        let output = Command::new("openssl").args(args).current_dir(&path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let public_text = public.to_str().unwrap();
    openssl(&[
        "pkeyutl",
        "-verify",
        "-pubin",
        "-inkey",
        public_text,
        "-rawin",
        "-in",
        "message",
        "-sigfile",
        "signature",
    ]);
    let pem = openssl(&["pkey", "-in", "signing.pem", "-pubout"]);
    let theirs = PublicKey::from_pem(std::str::from_utf8(&pem).unwrap()).unwrap();
    assert_eq!(theirs, signer.public());
}
