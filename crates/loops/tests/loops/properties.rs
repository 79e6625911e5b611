//! What holds for every file: what can be said is read back, and nothing makes the reader fall.

use crate::plans;
use crate::write;

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::Index;
use windlass_kernel::run::plan::Plan;
use windlass_loops::{AgentFile, KnownNames, LoopError, LoopFile};

fn parse(name: &str, bytes: &[u8]) -> Result<LoopFile, LoopError> {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let (agents, builtins): (BTreeSet<String>, BTreeSet<String>) =
        (names(&plans::AGENTS), names(&plans::BUILTINS));
    LoopFile::parse(name, bytes, &KnownNames { agents: &agents, builtins: &builtins })
}

/// Sorts as the reader does: the first in the file of those whose needs are placed.
fn sorted(mut plan: Plan) -> Plan {
    let mut left = std::mem::take(&mut plan.phases);
    while !left.is_empty() {
        let is_placed = |need: &String| plan.phases.iter().any(|phase| phase.id == *need);
        let next = left.iter().position(|phase| phase.needs.iter().all(is_placed)).unwrap();
        plan.phases.push(left.remove(next));
    }
    plan
}

fn place_is_inside(error: &LoopError, bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let line = text.split('\n').nth(error.location.line.wrapping_sub(1));
    line.is_some_and(|line| (1..=line.chars().count() + 1).contains(&error.location.column))
}

/// What an edit puts into a file.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let pieces: [&[u8]; 30] = [
        b"",
        b"\n",
        b"\t",
        b" ",
        b"---\n",
        b"...\n",
        b": ",
        b"- ",
        b"[",
        b"]",
        b"{",
        b"}",
        b"*a",
        b"&a ",
        b"!t ",
        b"<<: ",
        b"\"",
        b"'",
        b"|\n",
        b">-\n",
        b"# ",
        b"? ",
        b"%YAML 1.2\n",
        b"\xff",
        b"\0",
        b"\r",
        b"\xef\xbb\xbf",
        b"yes",
        b"99999999999999999999",
        b"\xe2\x80\xa8",
    ];
    prop_oneof![
        proptest::sample::select(pieces.to_vec()).prop_map(<[u8]>::to_vec),
        proptest::collection::vec(any::<u8>(), 0..4),
    ]
}

fn edited(bytes: &[u8], edits: Vec<(Index, usize, Vec<u8>)>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (at, length, piece) in edits {
        let start = at.index(bytes.len() + 1);
        let end = (start + length).min(bytes.len());
        bytes.splice(start..end, piece);
    }
    bytes
}

