//! The knowledge folder.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use windlass_memory::{BuiltIn, Memory, NewMemory, Settings};

use crate::{memory, texts};

struct Fixture {
    folder: tempfile::TempDir,
    memory: BuiltIn,
}

fn fixture() -> Fixture {
    let folder = tempfile::TempDir::new().unwrap();
    let knowledge = folder.path().join("knowledge");
    std::fs::create_dir(&knowledge).unwrap();
    let memory = memory(&folder.path().join("memory.db"), Some(&knowledge));
    Fixture { folder, memory }
}

impl Fixture {
    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("knowledge").join(name)
    }

    fn sources(&self, query: &str) -> Vec<String> {
        let hits = self.memory.retrieve(query, 99).unwrap();
        hits.into_iter().map(|hit| hit.source).collect()
    }
}

#[test]
fn sections_of_files_are_found_with_their_headings() {
    let fixture = fixture();
    std::fs::create_dir(fixture.path("ops")).unwrap();
    std::fs::write(fixture.path("ops/deploy.md"), "# Deploy\n\nuse make\n\n## Staging\nsecond\n")
        .unwrap();
    std::fs::write(fixture.path("other.md"), "nothing here").unwrap();
    fixture.memory.store(&NewMemory::text("staging is broken")).unwrap();
    assert_eq!(fixture.sources("make"), ["ops/deploy.md#Deploy"]);
    let sources = fixture.sources("staging");
    assert_eq!(sources[0], "ops/deploy.md#Deploy / Staging", "the heading counts more");
    assert!(sources[1].starts_with("memory:"), "{sources:?}");
    let hits = fixture.memory.retrieve("second", 9).unwrap();
    assert_eq!(texts(&hits), ["## Staging\nsecond"]);
    assert!(hits[0].stored_at.ends_with('Z'), "{hits:?}");
}

#[test]
fn changed_files_are_indexed_again_and_removed_ones_dropped() {
    let fixture = fixture();
    std::fs::write(fixture.path("a.md"), "alpha").unwrap();
    std::fs::write(fixture.path("b.md"), "beta").unwrap();
    assert_eq!(fixture.sources("alpha"), ["a.md"]);
    std::fs::write(fixture.path("a.md"), "gamma!").unwrap();
    std::fs::remove_file(fixture.path("b.md")).unwrap();
    assert_eq!(fixture.sources("alpha beta"), Vec::<String>::new());
    assert_eq!(fixture.sources("gamma"), ["a.md"]);
    // What was stored stays when the folder goes.
    fixture.memory.store(&NewMemory::text("delta")).unwrap();
    std::fs::remove_dir_all(fixture.folder.path().join("knowledge")).unwrap();
    assert_eq!(fixture.sources("gamma"), Vec::<String>::new());
    assert_eq!(fixture.sources("delta").len(), 1);
}

#[test]
fn an_unchanged_file_is_not_read_again() {
    let fixture = fixture();
    std::fs::write(fixture.path("a.md"), "alpha").unwrap();
    assert_eq!(fixture.sources("alpha"), ["a.md"]);
    let modified = std::fs::metadata(fixture.path("a.md")).unwrap().modified().unwrap();
    // The same size and time: nobody looks into it.
    std::fs::write(fixture.path("a.md"), "omega").unwrap();
    let file = std::fs::File::options().write(true).open(fixture.path("a.md")).unwrap();
    file.set_modified(modified).unwrap();
    assert_eq!(fixture.sources("alpha"), ["a.md"]);
    file.set_modified(modified + Duration::from_secs(1)).unwrap();
    assert_eq!(fixture.sources("alpha"), Vec::<String>::new());
    assert_eq!(fixture.sources("omega"), ["a.md"]);
}

#[test]
fn another_folder_replaces_the_first() {
    let fixture = fixture();
    std::fs::write(fixture.path("a.md"), "alpha").unwrap();
    assert_eq!(fixture.sources("alpha"), ["a.md"]);
    let other = tempfile::TempDir::new().unwrap();
    std::fs::write(other.path().join("a.md"), "beta").unwrap();
    let memory = memory(&fixture.folder.path().join("memory.db"), Some(other.path()));
    assert_eq!(memory.retrieve("alpha", 9).unwrap(), []);
    assert_eq!(memory.retrieve("beta", 9).unwrap().len(), 1);
}

#[test]
fn links_out_of_the_folder_are_not_followed() {
    let fixture = fixture();
    let outside = tempfile::TempDir::new().unwrap();
    std::fs::write(outside.path().join("secret.md"), "secret").unwrap();
    symlink(outside.path().join("secret.md"), fixture.path("link.md")).unwrap();
    symlink(outside.path(), fixture.path("linked")).unwrap();
    symlink(Path::new("/"), fixture.path("root")).unwrap();
    assert_eq!(fixture.sources("secret"), Vec::<String>::new());
    // A file that was indexed and then becomes a link is dropped.
    std::fs::write(fixture.path("a.md"), "alpha").unwrap();
    assert_eq!(fixture.sources("alpha"), ["a.md"]);
    std::fs::remove_file(fixture.path("a.md")).unwrap();
    symlink(outside.path().join("secret.md"), fixture.path("a.md")).unwrap();
    assert_eq!(fixture.sources("secret alpha"), Vec::<String>::new());
}

#[test]
fn a_short_deadline_indexes_in_steps() {
    let folder = tempfile::TempDir::new().unwrap();
    let knowledge = folder.path().join("knowledge");
    std::fs::create_dir(&knowledge).unwrap();
    for number in 0..600 {
        let text = format!("# File {number}\nalpha {}", "word ".repeat(200));
        std::fs::write(knowledge.join(format!("{number}.md")), text).unwrap();
    }
    let settings = Settings { knowledge: Some(knowledge), deadline: Duration::from_millis(400) };
    let memory = BuiltIn::open(&folder.path().join("memory.db"), settings).unwrap();
    let mut rounds = 0;
    while memory.retrieve("alpha", 1000).is_ok_and(|hits| hits.len() < 600) {
        rounds += 1;
        assert!(rounds < 600, "the index does not grow");
    }
    assert_eq!(memory.retrieve("alpha", 1000).unwrap().len(), 600);
}
