//! Nothing outside the workspace, nothing hidden and nothing special is read or written.

use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{OUTPUT_BYTES_MAX, World, version};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use windlass_files::FileTool::{Edit, List, Read, Search, Write};
use windlass_files::Files;

fn write(path: &str) -> Value {
    json!({ "path": path, "content": "new" })
}

fn edit(path: &str) -> Value {
    json!({ "path": path, "edits": [{ "old": "secret", "new": "new" }] })
}

#[test]
fn no_path_leads_out() {
    let world = World::new();
    let secret = world.outer.path().canonicalize().unwrap().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    world.put("folder/inside", "inside");
    world.link(&secret, "absolute");
    world.link("../secret", "relative");
    world.link("..", "up");
    world.link("folder", "down");
    world.link("/proc/self/root", "magic");
    world.link("/proc/self/cwd", "cwd");
    world.link("up/root/folder/../../secret", "winding");
    let secret = secret.to_str().unwrap();
    for path in [
        "..",
        "../secret",
        "folder/../../secret",
        "./../secret",
        "/etc/passwd",
        "/",
        secret,
        "absolute",
        "relative",
        "up/secret",
        "down/../../secret",
        "magic/etc/passwd",
        "cwd/secret",
        "winding",
        "//etc/passwd",
        "/proc/self/root/etc/passwd",
    ] {
        for (tool, args) in [
            (Read, json!({ "path": path })),
            (List, json!({ "path": path })),
            (Search, json!({ "path": path, "pattern": "secret" })),
            (Write, write(path)),
            (Edit, edit(path)),
        ] {
            assert_eq!(world.refused(tool, &args), "refused", "{tool:?} {path}");
        }
    }
    let around = format!("{}/../secret", world.root.display());
    for path in ["\0", "a\0b", &"x".repeat(5_000)] {
        assert_eq!(world.refused(Read, &json!({ "path": path })), "invalid", "{path}");
        assert_eq!(world.refused(Write, &write(path)), "invalid", "{path}");
    }
    assert_eq!(world.refused(Read, &json!({ "path": "" })), "invalid");
    assert_eq!(world.refused(Read, &json!({ "path": around })), "refused");
    assert_eq!(std::fs::read(secret).unwrap(), b"secret");
    // Whether something exists outside makes no difference.
    world.link("/no/such/file", "dangling");
    let answer =
        |path: &str| world.perform(Read, &json!({ "path": path })).unwrap_err().to_string();
    assert_eq!(answer("dangling").replace("dangling", "absolute"), answer("absolute"));
    assert!(!answer("absolute").contains("secret"));
    let list = world.done(List, &json!({})).to_string();
    assert!(!list.contains(secret) && !list.contains("/proc"), "{list}");
}

#[test]
fn paths_inside_are_found_in_every_form() {
    let world = World::new();
    world.put("folder/file", "inside");
    world.link("folder", "down");
    world.link("down/file", "link");
    world.link(world.path("folder/file"), "absolute");
    world.link("loop", "loop");
    let absolute = world.path("folder/file");
    for path in [
        "folder/file",
        "./folder//file",
        "folder/../folder/file",
        "down/file",
        "link",
        "absolute",
        "down/../folder/file",
        absolute.to_str().unwrap(),
    ] {
        let result = world.done(Read, &json!({ "path": path }));
        assert_eq!(result["content"], "inside", "{path}");
    }
    for path in
        ["loop", "missing", "folder/file/x", "folder/file/../file", "missing/../folder/file"]
    {
        assert_eq!(world.refused(Read, &json!({ "path": path })), "not_found", "{path}");
    }
    assert_eq!(world.refused(Read, &json!({ "path": "folder" })), "invalid");
    // The workspace may be named by a link.
    let named = world.outer.path().join("named");
    std::os::unix::fs::symlink(&world.root, &named).unwrap();
    let files = Files::new(&named, Vec::new()).unwrap();
    let path = named.join("folder/file");
    files.perform(Read, &json!({ "path": path }), None, OUTPUT_BYTES_MAX).unwrap();
}

#[test]
fn at_most_forty_links_are_followed() {
    let world = World::new();
    world.put("link0", "inside");
    for number in 1..=41 {
        world.link(format!("link{}", number - 1), &format!("link{number}"));
    }
    assert_eq!(world.done(Read, &json!({ "path": "link40" }))["content"], "inside");
    assert_eq!(world.refused(Read, &json!({ "path": "link41" })), "not_found");
}

