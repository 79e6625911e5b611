//! Repositories in which everything that can name a program names one: none is started.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use windlass_kernel::Code;
use windlass_workspace::{Git, GitCause, OnChanges, Snapshots, WorktreeStatus, take_over};

use crate::git::repository::{Repository, git_in, somebody};

/// A script that leaves a mark, and what it is called with.
struct Trap {
    script: PathBuf,
    marks: PathBuf,
}

impl Trap {
    fn new(repository: &Repository) -> Self {
        let (script, marks) = (repository.beside("trap"), repository.beside("marks"));
        let text = format!("#!/bin/sh\necho \"$0 $@\" >> '{}'\nexit 0\n", marks.display());
        write_program(&script, &text);
        Self { script, marks }
    }

    fn path(&self) -> &str {
        self.script.to_str().unwrap()
    }

    #[track_caller]
    fn assert_untouched(&self, what: &str) {
        let marks = fs::read_to_string(&self.marks).unwrap_or_default();
        assert_eq!(marks, "", "{what} started a program");
    }
}

fn write_program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// All settings of git that name a program; `@` stands for the program.
const SETTINGS: [(&str, &str); 46] = [
    ("core.fsmonitor", "@"),
    ("core.fsmonitorHookVersion", "1"),
    ("core.pager", "@"),
    ("pager.status", "@"),
    ("pager.config", "@"),
    ("pager.diff-tree", "@"),
    ("core.editor", "@"),
    ("sequence.editor", "@"),
    ("core.askPass", "@"),
    ("core.sshCommand", "@"),
    ("core.gitProxy", "@"),
    ("core.alternateRefsCommand", "@"),
    ("credential.helper", "!@"),
    ("gpg.program", "@"),
    ("gpg.ssh.program", "@"),
    ("gpg.x509.program", "@"),
    ("gpg.ssh.defaultKeyCommand", "@"),
    ("gpg.format", "ssh"),
    ("user.signingKey", "x"),
    ("commit.gpgSign", "true"),
    ("tag.gpgSign", "true"),
    ("log.showSignature", "true"),
    ("diff.external", "@"),
    ("diff.evil.command", "@"),
    ("diff.evil.textconv", "@"),
    ("diff.evil.cachetextconv", "true"),
    ("merge.evil.driver", "@ %A"),
    ("merge.default", "evil"),
    ("alias.status", "!@"),
    ("alias.add", "!@"),
    ("alias.update-index", "!@"),
    ("protocol.allow", "always"),
    ("protocol.ext.allow", "always"),
    ("extensions.partialClone", "origin"),
    ("remote.origin.promisor", "true"),
    ("remote.origin.partialCloneFilter", "blob:none"),
    ("remote.origin.uploadpack", "@"),
    ("submodule.recurse", "true"),
    ("submodule.sub.update", "!@"),
    ("diff.submodule", "log"),
    ("status.submoduleSummary", "true"),
    ("gc.auto", "1"),
    ("maintenance.auto", "true"),
    ("interactive.diffFilter", "@"),
    ("trailer.x.command", "@"),
    ("hook.evil.command", "@"),
];

const HOOKS: [&str; 16] = [
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-rewrite",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "prepare-commit-msg",
    "reference-transaction",
    "push-to-checkout",
];

/// Where the settings are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Config,
    Included,
    ConditionallyIncluded,
    WorktreeConfig,
}

const PLACES: [Place; 4] =
    [Place::Config, Place::Included, Place::ConditionallyIncluded, Place::WorktreeConfig];

