//! Workflow files, and folders of them.

use std::collections::{BTreeMap, BTreeSet};

use windlass_kernel::Code;
use windlass_loops::{
    CHAIN_MAX, Category, Gate, LoopError, PlannedStep, STEPS_MAX, WorkflowFile, Workflows,
    render_plan,
};

/// A workflow with steps `(id, link)`.
fn workflow(id: &str, gates: &str, steps: &[(&str, Option<&str>)]) -> String {
    let links: BTreeSet<&str> = steps.iter().filter_map(|(_, link)| *link).collect();
    let dependencies = links.into_iter().collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "---\nid: {id}\ntitle: Title of {id}\ntype: workflow\ncategory: development\n\
         dependencies: [{dependencies}]\ngates: [{gates}]\nsteps:\n"
    );
    for (step, link) in steps {
        let link = link.map_or_else(|| "null".to_owned(), |link| format!("\"[[{link}]]\""));
        text.push_str(&format!(
            "  - id: {step}\n    name: Do {step}\n    workflow: {link}\n    \
             description: What {step} does.\n"
        ));
    }
    text.push_str(
        "---\n\n# Title\n\n## Overview\n\nText.\n\n## When to Use\n\nText.\n\n## Steps\n",
    );
    for (number, (step, _)) in (1..).zip(steps) {
        text.push_str(&format!("\n### {number}. Do {step}\n\nInstructions of {step}.\n"));
    }
    text.push_str("\n## Success Metrics\n\n- Done.\n");
    text
}

fn parse(text: &str) -> Result<WorkflowFile, LoopError> {
    WorkflowFile::parse("workflows/review.md", text.as_bytes())
}

fn review() -> String {
    workflow("review", "critic_feedback, convergence", &[("collect", None), ("repeat", Some("b"))])
}

fn index(tree: &[&str], table: &[&str]) -> String {
    let mut text = "# Workflows\n\n| id | purpose |\n|---|---|\n".to_owned();
    table.iter().for_each(|id| text.push_str(&format!("| {id} | text |\n")));
    text.push_str("\n| gate | met when |\n|---|---|\n| tdd | never |\n\n");
    for (number, id) in (1..).zip(tree) {
        text.push_str(&format!("{number}. The request is of kind {id} -> [[{id}]]\n"));
    }
    text
}

fn folder(files: &[(&str, String)]) -> BTreeMap<String, Vec<u8>> {
    files.iter().map(|(name, text)| (format!("{name}.md"), text.clone().into_bytes())).collect()
}

/// A folder whose tree and table have all its workflows.
fn complete(files: &[(&str, String)]) -> BTreeMap<String, Vec<u8>> {
    let ids: Vec<&str> = files.iter().map(|(id, _)| *id).collect();
    let mut folder = folder(files);
    folder.insert("WORKFLOWS.md".to_owned(), index(&ids, &ids).into_bytes());
    folder
}

fn refused(files: &BTreeMap<String, Vec<u8>>) -> LoopError {
    let error = Workflows::load(files).unwrap_err();
    assert_eq!(error.code(), Code::LoopInvalid);
    assert!(!error.hint().is_empty());
    error
}

#[test]
fn a_workflow_is_read_with_the_instructions_of_its_steps() {
    let file = parse(&review()).unwrap();
    assert_eq!((file.id.as_str(), file.title.as_str()), ("review", "Title of review"));
    assert_eq!(file.category, Category::Development);
    assert_eq!(file.gates, BTreeSet::from([Gate::CriticFeedback, Gate::Convergence]));
    assert_eq!(file.dependencies, BTreeSet::from(["b".to_owned()]));
    let steps: Vec<_> = file
        .steps
        .iter()
        .map(|step| (step.id.as_str(), step.workflow.as_deref(), step.instructions.as_str()))
        .collect();
    let expected = [
        ("collect", None, "Instructions of collect."),
        ("repeat", Some("b"), "Instructions of repeat."),
    ];
    assert_eq!(steps, expected);
}

