//! Commands that damage the git directory, or plant something in it.

use windlass_kernel::Code;

use crate::takeover::cell::Cell;

/// Commands after which nothing may be taken over.
const DAMAGE: [&str; 33] = [
    "rm -rf .git/*",
    "rm -rf .git/refs",
    "rm -rf .git/objects",
    "rm -rf .git/objects && mkdir .git/objects",
    "rm .git/HEAD",
    "echo garbage > .git/HEAD",
    "rm .git/HEAD && ln -s refs/heads/main .git/HEAD",
    "rm .git/HEAD && mkfifo .git/HEAD",
    "echo 'ref: ../../x' > .git/HEAD",
    "rm -f .git/refs/heads/main && sed -i '/main/d' .git/packed-refs",
    "git update-ref -d refs/heads/main",
    "git switch -q --orphan x && rm -rf .git/refs/heads/* .git/refs/tags/* .git/refs/windlass .git/packed-refs",
    "echo $(git rev-parse HEAD | tr '0-9a-f' '1-9a-f0') > .git/refs/heads/x",
    "echo garbage > .git/refs/heads/x",
    "mkdir .git/refs/windlass && echo garbage > .git/refs/windlass/x",
    "git symbolic-ref HEAD refs/windlass/run/pre",
    "git symbolic-ref refs/heads/x refs/windlass/run/pre",
    "git symbolic-ref refs/heads/x refs/windlass",
    "ln -s /etc/passwd .git/refs/heads/x",
    "mkfifo .git/refs/heads/x",
    "echo $(git rev-parse HEAD) > '.git/refs/heads/x y'",
    "echo $(git rev-parse HEAD^{tree}) > .git/refs/heads/x",
    "echo garbage >> .git/packed-refs",
    "rm .git/packed-refs && ln -s /etc/passwd .git/packed-refs",
    "echo garbage > .git/index",
    "rm .git/index && mkfifo .git/index",
    "rm .git/index && ln -s /etc/passwd .git/index",
    "truncate -s 300M .git/index",
    "echo x > x && git add x && rm -rf .git/objects/$(git rev-parse :x | cut -c1-2)",
    "printf 'x y z\\n' >> .git/logs/HEAD",
    "c=$(git commit-tree -m x $(git write-tree)) && rm -rf .git/objects/$(echo $c | cut -c1-2) && echo $c > .git/refs/heads/x",
    "b=$(echo hello | git hash-object -w --stdin) && t=$(printf '100644 blob %s\\t.git\\n' $b | git mktree) && git update-ref refs/heads/x $(git commit-tree -m x $t)",
    "b=$(echo hello | git hash-object -w --stdin) && f=.git/objects/$(echo $b | cut -c1-2)/$(echo $b | cut -c3-) && chmod u+w $f && cp .git/objects/$(git rev-parse HEAD^{tree} | sed 's|^..|&/|') $f && echo $b > .git/refs/tags/x",
];

#[test]
fn damage_is_refused_and_the_repository_stays_as_it_was() {
    for script in DAMAGE {
        let cell = Cell::new("sha1");
        let (base, files) = (cell.baseline(), cell.files());
        // Not all of git's own commands succeed in a damaged repository.
        cell.inside(script);
        let error = match cell.take_over(&base) {
            Err(error) => error,
            Ok(taken) => panic!("{script}: {taken:?}"),
        };
        assert_eq!(error.code(), Code::GitDamaged, "{script}: {error}");
        assert!(!error.to_string().contains('\n'), "{error}");
        let mut after = cell.files();
        // Objects that nothing refers to may have been added.
        after.retain(|path, _| {
            files.contains_key(path) || !path.starts_with(cell.common().join("objects"))
        });
        assert_eq!(after.keys().collect::<Vec<_>>(), files.keys().collect::<Vec<_>>(), "{script}");
        assert!(after == files, "{script}");
    }
}

/// What a command may not bring into a later checkout, by its index or by a commit.
const OF_OURS: [&str; 6] = [
    "b=$(echo evil | git hash-object -w --stdin) && git update-index --cacheinfo 100644,$b,.windlass/config.toml",
    "b=$(echo evil | git hash-object -w --stdin) && git update-index --add --cacheinfo 100644,$b,.windlass/policy/a.toml && git commit -q -m x",
    "b=$(echo evil | git hash-object -w --stdin) && git update-index --add --cacheinfo 100644,$b,sub/.Windlass/x && git commit -q -m x",
    "b=$(echo evil | git hash-object -w --stdin) && t=$(printf '100644 blob %s\\tconfig.toml\\n' $b | git mktree) && t=$(printf '040000 tree %s\\t.windlass\\n' $t | git mktree) && git update-ref refs/heads/x $(git commit-tree -m x -p HEAD $t)",
    "b=$(printf /etc | git hash-object -w --stdin) && git update-index --add --cacheinfo 120000,$b,.windlass/link && git commit -q -m x",
    "git rm -q --cached .windlass/config.toml && b=$(echo evil | git hash-object -w --stdin) && git update-index --add --cacheinfo 100644,$b,.windlass/config.toml && git commit -q -m x && git reset -q --soft HEAD~1",
];

