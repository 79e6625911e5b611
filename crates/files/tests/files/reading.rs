//! `read`: lines, cuts, line endings, binary files, limits.

use crate::common::{OUTPUT_BYTES_MAX, World, version};
use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_files::FileTool::{Edit, List, Read, Search, Write};
use windlass_files::{FileTool, OUTPUT_BYTES_MIN};

#[test]
fn a_file_is_read_exactly() {
    let world = World::new();
    let text = "\u{feff}one\n\ttwo ä\n\nfour";
    world.put("a", text);
    let whole = json!({
        "content": text, "first_line": 1, "last_line": 4, "total_lines": 4,
        "version": version(text.as_bytes()), "bom": true, "final_newline": false,
    });
    assert_eq!(world.done(Read, &json!({ "path": "a" })), whole);
    let part = world.done(Read, &json!({ "path": "a", "offset": 2, "limit": 2 }));
    assert_eq!(part["content"], "\ttwo ä\n\n");
    assert_eq!((&part["first_line"], &part["last_line"]), (&json!(2), &json!(3)));
    assert_eq!(part["note"], "lines 2 to 3 of 4; read on with `offset` 4");
    let end = world.done(Read, &json!({ "path": "a", "offset": 4.0, "limit": 9 }));
    assert_eq!(end["content"], "four");
    assert_eq!(end.get("truncated"), None);
    let error = world.perform(Read, &json!({ "path": "a", "offset": 5 })).unwrap_err();
    assert_eq!(error.to_string(), "`a` has 4 lines; `offset` 5 is after its end");
    world.put("empty", "");
    let empty = world.done(Read, &json!({ "path": "empty" }));
    let expected = json!({
        "content": "", "first_line": 0, "last_line": 0, "total_lines": 0, "version": version(b""),
    });
    assert_eq!(empty, expected);
}

#[test]
fn line_endings_are_kept_and_said() {
    let world = World::new();
    // The last one has its CR and LF in different chunks.
    let parted = format!("{}\r\n", "x".repeat(64 * 1024 - 1));
    for (text, endings) in [
        ("a\nb\n", Value::Null),
        ("a\r\nb\r\n", json!("crlf")),
        ("a\r\nb", json!("crlf")),
        ("a\r\nb\n", json!("mixed")),
        ("a\rb", Value::Null),
        (parted.as_str(), json!("crlf")),
    ] {
        world.put("a", text);
        let result = world.done(Read, &json!({ "path": "a" }));
        assert_eq!(result.get("line_endings").cloned().unwrap_or_default(), endings, "{text:?}");
        if text.len() < 100 {
            assert_eq!(result["content"], text);
        }
    }
}

#[test]
fn long_lines_and_long_files_are_cut() {
    let world = World::new();
    let huge = "ä".repeat(3_000_000);
    world.put("huge", format!("first\n{huge}\nlast\n"));
    let result = world.done(Read, &json!({ "path": "huge" }));
    let content = result["content"].as_str().unwrap();
    let cut = " […cut: the line has 3000000 characters]\n";
    assert_eq!(content, format!("first\n{}{cut}last\n", "ä".repeat(2_000)));
    assert_eq!(result["truncated"], true);
    assert!(
        result["note"].as_str().unwrap().starts_with("1 long line(s) cut, the first is line 2")
    );
    world.put("exact", format!("{}\n", "x".repeat(2_000)));
    assert_eq!(world.done(Read, &json!({ "path": "exact" })).get("truncated"), None);
    let lines: String = (1..=5_000).map(|line| format!("{line}\n")).collect();
    world.put("lines", &lines);
    let result = world.done(Read, &json!({ "path": "lines" }));
    assert_eq!((&result["last_line"], &result["total_lines"]), (&json!(2_000), &json!(5_000)));
    let sparse = std::fs::File::create(world.path("large")).unwrap();
    sparse.set_len(64 * 1024 * 1024 + 1).unwrap();
    assert_eq!(world.refused(Read, &json!({ "path": "large" })), "too_large");
    let args = json!({ "path": "large", "content": "", "version": version(b"") });
    assert_eq!(world.refused(Write, &args), "too_large");
}