fn edits() -> impl Strategy<Value = Vec<(Index, usize, Vec<u8>)>> {
    proptest::collection::vec((any::<Index>(), 0..12usize, piece()), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases * 3 / 8, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_is_written_is_read_back(plan in plans::plan(), shuffle in any::<u64>()) {
        for style in [write::Style::Flow, write::Style::Block] {
            let text = write::file(&plan, style, 0);
            let file = parse(&format!("loops/{}.md", plan.id), text.as_bytes());
            let file = file.unwrap_or_else(|error| panic!("{error}\n{}\n{text}", error.hint()));
            prop_assert_eq!(&file.plan, &sorted(plan.clone()));
            prop_assert_eq!(file.body, "Prose.\n");
        }
        // Phases in another order: the same phases, each after those it needs.
        let text = write::file(&plan, write::Style::Block, shuffle);
        let again = parse(&format!("{}.md", plan.id), text.replace('\n', "\r\n").as_bytes());
        let again = again.unwrap_or_else(|error| panic!("{error}\n{text}")).plan;
        let ids = |plan: &Plan| plan.phases.iter().map(|phase| phase.id.clone()).collect::<BTreeSet<_>>();
        prop_assert_eq!(ids(&again), ids(&plan));
        for (at, phase) in again.phases.iter().enumerate() {
            for need in &phase.needs {
                prop_assert!(again.position(need).unwrap() < at);
            }
            let original = &plan.phases[plan.position(&phase.id).unwrap()];
            prop_assert_eq!(phase, original);
        }
    }

    #[test]
    fn an_edited_loop_is_read_or_refused_inside_the_file(plan in plans::plan(), edits in edits()) {
        let bytes = edited(write::file(&plan, write::Style::Block, 0).as_bytes(), edits);
        if let Err(error) = parse(&format!("{}.md", plan.id), &bytes) {
            prop_assert!(place_is_inside(&error, &bytes), "{}", error);
            prop_assert!(!error.message().contains('\n') && !error.hint().is_empty());
            prop_assert!(!error.snippet.chars().any(char::is_control));
        }
    }

    #[test]
    fn any_bytes_are_refused_inside_the_file(
        bytes in proptest::collection::vec(piece(), 0..40).prop_map(|pieces| pieces.concat()),
    ) {
        let fenced = [b"---\n".as_slice(), &bytes, b"\n---\n"].concat();
        for bytes in [&bytes, &fenced] {
            for error in [parse("x.md", bytes).unwrap_err(), AgentFile::parse("x.md", bytes).unwrap_err()] {
                prop_assert!(place_is_inside(&error, bytes), "{}", error);
            }
        }
    }

    #[test]
    fn an_edited_agent_is_read_or_refused_inside_the_file(edits in edits()) {
        let agent = "---\nname: a\ndescription: |\n  What it\n  is for\ntools: [Read, Grep]\n\
                     maxTurns: 5\nhooks: { Stop: [] }\n---\nDo it.\n";
        let bytes = edited(agent.as_bytes(), edits);
        if let Err(error) = AgentFile::parse("a.md", &bytes) {
            prop_assert!(place_is_inside(&error, &bytes), "{}", error);
        }
    }
}

/// A file of many phases, each of which needs and redoes what `lines` says.
fn many(count: usize, line: impl Fn(usize) -> String) -> String {
    let head =
        "---\nid: many\ntitle: M\ntype: loop\ncategory: c\nversion: v\non_restart: hold\nphases:\n";
    let phases: String = (0..count).map(line).collect();
    format!("{head}{phases}---\n")
}

fn redo(at: usize, needs: &str, target: usize) -> String {
    format!(
        "  - {{ id: p{at}, needs: [{needs}], doer: {{ builtin: hydrate }}, gate: {{ id: g, verdicts: \
         {{ a: continue, b: {{ redo: p{target}, max: 1 }} }} }} }}\n"
    )
}

#[test]
fn ten_thousand_phases_are_read_and_more_are_refused() {
    let chain = |at: usize| match at {
        0 => redo(0, "", 0),
        _ => redo(at, &format!("p{}", at - 1), at / 2),
    };
    let plan = parse("many.md", many(10_000, chain).as_bytes()).unwrap().plan;
    assert_eq!(plan.phases.len(), 10_000);
    let error = parse("many.md", many(10_001, chain).as_bytes()).unwrap_err();
    assert_eq!(error.message(), "the loop has 10001 phases, more than 10000");
    // From the last to the first: the file's order is the worst there is.
    let turned = many(10_000, |at| chain(9_999 - at));
    assert_eq!(parse("many.md", turned.as_bytes()).unwrap().plan, plan);
}

#[test]
fn one_wrong_redo_among_ten_thousand_is_found() {
    let wrong = many(10_000, |at| match at {
        0 => redo(0, "", 0),
        7_000 => redo(at, "p6999", 7_001),
        _ => redo(at, &format!("p{}", at - 1), at / 3),
    });
    let error = parse("many.md", wrong.as_bytes()).unwrap_err();
    assert_eq!(error.location.line, 7_000 + 9);
    assert_eq!(
        error.message(),
        "`p7001` does not come before `p7000`, so a run cannot go back to it"
    );
}

#[test]
fn a_circle_of_ten_thousand_is_shown_short() {
    let circle = many(10_000, |at| redo(at, &format!("p{}", (at + 1) % 10_000), at));
    let error = parse("many.md", circle.as_bytes()).unwrap_err();
    let shown = "p0 → p1 → p2 → p3 → p4 → p5 → p6 → p7 → … → p0";
    assert_eq!(error.message(), format!("the phases need each other in a cycle: {shown}"));
}

#[test]
fn a_file_may_not_be_larger_than_its_limit() {
    let fill = |size: usize| {
        let head = many(1, |at| redo(at, "", 0));
        let body = "x".repeat(size - head.len());
        head + &body
    };
    let max = windlass_loops::FILE_BYTES_MAX;
    assert!(parse("many.md", fill(max).as_bytes()).is_ok());
    let error = parse("many.md", fill(max + 1).as_bytes()).unwrap_err();
    assert_eq!((error.location.line, error.location.column), (1, 1));
    assert_eq!(error.message(), "the file has 4194305 bytes, more than 4194304");
}
