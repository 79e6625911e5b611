//! Attributes of git that change bytes: a rollback brings files back byte for byte, or the run is refused.

use std::os::unix::fs::PermissionsExt as _;

use crate::world::{Repo, answers, build, id_of, passing, review, sh};

/// A repository with attributes and a file, committed.
fn with_file(attributes: &str, bytes: &[u8]) -> Repo {
    let repo = Repo::new();
    repo.write(".gitattributes", attributes);
    repo.write("k.txt", bytes);
    repo.commit("attributes");
    // What git would write itself is not what the person wrote.
    repo.write("k.txt", bytes);
    repo.git(&["update-index", "-q", "--refresh"]);
    repo
}

#[test]
fn mend_10_files_with_attributes_come_back_byte_for_byte() {
    let cases: [(&str, &[u8]); 7] = [
        ("*.txt text=auto eol=lf\n", b"a\r\nb\r\n"),
        ("*.txt text eol=crlf ident\n", b"$Id$\r\n$Id: 0$\n"),
        ("*.txt text eol=crlf\n", b"a\r\nb\r\n"),
        ("*.txt text eol=crlf\n", b"a\r\nb\n"),
        ("*.txt text\n", b"a\r\nb\r\n"),
        ("*.txt ident\n", b"$Id$ and $Id: abc$\n"),
        ("*.txt -text export-ignore\n", b"a\r\n\0b\n"),
    ];
    for (attributes, bytes) in cases {
        for line in ["rm k.txt", "printf 'z' > k.txt"] {
            let repo = with_file(attributes, bytes);
            let built = answers(&[build(&[sh(line)])], &[review("rejected")]);
            let id = id_of(&repo.run(&built).exit(3));
            assert_ne!(std::fs::read(repo.root().join("k.txt")).unwrap_or_default(), bytes);
            repo.windlass(&["close", &id, "--restore"]).exit(0);
            let back = std::fs::read(repo.root().join("k.txt")).unwrap();
            assert_eq!(back, bytes, "{attributes} {line}");
        }
    }
}

#[test]
fn mend_10_an_encoding_is_refused_and_wedges_no_run() {
    let encoding = "k.txt working-tree-encoding=UTF-16\n";
    // Before the run.
    let repo = Repo::new();
    repo.write(".gitattributes", encoding);
    repo.write("k.txt", b"\xff\xfea\0b\0");
    repo.commit("attributes");
    let built = answers(&[build(&[sh("rm k.txt")])], &[review("rejected")]);
    let refused = repo.run(&built).exit(1);
    assert_eq!(refused.error()["code"], "GIT_FILTER_REFUSED", "{refused}");
    assert_eq!(repo.traces(), 0);
    // In the middle of it.
    let repo = Repo::new();
    repo.write(".gitattributes", encoding);
    repo.commit("attributes");
    let built = answers(&[build(&[sh("echo a > k.txt")])], &[review("approved")]);
    let ended = repo.run(&built).exit(3);
    let detail = ended.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("GIT_FILTER_REFUSED") && detail.contains("k.txt"), "{ended}");
    repo.windlass(&["close", &id_of(&ended), "--restore"]).exit(0).says("k.txt");
    assert_eq!(repo.status(), "");
    repo.is_whole();
    repo.run(&passing()).exit(0);
    // The same with a filter of the repository's own settings, and while it waits for a person.
    let repo = Repo::new();
    repo.write(".gitattributes", "*.up filter=up\n");
    repo.commit("attributes");
    repo.git(&["config", "filter.up.clean", "tr a-z A-Z"]);
    let built = answers(&[build(&[sh("echo a > k.up"), sh("eval ls README.md")])], &[]);
    let held = repo.run(&built).exit(4);
    repo.windlass(&["queue", "show", &id_of(&held)]).exit(0);
    repo.windlass(&["cancel", &id_of(&held), "--by", "ada", "--reason", "no"]).exit(0);
    assert_eq!(repo.stands(&id_of(&held))["reason"], "cancelled");
}

