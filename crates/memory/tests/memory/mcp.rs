//! Memory servers: a real one, and some that misbehave.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use windlass_connect::{Connectors, Target};
use windlass_memory::{McpMemory, Memory, MemoryError, NewMemory, ToolNames};
use windlass_testkit::example_binary;

use crate::{PATIENT, texts};

fn stdio(command: Vec<String>) -> Target {
    Target::McpStdio {
        server: "notes".to_owned(),
        command,
        env: BTreeMap::new(),
        cwd: PathBuf::from("/"),
        confinement: None,
    }
}

fn server(form: &str, names: ToolNames, deadline: Duration) -> McpMemory {
    let program = example_binary("memory_server").display().to_string();
    McpMemory::new(Connectors::new(), stdio(vec![program, form.to_owned()]), names, deadline)
}

fn tagged(text: &str) -> NewMemory {
    NewMemory { tags: vec!["style".to_owned()], ..NewMemory::text(text) }
}

#[test]
fn a_server_stores_and_finds_in_each_of_its_forms() {
    let other = ToolNames {
        retrieve: "search".to_owned(),
        store: "remember".to_owned(),
        ..ToolNames::default()
    };
    for (form, names) in [
        ("structured", ToolNames::default()),
        ("json", ToolNames::default()),
        ("text", ToolNames::default()),
        ("other", other),
    ] {
        let memory = server(form, names, PATIENT);
        assert_eq!(memory.retrieve("tabs", 5).unwrap(), [], "{form}");
        assert_eq!(memory.store(&tagged("use tabs")).unwrap(), "h1", "{form}");
        assert_eq!(memory.store(&NewMemory::text("use make")).unwrap(), "h2", "{form}");
        let hits = memory.retrieve("tabs", 5).unwrap();
        assert_eq!(texts(&hits), ["use tabs"], "{form}");
        let expected: &[&str] = if form == "text" { &[] } else { &["style"] };
        assert_eq!(hits[0].tags, expected, "{form}");
        assert!((hits[0].score - if form == "text" { 0.0 } else { 0.5 }).abs() < 1e-9);
        assert_eq!(texts(&memory.retrieve("use", 1).unwrap()), ["use tabs"], "{form}");
        assert_eq!(memory.retrieve("", 9).unwrap().len(), 2, "{form}");
    }
}

#[test]
fn a_slow_server_passes_the_deadline() {
    let deadline = Duration::from_millis(500);
    let memory = server("slow", ToolNames::default(), deadline);
    let started = Instant::now();
    let error = memory.retrieve("tabs", 5).unwrap_err();
    assert_eq!(error, MemoryError::DeadlinePassed { limit: deadline });
    assert!(error.may_retry() && started.elapsed() < Duration::from_secs(30));
}

#[test]
fn what_a_server_refuses_or_does_not_have_is_said() {
    let unavailable = |error: MemoryError| {
        let MemoryError::Unavailable { reason } = error else { panic!("{error:?}") };
        reason
    };
    let refusing = server("refuse", ToolNames::default(), PATIENT);
    let error = refusing.store(&NewMemory::text("x")).unwrap_err();
    assert_eq!(unavailable(error), "the memory is full");
    let names = ToolNames { retrieve: "none".to_owned(), ..ToolNames::default() };
    let error = server("json", names, PATIENT).retrieve("x", 1).unwrap_err();
    assert!(unavailable(error).contains("no tool `none`"));
    for command in
        [vec!["/none/server".to_owned()], ["sh", "-c", "echo garbage"].map(str::to_owned).to_vec()]
    {
        let memory = McpMemory::new(
            Connectors::new(),
            stdio(command),
            ToolNames::default(),
            Duration::from_secs(20),
        );
        let error = memory.retrieve("x", 1).unwrap_err();
        assert!(!unavailable(error).is_empty());
    }
    let error = refusing.store(&NewMemory::text("a\0")).unwrap_err();
    assert!(matches!(error, MemoryError::Invalid { .. }));
}