#[test]
fn headings_in_code_blocks_are_text() {
    let block = "Instructions of collect.\n\n```sh\n## Not a section\n### Not a step\n```";
    let file = parse(&review().replace("Instructions of collect.", block)).unwrap();
    assert_eq!(file.steps[0].instructions, block);
}

#[test]
fn every_other_frontmatter_and_body_is_refused_with_its_place() {
    let cases: [(&str, &str, usize, &str); 30] = [
        ("id: review", "id: other", 2, "the file is named `review`"),
        ("title: Title of review", "title: ''", 3, "`title` is empty"),
        ("type: workflow", "type: loop", 4, "`type` must be one of `workflow`"),
        ("category: development", "category: dev", 5, "`category` must be one of"),
        ("dependencies: [b]", "dependencies: []", 6, "links to `b`, which is not in"),
        ("dependencies: [b]", "dependencies: [b, c]", 6, "no step links to the dependency `c`"),
        ("dependencies: [b]", "dependencies: [b, b]", 6, "the dependency `b` appears twice"),
        ("dependencies: [b]", "dependencies: b", 6, "`dependencies` must be a list"),
        ("dependencies: [b]", "dependencies: [B]", 6, "cannot be a workflow's id"),
        ("dependencies: [b]\n", "", 2, "a workflow needs the key `dependencies`"),
        ("[critic_feedback, ", "[critic, ", 7, "`gates` must be one of"),
        ("[critic_feedback, ", "[convergence, ", 7, "the gate `convergence` appears twice"),
        ("gates: [critic_feedback, convergence]\n", "", 2, "needs the key `gates`"),
        ("gates:", "version: 1\ngates:", 7, "a workflow has no key `version`"),
        ("id: repeat", "id: collect", 13, "the step `collect` appears twice"),
        ("    workflow: null\n", "", 9, "a step needs the key `workflow`"),
        ("\"[[b]]\"", "b", 15, "must be null or a link to a workflow, not `b`"),
        ("\"[[b]]\"", "[[b]]", 15, "`workflow` must be null or a link in quotes"),
        ("\"[[b]]\"", "\"[[b]] \"", 15, "must be null or a link"),
        ("    workflow: null\n", "    workflow: null\n    text: a\n", 12, "a step has no key"),
        ("## Overview\n", "## Summary\n", 21, "a workflow has no section `## Summary`"),
        ("## Overview\n\nText.\n", "", 22, "must be the section `## Overview`"),
        ("\nText.\n\n## When", "\n## When", 21, "no text below the heading `Overview`"),
        ("## When to Use", "## Overview", 25, "the section `Overview` appears twice"),
        ("\n## Success Metrics\n\n- Done.\n", "", 18, "`## Success Metrics` is missing"),
        ("- Done.\n", "", 39, "no text below the heading `Success Metrics`"),
        ("### 2. Do repeat", "### 3. Do repeat", 35, "must be `### 2. Do repeat`"),
        ("\n### 2. Do repeat\n\nInstructions of repeat.\n", "", 29, "has no heading `### 2."),
        ("Instructions of collect.\n", "", 31, "no text below the heading `1. Do collect`"),
        ("\n## Success", "\n### 3. More\n\nText.\n\n## Success", 39, "`3. More` belongs to no"),
    ];
    for (from, to, line, message) in cases {
        assert!(review().contains(from), "{from}");
        let error = match parse(&review().replacen(from, to, 1)) {
            Ok(file) => panic!("{to}: {file:?}"),
            Err(error) => error,
        };
        assert!(error.message().contains(message), "{to}: {error}");
        assert_eq!(error.location.line, line, "{to}: {error}");
        assert_eq!(error.code(), Code::LoopInvalid);
        assert!(!error.hint().is_empty(), "{to}");
    }
}

