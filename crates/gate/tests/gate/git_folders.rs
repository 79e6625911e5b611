//! Git directories that a command makes or changes.

use std::fs;

use crate::world::World;

const NOTHING: [&str; 0] = [];

#[test]
fn a_plain_repository_passes() {
    let world = World::new();
    let held = world.held(|| {
        world.run("git", &["init", "-q", "sub"]);
        world.write("sub/file", "x");
        world.run("git", &["-C", "sub", "add", "-A"]);
        world.run(
            "git",
            &[
                "-C",
                "sub",
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@b.example",
                "commit",
                "-qm",
                "x",
            ],
        );
        world.run("git", &["-C", "sub", "remote", "add", "origin", "https://example.org/x.git"]);
        world.run("git", &["clone", "-q", "sub", "copy"]);
        world.run("git", &["clone", "-q", "--bare", "sub", "bare"]);
        world.run("git", &["-C", "copy", "gc", "-q"]);
        world.run("git", &["-C", "copy", "worktree", "add", "-q", "../tree"]);
    });
    assert_eq!(held, NOTHING);
    world.run("git", &["-C", "copy", "status", "-s"]);
    world.run("git", &["-C", "tree", "status", "-s"]);
}

#[test]
fn what_makes_git_start_programs_is_held_back() {
    let world = World::new();
    world.run("git", &["init", "-q", "mine"]);
    world.run("git", &["-C", "mine", "config", "core.fsmonitor", "my-own"]);
    let mine = world.read("mine/.git/config");
    let held = world.held(|| {
        world.run("git", &["init", "-q", "sub"]);
        world.run("git", &["-C", "sub", "config", "core.fsmonitor", "touch pwned"]);
        world.write("sub/.git/hooks/pre-commit", "touch pwned");
        world.run("git", &["-C", "mine", "config", "core.hooksPath", "evil"]);
        world.write("mine/.git/info/attributes", "* filter=x");
        world.run("git", &["init", "-q", "--bare", "bare"]);
        world.run("git", &["-C", "bare", "config", "alias.st", "!touch pwned"]);
        world.write("sub/.git/rebase-merge/git-rebase-todo", "exec touch pwned");
        world.write("sub/.git/objects/info/alternates", "/elsewhere");
        world.write("other/.git", "gitdir: ../missing");
        world.write("hidden/HEAD", "ref: refs/heads/main");
        world.write("hidden/commondir", "../mine/.git");
        world.link("hidden", "more");
        fs::create_dir_all(world.at("third")).unwrap();
        world.link("../hidden", "third/.git");
    });
    assert_eq!(
        held,
        [
            "bare/config",
            "hidden/commondir",
            "mine/.git/config",
            "mine/.git/info/attributes",
            "other/.git",
            "sub/.git/config",
            "sub/.git/hooks/pre-commit",
            "sub/.git/objects/info/alternates",
            "sub/.git/rebase-merge/git-rebase-todo",
            "third/.git",
        ]
    );
    assert_eq!(world.read("mine/.git/config"), mine);
}

#[test]
fn a_git_directory_that_is_put_together_bit_by_bit_is_seen() {
    let world = World::new();
    assert_eq!(
        world.held(|| world.write("x/config", "[core]\nfsmonitor = touch pwned\n")),
        NOTHING
    );
    let held = world.held(|| {
        world.write("x/HEAD", "ref: refs/heads/main\n");
        fs::create_dir_all(world.at("x/objects")).unwrap();
        fs::create_dir_all(world.at("x/refs")).unwrap();
    });
    assert_eq!(held, ["x/objects"]);
    assert!(world.at("x/config").exists());
    // A folder that is renamed to one.
    assert_eq!(
        world.held(|| world.write("y/config", "[core]\nfsmonitor = touch pwned\n")),
        NOTHING
    );
    assert_eq!(world.held(|| fs::rename(world.at("y"), world.at(".git")).unwrap()), [".git"]);
    assert_eq!(world.held(|| world.write("z/y/hooks/post-checkout", "touch pwned\n")), NOTHING);
    let held = world.held(|| fs::rename(world.at("z/y"), world.at("z/.git")).unwrap());
    assert_eq!(held, ["z/.git/hooks/post-checkout"]);
}

#[test]
fn a_git_directory_cannot_be_hidden() {
    let world = World::new();
    // What linked ones share has no `HEAD`.
    let held = world.held(|| {
        fs::create_dir_all(world.at("a/objects")).unwrap();
        fs::create_dir_all(world.at("a/refs")).unwrap();
        world.write("a/b/evil/HEAD", "ref: refs/heads/main");
        world.write("a/b/evil/commondir", "../..");
        world.write("a/config", "[core]\nfsmonitor = touch pwned\n");
        world.write("sub/.git", "gitdir: ../a/b/evil");
    });
    assert_eq!(held, ["a/b/evil/commondir", "sub/.git"]);
    // Hooks that were there before the folder became one.
    assert_eq!(
        world.held(|| {
            world.write("x/hooks/pre-commit", "touch pwned");
            fs::create_dir_all(world.at("x/refs")).unwrap();
        }),
        NOTHING
    );
    let held = world.held(|| {
        fs::create_dir_all(world.at("x/objects")).unwrap();
        world.write("x/HEAD", "ref: refs/heads/main");
    });
    assert_eq!(held, ["x/objects"]);
    // Beneath what is called history.
    let held = world.held(|| {
        world.run("git", &["init", "-q", "y"]);
        world.write("y/.git/objects/app/.git/config", "[core]\nfsmonitor = touch pwned\n");
        world.write("y/.git/objects/app/.vscode/tasks.json", "x");
    });
    assert_eq!(held, ["y/.git/objects/app/.git/config", "y/.git/objects/app/.vscode/tasks.json"]);
    // At the top of a workspace that is no repository.
    let held = world.held(|| {
        fs::create_dir_all(world.at("objects")).unwrap();
        fs::create_dir_all(world.at("refs")).unwrap();
        world.write("HEAD", "ref: refs/heads/main");
        world.write("config", "[core]\nbare = false\nworktree = .\nfsmonitor = touch pwned\n");
    });
    assert_eq!(held, ["objects"]);
}

#[test]
fn the_repository_of_the_workspace_is_not_made_by_a_command() {
    let world = World::new();
    let held = world.held(|| world.run("git", &["init", "-q", "."]));
    assert_eq!(held, [".git"]);
    // One that is there is somebody else's to look after.
    world.run("git", &["init", "-q", "."]);
    assert_eq!(world.held(|| world.run("git", &["config", "core.fsmonitor", "x"])), NOTHING);
}

#[test]
fn a_folder_of_sources_is_no_git_directory_and_loses_no_file() {
    let world = World::new();
    for path in ["src/objects/a.ts", "src/refs/b.ts", "src/new.ts", "src/deep/c.ts"] {
        world.write(path, "a person's work");
    }
    assert_eq!(world.held(|| world.write("src/hooks/useX.ts", "h")), NOTHING);
    // What makes it one is held back, and nothing else.
    let held = world.held(|| world.write("src/HEAD", "ref: refs/heads/main\n"));
    assert_eq!(held, ["src/HEAD"]);
    for path in ["src/objects/a.ts", "src/refs/b.ts", "src/new.ts", "src/deep/c.ts"] {
        assert_eq!(world.read(path).as_deref(), Some("a person's work"), "{path}");
    }
}
