//! `write` and `edit`: exact, at once, and once.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::process::Command;

use crate::common::{OUTPUT_BYTES_MAX, World, version};
use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_files::FileChange;
use windlass_files::FileTool::{self, Edit, Read, Write};
use windlass_kernel::Digest;

fn mode(world: &World, path: &str) -> u32 {
    world.path(path).metadata().unwrap().permissions().mode() & 0o7777
}

fn edit(path: &str, edits: &[(&str, &str)]) -> Value {
    let edits: Vec<Value> =
        edits.iter().map(|(old, new)| json!({ "old": old, "new": new })).collect();
    json!({ "path": path, "edits": edits })
}

#[test]
fn a_file_is_created_and_replaced() {
    let world = World::new();
    let created = world.done(Write, &json!({ "path": "a/b/c", "content": "one\n" }));
    let expected =
        json!({ "path": "a/b/c", "version": version(b"one\n"), "bytes": 4, "created": true });
    assert_eq!(created, expected);
    assert_eq!((world.content("a/b/c"), mode(&world, "a/b/c")), (b"one\n".to_vec(), 0o644));
    let again = world.perform(Write, &json!({ "path": "a/b/c", "content": "two" })).unwrap_err();
    assert_eq!(again.code(), "invalid");
    assert!(
        again.to_string().starts_with("`a/b/c` exists; read it first, then pass its `version`")
    );
    let stale = json!({ "path": "a/b/c", "content": "two", "version": version(b"zero") });
    assert_eq!(world.refused(Write, &stale), "changed");
    let read = world.done(Read, &json!({ "path": "a/b/c" }));
    let args = json!({ "path": "./a//b/c", "content": "two", "version": read["version"] });
    let replaced = world.done(Write, &args);
    assert_eq!((&replaced["created"], &replaced["path"]), (&json!(false), &json!("a/b/c")));
    assert_eq!(world.content("a/b/c"), b"two");
    let gone = json!({ "path": "gone", "content": "", "version": version(b"x") });
    assert_eq!(world.refused(Write, &gone), "changed");
    assert_eq!(world.refused(Write, &json!({ "path": "a/b", "content": "" })), "invalid");
    assert_eq!(world.refused(Write, &json!({ "path": ".", "content": "" })), "invalid");
    assert_eq!(world.refused(Write, &json!({ "path": "a/b/c/d", "content": "" })), "not_found");
    assert_eq!(world.names("a/b"), ["c"]);
    let large = "x".repeat(1024 * 1024);
    world.done(Write, &json!({ "path": "large", "content": large }));
    assert_eq!(world.content("large"), large.as_bytes());
}

#[test]
fn modes_are_kept() {
    let world = World::new();
    world.done(Write, &json!({ "path": "x", "content": "1", "executable": true }));
    assert_eq!(mode(&world, "x"), 0o755);
    let set = |path: &str, mode| {
        std::fs::set_permissions(world.path(path), PermissionsExt::from_mode(mode)).unwrap();
    };
    for (before, executable, after) in [
        (0o755, Value::Null, 0o755),
        (0o640, Value::Null, 0o640),
        (0o640, json!(true), 0o750),
        (0o755, json!(false), 0o644),
        (0o4755, Value::Null, 0o755),
        (0o600, json!(false), 0o600),
    ] {
        world.put("y", "1");
        set("y", before);
        let mut args = json!({ "path": "y", "content": "2", "version": version(b"1") });
        if !executable.is_null() {
            args["executable"] = executable;
        }
        world.done(Write, &args);
        assert_eq!(mode(&world, "y"), after, "{before:o}");
        set("y", before & 0o777);
        world.done(Edit, &edit("y", &[("2", "3")]));
        assert_eq!(mode(&world, "y"), before & 0o777);
    }
    // Only the mode changes.
    let args = json!({ "path": "y", "content": "3", "version": version(b"3"), "executable": true });
    world.done(Write, &args);
    assert_eq!(mode(&world, "y"), 0o700);
    set("y", 0o444);
    assert_eq!(world.refused(Write, &args), "refused");
    assert_eq!(world.refused(Edit, &edit("y", &[("3", "4")])), "refused");
}

#[test]
fn the_owner_stays() {
    let world = World::new();
    world.put("a", "1");
    // Only root can give a file away; everybody else sees the owner stay anyway.
    let _ = std::os::unix::fs::chown(world.path("a"), Some(12_345), Some(12_346));
    let before = world.path("a").metadata().unwrap();
    world.done(Edit, &edit("a", &[("1", "2")]));
    let after = world.path("a").metadata().unwrap();
    assert_eq!((before.uid(), before.gid()), (after.uid(), after.gid()));
    assert_eq!(world.content("a"), b"2");
}

