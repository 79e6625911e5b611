//! What many tests begin with, made once for each build of the binary and then copied. Every test is a process of its
//! own, so it lies on the disk.

use std::fs::{File, create_dir_all, read_dir, remove_dir_all, rename};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The folder of a template, which `make` fills if it is not there yet.
pub fn template(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("templates");
    let made = all.join(format!("{name}.{}", build()));
    if made.is_dir() {
        return made;
    }
    create_dir_all(&all).expect("a folder");
    let lock = File::create(all.join(format!("{name}.lock"))).expect("a file");
    lock.lock().expect("a lock");
    if !made.is_dir() {
        // Those of other builds, and one that was not finished.
        for entry in read_dir(&all).expect("a folder").flatten() {
            let other = entry.file_name();
            let is_ours = other.to_string_lossy().starts_with(&format!("{name}."));
            if is_ours && entry.path().is_dir() {
                remove_dir_all(entry.path()).expect("a removal");
            }
        }
        let unfinished = all.join(format!("{name}.unfinished"));
        create_dir_all(&unfinished).expect("a folder");
        make(&unfinished);
        rename(&unfinished, &made).expect("a folder");
    }
    made
}

/// A name of this build of the binary.
fn build() -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_windlass")).metadata().expect("the binary");
    format!("{:x}-{:x}-{:x}", binary.mtime(), binary.mtime_nsec(), binary.len())
}