#[test]
fn files_that_are_not_text_are_described() {
    let world = World::new();
    for (content, media_type) in [
        (b"\x89PNG\r\n\x1a\n\0\0".as_slice(), "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a\0", "image/gif"),
        (b"%PDF-1.7\n\xff", "application/pdf"),
        (b"RIFF\0\0\0\0WEBP", "image/webp"),
        (b"text\0", "application/octet-stream"),
        (b"text\xc3", "application/octet-stream"),
        (b"\xc3\x28", "application/octet-stream"),
    ] {
        world.put("a", content);
        let result = world.done(Read, &json!({ "path": "a" }));
        assert_eq!(result["binary"], true, "{content:?}");
        assert_eq!(result["media_type"], media_type);
        assert_eq!(result["size"], content.len());
        assert_eq!(result["version"], version(content));
        assert_eq!(result.get("content"), None);
    }
    world.put("a", [0, 1, 254, 255]);
    let result = world.done(Read, &json!({ "path": "a", "encoding": "base64" }));
    assert_eq!((&result["content"], &result["size"]), (&json!("AAH+/w=="), &json!(4)));
    world.put("b", vec![0; 1024 * 1024 + 1]);
    let args = json!({ "path": "b", "encoding": "base64" });
    assert_eq!(world.refused(Read, &args), "too_large");
    let args = json!({ "path": "a", "encoding": "base64", "offset": 1 });
    assert_eq!(world.refused(Read, &args), "invalid");
    // A character that two chunks share is no reason to take it for binary.
    let text = format!("{}ä", "x".repeat(64 * 1024 - 1));
    world.put("text", &text);
    assert_eq!(world.done(Read, &json!({ "path": "text" })).get("binary"), None);
}

#[test]
fn results_stay_within_their_limit() {
    let world = World::new();
    let name = "\u{1}".repeat(200);
    for number in 0..200 {
        world.put(
            &format!("{name}/{number}-{}", "\"".repeat(100)),
            "needle \u{2}\u{3}\n".repeat(100),
        );
    }
    world.put("control", format!("{}\n", "\u{1}".repeat(50_000)));
    let line = "\u{1}".repeat(300);
    world.put("edited", format!("{line}\n").repeat(400));
    for output_bytes_max in [OUTPUT_BYTES_MIN, 20_000, 100_000] {
        for (tool, args) in [
            (Read, json!({ "path": "control" })),
            (Read, json!({ "path": "edited" })),
            (List, json!({ "depth": 5 })),
            (Search, json!({ "pattern": "needle", "limit": 1000 })),
            (Search, json!({ "pattern": "needle", "context": 20 })),
            (Search, json!({ "pattern": ".", "path": "control" })),
            (Search, json!({ "glob": "**" })),
            (
                Edit,
                json!({ "path": "edited", "edits": [
                { "old": "\n", "new": "\n\n", "all": true }, { "old": "\n\n", "new": "\n", "all": true },
                { "old": "\u{1}\n", "new": "\u{1}\u{1}\n", "all": true },
            ] }),
            ),
        ] {
            let result = world.files.perform(tool, &args, None, output_bytes_max).unwrap();
            let bytes = result.to_string().len();
            assert!(bytes <= output_bytes_max, "{tool:?} {args} {bytes} {output_bytes_max}");
            assert!(result["note"].is_string(), "{tool:?} {args}");
        }
    }
    let small =
        world.files.perform(Read, &json!({ "path": "control" }), None, OUTPUT_BYTES_MIN - 1);
    assert_eq!(small.unwrap_err().code(), "invalid");
}

#[test]
fn a_long_file_is_read_whole_piece_by_piece() {
    let world = World::new();
    let text: String =
        (0..3_000).map(|line| format!("{line} \"ä\"\t{}\n", "y".repeat(line % 90))).collect();
    world.put("a", &text);
    let (mut read, mut offset) = (String::new(), 1);
    loop {
        let args = json!({ "path": "a", "offset": offset });
        let result = world.files.perform(Read, &args, None, OUTPUT_BYTES_MIN).unwrap();
        read.push_str(result["content"].as_str().unwrap());
        let last = result["last_line"].as_u64().unwrap();
        if last == result["total_lines"].as_u64().unwrap() {
            break;
        }
        offset = last + 1;
    }
    assert_eq!(read, text);
}