#[test]
fn links_are_not_written_through() {
    let world = World::new();
    world.put("folder/file", "secret");
    world.link("folder", "down");
    world.link("file", "folder/link");
    world.link("missing", "dangling");
    for path in ["down/file", "folder/link", "dangling", "down/new"] {
        assert_eq!(world.refused(Write, &write(path)), "refused", "{path}");
        assert_eq!(world.refused(Edit, &edit(path)), "refused", "{path}");
        world.files.foresee(Write, &write(path)).unwrap_err();
    }
    let error = world.perform(Write, &write("down/file")).unwrap_err().to_string();
    assert!(error.contains("`folder/file`"), "{error}");
    assert_eq!(world.content("folder/file"), b"secret");
    assert_eq!(world.names(""), ["dangling", "down", "folder"]);
}

#[test]
fn files_with_several_names_are_not_written() {
    let world = World::new();
    world.put("a", "secret");
    std::fs::hard_link(world.path("a"), world.path("b")).unwrap();
    let args = json!({ "path": "a", "content": "new", "version": version(b"secret") });
    assert_eq!(world.refused(Write, &args), "refused");
    assert_eq!(world.refused(Edit, &edit("b")), "refused");
    assert_eq!(world.done(Read, &json!({ "path": "a" }))["content"], "secret");
    assert_eq!(world.content("b"), b"secret");
}

#[test]
fn only_regular_files_are_opened() {
    let world = World::new();
    let made = std::process::Command::new("mkfifo").arg(world.path("fifo")).status().unwrap();
    assert!(made.success());
    let _socket = UnixListener::bind(world.path("socket")).unwrap();
    world.put("file", "text");
    for path in ["fifo", "socket"] {
        assert_eq!(world.refused(Read, &json!({ "path": path })), "refused", "{path}");
        assert_eq!(world.refused(Write, &write(path)), "refused", "{path}");
        assert_eq!(world.refused(Edit, &edit(path)), "refused", "{path}");
        let args = json!({ "path": path, "pattern": "x" });
        assert_eq!(world.refused(Search, &args), "refused", "{path}");
    }
    let entries = world.done(List, &json!({}))["entries"].clone();
    let expected = json!([
        { "path": "fifo", "kind": "fifo" },
        { "path": "file", "size": 4 },
        { "path": "socket", "kind": "socket" },
    ]);
    assert_eq!(entries, expected);
    assert_eq!(world.done(Search, &json!({ "pattern": "text" }))["matches"], 1);
}

#[test]
fn git_and_our_own_folder_are_never_written() {
    let world = World::new();
    world.put(".git/config", "secret");
    world.put("sub/.git", "gitdir: elsewhere");
    world.put(".windlass/config.toml", "secret");
    for path in [
        ".git",
        ".git/config",
        ".git/hooks/pre-commit",
        ".GIT/config",
        ".Git",
        "sub/.git",
        "sub/.giT/x",
        "new/.git/config",
        ".windlass",
        ".windlass/config.toml",
        ".WINDLASS/x",
        "sub/../.git/config",
        "./.git/config",
        "git~1/config",
        ".git./config",
        ".g\u{200c}it/config",
    ] {
        assert_eq!(world.refused(Write, &write(path)), "refused", "{path}");
        assert_eq!(world.refused(Edit, &edit(path)), "refused", "{path}");
    }
    assert_eq!(world.names(""), [".git", ".windlass", "sub"]);
    // Names that only look alike are free.
    for path in [".gitignore", ".github/workflows/ci.yml", ".git2", "a.git/x"] {
        world.done(Write, &write(path));
    }
    assert_eq!(world.done(Read, &json!({ "path": ".git/config" }))["content"], "secret");
    assert_eq!(world.refused(List, &json!({ "path": ".git" })), "refused");
    assert_eq!(world.refused(Search, &json!({ "path": ".git", "pattern": "x" })), "refused");
    let all = world.done(List, &json!({ "depth": 9, "include_ignored": true })).to_string();
    assert!(!all.contains("\".git/") && !all.contains("sub/.git\""), "{all}");
}

