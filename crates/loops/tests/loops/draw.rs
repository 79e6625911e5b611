//! The pictures: as they were last looked at, within 80 columns, well formed, and harmless.

use crate::plans;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::json;
use windlass_kernel::run::plan::{Doer, PhaseCondition, Plan, Reviewer};
use windlass_loops::draw::{self, Colours};
use windlass_loops::{KnownNames, LoopFile};

fn shipped(name: &str) -> Plan {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/loops/good");
    let file = format!("{name}.md");
    let bytes = std::fs::read(folder.join(&file)).unwrap();
    let expected: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&std::fs::read(folder.join("expected.json")).unwrap()).unwrap();
    let plan: Plan = serde_json::from_value(expected[&file]["plan"].clone()).unwrap();
    let (mut agents, mut builtins) = (BTreeSet::new(), BTreeSet::new());
    let checks = plan.phases.iter().flat_map(|phase| &phase.checks).map(|check| &check.doer);
    for doer in plan.phases.iter().map(|phase| &phase.doer).chain(checks) {
        match doer {
            Doer::Agent { agent, .. } => drop(agents.insert(agent.clone())),
            Doer::Builtin { name, .. } => drop(builtins.insert(name.clone())),
            Doer::Consensus { reviewers, .. } => {
                let names = reviewers.iter().filter_map(|reviewer| match reviewer {
                    Reviewer::Agent { agent, .. } => Some(agent.clone()),
                    Reviewer::Person { .. } => None,
                });
                agents.extend(names);
            }
            Doer::Command { .. } | Doer::Person { .. } => {}
        }
    }
    let known = KnownNames { agents: &agents, builtins: &builtins };
    assert_eq!(LoopFile::parse(&file, &bytes, &known).unwrap().plan, plan);
    plan
}

/// A plan of phases that only have names and needs.
fn graph(phases: &[(&str, &[&str])]) -> Plan {
    let phases = phases.iter().map(|(id, needs)| {
        json!({
            "branch": false, "checks": [], "gate": null, "outputs": [], "when": { "if": "always" },
            "doer": { "by": "agent", "agent": "x", "prompt": null }, "id": id, "needs": needs,
        })
    });
    serde_json::from_value(json!({
        "budget": {}, "checkpoints": true, "governance": { "compliance": [], "gates": [] },
        "variant": null, "concurrency": "parallel", "hold": { "approvals": 1, "expires_ms": null, "retries": 3, "starter_counts": false },
        "id": "graph", "on_restart": "resume", "require": [], "title": "A graph", "version": "1",
        "phases": phases.collect::<Vec<_>>(),
    }))
    .unwrap()
}

/// Whether the picture is the one in the file; what there is lies beside the build when it is not.
fn is_as_before(name: &str, actual: &str) -> bool {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/loops/snapshots");
    let expected = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    std::fs::write(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name), actual).unwrap();
    expected == actual
}

fn fits(text: &str) -> bool {
    text.lines().all(|line| line.chars().count() <= 80)
}

#[test]
fn the_shipped_shapes_look_as_they_should() {
    let mut wrong = Vec::new();
    for name in ["spine", "driver", "branches"] {
        let plan = shipped(name);
        let text = draw::text(&plan, Colours::None);
        assert!(fits(&text), "{text}");
        let pictures = [("txt", text), ("mmd", draw::mermaid(&plan)), ("svg", draw::svg(&plan))];
        for (kind, picture) in pictures {
            let file = format!("{name}.{kind}");
            if !is_as_before(&file, &picture) {
                wrong.push(file);
            }
        }
    }
    let folder = env!("CARGO_TARGET_TMPDIR");
    assert_eq!(wrong, Vec::<String>::new(), "compare {folder} with tests/snapshots");
}

#[test]
fn lines_can_be_followed() {
    let plan = graph(&[
        ("start", &[]),
        ("one", &["start"]),
        ("two", &["start"]),
        ("three", &["start"]),
        ("left", &["one", "two"]),
        ("right", &["two", "three"]),
        ("end", &["left", "right", "start"]),
    ]);
    let text = draw::text(&plan, Colours::None);
    assert!(is_as_before("crossing.txt", &text), "{text}");
}

#[test]
fn a_wide_graph_is_a_list() {
    let names: Vec<String> = (0..30).map(|at| format!("branch-number-{at}")).collect();
    let phases: Vec<(&str, &[&str])> = names.iter().map(|name| (name.as_str(), &[][..])).collect();
    let text = draw::text(&graph(&phases), Colours::None);
    assert!(fits(&text) && text.contains("30 branch-number-29"), "{text}");
    assert!(!text.contains('┌'), "{text}");
}

