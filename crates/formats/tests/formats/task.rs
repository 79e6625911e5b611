//! Task specs: three ways in, one canonical form out.

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_formats::{Constraints, TaskInput, TaskSpec, detect_task, yaml};
use windlass_kernel::{Code, canon};

fn whole() -> TaskSpec {
    TaskSpec {
        task: "Implement feature X".to_owned(),
        task_ref: Some("#12".to_owned()),
        context_refs: vec!["docs/spec.md".to_owned()],
        constraints: Constraints {
            scope: Some("only the parser".to_owned()),
            allowed_paths: vec!["src/**".to_owned(), "tests".to_owned()],
            denied_paths: vec!["src/generated".to_owned()],
            max_diff_lines: Some(200),
        },
    }
}

const JSON: &str = r##"
  { "task": "Implement feature X", "task_ref": "#12", "context_refs": ["docs/spec.md"],
    "constraints": { "scope": "only the parser", "allowed_paths": ["src/**", "tests"],
                     "denied_paths": ["src/generated"], "max_diff_lines": 200 } }"##;

const YAML: &str = "\
# what to do
task: Implement feature X
task_ref: '#12'
context_refs:
  - docs/spec.md
constraints:
  scope: only the parser
  allowed_paths: [src/**, tests]
  denied_paths:
  - src/generated
  max_diff_lines: 200
";

#[test]
fn the_three_ways_give_the_same_task() {
    assert_eq!(TaskSpec::from_file(JSON.as_bytes()).unwrap(), whole());
    assert_eq!(TaskSpec::from_json(JSON.as_bytes()).unwrap(), whole());
    assert_eq!(TaskSpec::from_file(YAML.as_bytes()).unwrap(), whole());
    let sentence = TaskSpec::from_sentence("  Implement feature X\n").unwrap();
    let plain = TaskSpec { task: "Implement feature X".to_owned(), ..TaskSpec::default() };
    assert_eq!(sentence, plain);
    assert_eq!(TaskSpec::from_file(b"task: Implement feature X").unwrap(), plain);
    assert_eq!(plain.canonical().unwrap(), br#"{"task":"Implement feature X"}"#);
}

#[test]
fn the_canonical_form_is_pinned() {
    let expected = concat!(
        r##"{"constraints":{"allowed_paths":["src/**","tests"],"denied_paths":["src/generated"],"##,
        r##""max_diff_lines":200,"scope":"only the parser"},"context_refs":["docs/spec.md"],"##,
        r##""task":"Implement feature X","task_ref":"#12"}"##
    );
    assert_eq!(String::from_utf8(whole().canonical().unwrap()).unwrap(), expected);
    let again = TaskSpec::from_value(&Value::Object(whole().to_object())).unwrap();
    assert_eq!(again, whole());
}

fn refusal(value: &Value) -> String {
    let error = TaskSpec::from_value(value).unwrap_err();
    assert_eq!(error.code(), Code::TaskInvalid);
    std::error::Error::source(&error).unwrap().to_string()
}

#[test]
fn a_wrong_key_names_the_nearest_known_one() {
    for (value, expected) in [
        (json!({ "tsak": "a" }), "the field `tsak` is unknown; did you mean `task`?"),
        (
            json!({ "task": "a", "context_ref": [] }),
            "the field `context_ref` is unknown; did you mean `context_refs`?",
        ),
        (
            json!({ "task": "a", "constraints": { "max_diff_line": 1 } }),
            "the field `constraints.max_diff_line` is unknown; \
             did you mean `constraints.max_diff_lines`?",
        ),
        (json!({ "task": "a", "zzz": 1 }), "the field `zzz` is unknown"),
        (json!({}), "the field `task` is missing"),
        (json!([]), "it is a list, not an object"),
        (json!({ "task": 1 }), "the field `task` must be a string, not a number"),
        (json!({ "task": null }), "the field `task` must be a string, not null"),
        (
            json!({ "task": "a", "context_refs": ["a", 1] }),
            "the field `context_refs[1]` must be a string, not a number",
        ),
        (
            json!({ "task": "a", "constraints": [] }),
            "the field `constraints` must be an object, not a list",
        ),
        (
            json!({ "task": "a", "constraints": { "max_diff_lines": "5" } }),
            "the field `constraints.max_diff_lines` must be a whole number, not a string",
        ),
    ] {
        assert_eq!(refusal(&value), expected);
    }
}

#[test]
fn limits_are_kept_exactly() {
    let task = |text: String| TaskSpec::from_sentence(&text);
    assert!(task("é".repeat(20_000)).is_ok());
    assert!(task("é".repeat(20_001)).is_err());
    assert!(task(String::new()).is_err());
    assert!(task(" \n\t ".to_owned()).is_err());
    assert!(task("a\0b".to_owned()).is_err());
    assert!(task("a\u{1b}[2Jb".to_owned()).is_err());
    assert!(task("two\nlines\tand a tab".to_owned()).is_ok());
    let refs = |count: usize| json!({ "task": "a", "context_refs": vec!["a"; count] });
    assert!(TaskSpec::from_value(&refs(256)).is_ok());
    assert!(TaskSpec::from_value(&refs(257)).is_err());
    let lines = |count: Value| json!({ "task": "a", "constraints": { "max_diff_lines": count } });
    assert!(TaskSpec::from_value(&lines(json!(1))).is_ok());
    for wrong in [json!(0), json!(-1), json!(1.5), json!(4_294_967_296_u64), json!(true)] {
        assert!(TaskSpec::from_value(&lines(wrong.clone())).is_err(), "{wrong}");
    }
}

#[test]
fn paths_stay_inside_and_normal() {
    for path in ["a", "a/b.rs", ".github/x", "src/**", "a b/c", "ü/🙂", "...", "a..b", "*.rs"] {
        for field in ["allowed_paths", "denied_paths"] {
            assert!(
                TaskSpec::from_value(&json!({ "task": "a", "constraints": { field: [path] } }))
                    .is_ok(),
                "{path}"
            );
        }
        assert!(
            TaskSpec::from_value(&json!({ "task": "a", "context_refs": [path] })).is_ok(),
            "{path}"
        );
    }
    let long = "a".repeat(1025);
    for path in [
        "",
        " ",
        "/",
        "/etc/passwd",
        "..",
        "../a",
        "a/..",
        "a/../b",
        ".",
        "./a",
        "a/.",
        "a/./b",
        "a//b",
        "a/",
        "a\\b",
        "..\\a",
        "C:",
        "c:/x",
        "~",
        "~/x",
        "a\0b",
        "a\nb",
        "https://x.test/a",
        "//server/x",
        long.as_str(),
    ] {
        for field in ["allowed_paths", "denied_paths"] {
            refusal(&json!({ "task": "a", "constraints": { field: [path] } }));
        }
        refusal(&json!({ "task": "a", "context_refs": [path] }));
    }
}

#[test]
fn an_argument_is_told_apart() {
    use TaskInput::{File, InlineJson, Sentence};
    for (input, expected) in [
        ("{\"task\": \"a\"}", InlineJson),
        ("  {", InlineJson),
        ("task.json", File),
        ("tasks/Task.YAML", File),
        ("./my task.yml", File),
        ("/abs/my task.json", File),
        ("~/task.yaml", File),
        (" task.yaml\n", File),
        ("Fix the parser of config.yaml", Sentence),
        ("fix", Sentence),
        ("task.toml", Sentence),
        (".json", Sentence),
        ("a/.yaml", Sentence),
        ("first line\nsecond.yaml", Sentence),
        ("./a\nb.yaml", Sentence),
        ("[ui] make it blue", Sentence),
        ("", Sentence),
    ] {
        assert_eq!(detect_task(input), expected, "{input:?}");
    }
}

fn path() -> impl Strategy<Value = String> {
    "[a-z*]{1,5}(/[a-z.]{0,3}[a-z]){0,3}"
}

proptest! {
    #[test]
    fn every_task_reads_back_from_both_forms(
        task in "[^\\p{Cc}]{0,40}[a-z]",
        task_ref in proptest::option::of("[a-z#0-9]{1,9}"),
        context_refs in proptest::collection::vec(path(), 0..4),
        scope in proptest::option::of("[^\\p{Cc}]{0,9}x"),
        allowed_paths in proptest::collection::vec(path(), 0..4),
        denied_paths in proptest::collection::vec(path(), 0..4),
        max_diff_lines in proptest::option::of(1_u32..),
    ) {
        let constraints = Constraints { scope, allowed_paths, denied_paths, max_diff_lines };
        let spec = TaskSpec { task, task_ref, context_refs, constraints };
        let canonical = spec.canonical().unwrap();
        prop_assert_eq!(&TaskSpec::from_json(&canonical).unwrap(), &spec);
        let value = canon::parse(&canonical, 1 << 20).unwrap();
        prop_assert_eq!(&TaskSpec::from_file(yaml::emit(&value).unwrap().as_bytes()).unwrap(), &spec);
    }

    #[test]
    fn a_sentence_is_kept_as_it_is(text in "[a-zA-Z][^\\p{Cc}]{0,60}") {
        prop_assert_eq!(TaskSpec::from_sentence(&text).unwrap().task, text.trim());
    }
}