#[test]
fn what_is_hidden_is_answered_like_what_does_not_exist() {
    let hidden = ["secrets", "config/.env", "link-to-key", "later/on", "./odd/../odd/file"];
    let outer = World::new();
    outer.put("secrets/key", "secret");
    outer.put("secrets/deep/er", "secret");
    outer.put("config/.env", "secret");
    outer.put("config/app", "open");
    outer.put("keys/real", "secret");
    outer.put("odd/file", "secret");
    outer.link("keys/real", "link-to-key");
    outer.link("config/.env", "innocent");
    outer.link("secrets", "folder");
    let hidden_paths = hidden.iter().map(std::path::PathBuf::from).collect();
    let files = Files::new(&outer.root, hidden_paths).unwrap();
    let answer = |tool, args: Value| {
        files.perform(tool, &args, None, OUTPUT_BYTES_MAX).expect_err(&args.to_string())
    };
    let paths = [
        "secrets",
        "secrets/key",
        "secrets/deep/er",
        "secrets/missing",
        "config/.env",
        "./config/.env",
        "link-to-key",
        "keys/real",
        "innocent",
        "folder/key",
        "later/on",
        "later/on/x",
        "odd/file",
        "config/../secrets/key",
    ];
    for path in paths {
        let missing = "no/such/path";
        for (tool, args) in [
            (Read, json!({ "path": path })),
            (List, json!({ "path": path })),
            (Search, json!({ "path": path, "pattern": "s" })),
        ] {
            let mut other = args.clone();
            other["path"] = json!(missing);
            let expected = answer(tool, other).to_string().replace(missing, path);
            assert_eq!(answer(tool, args).to_string(), expected, "{tool:?} {path}");
        }
        if !["innocent", "folder/key"].contains(&path) {
            assert_eq!(answer(Write, write(path)).code(), "not_found", "{path}");
            let expected = answer(Edit, edit(missing)).to_string().replace(missing, path);
            assert_eq!(answer(Edit, edit(path)).to_string(), expected, "{path}");
        }
    }
    let done = |tool, args: Value| files.perform(tool, &args, None, OUTPUT_BYTES_MAX).unwrap();
    let list = done(List, json!({ "depth": 9, "include_ignored": true }));
    let listed: Vec<&str> = list["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["path"].as_str().unwrap())
        .collect();
    let expected =
        ["config/", "config/app", "folder -> secrets", "innocent -> config/.env", "keys/", "odd/"];
    assert_eq!(listed, expected);
    assert_eq!(done(Search, json!({ "pattern": "secret" })), json!({ "matches": 0, "files": [] }));
    assert_eq!(done(Search, json!({ "glob": "**" }))["files"], json!(["config/app"]));
    assert_eq!(outer.content("secrets/key"), b"secret");
    Files::new(&outer.root, vec![".".into()]).err().unwrap();
    Files::new(&outer.root, vec![outer.outer.path().to_owned()]).err().unwrap();
    Files::new(&outer.root, vec!["/elsewhere".into()]).unwrap();
}

/// A thread swaps a folder for a link to the outside while the tools work in it.
#[test]
fn a_swapped_folder_never_leads_out() {
    let world = World::new();
    let outside = world.outer.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "secret").unwrap();
    std::fs::write(outside.join("only-outside"), "secret").unwrap();
    world.put("folder/file", "inside");
    let (folder, link) = (world.path("folder"), world.path("link"));
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let (mut inside, mut refused, mut number) = (0, 0, 0);
        // Until both states were met often enough.
        while inside < 100 || refused < 100 {
            number += 1;
            if let Ok(result) = world.perform(Read, &json!({ "path": "folder/file" })) {
                assert_eq!(result["content"], "inside");
                inside += 1;
            } else {
                refused += 1;
            }
            if number % 10 == 0 {
                let list = world.done(List, &json!({ "depth": 3 })).to_string();
                assert!(!list.contains("only-outside"), "{list}");
                let found = world.done(Search, &json!({ "pattern": "secret" }));
                assert_eq!(found["matches"], 0, "{found}");
                drop(world.perform(Write, &write(&format!("folder/new-{number}"))));
                drop(world.perform(Edit, &edit("folder/file")));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let mut names: Vec<_> =
        std::fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["file", "only-outside"]);
    assert_eq!(std::fs::read(outside.join("file")).unwrap(), b"secret");
}