#[test]
fn an_edit_is_exact() {
    let world = World::new();
    let text = "\u{feff}one\ntwo\n  three\ntwo";
    world.put("a", text);
    let args = edit("a", &[("one\ntwo", "1\n2"), ("  three", "\tthree"), ("2\n\tth", "2\n\tTh")]);
    let result = world.done(Edit, &args);
    let after = "\u{feff}1\n2\n\tThree\ntwo";
    assert_eq!(world.content("a"), after.as_bytes());
    let diff = "@@ -1,4 +1,4 @@\n-\u{feff}one\n-two\n+\u{feff}1\n+2\n-  three\n+\tThree\n two\n\\ No newline at end of file\n";
    let expected = json!({
        "path": "a", "version": version(after.as_bytes()), "replacements": 3, "diff": diff,
    });
    assert_eq!(result, expected);
    let all = json!({ "path": "a", "edits": [{ "old": "e", "new": "EE", "all": true }] });
    assert_eq!(world.done(Edit, &all)["replacements"], 2);
    assert_eq!(world.content("a"), "\u{feff}1\n2\n\tThrEEEE\ntwo".as_bytes());
}

#[test]
fn edits_that_are_not_clear_are_refused_whole() {
    let world = World::new();
    let text = "fn a() {\n    x();\n}\nfn b() {\n    x();\n}\naaa\n";
    world.put("a", text);
    let message = |edits: &[(&str, &str)]| {
        let error = world.perform(Edit, &edit("a", edits)).unwrap_err();
        (error.code(), error.to_string())
    };
    let (code, text_of_error) = message(&[("fn a", "fn c"), ("x();", "y();")]);
    assert_eq!(code, "ambiguous");
    assert_eq!(
        text_of_error,
        "no edit was made: `old` of edit 2 occurs 2 times in `a`, at line 2, 5; add lines around it to make it unique, or \
         set `all`"
    );
    let (code, text_of_error) = message(&[("fn a() {\n\tx();", "")]);
    assert_eq!(code, "ambiguous");
    assert!(text_of_error.contains("does not occur in `a` (line 1 looks like its first line"));
    assert_eq!(message(&[("nowhere", "")]).0, "ambiguous");
    // Overlapping occurrences are two.
    assert_eq!(message(&[("aa", "b")]).0, "ambiguous");
    assert_eq!(message(&[("", "b")]).0, "invalid");
    assert_eq!(message(&[("a", "a")]).0, "invalid");
    assert_eq!(message(&[("fn a", "fn c"), ("fn c", "fn a")]).0, "invalid");
    let stale =
        json!({ "path": "a", "version": version(b""), "edits": [{ "old": "fn a", "new": "" }] });
    assert_eq!(world.refused(Edit, &stale), "changed");
    assert_eq!(world.refused(Edit, &edit("missing", &[("a", "b")])), "not_found");
    world.put("binary", b"a\0");
    assert_eq!(world.refused(Edit, &edit("binary", &[("a", "b")])), "refused");
    world.put("latin", b"a\xff");
    assert_eq!(world.refused(Edit, &edit("latin", &[("a", "b")])), "refused");
    // A small call cannot make a huge file.
    world.put("bomb", "a".repeat(50_000));
    let bomb = json!({ "path": "bomb", "edits": [{ "old": "a", "new": "b".repeat(100_000), "all": true }] });
    assert_eq!(world.refused(Edit, &bomb), "too_large");
    assert_eq!(world.content("a"), text.as_bytes());
}