#[test]
fn the_number_of_steps_is_limited() {
    let ids: Vec<String> = (0..=STEPS_MAX).map(|number| format!("s{number}")).collect();
    let steps: Vec<(&str, Option<&str>)> = ids.iter().map(|id| (id.as_str(), None)).collect();
    parse(&workflow("review", "", &steps[1..])).unwrap();
    let error = parse(&workflow("review", "", &steps)).unwrap_err();
    assert!(error.message().contains("more than 50"), "{error}");
    let none = workflow("review", "", &[]).replace("steps:\n", "steps: []\n");
    assert!(parse(&none).unwrap_err().message().contains("no entries"));
}

#[test]
fn workflows_are_composed_in_order_with_their_gates() {
    let files = complete(&[
        ("feature", workflow("feature", "qa", &[("plan", None), ("review", Some("review"))])),
        ("review", workflow("review", "convergence", &[("read", None), ("fix", Some("fix"))])),
        ("fix", workflow("fix", "tdd", &[("test", None)])),
    ]);
    let workflows = Workflows::load(&files).unwrap();
    let plan = workflows.compose("feature").unwrap();
    let short: Vec<_> =
        plan.iter().map(|step| (step.id.as_str(), step.workflow.as_str(), step.depth)).collect();
    let expected = [
        ("plan", "feature", 0),
        ("review", "feature", 0),
        ("review/read", "review", 1),
        ("review/fix", "review", 1),
        ("review/fix/test", "fix", 2),
    ];
    assert_eq!(short, expected);
    let gates = BTreeSet::from([Gate::Qa, Gate::Convergence, Gate::Tdd]);
    assert_eq!(workflows.gates("feature"), Some(gates));
    assert_eq!(workflows.gates("fix"), Some(BTreeSet::from([Gate::Tdd])));
    assert_eq!((workflows.compose("none"), workflows.gates("none")), (None, None));
    assert_eq!(workflows.decision_tree(), ["feature", "review", "fix"]);
    assert_eq!(
        render_plan(&plan),
        "1. [ ] Do plan (`plan`): What plan does.\n\
         2. [ ] Do review (`review`): What review does.\n    \
         1. [ ] Do read (`review/read`): What read does.\n    \
         2. [ ] Do fix (`review/fix`): What fix does.\n        \
         1. [ ] Do test (`review/fix/test`): What test does.\n"
    );
}

#[test]
fn a_plan_numbers_each_list_from_one() {
    let step = |id: &str, depth| PlannedStep {
        depth,
        description: "on\n two lines".to_owned(),
        id: id.to_owned(),
        name: "N".to_owned(),
        workflow: "w".to_owned(),
    };
    let text = render_plan(&[step("a", 0), step("a/x", 1), step("b", 0), step("b/x", 1)]);
    let starts: Vec<&str> = text.lines().filter_map(|line| line.split(" [").next()).collect();
    assert_eq!(starts, ["1.", "    1.", "2.", "    1."]);
    assert!(text.contains("on two lines\n"));
}

#[test]
fn a_link_without_a_target_is_refused_where_it_stands() {
    let error = refused(&complete(&[("a", workflow("a", "", &[("s", Some("b"))]))]));
    assert_eq!(error.to_string(), "a.md:11:15: there is no workflow `b`");
}

#[test]
fn a_cycle_is_refused_with_the_whole_chain() {
    let own = refused(&complete(&[("a", workflow("a", "", &[("s", Some("a"))]))]));
    assert!(own.message().ends_with("in a cycle: a -> a"), "{own}");
    let three = refused(&complete(&[
        ("a", workflow("a", "", &[("s", None), ("t", Some("b"))])),
        ("b", workflow("b", "", &[("s", Some("c"))])),
        ("c", workflow("c", "", &[("s", Some("a"))])),
    ]));
    assert_eq!(
        three.to_string(),
        "a.md:15:15: the workflows link to each other in a cycle: a -> b -> c -> a"
    );
}

