//! `windlass policy`.

use serde_json::{Value, json};

use crate::e2e::snapshot::check;
use crate::harness::{Outcome, Place, text_of, vectors};

#[test]
fn the_shipped_policy_is_good() {
    let place = Place::with_project();
    let outcomes = [
        place.run(&["policy", "check"]).exit(0).quiet(),
        place.run(&["policy", "test"]).exit(0).quiet(),
        place.run(&["policy", "hash"]).exit(0).quiet(),
    ];
    check("policy", &place, &outcomes);
    let json = place.run(&["policy", "check", "--json"]).exit(0).quiet().json();
    assert_eq!(json["cases"], 7);
    let test = place.run(&["policy", "test", "--json"]).exit(0).quiet().json();
    assert_eq!(test, json!({ "file": null, "passed": true, "cases": 7 }));
    assert!(json["rules"].as_array().unwrap().len() > 20);
    let hash = place.run(&["policy", "hash", "--json"]).exit(0).quiet().json();
    assert_eq!(hash["policy_hash"], json["policy_hash"]);
    let files = [
        "agents/advocate.md",
        "agents/analyst.md",
        "agents/architect.md",
        "agents/builder.md",
        "agents/critic.md",
        "agents/custodiet.md",
        "agents/data-engineer.md",
        "agents/designer.md",
        "agents/developer.md",
        "agents/documenter.md",
        "agents/executor.md",
        "agents/framework.md",
        "agents/helper.md",
        "agents/hygienist.md",
        "agents/prompt-hydrator.md",
        "agents/qa-engineer.md",
        "agents/qa-verifier.md",
        "agents/reviewer.md",
        "agents/security-engineer.md",
        "agents/skeptic.md",
        "agents/worker.md",
        "config.toml",
        "core/AXIOMS.md",
        "core/hydration-context.md",
        "loops/core.md",
        "loops/driver.md",
        "loops/driver/intents.toml",
        "loops/driver/models.toml",
        "loops/driver/profiles.toml",
        "loops/driver/routing.toml",
        "loops/driver/verification.toml",
        "loops/insights.md",
        "loops/phases.md",
        "loops/spine.md",
        "policy/default.toml",
        "policy/governance/universal.toml",
        "tools.toml",
        "workflows/WORKFLOWS.md",
        "workflows/batch-processing.md",
        "workflows/debugging.md",
        "workflows/direct-skill.md",
        "workflows/feature-dev.md",
        "workflows/minor-edit.md",
        "workflows/qa-demo.md",
        "workflows/simple-question.md",
        "workflows/spec-review.md",
        "workflows/tdd-cycle.md",
    ];
    assert_eq!(hash["files"], json!(files.as_slice()));
}

/// A name, a file, what stands in it, and what is said about it.
const BROKEN: &[(&str, &str, &str)] = &[
    (".windlass/policy/mine.toml", "[[rule]\n", "policy/mine.toml:1:"),
    (".windlass/policy/mine.toml", "\n[[rule]]\nid = \"a\"\nwat = 1\n", "policy/mine.toml:4:1"),
    (".windlass/policy/mine.toml", "[[rule]]\nid = \"a\"\nverdict = \"maybe\"\n", "mine.toml:3:"),
    (
        ".windlass/policy/mine.toml",
        "[[rule]]\nid = \"a\"\nverdict = \"allow\"\nreason = \"r\"\ntool = \"no/such\"\n\
         matches = [{ tool = \"no/such\", args = {} }]\n",
        "matches no registered tool",
    ),
    (
        ".windlass/policy/mine.toml",
        "[[rule]]\nid = \"look-around\"\nverdict = \"allow\"\nreason = \"r\"\ntool = \"shell/read\"\n\
         matches = [{ tool = \"shell/read\", args = { line = \"ls\" } }]\n",
        "`look-around` is already used",
    ),
    (
        ".windlass/policy/mine.toml",
        "[[rule]]\nid = \"a\"\nverdict = \"deny\"\nreason = \"r\"\ntool = \"shell/run\"\n\
         command = \"ls *\"\nmatches = [{ tool = \"shell/run\", args = { line = \"cat\" } }]\n",
        "does not match this example",
    ),
    (
        ".windlass/policy/mine.toml",
        "[[case]]\nname = \"wrong\"\ntool = \"shell/read\"\nargs = { line = \"ls\" }\nverdict = \"deny\"\n",
        "policy/mine.toml:1:1",
    ),
    (".windlass/tools.toml", "[server.x]\nconnector = \"carrier-pigeon\"\n", "tools.toml:2:"),
    (".windlass/tools.toml", "[server.x]\nconnector = \"mcp-stdio\"\n", "needs `command`"),
    (
        ".windlass/tools.toml",
        "[server.x]\nconnector = \"command\"\n[server.x.tool.a]\nclass = \"mild\"\nargv = [\"a\"]\n",
        "tools.toml:4:",
    ),
];

