//! Patches give one call for each file.

use serde_json::{Value, json};
use windlass_hooks::{Client, Mapping};

use crate::mapping::map;

fn calls(patch: &str) -> Vec<(String, Value)> {
    match map(Client::Codex, "apply_patch", json!({ "command": patch })) {
        Mapping::Calls(calls) => calls.into_iter().map(|call| (call.tool, call.args)).collect(),
        other => unreachable!("{other:?}"),
    }
}

fn reason(patch: &str) -> String {
    match map(Client::OpenCode, "patch", json!({ "patchText": patch })) {
        Mapping::Invalid { reason } => reason,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn every_file_of_a_patch_is_a_call() {
    let patch = "\
*** Begin Patch
*** Add File: new.txt
+one
+
+*** Delete File: kept.txt
*** Update File: /w/src/a.rs
*** Move to: src/b.rs
@@ fn a
 same
-old
+new

@@
-x
+y
*** End of File
*** Update File: c.rs
+first
*** Delete File: /etc/passwd
*** Update File: d.rs
*** Move to: e.rs
*** End Patch
";
    let (write, edit) = ("write".to_owned(), "edit".to_owned());
    let expected = vec![
        (
            write.clone(),
            json!({ "path": "new.txt", "content": "one\n\n*** Delete File: kept.txt\n" }),
        ),
        (
            edit.clone(),
            json!({
                "path": "src/a.rs",
                "edits": [
                    { "old": "same\nold\n\n", "new": "same\nnew\n\n" },
                    { "old": "x\n", "new": "y\n" },
                ],
            }),
        ),
        (write.clone(), json!({ "path": "src/b.rs", "content": "same\nnew\n\ny\n" })),
        (edit, json!({ "path": "c.rs", "edits": [{ "old": "", "new": "first\n" }] })),
        (write.clone(), json!({ "path": "/etc/passwd", "content": "" })),
        (write.clone(), json!({ "path": "d.rs", "content": "" })),
        (write, json!({ "path": "e.rs", "content": "" })),
    ];
    assert_eq!(calls(patch), expected);
    assert_eq!(calls(&patch.replace('\n', "\r\n")), expected);
}

#[test]
fn context_with_stars_is_context() {
    let patch = "*** Begin Patch\n*** Update File: a\n *** note ***\n+x\n*** End Patch";
    let edits = json!([{ "old": "*** note ***\n", "new": "*** note ***\nx\n" }]);
    assert_eq!(calls(patch), [("edit".to_owned(), json!({ "path": "a", "edits": edits }))]);
}

#[test]
fn what_clients_may_read_in_another_way_is_refused() {
    let body = |body: &str| format!("*** Begin Patch\n{body}\n*** End Patch");
    for (patch, expected) in [
        (String::new(), "the patch has no end"),
        ("ls".to_owned(), "line 1 of the patch is not `*** Begin Patch`"),
        ("<<'EOF'\n*** Begin Patch".to_owned(), "line 1 of the patch is not `*** Begin Patch`"),
        ("*** Begin Patch\n*** Delete File: a".to_owned(), "the patch has no end"),
        ("*** Begin Patch\n*** End Patch".to_owned(), "the patch changes no file"),
        (body("*** Delete File: a") + "\nx", "line 4 of the patch stands after its end"),
        (body("*** Begin Patch"), "line 2 of the patch begins it again"),
        (body("*** Add File: a\n *** Delete File: b"), "line 3 of the patch is indented"),
        (body("*** Update File: a\n *** End Patch"), "line 3 of the patch is indented"),
        (body("*** Update File: a\n\u{a0}*** Move to: b"), "line 3 of the patch is indented"),
        (body("*** Add File: a\nx"), "line 3 of the patch belongs to no file"),
        (body("*** Delete File: a\n-x"), "line 3 of the patch belongs to no file"),
        (body("+x"), "line 2 of the patch belongs to no file"),
        (body("*** Update File: a\nx"), "line 3 of the patch is neither context nor a change"),
        (body("*** Rename File: a"), "line 2 of the patch is not known"),
        (body("*** Move to: a"), "line 2 of the patch moves no file"),
        (body("*** Add File: a\n*** Move to: b"), "line 3 of the patch moves no file"),
        (body("*** Add File: a\n*** End of File"), "line 3 of the patch ends no file"),
        (body("*** Add File: .env:x"), "line 2 of the patch has a path with a colon"),
    ] {
        assert_eq!(reason(&patch), format!("`patch`: {expected}"), "{patch}");
    }
    for path in ["", "  a", "~/a"] {
        reason(&body(&format!("*** Add File: {path}")));
    }
}
