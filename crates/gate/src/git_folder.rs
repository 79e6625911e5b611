//! Git directories in a workspace, beside the one that the workspace belongs to: which of their files can make git start a
//! program or work elsewhere.

use std::ffi::OsStr;
use std::path::Path;

/// Files that only say where git is, or what a person is told.
const STATE: [&str; 24] = [
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "BISECT_START",
    "BISECT_LOG",
    "BISECT_TERMS",
    "BISECT_EXPECTED_REV",
    "BISECT_ANCESTORS_OK",
    "HEAD",
    // Where the work tree of a git directory in `worktrees` is; git takes what it needs from there.
    "gitdir",
    "index",
    "packed-refs",
    "ORIG_HEAD",
    "FETCH_HEAD",
    "COMMIT_EDITMSG",
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "SQUASH_MSG",
    "TAG_EDITMSG",
    "AUTO_MERGE",
    "description",
    "shallow",
    "gc.log",
];
/// Files of `info` that are data.
const INFO: [&str; 4] = ["exclude", "refs", "sparse-checkout", "commit-graph"];
/// Keys of a configuration that name neither programs nor other folders, by section.
const PLAIN_KEYS: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "symlinks",
            "ignorecase",
            "precomposeunicode",
            "autocrlf",
            "eol",
            "safecrlf",
            "sparsecheckout",
        ],
    ),
    ("extensions", &["objectformat", "compatobjectformat"]),
    ("remote", &["url", "fetch", "tagopt", "prune"]),
    ("branch", &["remote", "merge", "rebase"]),
    ("user", &["name", "email"]),
    ("init", &["defaultbranch"]),
    ("submodule", &["url", "active"]),
    ("advice", &["detachedhead"]),
];

/// The names without which a folder with another name than `.git` is no git directory.
pub const TELLING: [&str; 4] = ["commondir", "objects", "refs", "HEAD"];
/// What git reads of a git directory.
const OWN: [&str; 17] = [
    "HEAD",
    "branches",
    "commondir",
    "config",
    "config.worktree",
    "hooks",
    "info",
    "logs",
    "modules",
    "objects",
    "rebase-apply",
    "rebase-merge",
    "refs",
    "remotes",
    "rr-cache",
    "sequencer",
    "worktrees",
];

/// Whether git takes a folder for a git directory. What linked ones share needs no `HEAD`, but only a `.git` may be shared:
/// see `commondir`.
pub fn is_git_folder(name: &OsStr, has: &dyn Fn(&str) -> bool) -> bool {
    name == ".git" || (has("HEAD") && (has("objects") && has("refs") || has("commondir")))
}

/// Whether a file of a git directory must be looked at. A folder with another name than `.git` may have others besides.
pub fn matters(git: &Path, inside: &Path) -> bool {
    let is_own = git.file_name().is_some_and(|name| name == ".git")
        || inside.iter().next().is_some_and(|first| OWN.iter().any(|own| first == *own));
    is_own && is_of_interest(inside)
}

/// Whether a name is one that git gives to an object or a pack.
fn is_object(parts: &[&str]) -> bool {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match parts {
        [folder, name] if folder.len() == 2 => {
            is_hex(folder) && (is_hex(name) || name.starts_with("tmp_obj_"))
        }
        ["pack", name] => ["pack-", "tmp_", ".tmp-", "multi-pack-index"]
            .iter()
            .any(|start| name.starts_with(start)),
        ["info", "packs" | "commit-graph"] => true,
        ["info", "commit-graphs", name] => {
            name.starts_with("graph-") || *name == "commit-graph-chain"
        }
        [name] => name.starts_with("tmp_"),
        _ => false,
    }
}

/// Whether a file of a git directory must be looked at: through every other one git would start a program, or work
/// elsewhere, or its meaning is not known here.
fn is_of_interest(inside: &Path) -> bool {
    let parts: Vec<&str> = inside.iter().map(|part| part.to_str().unwrap_or_default()).collect();
    match parts.as_slice() {
        [name] => !STATE.contains(name) && Path::new(name).extension() != Some(OsStr::new("lock")),
        ["hooks", name] => !name.ends_with(".sample"),
        ["info", name] => !INFO.contains(name),
        ["objects", rest @ ..] => !is_object(rest),
        // No part of a ref's name begins with a dot.
        ["refs" | "logs", rest @ ..] => rest.iter().any(|part| part.starts_with('.')),
        _ => true,
    }
}

