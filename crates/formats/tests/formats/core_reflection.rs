//! Reflections: the block of Markdown is read in full and written again.

use proptest::prelude::*;
use windlass_formats::core::{
    REFLECTION_CHARS_MAX, Reflection, ReflectionError, ReflectionField, SessionOutcome,
};

const BLOCK: &str = "\
## Framework Reflection

**Request**: Add a flag
**Guidance received**: Hydrator: use `feature-dev`
**Followed**: Partial - skipped the demo
**Outcome**: Partial - the tests of Windows are missing
**Accomplishment**: The flag

It has two parts:

- the parser

- the help
**Root cause** (if not success): No machine with Windows
**Proposed change**: none needed
";

fn parse(text: &str) -> Reflection {
    Reflection::parse(text).unwrap()
}

#[test]
fn all_fields_are_read_with_all_their_lines() {
    let expected = Reflection {
        accomplishment: Some(
            "The flag\n\nIt has two parts:\n\n- the parser\n\n- the help".to_owned(),
        ),
        followed: "Partial - skipped the demo".to_owned(),
        guidance_received: "Hydrator: use `feature-dev`".to_owned(),
        outcome: SessionOutcome::Partial,
        outcome_note: Some("the tests of Windows are missing".to_owned()),
        proposed_change: "none needed".to_owned(),
        request: "Add a flag".to_owned(),
        root_cause: Some("No machine with Windows".to_owned()),
    };
    assert_eq!(parse(BLOCK), expected);
    assert_eq!(expected.render(), BLOCK);
    for text in [
        BLOCK.replace('\n', "\r\n"),
        format!("Some text.\n\n{BLOCK}\n\n## Next\n\n**Request**: not this one\n"),
        format!("Text\n\n```markdown\n{BLOCK}```\n\nMore text, **Request**: x\n"),
        BLOCK.replace("**Request**:", "- **request**:"),
        BLOCK.replace("**Request**: Add", "**Request:** Add"),
        BLOCK.replace("**Request**: Add a flag", "**Request**:\n\n   Add a flag\n\n"),
        BLOCK.replace("**Accomplishment**:", "**Accomplishment** (if success or partial):"),
    ] {
        assert_eq!(parse(&text), expected, "{text}");
    }
    let value = serde_json::to_value(&expected).unwrap();
    assert_eq!(value["outcome"], "partial");
}

#[test]
fn fields_come_in_any_order() {
    let mut fields: Vec<String> = BLOCK.split("\n**").map(|part| format!("**{part}\n")).collect();
    let heading = fields.remove(0).replacen("**", "", 1);
    fields.reverse();
    assert_eq!(parse(&(heading + &fields.concat())), parse(BLOCK));
}

#[test]
fn code_is_a_value_whatever_is_in_it() {
    let code = "```md\n## Title\n**Request**: in code\n```";
    let text = BLOCK.replace("No machine with Windows", &format!("See\n{code}\nabove"));
    let found = parse(&text);
    assert_eq!(found.root_cause, Some(format!("See\n{code}\nabove")));
    assert_eq!(parse(&found.render()), found);
    let first = parse(&BLOCK.replace("Add a flag", code));
    assert_eq!((first.request.as_str(), parse(&first.render())), (code, first.clone()));
    let open = BLOCK.replace("Add a flag", "```\nAdd a flag");
    let error = ReflectionError::OpenCode(ReflectionField::Request);
    assert_eq!(Reflection::parse(&open), Err(error));
}

#[test]
fn the_outcome_is_normalised() {
    let outcome = |text: &str| {
        Reflection::parse(&BLOCK.replace("Partial - the tests of Windows are missing", text))
            .map(|reflection| (reflection.outcome, reflection.outcome_note))
    };
    let note = |text: &str| Some(text.to_owned());
    for (text, expected) in [
        ("Success", (SessionOutcome::Success, None)),
        ("success", (SessionOutcome::Success, None)),
        ("SUCCESS.", (SessionOutcome::Success, None)),
        ("**Success**", (SessionOutcome::Success, None)),
        ("`failure`", (SessionOutcome::Failure, None)),
        ("[Partial]", (SessionOutcome::Partial, None)),
        ("Partial - half of it", (SessionOutcome::Partial, note("half of it"))),
        ("Partial — half", (SessionOutcome::Partial, note("half"))),
        ("Partial success", (SessionOutcome::Partial, note("success"))),
        ("FAILURE: no network", (SessionOutcome::Failure, note("no network"))),
        ("Success (with a warning)", (SessionOutcome::Success, note("(with a warning)"))),
        ("Success\n\nAll of it.", (SessionOutcome::Success, note("All of it."))),
        ("Success\n```\nlog\n```", (SessionOutcome::Success, note("```\nlog\n```"))),
    ] {
        assert_eq!(outcome(text), Ok(expected), "{text}");
    }
    for text in [
        "Success/Partial/Failure",
        "[Success/Partial/Failure]",
        "success|partial",
        "Success?",
        "Successful",
        "Not success",
        "Done",
        "- Success",
        "✅",
    ] {
        assert!(matches!(outcome(text), Err(ReflectionError::Outcome(_))), "{text}");
    }
}

