//! Refs that lead elsewhere or pretend to be those of others, and repositories in the work tree that nobody was asked about.

use windlass_kernel::Code;

use crate::takeover::cell::Cell;

/// Makes a repository in the work tree, with a commit.
const SUB: &str = "git init -q -b main sub && git -C sub commit -q --allow-empty -m s";

#[test]
fn what_leads_elsewhere_is_refused() {
    for script in [
        "echo 'ref: refs/replace/x' > .git/HEAD",
        "echo 'ref: refs/tags/v1' > .git/HEAD",
        "git symbolic-ref refs/heads/y refs/replace/x",
        "git symbolic-ref refs/heads/y refs/replace/x && git symbolic-ref HEAD refs/heads/y",
        "git symbolic-ref refs/remotes/origin/HEAD refs/replace/x",
        "echo 'ref: refs/replace/x' > .git/ORIG_HEAD",
        "printf '\n ref: refs/replace/x\n' > .git/AUTO_MERGE",
        "mkdir -p .git/refs/bisect && echo 'ref: refs/replace/x' > .git/refs/bisect/bad",
    ] {
        let cell = Cell::new("sha1");
        let (base, files) = (cell.baseline(), cell.files());
        cell.inside(script);
        match cell.take_over(&base) {
            Err(error) => assert_eq!(error.code(), Code::GitDamaged, "{script}: {error}"),
            // A ref of a remote is not taken over at all.
            Ok(taken) => assert!(!taken.protected.is_empty(), "{script}: {taken:?}"),
        }
        assert!(cell.files() == files, "{script}");
    }
    let cell = Cell::new("sha1");
    cell.run("git symbolic-ref refs/heads/y refs/heads/old && git switch -q --orphan new");
    assert_eq!(cell.outside("git symbolic-ref HEAD"), "refs/heads/new\n");
}

#[test]
fn branches_of_others_are_not_forged() {
    let forge = "git update-ref refs/remotes/origin/main HEAD && git update-ref refs/remotes/new/x HEAD && \
                 git tag origin/main && git branch origin/main && git branch origin/dev && \
                 git update-ref refs/origin/main HEAD && \
                 git branch plain && git tag v2";
    let hiding = [
        "refs/heads/origin/main",
        "refs/origin/main",
        "refs/remotes/new/x",
        "refs/remotes/origin/main",
        "refs/tags/origin/main",
    ];
    for (reaches, expected) in [
        (false, &hiding[..]),
        // Whoever fetches may know something new; no tag takes the place of it.
        (true, &["refs/heads/origin/main", "refs/origin/main", "refs/tags/origin/main"]),
    ] {
        let cell = Cell::new("sha1");
        cell.outside("git update-ref refs/remotes/origin/main v1");
        let base = cell.baseline().reaching_others(reaches);
        cell.inside(forge);
        let taken = cell.take_over(&base).unwrap();
        assert_eq!(taken.protected, expected);
        let names = cell.outside("git for-each-ref --format='%(refname)'");
        for name in expected.iter().filter(|name| **name != "refs/remotes/origin/main") {
            assert!(!names.contains(name), "{name}: {names}");
        }
        assert!(names.contains("refs/heads/plain") && names.contains("refs/tags/v2"), "{names}");
        let tip = if reaches { "main" } else { "v1" };
        let ids = cell.outside(&format!("git rev-parse refs/remotes/origin/main {tip}"));
        let ids: Vec<&str> = ids.lines().collect();
        assert_eq!(ids[0], ids[1]);
    }
}

#[test]
fn a_branch_may_begin_with_the_name_of_a_remote_and_hide_none_of_it() {
    let cell = Cell::new("sha1");
    cell.outside("git update-ref refs/remotes/origin/main v1");
    let base = cell.baseline();
    cell.inside("git switch -q -c origin/fix && echo z > z && git add z && git commit -q -m z");
    assert!(cell.take_over(&base).unwrap().protected.is_empty());
    assert_eq!(cell.outside("git log -1 --format=%s origin/fix"), "z\n");
    // One that hides a remote's is left out; then no commit is lost on it.
    let base = cell.baseline();
    let head = cell.outside("git symbolic-ref HEAD");
    cell.inside("git switch -q -c origin/main && git commit -q --allow-empty -m lost");
    assert_eq!(cell.take_over(&base).unwrap_err().code(), Code::GitDamaged);
    assert_eq!(cell.outside("git symbolic-ref HEAD"), head);
}

#[test]
fn a_repository_in_the_work_tree_is_added_by_people_alone() {
    for script in [
        format!("{SUB} && git add sub 2>/dev/null"),
        format!("{SUB} && git add sub 2>/dev/null && git commit -q -m sub"),
        "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub".to_owned(),
        "t=$(printf '160000 commit %s\\tsub\\n' $(git rev-parse HEAD) | git mktree) && \
         git update-ref refs/heads/x $(git commit-tree -m x $t)"
            .to_owned(),
    ] {
        let cell = Cell::new("sha1");
        let (base, refs) = (cell.baseline(), cell.outside("git for-each-ref"));
        cell.inside(&script);
        let error = cell.take_over(&base).expect_err(&script);
        assert_eq!(error.code(), Code::GitDamaged, "{script}: {error}");
        assert!(error.to_string().contains("which only people may do"), "{script}: {error}");
        assert_eq!(cell.outside("git for-each-ref"), refs, "{script}");
    }
}

#[test]
fn what_commits_of_people_have_comes_and_goes() {
    for script in [
        "git switch -q with",
        "git merge -q with",
        "echo z > z && git add z && git commit -q -m z",
        "git switch -q with && git update-index --cacheinfo 160000,$(git rev-parse HEAD),sub && git commit -q -m other",
        "git switch -q with && git rm -q --cached sub && git commit -q -m gone",
        "git cherry-pick with",
    ] {
        let cell = Cell::new("sha1");
        cell.outside(&format!(
            "git switch -q -c with && {SUB} && git add sub 2>/dev/null && git commit -q -m sub && \
             git switch -q main && rm -rf sub"
        ));
        let base = cell.baseline();
        cell.inside(script);
        cell.take_over(&base).unwrap_or_else(|error| panic!("{script}: {error}"));
    }
}
