//! Trust in hooks of Codex, and of Gemini CLI in folders.

use windlass_hooks::{
    Content, HookTrust, InstallState, Removal, Trust, folder_trust_file, install, state,
    trust_file, uninstall,
};

use crate::install::installed;

fn hooks() -> Vec<HookTrust> {
    let hook = |key: &str, hash: &str| HookTrust { key: key.to_owned(), hash: hash.to_owned() };
    vec![
        hook("/users/u/.codex/hooks.json:pre_tool_use:0:0", "sha256:aa"),
        hook("/a \"b\"\\c:stop:1:0", "sha256:bb"),
    ]
}

fn content(project: Option<&str>) -> Content {
    trust_file(Trust { hooks: hooks(), project: project.map(str::to_owned) }).content
}

const ADDED: &str = "[hooks.state.\"/users/u/.codex/hooks.json:pre_tool_use:0:0\"]\ntrusted_hash = \"sha256:aa\"\n\n[hooks.state.\"/a \\\"b\\\"\\\\c:stop:1:0\"]\ntrusted_hash = \"sha256:bb\"\n";

fn left(now: &str, before: Option<&str>) -> Option<String> {
    let content = content(None);
    match uninstall(&content, now.as_bytes(), before.map(str::as_bytes), b"else").unwrap() {
        Removal::Unchanged => Some(now.to_owned()),
        Removal::Write(bytes) => Some(String::from_utf8(bytes).unwrap()),
        Removal::Delete => None,
    }
}

#[test]
fn tables_are_added_at_the_end_and_taken_out_again() {
    let content = content(None);
    assert_eq!(installed(&content, ""), ADDED);
    assert_eq!(left(ADDED, None), None);
    for before in [
        "# mine\nmodel = 'x' # y\n",
        "[hooks]\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = \"command\"\n\n\n",
        "[hooks.state]\n[hooks.state.\"z\"]\nenabled = false\n",
        "[features]\nhooks = true\n",
    ] {
        let after = installed(&content, before);
        assert_eq!(after, format!("{before}\n{ADDED}"));
        assert_eq!(installed(&content, &after), after);
        assert_eq!(state(&content, Some(after.as_bytes())), InstallState::Installed);
        assert_eq!(left(&after, Some(before)).unwrap(), before);
        let more = format!("{after}\n[later] # more\na = 1\n");
        assert_eq!(
            left(&more, Some(before)).unwrap(),
            format!("{before}\n[later] # more\na = 1\n")
        );
    }
    assert_eq!(installed(&content, "a = 1"), format!("a = 1\n\n{ADDED}"));
    let windows = installed(&content, "a = 1\r\n");
    assert_eq!(windows, format!("a = 1\n\n{ADDED}").replace('\n', "\r\n"));
    assert_eq!(left(&windows, Some("a = 1\r\n")).unwrap(), "a = 1\r\n");
}

#[test]
fn an_older_hash_is_replaced_and_a_table_is_filled() {
    let content = content(None);
    let old = ADDED.replace("\"sha256:aa\"", "'old' # since");
    assert_eq!(installed(&content, &old), ADDED.replace("aa\"", "aa\" # since"));
    let bare = ADDED.replace("trusted_hash = \"sha256:aa\"", "enabled = true");
    let filled = ADDED.replace("aa\"\n", "aa\"\nenabled = true\n");
    assert_eq!(installed(&content, &bare), filled);
    // What was there before stays when ours is taken out.
    assert_eq!(left(&filled, Some(&bare)).unwrap(), filled);
    let half = left(&filled, Some("")).unwrap();
    assert_eq!(
        half,
        "[hooks.state.\"/users/u/.codex/hooks.json:pre_tool_use:0:0\"]\nenabled = true\n"
    );
}

#[test]
fn a_hook_of_others_that_has_the_key_now_stays_trusted() {
    let now = ADDED.replace("sha256:aa", "sha256:cc");
    let kept = now.split("\n\n").next().unwrap().to_owned() + "\n";
    assert_eq!(left(&now, Some("")).unwrap(), kept);
}

#[test]
fn what_cannot_be_edited_is_refused() {
    let content = content(None);
    let key = "\"/users/u/.codex/hooks.json:pre_tool_use:0:0\"";
    for (before, message) in [
        ("a = \n".to_owned(), "line 1, column "),
        ("a = 1\na = 2\n".to_owned(), "line 2, column 1: not TOML: duplicate key"),
        ("[features]\nhooks = false\n".to_owned(), "line 2, column 9: `features.hooks` is false"),
        (format!("[hooks.state.{key}]\nenabled = false\n"), "line 2, column 11: the hook `/users"),
        ("hooks = 1\n".to_owned(), "line 1, column 9: `hooks` is not a table with a header"),
        ("hooks = {}\n".to_owned(), "line 1, column 9: `hooks` is not a table with a header"),
        ("hooks.x = 1\n".to_owned(), "`hooks` is not a table with a header"),
        ("[hooks]\nstate = {}\n".to_owned(), "`hooks.state` is not a table with a header"),
        (format!("[hooks.state]\n{key} = {{}}\n"), "is not a table with a header"),
    ] {
        let error = install(&content, Some(before.as_bytes())).unwrap_err().to_string();
        assert!(error.contains(message), "{before}: {error}");
    }
    // A line that is not split can still get another hash.
    let inline = format!("[hooks.state]\n{key} = {{ trusted_hash = 'x' }}\n");
    let after = installed(&content, &inline);
    assert!(after.starts_with(&inline.replace("'x'", "\"sha256:aa\"")), "{after}");
}