/// Writes every setting, and hooks of every kind, into a repository.
fn plant(folder: &Path, trap: &Trap, place: Place, filters: bool) {
    let common = git_in(folder, &["rev-parse", "--path-format=absolute", "--git-common-dir"]);
    let common = PathBuf::from(common.trim_end());
    let included = common.join("included");
    let mut arguments = vec!["config"];
    match place {
        Place::Config => {}
        Place::Included | Place::ConditionallyIncluded => {
            let name =
                if place == Place::Included { "include.path" } else { "includeIf.gitdir:**.path" };
            git_in(folder, &["config", name, "included"]);
            arguments.extend(["--file", included.to_str().unwrap()]);
        }
        Place::WorktreeConfig => {
            git_in(folder, &["config", "core.repositoryFormatVersion", "1"]);
            git_in(folder, &["config", "extensions.worktreeConfig", "true"]);
            arguments.push("--worktree");
        }
    }
    let mut settings: Vec<(String, String)> = SETTINGS
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.replace('@', trap.path())))
        .collect();
    settings.push(("remote.origin.url".to_owned(), format!("ext::{} %S", trap.path())));
    for event in HOOKS {
        settings.push(("hook.evil.event".to_owned(), event.to_owned()));
    }
    if filters {
        for name in ["evil", "set", "unset", "unspecified", "e=v.il"] {
            for command in ["clean", "smudge", "process"] {
                settings.push((format!("filter.{name}.{command}"), trap.path().to_owned()));
            }
            settings.push((format!("filter.{name}.required"), "true".to_owned()));
        }
    }
    for (name, value) in settings {
        // The repository must be one that git opens, with the version that the extension needs.
        let add = if name == "hook.evil.event" { vec!["--add"] } else { Vec::new() };
        git_in(folder, &[&arguments[..], &add, &[&*name, &*value]].concat());
    }
    for name in HOOKS {
        write_program(&common.join("hooks").join(name), &fs::read_to_string(&trap.script).unwrap());
        write_program(&folder.join("hooks").join(name), &fs::read_to_string(&trap.script).unwrap());
    }
    git_in(folder, &["config", "core.hooksPath", "hooks"]);
    fs::create_dir_all(common.join("info")).unwrap();
    let attributes = "* diff=evil merge=evil ident text=auto\n";
    fs::write(common.join("info/attributes"), attributes).unwrap();
    fs::write(folder.join(".gitattributes"), attributes).unwrap();
}

/// A repository with a submodule, a nested and a bare repository, all of them hostile.
fn hostile(place: Place) -> (Repository, Trap) {
    let repository = Repository::new();
    let trap = Trap::new(&repository);
    let sub = repository.beside("sub");
    fs::create_dir(&sub).unwrap();
    git_in(&sub, &["init", "-q"]);
    fs::write(sub.join("s"), "s\n").unwrap();
    git_in(&sub, &["add", "-A"]);
    git_in(&sub, &["commit", "-q", "-m", "s"]);
    repository.git(&["submodule", "add", "-q", sub.to_str().unwrap(), "sub"]);
    repository.commit();
    repository.git(&["init", "-q", "nested"]);
    repository.file("nested/n", "n\n");
    git_in(&repository.path().join("nested"), &["add", "-A"]);
    git_in(&repository.path().join("nested"), &["commit", "-q", "-m", "n"]);
    repository.git(&["init", "-q", "--bare", "bare"]);
    for inner in ["sub", "nested"] {
        plant(&repository.path().join(inner), &trap, place, false);
    }
    let bare = repository.path().join("bare/config");
    let text = fs::read_to_string(&bare).unwrap();
    let evil = format!("{text}[core]\n\tfsmonitor = {}\n\tworktree = ..\n", trap.path());
    fs::write(bare, evil).unwrap();
    plant(&repository.path(), &trap, place, true);
    let _ = fs::remove_file(&trap.marks);
    (repository, trap)
}

/// Makes the stat data of the index stale, so that git has to read the files.
fn touch(repository: &Repository) {
    for name in ["a", "sub/s", "nested/n"] {
        let path = repository.path().join(name);
        let text = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, text).unwrap();
    }
}

/// Without our options git does start them: the traps of this file work.
#[test]
fn the_plain_command_starts_the_programs() {
    for place in PLACES {
        for arguments in [
            &["status"][..],
            &["update-ref", "refs/heads/x", "HEAD"],
            &["update-index", "--refresh", "-q"],
            &["cat-file", "-e", "1111111111111111111111111111111111111111"],
            &["worktree", "add", "-q", "../w"],
        ] {
            let (repository, trap) = hostile(place);
            touch(&repository);
            let mut plain = std::process::Command::new("timeout");
            plain
                .args(["20", "git"])
                .args(arguments)
                .current_dir(repository.path())
                .stdin(std::process::Stdio::null());
            // It may fail, or not.
            plain.output().unwrap();
            let marks = fs::read_to_string(&trap.marks).unwrap_or_default();
            assert!(!marks.is_empty(), "{place:?}: {arguments:?}");
        }
    }
}