#[test]
fn mend_10_a_file_behind_a_filter_comes_back_or_is_refused() {
    // Of a filter that is no program of the repository's settings, nothing is run.
    let repo = with_file("*.txt filter=none\n", b"a\r\nb\n");
    put_back(&repo, "printf z > k.txt");
    assert_eq!(std::fs::read(repo.root().join("k.txt")).unwrap(), b"a\r\nb\n");
    // One with programs is refused before the run, and neither is started.
    let repo = Repo::new();
    for part in ["clean", "smudge"] {
        let program = format!("sh -c 'echo x >> {}/ran; cat'", repo.place.base().display());
        repo.git(&["config", &format!("filter.lfs.{part}"), &program]);
    }
    std::fs::write(repo.root().join(".gitattributes"), "*.bin filter=lfs\n").unwrap();
    std::fs::write(repo.root().join("big.bin"), b"\0\xff\r\n").unwrap();
    repo.commit("attributes");
    let _ = std::fs::remove_file(repo.place.base().join("ran"));
    let built = answers(&[build(&[sh("printf z > big.bin")])], &[review("rejected")]);
    let refused = repo.run(&built).exit(1);
    assert_eq!(refused.error()["code"], "GIT_FILTER_REFUSED", "{refused}");
    assert_eq!((repo.traces(), repo.place.base().join("ran").exists()), (0, false));
    assert_eq!(std::fs::read(repo.root().join("big.bin")).unwrap(), b"\0\xff\r\n");
}

/// Lets a run do something, has it rejected, and puts the files back.
fn put_back(repo: &Repo, line: &str) -> crate::harness::Outcome {
    let built = answers(&[build(&[sh(line)])], &[review("rejected")]);
    let id = id_of(&repo.run(&built).exit(3));
    repo.windlass(&["close", &id, "--restore"]).exit(0)
}

#[test]
fn mend_10_permissions_come_back() {
    let repo = Repo::new();
    let mode = |name: &str| {
        std::fs::metadata(repo.root().join(name)).unwrap().permissions().mode() & 0o777
    };
    let set = |name: &str, mode: u32| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(repo.root().join(name), permissions).unwrap();
    };
    for (name, mode) in [("private.txt", 0o600), ("changed.txt", 0o640), ("tool.sh", 0o700)] {
        repo.write(name, "as it was");
        set(name, mode);
    }
    repo.write("usual.txt", "as it was");
    repo.commit("files");
    put_back(&repo, "rm private.txt tool.sh usual.txt; echo x > y; mv y changed.txt");
    for (name, expected) in
        [("private.txt", 0o600), ("changed.txt", 0o640), ("tool.sh", 0o700), ("usual.txt", 0o644)]
    {
        assert_eq!((repo.read(name).as_str(), mode(name)), ("as it was", expected), "{name}");
    }
}

#[test]
fn mend_10_permissions_that_alone_were_changed_come_back() {
    let repo = Repo::new();
    let mode = |name: &str| {
        std::fs::metadata(repo.root().join(name)).unwrap().permissions().mode() & 0o777
    };
    repo.write("open.txt", "x");
    repo.write("secret.txt", "x");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(repo.root().join("secret.txt"), private).unwrap();
    repo.commit("files");
    let line = "chmod 600 open.txt; chmod 644 secret.txt; mkdir made";
    let built = answers(&[build(&[sh(line)])], &[review("rejected")]);
    let id = id_of(&repo.run(&built).exit(3));
    assert_eq!((mode("open.txt"), mode("secret.txt")), (0o600, 0o644));
    let (from, to) = (format!("{id}/PRE_build"), format!("{id}/POST_build"));
    let diff = repo.windlass(&["checkpoint", "diff", &from, &to, "--json"]).exit(0).json();
    let told: Vec<String> = diff["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{} {} {}", one["path"], one["mode_before"], one["mode_after"]))
        .collect();
    let expected = [
        r#""made" null "040000""#,
        r#""open.txt" "100644" "100600""#,
        r#""secret.txt" "100600" "100644""#,
    ];
    assert_eq!(told, expected);
    repo.windlass(&["checkpoint", "diff", &from, &to])
        .exit(0)
        .says("~ open.txt (100644 → 100600)")
        .says("+ made/")
        .says("old mode 100600\nnew mode 100644");
    let rollback = ["checkpoint", "rollback", &from, "--by", "ada", "--reason", "no"];
    repo.windlass(&[&rollback[..], &["--dry-run"]].concat())
        .exit(0)
        .says("~ secret.txt (100644 → 100600)");
    assert_eq!((mode("open.txt"), mode("secret.txt")), (0o600, 0o644));
    repo.windlass(&rollback).exit(0);
    assert_eq!((mode("open.txt"), mode("secret.txt")), (0o644, 0o600));
    assert!(!repo.root().join("made").exists());
    repo.windlass(&["verify"]).exit(0);
    repo.windlass(&["checkpoint", "check"]).exit(0);
}

