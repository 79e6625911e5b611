//! Variants: what is left out is passed through, and every variant is a loop.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use windlass_kernel::Code;
use windlass_kernel::run::plan::Plan;
use windlass_loops::{KnownNames, LoopError, LoopFile, SelectError};

fn parse(phases: &str, variants: &str) -> Result<LoopFile, LoopError> {
    let text = format!(
        "---\nid: v\ntitle: V\ntype: loop\ncategory: c\nversion: v\non_restart: hold\n\
         phases:\n{phases}{variants}---\n"
    );
    let (agents, builtins) = (BTreeSet::new(), BTreeSet::from(["x".to_owned()]));
    LoopFile::parse("v.md", text.as_bytes(), &KnownNames { agents: &agents, builtins: &builtins })
}

fn edges(plan: &Plan) -> BTreeMap<&str, Vec<&str>> {
    let mut edges = BTreeMap::new();
    for phase in &plan.phases {
        edges.insert(phase.id.as_str(), phase.needs.iter().map(String::as_str).collect());
    }
    edges
}

/// A graph of `count` phases `pN`: each needs earlier ones, some are optional.
fn write(graph: &[(Vec<usize>, bool)]) -> String {
    let line = |(at, (needs, optional)): (usize, &(Vec<usize>, bool))| {
        let needs: BTreeSet<String> =
            needs.iter().filter(|_| at > 0).map(|need| format!("p{}", need % at)).collect();
        let needs: Vec<String> = needs.into_iter().collect();
        let needs = needs.join(", ");
        format!(
            "  - {{ id: p{at}, needs: [{needs}], optional: {optional}, doer: {{ builtin: x }} }}\n"
        )
    };
    graph.iter().enumerate().map(line).collect()
}

/// Whether there is a way from one phase to another by needs.
fn leads(edges: &BTreeMap<&str, Vec<&str>>, from: &str, to: &str) -> bool {
    edges[to].iter().any(|need| *need == from || leads(edges, from, need))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_order_of_what_is_there_stays(
        graph in vec((vec(0..100usize, 0..3), any::<bool>()), 2..9),
        include in btree_set(0..9usize, 0..5),
        exclude in btree_set(0..9usize, 0..5),
    ) {
        let name = |at: &usize| format!("p{}", at % graph.len());
        let include: BTreeSet<String> = include.iter().map(name).collect();
        let exclude: BTreeSet<String> = exclude.iter().map(name).collect();
        let exclude: BTreeSet<String> = exclude.difference(&include).cloned().collect();
        let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
        let variants = format!(
            "variants:\n  one: {{ include: [{}], exclude: [{}] }}\n", list(&include), list(&exclude)
        );
        // Everything, for comparison.
        let all = write(&graph.iter().map(|(needs, _)| (needs.clone(), false)).collect::<Vec<_>>());
        let all = parse(&all, "").unwrap().plan;
        let all = edges(&all);
        let there: BTreeSet<String> = graph.iter().enumerate().map(|(at, (_, optional))| (name(&at), *optional))
            .filter(|(id, optional)| !exclude.contains(id) && (include.contains(id) || !optional))
            .map(|(id, _)| id).collect();
        let canonical = graph.iter().any(|(_, optional)| !optional);
        let file = match parse(&write(&graph), &variants) {
            Ok(file) => file,
            Err(error) => {
                prop_assert!(error.message().contains("has no phases"), "{}", error);
                prop_assert!(!canonical || there.is_empty());
                return Ok(());
            }
        };
        let plan = file.plan_with(Some("one"), &[]).unwrap();
        prop_assert_eq!(plan.variant.as_deref(), Some("one"));
        let some = edges(&plan);
        prop_assert!(some.keys().copied().eq(there.iter().map(String::as_str)));
        for (at, phase) in plan.phases.iter().enumerate() {
            for need in &phase.needs {
                prop_assert!(plan.position(need).unwrap() < at);
            }
        }
        for one in some.keys() {
            for other in some.keys().filter(|other| *other != one) {
                prop_assert_eq!(leads(&some, one, other), leads(&all, one, other), "{} {}", one, other);
            }
        }
        prop_assert_eq!(file.plan_with(None, &[]).unwrap(), file.plan.clone());
        let with: Vec<String> = all.keys().map(|id| (*id).to_owned()).collect();
        let full = file.plan_with(Some("one"), &with).unwrap();
        prop_assert_eq!(edges(&full), all);
    }
}

const DIAMOND: &str = "  - { id: a, doer: { builtin: x } }
  - { id: b, needs: [a], optional: true, doer: { builtin: x } }
  - id: c
    needs: [b]
    optional: true
    doer: { builtin: x }
    gate: { id: g, verdicts: { ok: continue, bad: { redo: b, max: 1 } } }
  - { id: d, needs: [c, a], doer: { builtin: x } }
";

#[test]
fn what_is_asked_for_is_there_or_refused_with_a_hint() {
    let file = parse(DIAMOND, "variants:\n  full: { include: [b, c] }\n  some: { include: [b] }\n");
    let file = file.unwrap();
    let of = |variant, with: &[&str]| {
        let with: Vec<String> = with.iter().map(|name| (*name).to_owned()).collect();
        file.plan_with(variant, &with)
    };
    assert_eq!(edges(&of(None, &[]).unwrap())["d"], ["a"]);
    assert_eq!(edges(&of(Some("some"), &[]).unwrap())["d"], ["b", "a"]);
    assert_eq!(edges(&of(Some("full"), &[]).unwrap())["d"], ["c", "a"]);
    assert_eq!(of(None, &["b", "c"]).unwrap().phases, of(Some("full"), &[]).unwrap().phases);
    // What c sends back to is not there.
    let error = of(None, &["c"]).unwrap_err();
    assert_eq!(error.code(), Code::LoopInvalid);
    let text =
        "the loop `v` cannot be run like this: `redo` of `c` names `b`, which is not selected";
    assert_eq!(error.to_string(), text);
    let error = of(Some("ful"), &[]).unwrap_err();
    assert_eq!((error.code(), error.hint().as_str()), (Code::LoopNotFound, "did you mean `full`?"));
    let error = of(Some("zzzz"), &[]).unwrap_err();
    assert_eq!(error.hint(), "it has `full`, `some`");
    let error = of(None, &["zzzz"]).unwrap_err();
    assert!(matches!(error, SelectError::UnknownPhase { .. }));
    assert_eq!((error.code(), error.hint().as_str()), (Code::LoopInvalid, "it has `b`, `c`"));
    let error = parse("  - { id: a, doer: { builtin: x } }\n", "").unwrap();
    assert_eq!(error.plan_with(Some("b"), &[]).unwrap_err().hint(), "it has no variants");
}

#[test]
fn leaving_out_cannot_make_a_plan_without_bounds() {
    // 2000 × 2000 edges would come of 4000.
    let wide = |from: usize, needs: &str, optional: bool| -> String {
        let line = |at: usize| {
            format!(
                "  - {{ id: p{at}, needs: [{needs}], optional: {optional}, doer: {{ builtin: x }} }}\n"
            )
        };
        (from..from + 2000).map(line).collect()
    };
    let all: Vec<String> = (0..2000).map(|at| format!("p{at}")).collect();
    let middle = format!(
        "  - {{ id: m, needs: [{}], optional: true, doer: {{ builtin: x }} }}\n",
        all.join(", ")
    );
    let text = wide(0, "", false) + &middle + &wide(2000, "m", false);
    let error = parse(&text, "").unwrap_err();
    assert_eq!(error.message(), "the loop without a variant has more than 2000000 edges");
}