#[test]
fn a_broken_policy_is_named_by_file_line_and_column() {
    let mut outcomes: Vec<Outcome> = Vec::new();
    let place = Place::with_project();
    let tools = place.read(".windlass/tools.toml");
    for (file, text, part) in BROKEN {
        place.write(".windlass/tools.toml", &tools);
        place.write(file, text);
        let outcome = place.run(&["policy", "check"]).fails_with(2, "POLICY_INVALID");
        let outcome = outcome.warns(part).warns("hint: ");
        let place_of = outcome.stderr.split(": ").nth(1).unwrap_or_default();
        assert_eq!(place_of.split(':').count(), 3, "{outcome}");
        // With a policy that cannot be read nothing is done, and doctor says why.
        place.shell("shell/read", "ls", &[]).fails_with(2, "POLICY_INVALID");
        place.run(&["doctor"]).exit(1).says("[POLICY_INVALID]");
        outcomes.push(outcome);
        drop(std::fs::remove_file(place.work().join(file)));
    }
    check("policy_broken", &place, &outcomes);
    place.write(".windlass/tools.toml", &tools);
    assert_eq!(place.ids(), [""; 0]);
    place.write(".windlass/policy/mine.toml", [0xff, 0xfe]);
    place.run(&["policy", "check"]).fails_with(2, "POLICY_INVALID").warns("UTF-8");
}

#[test]
fn the_hash_covers_what_decides_and_nothing_else() {
    let place = Place::with_project();
    let hash = || place.run(&["policy", "hash"]).exit(0).text().to_owned();
    let mut seen = vec![hash()];
    let same = |seen: &[String], why: &str| assert_eq!(Some(&hash()), seen.last(), "{why}");
    place.write("note", "x");
    place.write(".windlass/.gitignore", "*");
    place.write(".windlass/notes.txt", "x");
    place.write(".windlass/blobs/x", "x");
    place.completed();
    same(&seen, "what does not decide");
    for file in [
        ".windlass/config.toml",
        ".windlass/tools.toml",
        ".windlass/policy/default.toml",
        ".windlass/policy/deep/er/notes.md",
        ".windlass/loops/a.md",
        ".windlass/agents/b.md",
    ] {
        let path = place.work().join(file);
        let old = if path.exists() { place.read(file) } else { String::new() };
        place.write(file, format!("{old}\n# a word more"));
        let new = hash();
        assert!(!seen.contains(&new), "{file} does not count");
        seen.push(new);
    }
    std::fs::remove_file(place.work().join(".windlass/agents/b.md")).unwrap();
    place.trust();
    assert_eq!(hash(), seen[seen.len() - 2]);
    // The hash is recorded with each decision.
    let id = place.completed();
    place.run(&["trace", "log", &id, "--artifacts"]).exit(0).says(hash().trim());
}

#[test]
fn explain_agrees_with_the_tricks() {
    let place = Place::with_project();
    for (file, every) in [("policy/shell_tricks.json", 12), ("policy/path_tricks.json", 5)] {
        let tricks = vectors(file);
        let tricks = tricks.as_array().unwrap().iter().step_by(every);
        // Their workspace is `/workspace`; this one is not.
        for trick in tricks.filter(|trick| !text_of(trick, "line").contains("workspace")) {
            let tool = format!("shell/{}", trick["tool"].as_str().unwrap_or("run"));
            let args = json!({ "line": trick["line"] }).to_string();
            let words = ["policy", "explain", &tool, "--args", &args];
            let judged = place.run(&[&words[..], &["--json"]].concat()).exit(0).quiet().json();
            assert_eq!(judged["verdict"], trick["verdict"], "{trick}: {judged}");
            place.run(&words).exit(0).says(&format!("{}: ", text_of(trick, "verdict")));
        }
    }
    assert_eq!(place.ids(), [""; 0], "explaining records nothing");
}

#[test]
fn explain_names_rules_and_codes() {
    let place = Place::with_project();
    let explain = |words: &[&str]| place.run(&[&["policy", "explain"], words].concat()).exit(0);
    let outcomes = [
        explain(&["shell/run", "--args", r#"{"line":"ls && git push --force"}"#]),
        explain(&["shell/read", "--args", r#"{"line":"cat .env > /tmp/x"}"#]),
        explain(&["shell/run", "--args", r#"{"line":"ls $X"}"#]),
        explain(&["shell/run", "--args", r#"{"line":"ls"}"#, "--no-key"]),
        explain(&["shell/run", "--args", r#"{"line":"ls"}"#, "--class", "read"]),
        explain(&["shell/walk"]),
    ];
    check("policy_explain", &place, &outcomes);
    place.run(&["policy", "explain", "shell/run", "--args", "{"]).fails_with(2, "JSON_INVALID");
    place.run(&["policy", "explain", "shell"]).fails_with(2, "REQUEST_INVALID");
}

#[test]
fn cases_of_a_file_are_run() {
    let place = Place::with_project();
    let case = |name: &str, verdict: &str| {
        format!(
            "[[case]]\nname = \"{name}\"\ntool = \"shell/read\"\nargs = {{ line = \"ls\" }}\n\
             verdict = \"{verdict}\"\n\n"
        )
    };
    place.write("good.toml", case("it lists", "allow"));
    place.write("bad.toml", case("it lists", "allow") + &case("it does not", "deny"));
    place.write("none.toml", "[[case]]\nnam = \"x\"\n");
    let outcomes = [
        place.run(&["policy", "test", "good.toml"]).exit(0).quiet(),
        place.run(&["policy", "test", "bad.toml"]).exit(1).quiet(),
        place.run(&["policy", "test", "none.toml"]).fails_with(2, "POLICY_INVALID"),
        place.run(&["policy", "test", "missing.toml"]).fails_with(1, "FILE_UNREADABLE"),
    ];
    check("policy_test", &place, &outcomes);
    let json = place.run(&["policy", "test", "bad.toml", "--json"]).exit(1).quiet().json();
    assert_eq!(json["passed"], false);
    let passed: Vec<&Value> =
        json["outcomes"].as_array().unwrap().iter().map(|outcome| &outcome["passed"]).collect();
    assert_eq!(passed, [&json!(true), &json!(false)]);
}