#[test]
fn line_ends_of_a_file_with_crlf_are_kept() {
    let world = World::new();
    world.put("a", "one\r\ntwo\r\nthree\r\n");
    let result = world.done(Edit, &edit("a", &[("one\ntwo\n", "1\n2\n2.5\n")]));
    assert_eq!(world.content("a"), b"1\r\n2\r\n2.5\r\nthree\r\n");
    assert_eq!(result["note"], "line ends of edit 1 were taken as CRLF, as in the file");
    let result = world.done(Edit, &edit("a", &[("2\r\n2.5", "x\r\ny")]));
    assert_eq!(world.content("a"), b"1\r\nx\r\ny\r\nthree\r\n");
    assert_eq!(result.get("note"), None);
    let result = world.done(Edit, &edit("a", &[("three", "3\n4")]));
    assert_eq!(world.content("a"), b"1\r\nx\r\ny\r\n3\n4\r\n");
    assert_eq!(result["note"], "the file had only CRLF line ends and now has LF ones, too");
    // What has CRLF already keeps it.
    world.put("c", "one\r\ntwo\r\n");
    world.done(Edit, &edit("c", &[("one\r\ntwo\n", "1\r\n2\n")]));
    assert_eq!(world.content("c"), b"1\r\n2\r\n");
    // In a file with LF nothing is converted.
    world.put("b", "one\ntwo\n");
    assert_eq!(world.refused(Edit, &edit("b", &[("one\r\ntwo", "x")])), "ambiguous");
}

#[test]
fn a_repeated_call_has_its_effect_once() {
    for (tool, args, after) in [
        (Write, json!({ "path": "a", "content": "aa", "version": version(b"a") }), "aa"),
        (Edit, edit("a", &[("a", "aa")]), "aa"),
        (Write, json!({ "path": "new/b", "content": "b" }), "b"),
    ] {
        let world = World::new();
        world.put("a", "a");
        let path = args["path"].as_str().unwrap();
        let foreseen = world.foresee(tool, &args);
        let text = serde_json::to_string(&foreseen).unwrap();
        assert_eq!(serde_json::from_str::<FileChange>(&text).unwrap(), foreseen);
        assert_eq!(foreseen.after, Digest::of(after.as_bytes()));
        let perform = |foreseen: &FileChange| {
            world.files.perform(tool, &args, Some(foreseen), OUTPUT_BYTES_MAX)
        };
        let first = perform(&foreseen).unwrap();
        let inode = world.path(path).metadata().unwrap().ino();
        let second = perform(&foreseen).unwrap();
        assert_eq!(first["version"], second["version"]);
        assert_eq!(first.get("created"), second.get("created"));
        assert_eq!(world.path(path).metadata().unwrap().ino(), inode);
        assert_eq!(world.content(path), after.as_bytes());
        // Neither as before nor as afterwards.
        world.put(path, "other");
        assert_eq!(perform(&foreseen).unwrap_err().code(), "changed");
        assert_eq!(world.content(path), b"other");
        std::fs::remove_file(world.path(path)).unwrap();
        if foreseen.before.is_some() {
            assert_eq!(perform(&foreseen).unwrap_err().code(), "changed");
            world.put(path, "a");
        }
        for wrong in [
            FileChange { path: "c".to_owned(), ..foreseen.clone() },
            FileChange { after: Digest::of(b"z"), ..foreseen.clone() },
        ] {
            assert_eq!(perform(&wrong).unwrap_err().code(), "changed");
        }
    }
    let world = World::new();
    assert_eq!(world.files.foresee(Read, &json!({ "path": "a" })), Ok(None));
}

#[test]
fn of_many_writers_of_one_version_one_succeeds() {
    let world = World::new();
    world.put("a", "0");
    let count = |tool: FileTool, args: &(dyn Fn(usize) -> Value + Sync)| {
        std::thread::scope(|scope| {
            let world = &world;
            let threads: Vec<_> = (0..8)
                .map(|number| scope.spawn(move || world.perform(tool, &args(number)).is_ok()))
                .collect();
            threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum::<usize>()
        })
    };
    let replaced = count(
        Write,
        &|number| json!({ "path": "a", "content": format!("new {number}"), "version": version(b"0") }),
    );
    assert_eq!(replaced, 1);
    assert_eq!(count(Write, &|number| json!({ "path": "b", "content": format!("{number}") })), 1);
    world.put("c", "0");
    assert_eq!(count(Edit, &|number| edit("c", &[("0", &format!("x{}", number + 1))])), 1);
    assert_eq!(world.names(""), ["a", "b", "c"]);
}

#[test]
fn a_long_diff_is_cut() {
    let world = World::new();
    world.put("a", (0..20_000).map(|line| format!("line {line}\n")).collect::<String>());
    let args = json!({ "path": "a", "edits": [{ "old": "line", "new": "row", "all": true }] });
    let result = world.done(Edit, &args);
    assert_eq!(result["replacements"], 20_000);
    assert!(result["diff"].as_str().unwrap().len() <= 16 * 1024);
    assert_eq!(result["note"], "the diff is cut; read the file for the rest");
}