#[test]
fn no_operation_of_git_starts_a_program() {
    for place in PLACES {
        let (repository, trap) = hostile(place);
        let git = repository.ours();
        let say = |what: &str| trap.assert_untouched(&format!("{place:?}: {what}"));
        touch(&repository);
        assert!(matches!(git.status().unwrap(), WorktreeStatus::Dirty { .. }));
        say("status");
        git.check_filters().unwrap();
        let head = git.head().unwrap().unwrap();
        git.branch().unwrap();
        git.top_level().unwrap();
        git.common_dir().unwrap();
        git.identity().unwrap();
        say("reading");
        git.tracked(&["a".to_owned()]).unwrap();
        touch(&repository);
        let tree = git.tree_of_worktree().unwrap();
        say("the tree");
        git.diff_to(&head.clone().into(), &tree).unwrap();
        git.empty_tree().unwrap();
        say("the difference");
        let parents = [head.clone()];
        let by = somebody();
        let commit = git.commit_tree(&tree, &parents, "m", &by, &by, 1).unwrap();
        git.update_ref("HEAD", &commit, Some(&head)).unwrap();
        touch(&repository);
        git.reset_index(&commit).unwrap();
        say("the commit");
        let (one, other) = (repository.beside("one"), repository.beside("other"));
        git.worktree_add(&one, "one", &commit).unwrap();
        git.worktree_add_detached(&other, &commit, &tempfile::tempfile().unwrap()).unwrap();
        git.worktree_list().unwrap();
        say("adding a work tree");
        let on_branch = Git::new(&one);
        on_branch.status().unwrap();
        on_branch.tree_of_worktree().unwrap();
        git.worktree_remove(&one, OnChanges::Discard).unwrap();
        git.worktree_remove(&other, OnChanges::Refuse).unwrap();
        say("removing a work tree");
        let hook = git.hook("pre-commit").unwrap();
        assert_eq!(hook.path, repository.path().join("hooks/pre-commit"), "{place:?}");
        assert_eq!(hook.in_worktree.as_deref(), Some("hooks/pre-commit".as_ref()), "{place:?}");
        assert!(hook.runs && !hook.is_outside, "{place:?}");
        say("all");
    }
}

#[test]
fn no_operation_of_snapshots_starts_a_program() {
    for place in PLACES {
        let (repository, trap) = hostile(place);
        let say = |what: &str| trap.assert_untouched(&format!("{place:?}: {what}"));
        // Snapshots convert nothing, so filters do not matter either.
        repository.file(".gitattributes", "* filter=evil diff=evil merge=evil\n");
        let path = repository.path();
        let snapshots = Snapshots::open(&repository.beside("private"), &path).unwrap();
        say("open");
        touch(&repository);
        let one = snapshots.capture(&path, "run/one").unwrap().tree;
        repository.file("a", "changed\n");
        let two = snapshots.capture(&path, "run/two").unwrap().tree;
        repository.file("new", "new\n");
        let three = snapshots.capture_unreferenced(&path).unwrap().tree;
        say("capture");
        snapshots.references().unwrap();
        assert_eq!(snapshots.check().unwrap(), []);
        snapshots.changes(&one, &two).unwrap();
        snapshots.text_diff(&one, &two, &[], 1000).unwrap();
        snapshots.read(&one, Path::new("a"), 1000).unwrap();
        snapshots.merge(&one, &two, &three).unwrap();
        snapshots.with_files(&one, &three, &["new".into()]).unwrap();
        snapshots.check_restorable(&three, &one).unwrap();
        say("compare");
        snapshots.change(&path, &crate::snapshot::world::changing(&three, &one)).unwrap();
        snapshots.set_reference(&three, "run/three").unwrap();
        snapshots.delete_references(&["run/one".to_owned()]).unwrap();
        say("restore");
    }
}