#[test]
fn the_length_of_a_chain_and_of_a_plan_is_limited() {
    let names: Vec<String> = (0..=CHAIN_MAX).map(|number| format!("w{number}")).collect();
    let chain = |count: usize| -> Vec<(&str, String)> {
        let link = |at: usize| names.get(at + 1).filter(|_| at + 1 < count).map(String::as_str);
        let of = |at: usize| workflow(&names[at], "", &[("s", link(at))]);
        (0..count).map(|at| (names[at].as_str(), of(at))).collect()
    };
    let deep = Workflows::load(&complete(&chain(CHAIN_MAX))).unwrap();
    assert_eq!(deep.compose("w0").unwrap().len(), CHAIN_MAX);
    let error = refused(&complete(&chain(CHAIN_MAX + 1)));
    let expected = "more than 8 deep: w0 -> w1 -> w2 -> w3 -> w4 -> w5 -> w6 -> w7 -> w8";
    assert!(error.message().ends_with(expected), "{error}");

    let ids: Vec<String> = (0..STEPS_MAX).map(|number| format!("s{number}")).collect();
    let fifty = |link| ids.iter().map(|id| (id.as_str(), link)).collect::<Vec<_>>();
    let error = refused(&complete(&[
        ("a", workflow("a", "", &fifty(Some("b")))),
        ("b", workflow("b", "", &fifty(None))),
    ]));
    assert!(error.message().contains("`a` has more than 1000 steps"), "{error}");
}

#[test]
fn the_index_has_every_workflow_and_no_other() {
    let a = || ("a", workflow("a", "", &[("s", Some("b"))]));
    let b = || ("b", workflow("b", "", &[("s", None)]));
    let load = |text: String| {
        let mut files = folder(&[a(), b()]);
        files.insert("WORKFLOWS.md".to_owned(), text.into_bytes());
        Workflows::load(&files)
    };
    // `b` is part of `a`, so that the tree need not have it.
    load(index(&["a"], &["a", "b"])).unwrap();
    load(index(&["a"], &["[[a]]", "`b`"])).unwrap();
    let cases = [
        (index(&["b"], &["a", "b"]), 1, "the workflow `a` can never be chosen"),
        (index(&["a", "c"], &["a", "b"]), 13, "there is no workflow `c`"),
        (index(&["a"], &["a", "b", "c"]), 7, "there is no workflow `c`"),
        (index(&["a"], &["a"]), 1, "the workflow `b` is not in a table"),
        (index(&["a"], &["a", "b", "a"]), 7, "the workflow `a` appears twice"),
        (index(&[], &["a", "b"]), 1, "the decision tree is missing"),
        (index(&["a"], &["a", "b"]).replace("-> [[a]]", "-> a"), 12, "must end with"),
        (index(&["a"], &["a", "b"]).replace("[[a]]", "[[a]]."), 12, "must end with"),
        (index(&["a", "a"], &["a", "b"]).replace("\n2.", "\n3."), 13, "must have the number 2"),
        (index(&["a"], &["a", "b"]).replace("\n1.", "\n```\n1.") + "```\n", 1, "tree is missing"),
    ];
    for (text, line, message) in cases {
        let error = load(text.clone()).unwrap_err();
        assert!(error.message().contains(message), "{error}\n{text}");
        assert_eq!(error.location.line, line, "{error}\n{text}");
        assert_eq!(error.location.file, "WORKFLOWS.md");
        assert!(!error.hint().is_empty());
    }
    assert!(refused(&folder(&[a(), b()])).message().contains("no `WORKFLOWS.md`"));
}

#[test]
fn one_id_in_two_files_is_refused() {
    let mut files = complete(&[("a", workflow("a", "", &[("s", None)]))]);
    files.insert("more/a.md".to_owned(), workflow("a", "", &[("s", None)]).into_bytes());
    let error = refused(&files);
    assert_eq!(error.to_string(), "more/a.md:1:1: the workflow `a` is also in the file `a.md`");
}
