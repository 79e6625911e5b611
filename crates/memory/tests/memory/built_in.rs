//! Stored memories.

use windlass_memory::{BuiltIn, Memory, NewMemory};

use crate::{memory, texts};

struct Fixture {
    _folder: tempfile::TempDir,
    memory: BuiltIn,
}

fn fixture(stored: &[&str]) -> Fixture {
    let folder = tempfile::TempDir::new().unwrap();
    let memory = memory(&folder.path().join("memory.db"), None);
    for text in stored {
        memory.store(&NewMemory::text(*text)).unwrap();
    }
    Fixture { _folder: folder, memory }
}

impl Fixture {
    fn find(&self, query: &str) -> Vec<String> {
        let hits = self.memory.retrieve(query, 9).unwrap();
        texts(&hits).into_iter().map(str::to_owned).collect()
    }
}

#[test]
fn the_best_fitting_comes_first() {
    let fixture = fixture(&[
        "The staging server is deployed with make deploy",
        "Ann prefers tabs over spaces",
        "deploy deploy: production is deployed on Fridays never",
    ]);
    assert_eq!(fixture.find("tabs"), ["Ann prefers tabs over spaces"]);
    let hits = fixture.memory.retrieve("staging deploy", 9).unwrap();
    assert_eq!(hits.len(), 2);
    assert!(hits[0].text.contains("staging"), "{hits:?}");
    assert!(hits[0].score > hits[1].score && hits[1].score > 0.0, "{hits:?}");
    assert!(hits[0].source.starts_with("memory:m-"), "{hits:?}");
    assert_eq!(fixture.find("nothing-like-this"), Vec::<String>::new());
    assert_eq!(fixture.memory.retrieve("deploy", 1).unwrap().len(), 1);
    assert_eq!(fixture.memory.retrieve("deploy", 0).unwrap(), []);
}

#[test]
fn diacritics_case_and_the_end_of_the_last_word_do_not_matter() {
    let fixture = fixture(&["Das Café in Zürich schließt früh", "the deployment of Ελλάδα"]);
    for query in ["cafe", "CAFÉ", "zurich", "caf", "Cafe\u{301}", "nichts zür"] {
        assert_eq!(fixture.find(query), ["Das Café in Zürich schließt früh"], "{query}");
    }
    assert_eq!(fixture.find("deploy"), ["the deployment of Ελλάδα"]);
    assert_eq!(fixture.find("ΕΛΛΆΔΑ"), ["the deployment of Ελλάδα"]);
    let fixture = fixture_of_numbers();
    assert_eq!(fixture.find("item 77")[0], "item 77", "the whole word fits better");
}

fn fixture_of_numbers() -> Fixture {
    let texts: Vec<String> = (770..780).chain([77]).map(|n| format!("item {n}")).collect();
    fixture(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn only_the_last_word_is_a_prefix() {
    let fixture = fixture(&["the deployment"]);
    assert_eq!(fixture.find("deploy nothing"), Vec::<String>::new(), "only the last is a prefix");
}

#[test]
fn an_empty_query_finds_the_most_recent() {
    let fixture = fixture(&["first", "second", "third"]);
    assert_eq!(fixture.find(""), ["third", "second", "first"]);
    assert_eq!(fixture.find(" \n"), ["third", "second", "first"]);
    assert_eq!(fixture.find("***"), Vec::<String>::new());
}

#[test]
fn the_same_text_is_stored_once_with_all_tags() {
    let fixture = fixture(&[]);
    let store = |text: &str, tag: &str| {
        let new = NewMemory { tags: vec![tag.to_owned()], ..NewMemory::text(text) };
        fixture.memory.store(&new).unwrap()
    };
    let first = store("Use tabs, not spaces.", "style");
    assert_eq!(store("use  TABS not spaces", "editor"), first);
    assert_ne!(store("use tabs, not spaces ever", "style"), first);
    let hits = fixture.memory.retrieve("editor", 9).unwrap();
    assert_eq!(texts(&hits), ["Use tabs, not spaces."]);
    assert_eq!(hits[0].tags, ["editor", "style"]);
    assert_eq!(hits[0].source, format!("memory:{first}"));
    assert_eq!(fixture.find("").len(), 2);
}

#[test]
fn the_source_is_kept() {
    let fixture = fixture(&[]);
    let new = NewMemory { source: Some("session 7".to_owned()), ..NewMemory::text("x1") };
    fixture.memory.store(&new).unwrap();
    let hits = fixture.memory.retrieve("x1", 9).unwrap();
    assert_eq!(hits[0].source, "session 7");
    let json = serde_json::to_value(&hits[0]).unwrap();
    assert_eq!(serde_json::from_value::<windlass_memory::Hit>(json).unwrap(), hits[0]);
}