/// Whether a configuration is certainly one in which nothing names a program or another folder. Whatever git's own parser may
/// see that is not plain is refused: continued lines, included files, values with `::` and quotes in keys.
pub fn is_plain_config(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let mut section: Option<&[&str]> = None;
    for line in text.split('\n').map(|line| line.trim_end_matches('\r').trim()) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if line.ends_with('\\') {
            return false;
        }
        if let Some(head) = line.strip_prefix('[') {
            let Some(head) = head.strip_suffix(']') else { return false };
            let name = match head.split_once(' ') {
                Some((name, sub)) => {
                    let quoted = sub.strip_prefix('"').and_then(|sub| sub.strip_suffix('"'));
                    match quoted {
                        Some(sub) if !sub.contains(['"', '\\', ']']) => name,
                        _ => return false,
                    }
                }
                None => head,
            };
            let name = name.to_ascii_lowercase();
            section = PLAIN_KEYS.iter().find(|(known, _)| *known == name).map(|(_, keys)| *keys);
            if section.is_none() {
                return false;
            }
            continue;
        }
        let (key, value) =
            line.split_once('=').map_or((line, ""), |(key, value)| (key.trim(), value));
        let key = key.to_ascii_lowercase();
        let is_plain = section.is_some_and(|keys| keys.contains(&key.as_str()));
        if !is_plain || value.contains("::") || value.contains(['"', '\\']) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_and_clone_write_is_plain() {
        let written = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
                       \tlogallrefupdates = true\n[remote \"origin\"]\n\turl = https://example.org/x.git\n\
                       \tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\
                       \tmerge = refs/heads/main\n# a note\n";
        assert!(is_plain_config(written.as_bytes()));
        assert!(is_plain_config(b""));
    }

    #[test]
    fn what_names_a_program_or_another_folder_is_not() {
        for text in [
            "[core]\nfsmonitor = ./x\n",
            "[CORE]\nhooksPath=h\n",
            "[core]\nworktree = ..\n",
            "[core]\nbare = false \\\n",
            "[include]\npath = ../x\n",
            "[includeIf \"gitdir:/\"]\npath = x\n",
            "[alias]\nst = !x\n",
            "[filter \"x\"]\nclean = x\n",
            "[diff \"x\"]\ntextconv = x\n",
            "[remote \"x\"]\nurl = ext::sh -c x\n",
            "[remote \"x\"]\nurl = ext\":\"\":\"sh -c x\n",
            "[remote \"x\"]\nuploadpack = x\n",
            "[remote \"x\"]\nproxy = x\n",
            "[submodule \"x\"]\nupdate = !x\n",
            "[credential]\nhelper = x\n",
            "[gpg]\nprogram = x\n",
            "fsmonitor = x\n",
            "[core] fsmonitor = x\n",
            "[core \"x\\\"]\"]\nbare = x\n",
            "[extensions]\nworktreeconfig = true\n",
        ] {
            assert!(!is_plain_config(text.as_bytes()), "{text}");
        }
        assert!(!is_plain_config(b"[user]\nname = \xff\n"));
    }

    #[test]
    fn only_data_of_git_is_passed_over() {
        for path in ["HEAD", "index", "index.lock", "hooks/pre-commit.sample", "info/exclude"] {
            assert!(!is_of_interest(Path::new(path)), "{path}");
        }
        for path in [
            "config",
            "config.worktree",
            "hooks/pre-commit",
            "hooks/sub/x.sample",
            "info/attributes",
            "info/grafts",
            "commondir",
            "objects/app/.git/config",
            "objects/evil",
            "refs/heads/.vscode/tasks.json",
            "rebase-merge/git-rebase-todo",
            "sequencer/opts",
            "rr-cache/x/postimage",
            "modules/x/config",
            "objects/info/alternates",
        ] {
            assert!(is_of_interest(Path::new(path)), "{path}");
        }
        for path in ["objects/ab/cdef", "objects/pack/pack-12.idx", "refs/heads/a/b", "logs/HEAD"] {
            assert!(!is_of_interest(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn a_bare_repository_is_a_git_directory_whatever_its_name() {
        let with = |names: &'static [&'static str]| move |name: &str| names.contains(&name);
        assert!(is_git_folder(OsStr::new("x"), &with(&["HEAD", "objects", "refs"])));
        assert!(is_git_folder(OsStr::new("x"), &with(&["HEAD", "commondir"])));
        assert!(is_git_folder(OsStr::new(".git"), &with(&[])));
        assert!(!is_git_folder(OsStr::new("x"), &with(&["config", "hooks", "objects", "refs"])));
        assert!(matters(Path::new("x"), Path::new("config")));
        assert!(matters(Path::new(".git"), Path::new("main.ts")));
        assert!(!matters(Path::new("x"), Path::new("main.ts")));
    }
}