#[test]
fn the_largest_plan_is_drawn() {
    let names: Vec<String> = (0..10_000).map(|at| format!("p{at}")).collect();
    let mut needs: Vec<Vec<&str>> = vec![Vec::new()];
    for name in &names[..9_999] {
        needs.push(vec![name, "p0"]);
    }
    let phases: Vec<(&str, &[&str])> =
        names.iter().zip(&needs).map(|(name, needs)| (name.as_str(), needs.as_slice())).collect();
    let plan = graph(&phases);
    assert!(draw::text(&plan, Colours::None).contains("p9999"));
    assert!(draw::svg(&plan).ends_with("</svg>\n"));
    assert!(draw::mermaid(&plan).contains("p9998 --> p9999"));
}

#[test]
fn colours_change_no_letter() {
    let plan = shipped("spine");
    let coloured = draw::text(&plan, Colours::Ansi);
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    assert_eq!(plain, draw::text(&plan, Colours::None));
    assert!(coloured.contains("\u{1b}[33m"));
}

#[test]
fn hostile_text_is_harmless() {
    let hostile = "\u{1b}[31m</text><script>\"'&]]>\n\0\u{202e}\u{ffff}|#quot;";
    let mut plan = shipped("spine");
    plan.title = hostile.to_owned();
    for phase in &mut plan.phases {
        phase.id = format!("{hostile}{}", phase.id);
        phase.doer = Doer::Person { approvals: 1, question: hostile.to_owned() };
        phase.when =
            PhaseCondition::Fact { fact: hostile.to_owned(), one_of: vec![hostile.to_owned()] };
    }
    let text = draw::text(&plan, Colours::None);
    assert!(text.chars().all(|char| char == '\n' || !char.is_control()), "{text:?}");
    assert!(fits(&text), "{text}");
    let svg = draw::svg(&plan);
    assert!(!svg.contains("<script") && !svg.contains('\u{1b}') && !svg.contains('\u{ffff}'));
    assert_eq!(well_formed(&svg), Ok(()));
    let mermaid = draw::mermaid(&plan);
    assert!(!mermaid.contains("<script") && !mermaid.contains("#quot"), "{mermaid}");
    assert!(mermaid.lines().skip(1).all(|line| line.starts_with("    p")), "{mermaid}");
}

/// Whether every element is closed in order, attributes are quoted, and no bare `&` stands there.
fn well_formed(xml: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some((text, after)) = rest.split_once('<') {
        entities(text)?;
        if open.is_empty() && !text.trim().is_empty() {
            return Err(format!("text outside: {text}"));
        }
        let (tag, after) = after.split_once('>').ok_or("a tag is not closed")?;
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("`{name}` is closed and not open"));
            }
            continue;
        }
        let is_closed = tag.ends_with('/');
        let tag = tag.trim_end_matches('/');
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let parts: Vec<&str> = attributes.split('"').collect();
        let is_quoted =
            parts.len() % 2 == 1 && parts.last().is_some_and(|last| last.trim().is_empty());
        if !is_quoted || tag.contains('<') {
            return Err(format!("quotes: {tag}"));
        }
        for pair in parts.chunks(2).filter(|pair| pair.len() == 2) {
            let name = pair[0].trim().strip_suffix('=').ok_or(format!("no `=`: {tag}"))?;
            if name.is_empty() || !name.chars().all(|char| char.is_alphanumeric() || char == '-') {
                return Err(format!("attribute: {tag}"));
            }
            entities(pair[1])?;
        }
        if !is_closed {
            open.push(name);
        }
    }
    if open.is_empty() && rest.trim().is_empty() { Ok(()) } else { Err(format!("open: {open:?}")) }
}

fn entities(text: &str) -> Result<(), String> {
    for after in text.split('&').skip(1) {
        let name = after.split_once(';').ok_or(format!("bare &: {text}"))?.0;
        if !["amp", "lt", "gt", "quot", "#39"].contains(&name) {
            return Err(format!("entity: {name}"));
        }
    }
    let allowed = |char: char| char == '\n' || !char.is_control();
    if text.chars().all(allowed) { Ok(()) } else { Err(format!("control: {text:?}")) }
}

#[test]
fn the_check_for_well_formed_svg_can_fail() {
    for bad in ["<a>", "<a></b>", "<a b=c/>", "<a>&</a>", "<a b=\"x/>", "x", "<a>\u{1b}</a>"] {
        assert!(well_formed(bad).is_err(), "{bad}");
    }
    assert_eq!(well_formed("<a b=\"c\"><d/>&amp;</a>"), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases * 3 / 16, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_plan_has_pictures(plan in plans::plan()) {
        let text = draw::text(&plan, Colours::None);
        prop_assert!(fits(&text), "{}", text);
        for phase in &plan.phases {
            let start: String = phase.id.chars().take(20).collect();
            prop_assert!(text.contains(&start), "{}", text);
        }
        prop_assert_eq!(well_formed(&draw::svg(&plan)), Ok(()));
        let edges: usize = plan.phases.iter().map(|phase| phase.needs.len()).sum();
        prop_assert_eq!(draw::mermaid(&plan).matches(" --> ").count(), edges);
    }
}
