//! Links that are planted in the folder are not followed.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use windlass_kernel::{Code, Digest};
use windlass_workspace::{BlobError, BlobStore};

use crate::blobs::{file_of, put, read, store};

#[test]
fn a_link_in_the_place_of_a_content_is_not_read() {
    let (folder, blobs) = store();
    let digest = put(&blobs, b"secret").digest;
    let file = file_of(&blobs, &digest);
    let elsewhere = folder.path().join("elsewhere");
    std::fs::rename(&file, &elsewhere).unwrap();
    symlink(&elsewhere, &file).unwrap();
    let error = read(&blobs, &digest).unwrap_err();
    assert_eq!(error.code(), Code::BlobCorrupt, "{error}");
    assert_eq!(blobs.check().unwrap().errors.len(), 1);
    // Storing replaces the link, not its target.
    std::fs::write(&elsewhere, b"untouched").unwrap();
    assert!(put(&blobs, b"secret").is_new);
    assert_eq!(read(&blobs, &digest).unwrap(), b"secret");
    assert_eq!(std::fs::read(&elsewhere).unwrap(), b"untouched");
}

#[test]
fn a_link_in_the_place_of_a_folder_is_not_followed() {
    let (folder, blobs) = store();
    let digest = Digest::of(b"content");
    let outside = folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let place = file_of(&blobs, &digest).parent().unwrap().to_owned();
    symlink(&outside, &place).unwrap();
    assert_eq!(blobs.put(&mut &b"content"[..], 7).unwrap_err().code(), Code::FileUnwritable);
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(read(&blobs, &digest).unwrap_err().code(), Code::BlobCorrupt);
    let report = blobs.check().unwrap();
    assert_eq!(report.errors.len(), 1, "{report:?}");
    assert!(crate::blobs::files(blobs.path()).is_empty(), "no temporary file stays");
}

#[test]
fn the_folder_itself_may_not_be_a_link() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("real")).unwrap();
    symlink(folder.path().join("real"), folder.path().join("blobs")).unwrap();
    let error = BlobStore::open(folder.path().join("blobs")).unwrap_err();
    assert_eq!(error.code(), Code::FileUnwritable, "{error}");
}

#[test]
fn a_link_is_not_put() {
    let (folder, blobs) = store();
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    std::fs::write(&file, b"x").unwrap();
    symlink(&file, &link).unwrap();
    for path in [link, folder.path().to_owned(), "/dev/null".into(), folder.path().join("absent")] {
        let error = blobs.put_file(&path, 10).unwrap_err();
        assert_eq!(error.code(), Code::FileUnreadable, "{error}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
}

#[test]
fn a_pipe_in_the_place_of_a_content_does_not_make_anybody_wait() {
    let (_folder, blobs) = store();
    let digest = put(&blobs, b"content").digest;
    let file = file_of(&blobs, &digest);
    std::fs::remove_file(&file).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(made.success());
    assert_eq!(read(&blobs, &digest).unwrap_err().code(), Code::BlobCorrupt);
    assert!(put(&blobs, b"content").is_new);
}

#[test]
fn strangers_in_the_folder_are_named_and_not_listed() {
    let (_folder, blobs) = store();
    let digest = put(&blobs, b"content").digest;
    let folder = file_of(&blobs, &digest).parent().unwrap().to_owned();
    let strangers = [blobs.path().join("notes.txt"), folder.join("short.zst"), folder.join("x")];
    for path in &strangers {
        std::fs::write(path, b"?").unwrap();
    }
    assert_eq!(blobs.list().unwrap().map(Result::unwrap).collect::<Vec<_>>(), [digest]);
    let report = blobs.check().unwrap();
    let mut named: Vec<PathBuf> = report
        .errors
        .into_iter()
        .map(|fault| {
            let BlobError::Stray { path } = fault else { panic!("{fault}") };
            path
        })
        .collect();
    named.sort();
    let mut strangers = strangers.to_vec();
    strangers.sort();
    assert_eq!((named, report.intact), (strangers, 1));
}
