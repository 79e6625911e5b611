//! Many writers at once.

use std::sync::Barrier;

use windlass_kernel::Digest;
use windlass_workspace::BlobStore;

use crate::blobs::{files, noise, read};

#[test]
fn many_threads_put_the_same_and_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blobs");
    let contents: Vec<Vec<u8>> = (0..8).map(|seed| noise(seed, 70_000)).collect();
    let sources: Vec<_> = (0..8).map(|seed| folder.path().join(format!("source{seed}"))).collect();
    for (source, content) in sources.iter().zip(&contents) {
        std::fs::write(source, content).unwrap();
    }
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (path, contents, sources, barrier) = (&path, &contents, &sources, &barrier);
            scope.spawn(move || {
                barrier.wait();
                // A handle of its own, as another process would have: opening removes temporary files.
                let blobs = BlobStore::open(path).unwrap();
                for turn in 0..16 {
                    let content = &contents[(thread * turn) % 8];
                    let stored = if turn % 2 == 0 {
                        blobs.put(&mut &**content, u64::MAX).unwrap()
                    } else {
                        blobs.put_file(&sources[(thread * turn) % 8], u64::MAX).unwrap()
                    };
                    assert_eq!(stored.digest, Digest::of(content));
                    assert_eq!(read(&blobs, &stored.digest).unwrap(), *content);
                    drop(BlobStore::open(path).unwrap());
                }
            });
        }
    });
    let blobs = BlobStore::open(&path).unwrap();
    let report = blobs.check().unwrap();
    assert!(report.errors.is_empty(), "{report:?}");
    assert_eq!(files(&path).len(), usize::try_from(report.intact).unwrap());
}
