//! The corpus: every good file gives its plan or agent, every bad one its error at its place.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_kernel::Digest;
use windlass_loops::{AgentFile, KnownNames, LoopError, LoopFile};

/// What a bad file is refused with.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Refusal {
    code: String,
    line: usize,
    column: usize,
    message: String,
    hint: String,
}

impl From<LoopError> for Refusal {
    fn from(error: LoopError) -> Self {
        Self {
            code: error.code().to_string(),
            line: error.location.line,
            column: error.location.column,
            message: error.message(),
            hint: error.hint(),
        }
    }
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors").join(name)
}

fn files(name: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder(name)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            files.insert(name, std::fs::read(&path).unwrap());
        }
    }
    files
}

fn read<T: for<'a> Deserialize<'a>>(name: &str) -> BTreeMap<String, T> {
    serde_json::from_slice(&std::fs::read(folder(name)).unwrap()).unwrap()
}

/// Whether something is what its file says; `WINDLASS_SNAPSHOTS=update` writes the file.
fn is_expected<T: for<'a> Deserialize<'a> + Serialize + PartialEq + std::fmt::Debug>(
    name: &str,
    actual: &BTreeMap<String, T>,
) {
    if std::env::var("WINDLASS_SNAPSHOTS").is_ok_and(|value| value == "update") {
        let text = serde_json::to_string_pretty(actual).unwrap() + "\n";
        std::fs::write(folder(name), text).unwrap();
    }
    let expected = read::<T>(name);
    for (file, actual) in actual {
        assert_eq!(expected.get(file), Some(actual), "{file}");
    }
    assert!(expected.keys().eq(actual.keys()), "{name} has other files");
}

fn parse(name: &str, bytes: &[u8]) -> Result<LoopFile, LoopError> {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let agents: BTreeSet<String> = names(&["builder", "designer", "reviewer"]);
    let builtins: BTreeSet<String> = names(&[
        "driver/check",
        "driver/context",
        "driver/intent",
        "driver/intervene",
        "driver/start",
        "driver/verify",
        "hydrate",
        "policy",
        "steward",
    ]);
    LoopFile::parse(name, bytes, &KnownNames { agents: &agents, builtins: &builtins })
}

/// A place that an editor can go to.
fn is_inside(error: &LoopError, bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let line = text.split('\n').nth(error.location.line.wrapping_sub(1));
    line.is_some_and(|line| (1..=line.chars().count() + 1).contains(&error.location.column))
}

fn refused<T: std::fmt::Debug>(
    name: &str,
    parse: impl Fn(&str, &[u8]) -> Result<T, LoopError>,
) -> BTreeMap<String, Refusal> {
    let refuse = |(file, bytes): (String, Vec<u8>)| {
        let error = parse(&file, &bytes).expect_err(&file);
        assert!(is_inside(&error, &bytes), "{error}");
        assert!(!error.hint().is_empty(), "{error}");
        let place = format!(
            "{file}:{}:{}: {}",
            error.location.line,
            error.location.column,
            error.message()
        );
        assert_eq!(error.to_string(), place);
        (file, Refusal::from(error))
    };
    files(name).into_iter().map(refuse).collect()
}

#[test]
fn bad_loops_are_refused_at_their_place() {
    is_expected("loops/bad/expected.json", &refused("loops/bad", parse));
}

#[test]
fn bad_agents_are_refused_at_their_place() {
    is_expected("agents/bad/expected.json", &refused("agents/bad", AgentFile::parse));
}

#[test]
fn good_loops_give_their_plan() {
    let files = files("loops/good");
    let plans = files.iter().map(|(name, bytes)| {
        let file = parse(name, bytes).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(file.digest, Digest::of(bytes));
        assert_eq!((&file.id, &file.title), (&file.plan.id, &file.plan.title));
        assert_eq!(file.version, file.plan.version);
        let variants = file.variants.keys().map(|name| {
            let plan = file.plan_with(Some(name), &[]).unwrap();
            assert_eq!(plan.variant.as_ref(), Some(name));
            let edges = plan.phases.into_iter().map(|phase| (phase.id, phase.needs));
            (name.clone(), edges.collect::<BTreeMap<_, _>>())
        });
        let value = json!({
            "category": file.category,
            "type": file.kind.as_str(),
            "body": file.body,
            "plan": file.plan,
            "variants": variants.collect::<BTreeMap<_, _>>(),
        });
        (name.clone(), value)
    });
    is_expected("loops/good/expected.json", &plans.collect::<BTreeMap<String, Value>>());
}

#[test]
fn good_agents_are_read() {
    let files = files("agents/good");
    let agents = files.iter().map(|(name, bytes)| {
        let file = AgentFile::parse(name, bytes).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(file.digest, Digest::of(bytes));
        let value = json!({
            "name": file.name,
            "description": file.description,
            "model": file.model,
            "tools": file.tools,
            "disallowed_tools": file.disallowed_tools,
            "more": file.more,
            "prompt": file.prompt,
        });
        (name.clone(), value)
    });
    is_expected("agents/good/expected.json", &agents.collect::<BTreeMap<String, Value>>());
}