/// A text of few different pieces, so that edits find something.
fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(vec!["a", "b", "ab", "\n", "\n", "ä", "\r\n", "  ", "\t"]),
        0..60,
    )
    .prop_map(|pieces| pieces.concat())
}

fn edits() -> impl Strategy<Value = Vec<(String, String, bool)>> {
    let piece = || {
        prop::collection::vec(prop::sample::select(vec!["a", "b", "\n", "ä", " ", "x"]), 0..4)
            .prop_map(|pieces| pieces.concat())
    };
    prop::collection::vec((piece(), piece(), any::<bool>()), 1..5)
}

/// What the edits make of the text; `None` if they are refused.
fn model(text: &str, edits: &[(String, String, bool)]) -> Option<String> {
    let mut present = text.to_owned();
    for (old, new, all) in edits {
        if old.is_empty() || old == new {
            return None;
        }
        let crlf = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
        let (mut old, mut new) = (old.clone(), new.clone());
        if !present.contains(&old) && present.contains(&crlf(&old)) {
            (old, new) = (crlf(&old), crlf(&new));
        }
        let count = (0..present.len())
            .filter(|at| present.is_char_boundary(*at) && present[*at..].starts_with(&old))
            .count();
        if count == 0 || count > 1 && !all {
            return None;
        }
        present = present.replace(&old, &new);
    }
    (present != text).then_some(present)
}

proptest! {
    #[test]
    fn edits_are_those_of_the_model(text in text(), edits in edits()) {
        let world = World::new();
        world.put("a", &text);
        let list: Vec<Value> = edits
            .iter()
            .map(|(old, new, all)| json!({ "old": old, "new": new, "all": all }))
            .collect();
        let args = json!({ "path": "a", "edits": list });
        let foreseen = world.files.foresee(Edit, &args);
        let result = world.perform(Edit, &args);
        match model(&text, &edits) {
            None => {
                prop_assert!(foreseen.is_err() && result.is_err());
                prop_assert_eq!(world.content("a"), text.as_bytes());
            }
            Some(after) => {
                prop_assert_eq!(world.content("a"), after.as_bytes());
                prop_assert_eq!(foreseen.unwrap().unwrap().after, Digest::of(after.as_bytes()));
                let result = result.unwrap();
                prop_assert_eq!(&result["version"], &json!(version(after.as_bytes())));
                let diff = result["diff"].as_str().unwrap();
                prop_assert_eq!(patched(&text, diff), after, "{}", diff);
            }
        }
    }
}

/// Applies a unified diff.
fn patched(text: &str, diff: &str) -> String {
    let old: Vec<&str> = text.split_inclusive('\n').collect();
    let mut new = String::new();
    let mut taken = 0;
    let mut lines = diff.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let without_newline = lines.peek().is_some_and(|next| next.starts_with('\\'));
        let content = &line[1..];
        let content = if without_newline { content.strip_suffix('\n').unwrap() } else { content };
        match &line[..1] {
            "@" => {
                let numbers = line.split(' ').nth(1).unwrap().strip_prefix('-').unwrap();
                let (start, count) = numbers.split_once(',').unwrap();
                let start: usize = start.parse().unwrap();
                let start = if count == "0" { start } else { start - 1 };
                new.push_str(&old[taken..start].concat());
                taken = start;
            }
            "\\" => {}
            "+" => new.push_str(content),
            mark => {
                assert_eq!(old[taken], content, "{diff}");
                taken += 1;
                if mark == " " {
                    new.push_str(content);
                }
            }
        }
    }
    new.push_str(&old[taken..].concat());
    new
}

#[test]
fn git_applies_the_diff() {
    let world = World::new();
    let text: String = (0..200).map(|line| format!("line {line}\n")).collect();
    world.put("a", &text);
    let args = edit(
        "a",
        &[
            ("line 3\n", ""),
            ("line 6\n", "six\nsix\n"),
            ("line 50\nline 51\nline 52", "line 50\nx\nline 52"),
            ("line 199\n", "end"),
            ("line 0\n", "zero\nline 0\n"),
            ("line 120\n", ""),
        ],
    );
    let result = world.done(Edit, &args);
    let after = world.content("a");
    world.put("a", &text);
    let patch = format!("--- a/a\n+++ b/a\n{}", result["diff"].as_str().unwrap());
    world.put("patch", patch);
    let git =
        Command::new("git").args(["apply", "patch"]).current_dir(&world.root).status().unwrap();
    assert!(git.success());
    assert_eq!(world.content("a"), after);
}