#[test]
fn no_commit_or_index_brings_files_of_ours_with_another_content() {
    let cell = || {
        let cell = Cell::new("sha1");
        cell.outside("mkdir .windlass && echo mine > .windlass/config.toml && git add -A && git commit -q -m ours");
        cell
    };
    for script in OF_OURS {
        let cell = cell();
        let (base, refs) = (cell.baseline(), cell.outside("git for-each-ref"));
        cell.inside(script);
        let error = cell.take_over(&base).expect_err(script);
        assert_eq!(error.code(), Code::GitDamaged, "{script}: {error}");
        assert!(error.to_string().contains("which only people may change"), "{script}: {error}");
        assert_eq!(cell.outside("git for-each-ref"), refs, "{script}");
    }
    for script in [
        // A person wrote it.
        "git add -A && git commit -q -m x",
        "echo z > z && git add z && git commit -q -m z",
        "git switch -q old 2>/dev/null || git symbolic-ref HEAD refs/heads/old",
        "git reset -q --soft HEAD~1",
        "git branch x HEAD~1",
        "git commit -q --amend -m other",
    ] {
        let cell = cell();
        cell.outside("echo changed > .windlass/config.toml && echo new > .windlass/new.toml");
        let base = cell.baseline();
        cell.inside(script);
        cell.take_over(&base).unwrap_or_else(|error| panic!("{script}: {error}"));
    }
}

/// Commands whose effect is reported as protected, with its name.
const PROTECTED: [(&str, &str); 24] = [
    (
        "b=$(echo b | git hash-object -w --stdin) && git update-ref refs/replace/$b $b",
        "refs/replace/61780798228d17af2d34fce4cfbdf35556832472",
    ),
    ("git config core.fsmonitor /bin/evil", "config"),
    ("rm .git/config && ln -s /etc/passwd .git/config", "config"),
    ("rm .git/config", "config"),
    ("echo x > .git/config.worktree", "config.worktree"),
    ("echo x > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit", "hooks/pre-commit"),
    (
        "rm -rf .git/hooks && mkdir .git/hooks && echo x > .git/hooks/post-checkout",
        "hooks/post-checkout",
    ),
    ("echo '* filter=evil' > .git/info/attributes", "info/attributes"),
    ("mkfifo .git/info/sparse-checkout", "info/sparse-checkout"),
    ("echo /elsewhere > .git/commondir", "commondir"),
    ("mkdir -p .git/modules/m && echo x > .git/modules/m/config", "modules/m/config"),
    ("mkdir -p .git/remotes && echo x > .git/remotes/origin", "remotes/origin"),
    ("mkdir -p .git/branches && echo x > .git/branches/b", "branches/b"),
    (
        "mkdir -p .git/objects/info && echo /elsewhere > .git/objects/info/alternates",
        "objects/info/alternates",
    ),
    ("git update-ref refs/windlass/run/pre HEAD", "refs/windlass/run/pre"),
    ("git update-ref refs/windlass/evil HEAD", "refs/windlass/evil"),
    ("git update-ref refs/windlass/evil HEAD && git pack-refs --all", "refs/windlass/evil"),
    ("git symbolic-ref refs/windlass/evil refs/heads/main", "refs/windlass/evil"),
    // In the repository it would take the place of the folder.
    ("git update-ref refs/windlass HEAD", "refs/windlass"),
    (
        "mkdir -p .git/logs/refs/windlass && echo x > .git/logs/refs/windlass/evil",
        "logs/refs/windlass/evil",
    ),
    (
        "git -c core.logAllRefUpdates=always update-ref refs/windlass/run/pre HEAD",
        "logs/refs/windlass/run/pre",
    ),
    (
        "mkdir -p .git/worktrees/w && echo ../.. > .git/worktrees/w/commondir && echo /elsewhere/.git > .git/worktrees/w/gitdir && cp .git/HEAD .git/worktrees/w",
        "worktrees/w",
    ),
    (
        "mkdir -p .git/worktrees/w && echo /elsewhere > .git/worktrees/w/commondir && echo $PWD/in/.git > .git/worktrees/w/gitdir && cp .git/HEAD .git/worktrees/w",
        "worktrees/w",
    ),
    ("git worktree add -q ../outside", "worktrees/outside"),
];