#[test]
fn a_take_over_starts_no_program() {
    for place in PLACES {
        let (repository, trap) = hostile(place);
        let upper = repository.beside("upper");
        let common = repository.path().join(".git");
        let base = windlass_workspace::Baseline::read(&common, &repository.path()).unwrap();
        base.show_in(&upper).unwrap();
        let head = repository.head();
        fs::write(upper.join("refs/heads/new"), format!("{head}\n")).unwrap();
        fs::write(upper.join("config"), "[core]\n\tfsmonitor = x\n").unwrap();
        let taken = take_over(&common, &upper, &repository.path(), &base).unwrap();
        assert_eq!(
            (taken.taken, taken.protected),
            (vec!["refs/heads/new".into()], vec!["config".into()])
        );
        trap.assert_untouched("the take-over");
    }
}

#[test]
fn a_filter_of_the_repository_refuses_the_operation() {
    for name in ["evil", "e=v.il"] {
        for attributes in [".gitattributes", ".git/info/attributes"] {
            let (repository, trap) = hostile(Place::Config);
            let head = repository.head();
            repository.file(attributes, format!("a filter={name}\n"));
            let git = repository.ours();
            let refused = |error: windlass_workspace::GitError| {
                assert_eq!(error.code(), Code::GitFilterRefused, "{error}");
                let GitCause::Filter { path, conversion } = error.cause else { panic!() };
                assert_eq!((path, conversion), ("a".into(), format!("filter `{name}`")));
            };
            refused(git.check_filters().unwrap_err());
            refused(git.status().unwrap_err());
            refused(git.tree_of_worktree().unwrap_err());
            git.reset_index(&head).unwrap();
            // What the repository defines stays refused, even if the user allows the name.
            refused(git.with_filters([name.to_owned()]).tree_of_worktree().unwrap_err());
            if attributes != ".gitattributes" {
                let add = repository.ours().worktree_add(&repository.beside("x"), "x", &head);
                refused(add.unwrap_err());
                assert!(!repository.beside("x").exists());
            }
            trap.assert_untouched("a filter");
        }
    }
}

#[test]
fn a_filter_in_a_submodule_refuses_the_status() {
    let (repository, trap) = hostile(Place::Config);
    let sub = repository.path().join("sub");
    git_in(&sub, &["config", "filter.evil.clean", trap.path()]);
    fs::write(sub.join(".gitattributes"), "* filter=evil\n").unwrap();
    touch(&repository);
    assert_eq!(repository.ours().status().unwrap_err().code(), Code::GitFilterRefused);
    // The tree records the commit of the submodule only.
    repository.ours().tree_of_worktree().unwrap();
    trap.assert_untouched("a filter of a submodule");
}

#[test]
fn a_driver_that_appears_in_the_new_work_tree_only_is_disabled() {
    let repository = Repository::new();
    let trap = Trap::new(&repository);
    repository.file(".gitattributes", "a filter=evil\n");
    repository.commit();
    repository.git(&["config", "includeIf.gitdir:**/worktrees/**.path", "included"]);
    let text = format!("[filter \"evil\"]\n\tsmudge = {0}\n\tprocess = {0}\n", trap.path());
    repository.file(".git/included", text);
    let head = repository.head();
    repository.ours().worktree_add(&repository.beside("x"), "x", &head).unwrap();
    assert_eq!(fs::read_to_string(repository.beside("x/a")).unwrap(), "1\n2\n3\n");
    trap.assert_untouched("adding the work tree");
}

#[test]
fn an_encoding_refuses_the_operation() {
    let repository = Repository::new();
    repository.file(".gitattributes", "a working-tree-encoding=UTF-16LE\n");
    let error = repository.ours().tree_of_worktree().unwrap_err();
    assert_eq!(error.code(), Code::GitFilterRefused, "{error}");
    let allowed = repository.ours().with_filters(["working-tree-encoding".to_owned()]);
    repository.file("a", b"x\0\n\0");
    allowed.tree_of_worktree().unwrap();
    repository.file(".gitattributes", "a working-tree-encoding=UTF-8\n");
    repository.ours().tree_of_worktree().unwrap();
}

#[test]
fn a_driver_without_a_program_changes_nothing() {
    let repository = Repository::new();
    repository.file(".gitattributes", "a filter=unknown\n");
    repository.ours().tree_of_worktree().unwrap();
    repository.ours().status().unwrap();
}
