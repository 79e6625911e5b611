//! `list` and `search`: what they show, in which order, compared with other programs.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;

use crate::common::{OUTPUT_BYTES_MAX, World};
use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_files::FileTool::{List, Read, Search};
use windlass_files::Files;

fn paths(result: &Value) -> Vec<String> {
    let entries = result["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["path"].as_str().unwrap().to_owned()).collect()
}

/// All files that a search by name finds.
fn found_files(world: &World) -> BTreeSet<String> {
    let result = world.done(Search, &json!({ "glob": "**", "limit": 1000 }));
    assert_eq!(result.get("truncated"), None);
    result["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| path.as_str().unwrap().to_owned())
        .collect()
}

fn output(world: &World, program: &str, args: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new(program)
        .args(args)
        .current_dir(&world.root)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output();
    match output {
        Ok(output) => Some(output.stdout),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("{error}"),
    }
}

fn names(output: &[u8]) -> BTreeSet<String> {
    let names = output.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| String::from_utf8(name.to_vec()).unwrap()).collect()
}

/// A tree with ignore rules of all kinds.
fn ignoring() -> World {
    let world = World::new();
    assert!(output(&world, "git", &["init", "-q"]).is_some());
    world.put(".gitignore", "*.log\n/target/\nbuild\n!keep.log\n# note\n\\#odd\ndoc/*.txt\n**/deep/x\nsp\\ ace\n[ab].tmp\n");
    world.put("sub/.gitignore", "!debug.log\n/only-here\n*.rs\n!lib.rs\n");
    world.put("sub/inner/.gitignore", "*\n!.gitignore\n!kept/\n!kept/**\n");
    std::fs::create_dir_all(world.path(".git/info")).unwrap();
    world.put(".git/info/exclude", "excluded\n");
    for path in [
        "a.log",
        "keep.log",
        "target/x",
        "sub/target/y",
        "build",
        "sub/build/z",
        "#odd",
        "doc/a.txt",
        "doc/b/a.txt",
        "doc/a.md",
        "p/deep/x",
        "p/deep/y",
        "sp ace",
        "a.tmp",
        "c.tmp",
        "sub/debug.log",
        "sub/other.log",
        "sub/only-here",
        "only-here",
        "sub/main.rs",
        "sub/lib.rs",
        "main.rs",
        "sub/inner/one",
        "sub/inner/kept/two",
        "excluded",
        "sub/excluded/x",
        ".hidden",
        ".github/ci.yml",
        "normal",
    ] {
        world.put(path, "needle\n");
    }
    world
}

#[test]
fn git_ignores_the_same_files() {
    let world = ignoring();
    let git =
        output(&world, "git", &["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
    let expected = names(&git.unwrap());
    assert_eq!(found_files(&world), expected);
    let ripgrep =
        ["--files", "--hidden", "-g", "!.git", "--no-ignore-global", "--no-ignore-parent", "-0"];
    if let Some(found) = output(&world, "rg", &ripgrep) {
        assert_eq!(names(&found), expected);
    }
    // The same through `list`, and all of them on request.
    let listed = paths(&world.done(List, &json!({ "depth": 20 })));
    let files: BTreeSet<String> = listed.into_iter().filter(|path| !path.ends_with('/')).collect();
    assert_eq!(files, expected);
    let all = paths(&world.done(List, &json!({ "depth": 20, "include_ignored": true })));
    for path in ["a.log", "target/x", "sub/inner/one", "excluded"] {
        assert!(all.iter().any(|found| found == path), "{path}");
    }
    // What is named is searched, whatever ignores it; rules above it still hold inside.
    let found = world.done(Search, &json!({ "pattern": "needle", "path": "target" }));
    assert_eq!(found["files"][0]["path"], "target/x");
    let found = world.done(Search, &json!({ "pattern": "needle", "path": "a.log" }));
    assert_eq!(found["matches"], 1);
    let found = world.done(Search, &json!({ "glob": "*.log", "path": "sub" }));
    assert_eq!(found["files"], json!(["sub/debug.log"]));
}

#[test]
fn lists_are_sorted_and_limited() {
    let world = World::new();
    world.put("b/c/d", "1234");
    world.put("b-", "");
    world.put("B", "");
    world.link("b/c", "link");
    world.link("/etc", "out");
    world.link("../..", "b/up");
    assert_eq!(
        world.done(List, &json!({})),
        json!({ "path": ".", "entries": [
            { "path": "B", "size": 0 }, { "path": "b-", "size": 0 }, { "path": "b/" },
            { "path": "link -> b/c" }, { "path": "out -> (outside the workspace)" },
        ] })
    );
    let deep = paths(&world.done(List, &json!({ "depth": 3, "path": "link/.." })));
    assert_eq!(deep, ["b/c/", "b/c/d", "b/up -> (outside the workspace)"]);
    assert_eq!(world.refused(List, &json!({ "path": "B" })), "invalid");
    for number in 0..1_100 {
        world.put(&format!("many/{number:04}"), "");
    }
    let result = world.done(List, &json!({ "path": "many" }));
    let expected: Vec<String> = (0..1_000).map(|number| format!("many/{number:04}")).collect();
    assert_eq!(paths(&result), expected);
    assert!(result["note"].as_str().unwrap().starts_with("only the first 1000 entries; "));
}

#[test]
fn matches_are_those_of_grep() {
    let world = World::new();
    let words = ["alpha", "Beta", "gamma.delta", "(x)", "ä", "", "tab\there", "beta beta"];
    for file in 0..40_usize {
        let lines: Vec<&str> =
            (0..file).map(|line| words[(file * 7 + line * 3) % words.len()]).collect();
        world.put(&format!("d{}/f{file}", file % 3), lines.join("\n"));
    }
    world.put("binary", b"alpha\0alpha\n");
    for (pattern, args, ours) in [
        ("beta", vec![], json!({})),
        ("beta", vec!["-i"], json!({ "ignore_case": true })),
        ("(x)", vec!["-F"], json!({ "fixed": true })),
        ("^(alpha|ä)$", vec![], json!({})),
        ("a.*[ad]", vec![], json!({})),
        (".", vec!["-F"], json!({ "fixed": true })),
        ("^$", vec![], json!({})),
        ("nowhere", vec![], json!({})),
    ] {
        let mut grep = vec!["-rnIE", "-e", pattern, "."];
        if args.contains(&"-F") {
            grep[0] = "-rnIF";
        }
        grep.extend(args.iter().filter(|arg| **arg != "-F"));
        let mut expected: BTreeSet<(String, u64, String)> = BTreeSet::new();
        for line in String::from_utf8(output(&world, "grep", &grep).unwrap()).unwrap().lines() {
            let mut parts = line.strip_prefix("./").unwrap().splitn(3, ':');
            let mut part = || parts.next().unwrap().to_owned();
            expected.insert((part(), part().parse().unwrap(), part()));
        }
        let mut call = ours.clone();
        call["pattern"] = json!(pattern);
        call["limit"] = json!(1_000);
        let result = world.done(Search, &call);
        assert_eq!(result.get("truncated"), None);
        let mut found = BTreeSet::new();
        for file in result["files"].as_array().unwrap() {
            for line in file["lines"].as_array().unwrap() {
                found.insert((
                    file["path"].as_str().unwrap().to_owned(),
                    line["line"].as_u64().unwrap(),
                    line["text"].as_str().unwrap().to_owned(),
                ));
            }
        }
        assert_eq!(found, expected, "{pattern}");
        call["files_only"] = json!(true);
        let files: BTreeSet<String> = expected.into_iter().map(|(path, _, _)| path).collect();
        assert_eq!(world.done(Search, &call)["files"], json!(files), "{pattern}");
    }
}

#[test]
fn searches_are_limited_and_say_so() {
    let world = World::new();
    for file in 0..30 {
        world.put(&format!("f{file:02}"), format!("x\nneedle {file}\ny\nneedle\nz\r\n"));
    }
    world.put("many", "needle\n".repeat(60));
    let result = world.done(Search, &json!({ "pattern": "needle", "path": "many" }));
    assert_eq!((&result["matches"], &result["files"][0]["more"]), (&json!(50), &json!(true)));
    let result = world.done(Search, &json!({ "pattern": "needle", "limit": 3 }));
    let line = |line: u64, text: &str| json!({ "line": line, "text": text });
    let files = json!([
        { "path": "f00", "lines": [line(2, "needle 0"), line(4, "needle")] },
        { "path": "f01", "lines": [line(2, "needle 1")] },
    ]);
    assert_eq!(result["files"], files);
    assert!(result["note"].as_str().unwrap().starts_with("cut after the first 3 results"));
    // Exactly as many as allowed is not cut.
    let result = world.done(Search, &json!({ "pattern": "needle", "glob": "f*", "limit": 60 }));
    assert_eq!((result["matches"].as_u64(), result.get("truncated")), (Some(60), None));
    let result = world.done(Search, &json!({ "pattern": "needle", "context": 1, "limit": 1 }));
    let context =
        |number: u64, text: &str| json!({ "line": number, "text": text, "context": true });
    assert_eq!(
        result["files"][0]["lines"],
        json!([context(1, "x"), line(2, "needle 0"), context(3, "y")])
    );
    let result = world.done(Search, &json!({ "pattern": "z$", "limit": 1 }));
    assert_eq!(result["files"][0]["lines"], json!([line(5, "z")]));
    for (glob, count) in
        [("f0*", 10), ("!f*", 1), ("/f0?", 10), ("F0*", 0), ("{f00,many}", 2), ("x/f00", 0)]
    {
        let result = world.done(Search, &json!({ "glob": glob }));
        assert_eq!(result["files"].as_array().unwrap().len(), count, "{glob}");
    }
    for args in [
        json!({ "pattern": "(" }),
        json!({ "pattern": "a\nb" }),
        json!({ "pattern": "(a{1000}){1000}{1000}" }),
        json!({ "glob": "{" }),
        json!({ "glob": "*", "context": 1 }),
        json!({ "pattern": "x", "files_only": true, "context": 1 }),
    ] {
        assert_eq!(world.refused(Search, &args), "invalid", "{args}");
    }
    assert_eq!(world.refused(Search, &json!({ "pattern": "x", "path": "missing" })), "not_found");
    let large = std::fs::File::create(world.path("large")).unwrap();
    large.set_len(64 * 1024 * 1024 + 1).unwrap();
    let result = world.done(Search, &json!({ "pattern": "needle", "glob": "large" }));
    let skipped = json!([{ "path": "large", "reason": "larger than 67108864 bytes" }]);
    assert_eq!(result, json!({ "matches": 0, "files": [], "skipped": skipped }));
}

#[test]
fn what_a_killed_write_left_is_not_shown() {
    let world = World::new();
    world.put(".windlass-tmp-1-0", "needle");
    world.put("a", "needle");
    assert_eq!(paths(&world.done(List, &json!({ "include_ignored": true }))), ["a"]);
    assert_eq!(world.done(Search, &json!({ "pattern": "needle" }))["matches"], 1);
    assert_eq!(world.refused(Read, &json!({ "path": ".windlass-tmp-1-0" })), "not_found");
    world.done(windlass_files::FileTool::Write, &json!({ "path": "b", "content": "" }));
    assert_eq!(world.names(""), ["a", "b"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// The same tree gives the same bytes, whatever order its files were made in.
    #[test]
    fn the_order_of_creation_makes_no_difference(
        order in Just((0..150_usize).collect::<Vec<_>>()).prop_shuffle(),
        limit in 1..120_u64,
    ) {
        let make = |order: &[usize]| {
            let world = World::new();
            for file in order {
                let folder = ["a", "a-", "a/b", "a.b/c", "z"][file % 5];
                world.put(&format!("{folder}/{:x}", file * 7919 % 997), "needle\nx\n".repeat(file % 4));
            }
            world
        };
        let sorted: Vec<usize> = (0..150).collect();
        let (one, other) = (make(&sorted), make(&order));
        for (tool, args) in [
            (List, json!({ "depth": 4 })),
            (Search, json!({ "pattern": "needle", "limit": limit })),
            (Search, json!({ "pattern": "needle", "limit": limit, "context": 2 })),
            (Search, json!({ "glob": "**", "limit": limit })),
        ] {
            prop_assert_eq!(one.done(tool, &args).to_string(), other.done(tool, &args).to_string());
        }
    }
}

#[test]
fn a_search_says_that_it_leaves_files_out_and_not_what_is_in_them() {
    let world = World::new();
    world.put("a.txt", "PASSWORD=no\n");
    world.put("app/.env", "PASSWORD=secret\n");
    world.put("app/other.env", "nothing\n");
    let files = Files::new(&world.root, Vec::new()).unwrap();
    let files = files.leaving_out(Arc::new(|path| path.ends_with(".env")));
    let done = |args: Value| files.perform(Search, &args, None, OUTPUT_BYTES_MAX).unwrap();
    let note = "`left_out` is the number of files that the policy denies: they were not searched";
    let expected = json!({
        "matches": 1, "left_out": 2, "note": note,
        "files": [{ "path": "a.txt", "lines": [{ "line": 1, "text": "PASSWORD=no" }] }],
    });
    assert_eq!(done(json!({ "pattern": "PASSWORD" })), expected);
    // With and without a match the number is the same.
    for pattern in ["PASSWORD=secret", "PASSWORD=wrong"] {
        let nothing = json!({ "files": [], "left_out": 2, "note": note });
        assert_eq!(done(json!({ "pattern": pattern, "files_only": true })), nothing);
    }
    assert_eq!(done(json!({ "glob": "*.env" })), json!({ "files": ["app/.env", "app/other.env"] }));
}