#[test]
fn what_decides_how_git_behaves_is_never_taken_over() {
    for (script, name) in PROTECTED {
        let cell = Cell::new("sha1");
        let (base, refs) = (cell.baseline(), cell.outside("git for-each-ref refs/windlass"));
        let before = cell.files();
        cell.inside(&format!("{script}\necho z > z && git --git-dir=.git add z || true"));
        let taken = cell.take_over(&base).unwrap_or_else(|error| panic!("{script}: {error}"));
        assert!(taken.protected.iter().any(|path| path == name), "{script}: {taken:?}");
        let common = cell.common();
        let mut after = cell.files();
        for free in ["objects", "index", "logs", "refs/heads"] {
            if name != "objects/info/alternates" {
                after.retain(|path, _| !path.starts_with(common.join(free)));
            }
        }
        for (path, bytes) in after {
            let loose = path.starts_with(common.join("objects"))
                && !path.starts_with(common.join("objects/info"));
            if !loose && !path.ends_with("index") {
                assert_eq!(before.get(&path), Some(&bytes), "{script}: {}", path.display());
            }
        }
        assert_eq!(cell.outside("git for-each-ref refs/windlass"), refs, "{script}");
        cell.view();
    }
}

#[test]
fn odd_files_are_ignored() {
    let cell = Cell::new("sha1");
    let base = cell.baseline();
    cell.inside(
        "mkfifo .git/pipe && ln -s / .git/link && touch .git/x.lock .git/gc.pid && \
         mkdir -p .git/objects/zz && ln -s /etc/passwd .git/objects/zz/x && \
         ln -s /etc/passwd .git/objects/pack/pack-0.pack && echo x > .git/shallow && \
         touch \"$(printf '.git/odd\\377\\nname')\" && mkdir -p .git/a/b/c && touch .git/a/b/c/d && \
         rm -rf .git/objects/[0-4]*",
    );
    let before = cell.files();
    let taken = cell.take_over(&base).unwrap();
    assert_eq!(taken.taken, Vec::<String>::new());
    assert!(taken.ignored.contains(&"pipe".to_owned()), "{taken:?}");
    assert_eq!(taken.ignored.len(), 7, "{taken:?}");
    assert_eq!(cell.files(), before);
    cell.view();
}

#[test]
fn a_deep_tree_is_refused() {
    let cell = Cell::new("sha1");
    let base = cell.baseline();
    cell.inside("mkdir -p .git/$(printf 'd/%.0s' $(seq 60))");
    assert_eq!(cell.take_over(&base).unwrap_err().code(), Code::GitDamaged);
}

#[test]
fn the_users_other_work_tree_is_left_alone() {
    let cell = Cell::linked();
    let base = cell.baseline();
    let before = cell.files();
    let main = cell.common();
    cell.inside(&format!(
        "c=$(git commit-tree -m x HEAD^{{tree}}) && echo $c > {0}/refs/heads/main && \
         echo $c > {0}/HEAD && rm {0}/index && echo x > {0}/worktrees/linked/gitdir && \
         echo y > {0}/MERGE_HEAD",
        main.display()
    ));
    let taken = cell.take_over(&base).unwrap();
    assert_eq!(taken.taken, Vec::<String>::new(), "{taken:?}");
    let expected = ["HEAD", "MERGE_HEAD", "index", "refs/heads/main", "worktrees/linked/gitdir"];
    assert_eq!(taken.protected, expected);
    let mut after = cell.files();
    after.retain(|path, _| !path.starts_with(main.join("objects")) || before.contains_key(path));
    assert!(after == before);
}

/// A rebase that stops at a conflict.
const STOPPED: &str = "echo a > f && git add f && git commit -qm a && git switch -qc mine HEAD~1 && \
    echo b > f && git add f && git commit -qm b && ! git rebase -q main 2>/dev/null && \
    test -d .git/rebase-merge && cat .git/rebase-merge/* > /dev/null";

#[test]
fn an_unfinished_operation_is_taken_over_only_if_it_starts_no_program() {
    for (more, is_taken) in [
        ("", true),
        ("echo 'exec touch pwned' >> .git/rebase-merge/git-rebase-todo", false),
        ("echo 'x touch pwned' >> .git/rebase-merge/git-rebase-todo", false),
        ("echo=-S--evil; echo $echo > .git/rebase-merge/gpg_sign_opt", false),
        ("echo ../evil > .git/rebase-merge/strategy", false),
        ("mkdir -p .git/sequencer && echo 'exec x' > .git/sequencer/todo", true),
    ] {
        let cell = Cell::new("sha1");
        let base = cell.baseline();
        cell.inside(&format!("{STOPPED}\n{more}"));
        let taken = cell.take_over(&base).unwrap();
        let folder = cell.common().join("rebase-merge");
        assert_eq!(folder.is_dir(), is_taken, "{more}: {taken:?}");
        assert!(!cell.common().join("sequencer").exists(), "{more}");
        let told = taken.protected.iter().any(|path| path.ends_with("rebase-merge/"));
        assert_eq!(told, !is_taken, "{more}: {taken:?}");
    }
}

#[test]
fn a_recorded_resolution_is_not_taken_over() {
    let cell = Cell::new("sha1");
    let base = cell.baseline();
    cell.inside(&format!("git config rerere.enabled true; mkdir -p .git/rr-cache/ab && echo x > .git/rr-cache/ab/postimage; {STOPPED}"));
    cell.take_over(&base).unwrap();
    assert!(!cell.common().join("rr-cache/ab").exists());
}
