//! The backlog: what is found, what is taken next, and that marking changes one line only.

use proptest::prelude::*;
use windlass_formats::Moment;
use windlass_formats::backlog::{
    Backlog, BacklogError, Item, MarkError, Priority, ProblemKind, mark_done, next, parse,
};
use windlass_kernel::{Code, Digest};
use windlass_text::DecodeProblem;

const TEXT: &str = "\
# Backlog

Intro with `- [ ] **Not an item**`.

### P1 (next)
- [ ] **Second** — DoD: tests pass — Owner: ana — Context: see docs/a.md — and b
* [x] **Finished** — DoD: it is — Owner: bob — Done: abc (2026-01-01)

### P0
- [ ] **Waits** — DoD: it is — Owner: ana — Context: Blocked by #3
- [ ] **First -- of all** – DoD: a: b — c -- Owner: bob <!-- ask — Owner: eve -->
  - [ ] a part of it, without anything
    more text
```
- [ ] **In a fence** — no DoD
```
<!--
- [ ] **In a comment**
-->
#### Notes
- [see](docs/a.md)
- plain
1. [ ] **Numbered** — owner: x — dod: y

## Done
- [ ] anything

### P3
+ [ ] someday
- [ ] **Bold** — Owner: me
";

fn read(text: &str) -> Backlog {
    parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

fn problems(text: &str) -> Vec<(usize, usize, ProblemKind)> {
    match parse(text.as_bytes()).unwrap_err() {
        BacklogError::Problems(all) => {
            all.into_iter().map(|one| (one.line, one.column, one.kind)).collect()
        }
        BacklogError::NotText { .. } => panic!("no problem of lines"),
    }
}

fn at(text: &str) -> Moment {
    text.parse().unwrap()
}

#[test]
fn items_are_found_with_their_fields() {
    let backlog = read(TEXT);
    let found: Vec<(usize, Priority, bool, &str)> = backlog
        .items
        .iter()
        .map(|item| (item.line, item.priority, item.done, item.title.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            (6, Priority::P1, false, "Second"),
            (7, Priority::P1, true, "Finished"),
            (10, Priority::P0, false, "Waits"),
            (11, Priority::P0, false, "First -- of all"),
            (23, Priority::P0, false, "Numbered"),
            (29, Priority::P3, false, "someday"),
            (30, Priority::P3, false, "Bold"),
        ]
    );
    let line = TEXT.lines().nth(10).unwrap();
    assert_eq!(
        backlog.items[3],
        Item {
            line: 11,
            priority: Priority::P0,
            done: false,
            title: "First -- of all".to_owned(),
            dod: Some("a: b — c".to_owned()),
            owner: Some("bob".to_owned()),
            context: None,
            blocked: false,
            waits_for: Vec::new(),
            stuck: None,
            digest: Digest::of(line.as_bytes()),
        }
    );
    assert_eq!(backlog.items[0].context.as_deref(), Some("see docs/a.md — and b"));
    assert_eq!(backlog.items[4].owner.as_deref(), Some("x"));
    assert_eq!(read(&TEXT.replace('\n', "\r\n")), backlog);
    assert_eq!(read(&format!("\u{feff}{}", &TEXT[11..])).items.len(), 7);
}

#[test]
fn the_most_urgent_open_item_that_waits_for_nothing_is_next() {
    let mut backlog = read(TEXT);
    let mut titles = Vec::new();
    while let Some(item) = next(&backlog) {
        titles.push(item.title.clone());
        let line = item.line;
        backlog.items.iter_mut().find(|item| item.line == line).unwrap().done = true;
    }
    assert_eq!(titles, ["First -- of all", "Numbered", "Second"]);
    for word in ["BLOCKED", "depends on #2", "Waiting For ana"] {
        let text = format!("### P0\n- [ ] **A** — DoD: x — Owner: y — Context: {word}\n");
        assert_eq!(next(&read(&text)), None, "{word}");
    }
    let commented = "### P0\n- [ ] **A** — DoD: x — Owner: y <!-- was blocked -->\n";
    assert!(next(&read(commented)).is_some());
    assert_eq!(next(&read("### P0\n")), None);
}

#[test]
fn problems_have_a_place() {
    let no = |field, title: &str| ProblemKind::NoField { field, title: title.to_owned() };
    let text = "### P0\n- [ ] **Ä** — Owner: x\n- [ ] **B** — DoD: — Owner: y\n - [ ] no title — DoD: a — Owner: b\n";
    assert_eq!(
        problems(text),
        [(2, 1, no("DoD", "Ä")), (3, 1, no("DoD", "B")), (4, 2, ProblemKind::NoTitle)]
    );
    let twice = |title: &str, first| ProblemKind::DuplicateTitle { title: title.to_owned(), first };
    let text = "### P1\n- [ ] **A b** — DoD: x — Owner: y\n- [x] **A b**\n- [ ] **a  B** — DoD: x — Owner: y\n### P2\n- [ ] **A b**\n- [ ] **A b**\n";
    assert_eq!(problems(text), [(4, 1, twice("a  B", 2)), (7, 1, twice("A b", 6))]);
    for wrong in ["- []", "- [-] **A**", "- [ ]**A**", "- [  ] **A**", "* [xx", "- [✓] **A**"] {
        let text = format!("### P0\n{wrong} — DoD: x — Owner: y\n");
        if wrong == "* [xx" {
            assert_eq!(read(&text).items, []);
        } else {
            assert_eq!(problems(&text), [(2, 3, ProblemKind::Checkbox)], "{wrong}");
        }
    }
    let text = "### P0\n- [ ] **A** — DoD: x — Owner: y — dod: z\n";
    assert_eq!(problems(text), [(2, 35, ProblemKind::DuplicateField("DoD"))]);
    assert_eq!(problems("### P0\n  ```\n- [ ] **A**\n"), [(2, 3, ProblemKind::OpenFence)]);
    assert_eq!(problems("### P0\nä <!-- \n- [ ] **A**\n"), [(2, 3, ProblemKind::OpenComment)]);
    assert_eq!(problems("### P4\n"), [(1, 1, ProblemKind::UnknownPriority("P4".to_owned()))]);
    assert_eq!(problems(""), [(1, 1, ProblemKind::NoPriorities)]);
    assert_eq!(problems("# P2P notes\n- [ ] a\n"), [(1, 1, ProblemKind::NoPriorities)]);
    assert_eq!(
        parse(b"### P0\n- \xc3\xa4\xff"),
        Err(BacklogError::NotText { line: 2, column: 4, problem: DecodeProblem::NotUtf8 })
    );
    let too_large = BacklogError::NotText {
        line: 1,
        column: 1,
        problem: DecodeProblem::TooLarge { bytes: (1 << 20) + 1, bytes_max: 1 << 20 },
    };
    assert_eq!(parse(&vec![b'a'; (1 << 20) + 1]), Err(too_large));
}

#[test]
fn a_long_line_is_read_to_its_end() {
    let ticks: String = (1..600).map(|length| format!("{}a", "`".repeat(length))).collect();
    for middle in ["<!---->", "`<!--`", " — Note: x", "`a", "[", "**", "\t", " -- ", ticks.as_str()]
    {
        let middle = middle.repeat((200_000 / middle.len()).max(1));
        let text = format!("### P0\n- [ ] **A** — DoD: x {middle} — Owner: y\n");
        assert_eq!(read(&text).items[0].owner.as_deref(), Some("y"));
    }
}

#[test]
fn nothing_hides_an_item_by_how_it_is_indented() {
    let line = "- [ ] **A** — DoD: x — Owner: y\n";
    for before in ["", " ", "  ", "   ", "- group\n  ", "- group\n    ", "- group\n\t", "text\n\n"]
    {
        assert_eq!(read(&format!("### P0\n{before}{line}")).items.len(), 1, "{before:?}");
    }
    assert_eq!(read(&format!("### P0\n\n    {line}")).items, [], "that is code");
    assert_eq!(read(&format!("### P0\n- [ ] **B** — DoD: x — Owner: y\n  {line}")).items.len(), 1);
    let code =
        "### P0\n- [ ] **A `<!--` b** — DoD: x — Owner: y\n- [ ] **B** — DoD: x — Owner: y\n";
    assert_eq!(read(code).items.len(), 2);
    let inline = "### P0\n```a``` b\n- [ ] **B** — DoD: x — Owner: y\n";
    assert_eq!(read(inline).items.len(), 1);
}

#[test]
fn an_item_becomes_a_task() {
    let backlog = read(TEXT);
    let task = backlog.items[0].to_task().unwrap();
    assert_eq!(
        task.task,
        "Second\nDefinition of done: tests pass\nOwner: ana\nContext: see docs/a.md — and b"
    );
    assert_eq!(task.task_ref, Some(format!("backlog:{}", backlog.items[0].digest)));
    let long = format!("### P0\n- [ ] **A** — DoD: {} — Owner: y\n", "x".repeat(20_000));
    assert_eq!(read(&long).items[0].to_task().unwrap_err().code(), Code::TaskInvalid);
}

const A: &str = "- [ ] **A** — DoD: x — Owner: y";

fn mark(text: &str, evidence: &str) -> Result<String, MarkError> {
    mark_done(text, 2, Digest::of(A.as_bytes()), evidence, at("2026-02-02T12:00:00Z"))
}

#[test]
fn marking_changes_one_line() {
    let done = "- [x] **A** — DoD: x — Owner: y — Done: commit abc (2026-02-02)";
    for (before, after) in [
        ("### P0\n", "\n"),
        ("### P0\r\n", "\r\nmore\r\n"),
        ("### P0\n", ""),
        ("# new line\n\n### P2\n- [x] **A**\n", "\n- [ ] **A** — DoD: other — Owner: y\n"),
        ("### P0\n```\n- [ ] **A** — DoD: x — Owner: y\n```\n", "\n\u{0}\t"),
        ("- [ ] **A** — DoD: x — Owner: y\n### P0\n", "\n"),
    ] {
        let marked = mark(&format!("{before}{A}{after}"), " commit abc ").unwrap();
        assert_eq!(marked, format!("{before}{done}{after}"));
    }
}

#[test]
fn a_line_that_is_not_what_was_taken_is_left_alone() {
    let changed = MarkError::Changed { line: 2 };
    for text in [
        "",
        "### P0\n",
        "### P0\n- [ ] **A** — DoD: x — Owner: z\n",
        "### P0\n- [x] **A** — DoD: x — Owner: y\n",
        "### P0\n- [ ] **A** — DoD: x — Owner: y \n",
        "- [ ] **A** — DoD: x — Owner: y\n",
        "### P0\n<!--\n- [ ] **A** — DoD: x — Owner: y\n-->\n",
    ] {
        assert_eq!(mark(text, "e"), Err(changed.clone()), "{text}");
    }
    assert_eq!(changed.code(), Code::BacklogLineChanged);
    assert_eq!(
        mark(&format!("### P0\n{A}\n### P1\n{A}\n"), "e"),
        Err(MarkError::Duplicated { line: 2, times: 2 })
    );
    let done = "- [x] **A**";
    assert_eq!(
        mark_done(
            &format!("### P0\n{done}\n"),
            2,
            Digest::of(done.as_bytes()),
            "e",
            at("2026-02-02T12:00:00Z")
        ),
        Err(MarkError::Done { line: 2 })
    );
    let text = format!("### P0\n{A}\n");
    for evidence in ["", "  ", "a\nb", "a\rb", "\0", "<!-- a", "a\u{2028}b", &"a".repeat(501)] {
        assert_eq!(mark(&text, evidence), Err(MarkError::Evidence), "{evidence:?}");
    }
}

/// Lines of all kinds, among them what looks like an item and is none.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => ("[-*]", "[ xX]", "[a-c]{1,2}", "(—|–|--)").prop_map(|(bullet, tick, title, dash)| {
            format!("{bullet} [{tick}] **{title}** {dash} DoD: d {dash} Owner: o")
        }),
        1 => Just("### P0".to_owned()),
        1 => Just("### P2 later".to_owned()),
        1 => Just("## Other".to_owned()),
        1 => Just("```".to_owned()),
        1 => Just("<!-- c -->".to_owned()),
        1 => Just("  - [ ] part".to_owned()),
        2 => "[^\r\n]{0,20}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases * 5 / 2, max_global_rejects: ProptestConfig::default().cases * 250, ..ProptestConfig::default() })]

    #[test]
    fn all_other_bytes_stay_as_they_are(
        lines in proptest::collection::vec((line(), prop_oneof![Just("\n"), Just("\r\n")]), 1..14),
        last_end: bool, pick in any::<proptest::sample::Index>(), evidence in "[a-zé#]{1,9}",
    ) {
        let lines = [("### P1".to_owned(), "\n")].into_iter().chain(lines);
        let mut text: String = lines.map(|(line, end)| format!("{line}{end}")).collect();
        if !last_end {
            text.truncate(text.trim_end_matches(['\r', '\n']).len());
        }
        let parsed = parse(text.as_bytes());
        prop_assume!(parsed.is_ok());
        let backlog = parsed.unwrap();
        let open: Vec<&Item> = backlog.items.iter().filter(|item| !item.done).collect();
        prop_assume!(!open.is_empty());
        let item = open[pick.index(open.len())];
        let result = mark_done(&text, item.line, item.digest, &evidence, at("2026-02-02T12:00:00Z"));
        let times = backlog.items.iter().filter(|other| other.digest == item.digest).count();
        if times > 1 {
            prop_assert_eq!(result, Err(MarkError::Duplicated { line: item.line, times }));
            return Ok(());
        }
        let marked = result.unwrap();
        let split = |text: &str| text.split_inclusive('\n').map(str::to_owned).collect::<Vec<_>>();
        let (before, after) = (split(&text), split(&marked));
        prop_assert_eq!(before.len(), after.len());
        for (number, (before, after)) in (1..).zip(before.iter().zip(&after)) {
            if number == item.line {
                let content = before.trim_end_matches(['\r', '\n']);
                let end = &before[content.len()..];
                let ticked = content.replacen("[ ]", "[x]", 1);
                prop_assert_eq!(after, &format!("{ticked} — Done: {evidence} (2026-02-02){end}"));
            } else {
                prop_assert_eq!(before, after);
            }
        }
        let again = parse(marked.as_bytes()).unwrap();
        prop_assert_eq!(again.items.len(), backlog.items.len());
        for (before, after) in backlog.items.iter().zip(&again.items) {
            if before.line == item.line {
                prop_assert!(after.done);
                prop_assert_eq!(&after.title, &before.title);
            } else {
                prop_assert_eq!(before, after);
            }
        }
    }

    #[test]
    fn no_text_makes_it_fail_in_another_way(text in any::<String>(), wild in "[-#*\\[\\]x P0`~<!>—\r\n]{0,80}") {
        for text in [text, format!("### P0\n{wild}")] {
            if let Ok(backlog) = parse(text.as_bytes()) {
                for item in &backlog.items {
                    prop_assert!(item.line <= text.split_inclusive('\n').count());
                }
            }
        }
    }
}