#[test]
fn mend_10_empty_folders_come_back() {
    let repo = Repo::new();
    std::fs::create_dir_all(repo.root().join("empty/deep")).unwrap();
    std::fs::create_dir_all(repo.root().join("src/empty")).unwrap();
    put_back(&repo, "rmdir empty/deep empty src/empty; mkdir -p made/new; echo x > built.txt");
    for (name, is_there) in [("empty/deep", true), ("src/empty", true), ("made", false)] {
        assert_eq!(repo.root().join(name).is_dir(), is_there, "{name}");
    }
    assert!(!repo.root().join("built.txt").exists());
}

#[test]
fn mend_10_a_repository_that_a_run_makes_is_told_and_wedges_no_run() {
    let repo = Repo::new();
    let git = "git -C made -c user.name=t -c user.email=t@t";
    let lines = format!(
        "git init -q made\necho x > made/f\n{git} add f\n{git} commit -qm x\necho x > built.txt\n"
    );
    repo.write("make.sh", lines);
    repo.commit("a script");
    let built = answers(&[build(&[sh("sh make.sh")])], &[review("rejected")]);
    let name = "`made` is a repository of its own";
    let id = id_of(&repo.run(&built).exit(3).warns(name));
    let (from, to) = (format!("{id}/PRE_build"), format!("{id}/POST_build"));
    let rollback = ["checkpoint", "rollback", &from, "--by", "ada", "--reason", "no"];
    for line in [
        &["checkpoint", "diff", &from, &to][..],
        &[&rollback[..], &["--dry-run"]].concat(),
        &rollback,
    ] {
        repo.windlass(line).exit(0).warns(name);
    }
    assert!(!repo.root().join("built.txt").exists());
    assert_eq!(repo.read("made/f"), "x\n");
}

#[test]
fn mend_10_a_repository_without_a_commit_is_the_works_failure_and_wedges_no_run() {
    let repo = Repo::new();
    repo.write("make.sh", "git init -q bare\necho x > bare/f\n");
    repo.commit("a script");
    let built = answers(&[build(&[sh("sh make.sh")])], &[review("rejected")]);
    let ended = repo.run(&built).exit(3);
    let detail = ended.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("GIT_UNRECORDABLE"), "{detail}");
    assert!(detail.contains("`bare` is a repository without a commit"), "{detail}");
    repo.windlass(&["verify"]).exit(0);
}

#[test]
fn mend_10_edits_in_submodules_are_told_and_wedge_no_run() {
    let repo = Repo::new();
    let inner = repo.place.base().join("inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join("lib.txt"), "one\n").unwrap();
    let git = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"];
    let path = inner.to_str().unwrap();
    repo.git(&[&git[..], &["-C", path, "init", "-q"]].concat());
    repo.git(&[&git[..], &["-C", path, "add", "."]].concat());
    repo.git(&[&git[..], &["-C", path, "commit", "-qm", "x"]].concat());
    repo.git(&[&git[..], &["submodule", "--quiet", "add", path, "lib"]].concat());
    repo.commit("a submodule");
    let built = answers(
        &[build(&[sh("echo x > built.txt; echo two > lib/lib.txt")])],
        &[review("rejected")],
    );
    let ran = repo.run(&built).exit(3).warns("`lib` is a repository of its own and has changes");
    let id = id_of(&ran);
    let (from, to) = (format!("{id}/PRE_build"), format!("{id}/POST_build"));
    let dry = ["checkpoint", "rollback", &from, "--dry-run"];
    repo.windlass(&dry).exit(0).warns("`lib` is a repository of its own");
    let plan = repo.windlass(&[&dry[..], &["--json"]].concat()).exit(0).json();
    assert_eq!(plan["nested"], serde_json::json!(["lib"]));
    repo.windlass(&["checkpoint", "diff", &from, &to])
        .exit(0)
        .says("built.txt")
        .warns("`lib` is a repository of its own");
    let diff = repo.windlass(&["checkpoint", "diff", &from, &to, "--json"]).exit(0).json();
    assert_eq!(diff["nested"], serde_json::json!(["lib"]));
    repo.windlass(&["close", &id, "--restore"]).exit(0).warns("`lib` is a repository of its own");
    assert_eq!(repo.read("lib/lib.txt"), "two\n");
    assert!(!repo.root().join("built.txt").exists());
    let line = ["checkpoint", "list", &id];
    repo.windlass(&line).exit(0);
}