#[test]
fn wrong_arguments_are_named() {
    let world = World::new();
    for (tool, args, message) in [
        (
            Read,
            json!({ "pth": "a" }),
            "`read` has no argument `pth`; it takes `path`, `offset`, `limit`, `encoding`",
        ),
        (Read, json!({}), "`read` needs the argument `path`: a path"),
        (Read, json!([]), "the arguments of `read` must be an object, not a list"),
        (Read, json!({ "path": 1 }), "`path` of `read` must be a path, not that number"),
        (
            Read,
            json!({ "path": "a", "offset": "3" }),
            "`offset` of `read` must be a whole number from 1 to 4294967295, not that text",
        ),
        (
            Read,
            json!({ "path": "a", "offset": 0 }),
            "`offset` of `read` must be a whole number from 1 to 4294967295, not that number",
        ),
        (
            List,
            json!({ "depth": null }),
            "`depth` of `list` must be a whole number from 1 to 20, not null",
        ),
        (Search, json!({}), "`search` needs `pattern` for contents or `glob` for names of files"),
        (
            Write,
            json!({ "path": "a", "content": {} }),
            "`content` of `write` must be text, not an object",
        ),
        (
            Write,
            json!({ "path": "a", "content": "", "version": "1" }),
            "`version` of `write` must be the 16 hex digits that `read` returned as `version`, not that text",
        ),
        (
            Edit,
            json!({ "path": "a", "edits": [] }),
            "`edits` of `edit` must be a list of 1 to 100 objects with `old` and `new`, not a list",
        ),
    ] {
        assert_eq!(world.perform(tool, &args).unwrap_err().to_string(), message);
        if args != json!({}) || tool != Search {
            assert_eq!(world.files.foresee(tool, &args).unwrap_err().to_string(), message);
        }
    }
    world.put("a", "x");
    let args =
        json!({ "path": "a", "edits": [{ "old": "x", "new": "y" }, { "old": "x", "new": 1 }] });
    let message = "`new` of edit 2 must be text, not that number";
    assert_eq!(world.perform(Edit, &args).unwrap_err().to_string(), message);
}

/// Any JSON, with the names and kinds that the tools know among it.
fn arguments() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "path",
        "offset",
        "limit",
        "encoding",
        "depth",
        "include_ignored",
        "pattern",
        "glob",
        "files_only",
        "context",
        "ignore_case",
        "fixed",
        "content",
        "version",
        "executable",
        "edits",
        "old",
        "new",
        "all",
        "other",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![-2i64..30, any::<i64>()].prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(json!(3.0)),
        prop_oneof!["[a-z./*\\\\(\\[!{}\0]{0,6}", "[0-9a-f]{16}", Just("base64".to_owned())]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names.clone().prop_map(str::to_owned), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// What the schema refuses is refused as invalid; what it accepts is never refused for its form by `foresee` of
    /// tools that only read.
    #[test]
    fn schema_and_parser_agree(tool in prop::sample::select(FileTool::ALL.to_vec()), args in arguments()) {
        let world = World::new();
        let schema = windlass_files::definition(tool).input_schema;
        let is_valid = jsonschema::validator_for(&schema).unwrap().is_valid(&args);
        let foreseen = world.files.foresee(tool, &args);
        let is_invalid = foreseen.as_ref().is_err_and(|error| error.code() == "invalid");
        if !tool.writes() {
            prop_assert_eq!(foreseen.is_ok(), is_valid, "{} {:?}", args, foreseen);
        } else if !is_valid {
            // The file of an edit is looked for before its edits are read.
            prop_assert!(is_invalid || tool == Edit && foreseen.is_err(), "{} {:?}", args, foreseen);
        }
        drop(world.files.perform(tool, &args, None, OUTPUT_BYTES_MAX));
    }
}

#[test]
fn tools_are_described() {
    for tool in FileTool::ALL {
        let definition = windlass_files::definition(tool);
        assert_eq!(FileTool::parse(definition.name), Some(tool));
        assert_eq!(definition.read_only, !tool.writes());
        assert_eq!(definition.input_schema["additionalProperties"], false);
        jsonschema::meta::validate(&definition.input_schema).unwrap();
        assert!(definition.description.len() < 600, "{}", definition.description);
    }
    assert_eq!(FileTool::parse("remove"), None);
}