#[test]
fn missing_fields_are_named_all_at_once() {
    let without = |names: &[&str], outcome: &str| {
        let lines = BLOCK.replace("Partial - the tests of Windows are missing", outcome);
        let lines = lines.split("\n**").filter(|part| !names.iter().any(|n| part.starts_with(n)));
        let text = lines.collect::<Vec<_>>().join("\n**");
        Reflection::parse(&text).map(|_| ()).map_err(|error| error.to_string())
    };
    let missing = |fields: &str| Err(format!("these fields are missing or empty: {fields}"));
    for name in ["Request", "Guidance received", "Followed", "Proposed change", "Outcome"] {
        assert_eq!(without(&[name], "Partial"), missing(&format!("`{name}`")));
    }
    assert_eq!(without(&["Request", "Outcome"], ""), missing("`Request`, `Outcome`"));
    assert_eq!(without(&["Accomplishment"], "Success"), missing("`Accomplishment`"));
    assert_eq!(without(&["Accomplishment"], "Failure"), Ok(()));
    assert_eq!(without(&["Root cause"], "Partial"), missing("`Root cause`"));
    assert_eq!(without(&["Root cause"], "Failure"), missing("`Root cause`"));
    assert_eq!(without(&["Root cause"], "Success"), Ok(()));
    let empty = BLOCK.replace("Add a flag", "");
    assert_eq!(
        Reflection::parse(&empty),
        Err(ReflectionError::Missing(vec![ReflectionField::Request]))
    );
}

#[test]
fn other_texts_are_refused() {
    for (text, error) in [
        (String::new(), ReflectionError::NoHeading),
        (BLOCK.replace("## F", "# F"), ReflectionError::NoHeading),
        (format!("{BLOCK}\n{BLOCK}"), ReflectionError::SecondHeading),
        (
            BLOCK.replace("**Followed**", "**Request**: again\n**Followed**"),
            ReflectionError::Twice(ReflectionField::Request),
        ),
        (
            BLOCK.replace("**Request**", "It went well.\n**Request**"),
            ReflectionError::Stray("It went well.".to_owned()),
        ),
        (BLOCK.to_owned() + &"a".repeat(REFLECTION_CHARS_MAX), ReflectionError::TooLong),
    ] {
        assert_eq!(Reflection::parse(&text), Err(error));
    }
}

/// Pieces of lines that the reader could take for something else.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z ]{0,8}",
        1 => Just("**Request**: x".to_owned()),
        1 => Just("**Root cause** (if not success): x".to_owned()),
        1 => Just("## x".to_owned()),
        1 => Just("```".to_owned()),
        1 => Just("````a".to_owned()),
        1 => Just("~~~".to_owned()),
        1 => Just("\r".to_owned()),
        1 => Just("\t\u{a0}".to_owned()),
        1 => Just("- ".to_owned()),
        1 => Just("/Partial".to_owned()),
    ]
}

fn value() -> impl Strategy<Value = String> {
    let line = prop::collection::vec(piece(), 0..3).prop_map(|pieces| pieces.concat());
    prop::collection::vec(line, 1..5).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig {
        max_global_rejects: 100_000,
        ..ProptestConfig::with_cases(500)
    })]
    #[test]
    fn what_is_read_is_the_same_after_it_was_written(
        value in value(),
        place in 0_usize..7,
        outcome in prop::sample::select(vec!["Success", "PARTIAL", "failure."]),
    ) {
        let mut text = "## Framework Reflection\n".to_owned();
        for (at, field) in ReflectionField::ALL.iter().enumerate() {
            let value = if at == place { value.as_str() } else { "" };
            let outcome = if *field == ReflectionField::Outcome { outcome } else { "v" };
            text.push_str(&format!("**{field}**: {outcome}{value}\n"));
        }
        let Ok(reflection) = Reflection::parse(&text) else {
            return Err(TestCaseError::reject("not a reflection"));
        };
        let written = reflection.render();
        prop_assert_eq!(Reflection::parse(&written), Ok(reflection), "{}", written);
    }

    #[test]
    fn plain_values_always_round_trip(
        lines in prop::collection::vec("[a-zA-Z0-9 .,:;äß–]{0,30}", 1..6),
    ) {
        let value = format!("x{}", lines.join("\n")).trim().to_owned();
        let reflection = Reflection {
            accomplishment: Some(value.clone()),
            followed: value.clone(),
            guidance_received: value.clone(),
            outcome: SessionOutcome::Partial,
            outcome_note: Some(value.clone()),
            proposed_change: value.clone(),
            request: value.clone(),
            root_cause: Some(value),
        };
        let read = Reflection::parse(&reflection.render());
        let trimmed = |text: &String| {
            text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
        };
        let read = read.unwrap();
        prop_assert_eq!(&read.request, &trimmed(&reflection.request));
        prop_assert_eq!(read.outcome_note.as_ref(), Some(&trimmed(&reflection.request)));
        prop_assert_eq!(Reflection::parse(&read.render()), Ok(read));
    }
}