#[test]
fn changes_are_noticed() {
    let content = content(None);
    let keys = || hooks().into_iter().map(|hook| hook.key).collect();
    assert_eq!(state(&content, None), InstallState::Missing { events: keys() });
    let InstallState::Changed { reason } =
        state(&content, Some(ADDED.replace("bb", "xx").as_bytes()))
    else {
        panic!()
    };
    assert!(reason.contains("stop:1:0"), "{reason}");
    let off = format!("[features]\nhooks = false\n{ADDED}");
    let reason = "`features.hooks` is false".to_owned();
    assert_eq!(state(&content, Some(off.as_bytes())), InstallState::Disabled { reason });
    let InstallState::Changed { .. } = state(&content, Some(b"=")) else { panic!() };
}

#[test]
fn the_project_of_the_hooks_is_trusted_with_them() {
    let content = content(Some("/a/b"));
    let project = "[projects.\"/a/b\"]\ntrust_level = \"trusted\"\n";
    let after = format!("{project}\n{ADDED}");
    assert_eq!(installed(&content, ""), after);
    assert_eq!(state(&content, Some(after.as_bytes())), InstallState::Installed);
    let without = state(&content, Some(ADDED.as_bytes()));
    assert_eq!(without, InstallState::Missing { events: vec!["/a/b".to_owned()] });
    // Trust that was there before stays.
    assert_eq!(installed(&content, project), after);
    let uninstalled = |before: Option<&str>| {
        uninstall(&content, after.as_bytes(), before.map(str::as_bytes), b"else").unwrap()
    };
    assert_eq!(uninstalled(Some(project)), Removal::Write(project.as_bytes().to_vec()));
    assert_eq!(uninstalled(None), Removal::Delete);
    // What somebody has decided against is not decided anew.
    let refused = project.replace("\"trusted\"", "\"untrusted\"");
    let error = install(&content, Some(refused.as_bytes())).unwrap_err().to_string();
    assert!(error.contains("line 2, column 15: Codex is told not to trust `/a/b`"), "{error}");
    let InstallState::Disabled { .. } = state(&content, Some(refused.as_bytes())) else { panic!() };
    let error = install(&content, Some(b"projects = {}\n")).unwrap_err().to_string();
    assert!(error.contains("`projects` is not a table with a header"), "{error}");
}

#[test]
fn a_folder_of_gemini_is_trusted() {
    let content = folder_trust_file("/a/b").content;
    let ours = "{\n  \"/a/b\": \"TRUST_FOLDER\"\n}\n";
    let without = |now: &str, before: Option<&str>| {
        uninstall(&content, now.as_bytes(), before.map(str::as_bytes), b"else").unwrap()
    };
    let missing = InstallState::Missing { events: vec!["/a/b".to_owned()] };
    for before in [None, Some("")] {
        assert_eq!(install(&content, before.map(str::as_bytes)).unwrap(), ours.as_bytes());
        assert_eq!(state(&content, before.map(str::as_bytes)), missing);
    }
    assert_eq!(without(ours, None), Removal::Delete);
    assert_eq!(without(ours, Some("")), Removal::Write(Vec::new()));
    for before in ["{}", "{ // mine\n  \"/c\": \"DO_NOT_TRUST\"\n}\n", "{\"/c\":\"TRUST_PARENT\"}"]
    {
        let after = installed(&content, before);
        assert_eq!(installed(&content, &after), after);
        assert_eq!(state(&content, Some(after.as_bytes())), InstallState::Installed);
        assert_eq!(without(&after, Some(before)), Removal::Write(before.as_bytes().to_vec()));
    }
    // What was there before stays, and what somebody has decided against is not decided anew.
    for kept in [ours, "{\"/a/b\": \"TRUST_PARENT\"}"] {
        assert_eq!(installed(&content, kept), kept);
        assert_eq!(without(kept, Some(kept)), Removal::Unchanged);
        assert_eq!(state(&content, Some(kept.as_bytes())), InstallState::Installed);
    }
    let refused = ours.replace("TRUST_FOLDER", "DO_NOT_TRUST");
    let error = install(&content, Some(refused.as_bytes())).unwrap_err().to_string();
    assert!(error.contains("line 2, column 11: Gemini CLI is told not to trust"), "{error}");
    let InstallState::Disabled { .. } = state(&content, Some(refused.as_bytes())) else { panic!() };
    for damaged in ["[]", "{", "\"x\""] {
        assert!(install(&content, Some(damaged.as_bytes())).is_err());
        let InstallState::Changed { .. } = state(&content, Some(damaged.as_bytes())) else {
            panic!()
        };
    }
}
