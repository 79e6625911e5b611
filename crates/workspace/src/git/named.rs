//! Files of the work tree that git's settings name: whoever changes one of them decides what git does next, also for a person
//! who types `git status`.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::{Git, GitCause, GitError, path_of, split_once};

/// The sections, and keys of sections, whose values are data: they name neither programs nor files.
const DATA: &[&str] = &[
    "user",
    "blame",
    "commit",
    "log",
    "mailmap",
    "maintenance",
    "pull",
    "rebase",
    "diff.orderfile",
    "author",
    "committer",
    "branch",
    "color",
    "advice",
    "url",
    "push",
    "fetch",
    "extensions",
    "rerere",
    "status",
    "pack",
    "index",
    "feature",
    "remote.url",
    "remote.pushurl",
    "remote.fetch",
    "remote.push",
    "submodule.url",
    "submodule.active",
    "submodule.branch",
    "http",
    "safe",
    "init.defaultbranch",
    "gc.aggressivedepth",
    "gc.aggressivewindow",
    "gc.auto",
    "gc.autodetach",
    "gc.autopacklimit",
    "gc.bigpackthreshold",
    "gc.cruftpacks",
    "gc.logexpiry",
    "gc.maxcruftsize",
    "gc.packrefs",
    "gc.pruneexpire",
    "gc.reflogexpire",
    "gc.reflogexpireunreachable",
    "gc.worktreepruneexpire",
    "gc.writecommitgraph",
    "gitflow.bugfix",
    "gitflow.develop",
    "gitflow.feature",
    "gitflow.hotfix",
    "gitflow.master",
    "gitflow.release",
    "gitflow.support",
    "gitflow.versiontag",
    "lfs.access",
    "lfs.activitytimeout",
    "lfs.allowincompletepush",
    "lfs.batch",
    "lfs.concurrenttransfers",
    "lfs.contenttype",
    "lfs.dialtimeout",
    "lfs.fetchexclude",
    "lfs.fetchinclude",
    "lfs.fetchrecentalways",
    "lfs.fetchrecentcommitsdays",
    "lfs.fetchrecentrefsdays",
    "lfs.fetchrecentremoterefs",
    "lfs.keepalive",
    "lfs.lockignoredfiles",
    "lfs.locksverify",
    "lfs.pruneoffsetdays",
    "lfs.pruneremotetocheck",
    "lfs.pushurl",
    "lfs.repositoryformatversion",
    "lfs.setlockablereadonly",
    "lfs.skipdownloaderrors",
    "lfs.storage",
    "lfs.tlstimeout",
    "lfs.tustransfers",
    "lfs.url",
    "core.excludesfile",
];
/// The keys whose values are a path as a whole, which may be a folder.
const PATHS: [&str; 10] = [
    "include.path",
    "includeif.path",
    "core.hookspath",
    "gitflow.hooks",
    "core.attributesfile",
    "init.templatedir",
    "gpg.allowedsignersfile",
    "gpg.revocationfile",
    "http.sslcainfo",
    "http.sslcapath",
];

/// A setting as `git config --list` shows it.
struct Setting {
    /// The folder of the file that has it.
    folder: PathBuf,
    /// Section and name in lower case, without what is in between.
    kind: String,
    /// As git writes it.
    key: String,
    value: String,
}

impl Git {
    /// The paths of the work tree, relative to the folder, that the settings of the user and the repository name, each with
    /// the setting. What lies below such a path is named, too.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn named_by_settings(&self) -> Result<BTreeMap<String, String>, GitError> {
        let list = ["config", "-z", "--list", "--show-scope", "--show-origin"];
        let listed = match self.read("read git's settings").args(list).output() {
            Ok(listed) => listed,
            // Where there is no git, nothing obeys.
            Err(GitError { cause: GitCause::Missing(_), .. }) => return Ok(BTreeMap::new()),
            Err(error) => return Err(error),
        };
        let mut above = self.root().ancestors();
        let top = above.find(|folder| folder.join(".git").symlink_metadata().is_ok());
        let top = top.unwrap_or_else(|| self.root());
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let mut named = BTreeMap::new();
        for setting in settings(&listed, top) {
            for path in setting.paths(top, home.as_deref()) {
                if let Ok(path) = path.strip_prefix(self.root())
                    && !path.as_os_str().is_empty()
                    && !path.starts_with(".git")
                {
                    named.insert(path.to_string_lossy().into_owned(), setting.key.clone());
                }
            }
        }
        Ok(named)
    }
}

/// The settings of files, from `scope NUL origin NUL key LF value NUL` records; those of our own invocation are left out.
fn settings(bytes: &[u8], top: &Path) -> Vec<Setting> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some((_, after)) = split_once(rest, 0) {
        let Some((origin, after)) = split_once(after, 0) else { break };
        let Some((entry, after)) = split_once(after, 0) else { break };
        rest = after;
        let Some(file) = origin.strip_prefix(b"file:") else { continue };
        // Without a value it is `true`.
        let Some((key, value)) = split_once(entry, b'\n') else { continue };
        let key = String::from_utf8_lossy(key).into_owned();
        let kind = match (key.split_once('.'), key.rsplit_once('.')) {
            (Some((section, _)), Some((_, name))) => format!("{section}.{name}"),
            _ => key.clone(),
        };
        let mut folder = top.join(path_of(file));
        folder.pop();
        let value = String::from_utf8_lossy(value).into_owned();
        found.push(Setting { folder, kind: kind.to_ascii_lowercase(), key, value });
    }
    found
}

impl Setting {
    /// The paths in the work tree that its value names.
    fn paths(&self, top: &Path, home: Option<&Path>) -> Vec<PathBuf> {
        let section = self.kind.split('.').next().unwrap_or_default();
        let inside = |path: PathBuf| Some(path).filter(|path| path.starts_with(top) && path != top);
        if PATHS.contains(&self.kind.as_str()) {
            let base = if section.starts_with("include") { &self.folder } else { top };
            return inside(full(base, &self.value, home)).into_iter().collect();
        }
        let is_secret = self.kind != "core.askpass"
            && ["token", "pass", "secret", "header"].iter().any(|word| self.kind.contains(word));
        // An alias that starts no program is words of git's own.
        let is_plain_alias =
            section == "alias" && !self.value.starts_with('!') && !self.value.contains("-c");
        // Of an address that begins with `ext::` the rest is a program; it stands in the key or in the value.
        let is_program = section == "url" && self.key.contains("::")
            || ["url", "remote"].contains(&section) && self.value.contains("::");
        let is_data = DATA.contains(&section) || DATA.contains(&self.kind.as_str());
        if is_secret || is_plain_alias || is_data && !is_program {
            return Vec::new();
        }
        let named = if section == "url" { self.key.as_str() } else { "" };
        let mut found = Vec::new();
        for word in words(&self.value).chain(words(named)) {
            let path = full(top, word, home);
            // One that is not there yet may come; a word of a secret is none.
            let is_path = word.contains('/') && !word.starts_with('-');
            let has_place = section != "credential" || path.parent().is_some_and(Path::is_dir);
            if is_path && has_place && !path.is_dir() {
                found.extend(inside(path));
            }
            // Behind a variable or an option the rest may be a path from the top.
            let mut rest = Some(word);
            while let Some(part) = rest {
                let path = full(top, part, home);
                if path.is_file() {
                    found.extend(inside(path));
                }
                rest = part.split_once('/').map(|(_, rest)| rest);
            }
        }
        found
    }
}

/// The words of a command, whatever shell or program takes it apart.
fn words(value: &str) -> impl Iterator<Item = &str> {
    let is_end = |char: char| char.is_whitespace() || "\"'`;|&()<>{}=$!,:@*?[]\\".contains(char);
    value.split(is_end).filter(|word| !word.is_empty())
}

/// The path without `.` and `..`, from a folder.
fn full(base: &Path, text: &str, home: Option<&Path>) -> PathBuf {
    let below_home = text.strip_prefix("~/").and_then(|rest| Some(home?.join(rest)));
    let path = below_home.unwrap_or_else(|| base.join(text));
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_settings_name_in_the_work_tree_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("tools/hooks")).unwrap();
        for name in ["tools/clean.sh", "tools/filter.py", "run", "main"] {
            fs::write(top.join(name), "").unwrap();
        }
        let home = top.join("sub");
        let absolute = format!("{}/tools/abs.sh --x", top.display());
        let outside = format!("{}-other/x.sh", top.display());
        for (key, value, expected) in [
            ("include.path", "../.gitconfig", vec![".gitconfig"]),
            ("includeIf.gitdir:/x.path", "more.inc", vec![".git/more.inc"]),
            ("core.hooksPath", "tools/hooks", vec!["tools/hooks"]),
            ("core.hooksPath", ".", vec![]),
            ("core.attributesFile", "~/attributes", vec!["sub/attributes"]),
            ("filter.x.clean", "tools/clean.sh %f", vec!["tools/clean.sh"]),
            ("filter.x.smudge", "sh -c 'tools/new.sh; true'", vec!["tools/new.sh"]),
            ("diff.x.textconv", "python3 tools/filter.py", vec!["tools/filter.py"]),
            (
                "merge.x.driver",
                "$PWD/tools/clean.sh %A",
                vec!["PWD/tools/clean.sh", "tools/clean.sh"],
            ),
            ("core.fsmonitor", "./run", vec!["run"]),
            ("credential.helper", "!f() { tools/cred; }; f", vec!["tools/cred"]),
            ("credential.https://x.org.helper", &absolute, vec!["tools/abs.sh"]),
            ("alias.t", "!sh run", vec!["run"]),
            ("alias.t", "-c core.pager=run log", vec!["run"]),
            ("alias.t", "!ls tools/hooks", vec![]),
            ("alias.t", "log --oneline", vec![]),
            ("core.sshCommand", "ssh -i ~/.ssh/key", vec!["sub/.ssh/key"]),
            ("credential.helper", &outside, vec![]),
            ("init.defaultBranch", "main", vec![]),
            ("http.https://x.org/.extraHeader", "Authorization: basic abc/def", vec![]),
            ("credential.helper", "!echo password=abc/def", vec![]),
            ("github.token", "abc/def", vec![]),
            ("core.askPass", "tools/clean.sh", vec!["tools/clean.sh"]),
            ("lfs.customtransfer.x.path", "tools/clean.sh", vec!["tools/clean.sh"]),
            ("lfs.extension.x.clean", "tools/clean.sh %f", vec!["tools/clean.sh"]),
            ("lfs.https://x.org/info/lfs.access", "basic/x", vec![]),
            ("gc.recentObjectsHook", "tools/clean.sh", vec!["tools/clean.sh"]),
            ("gc.pruneExpire", "2.weeks/ago", vec![]),
            ("gitflow.path.hooks", "tools/hooks", vec!["tools/hooks"]),
            ("gitflow.prefix.feature", "feature/", vec![]),
            ("url.ext::tools/clean.sh %S .insteadOf", "x:", vec!["tools/clean.sh"]),
            ("url.https://x.org/a/.insteadOf", "x:b/c", vec![]),
            ("branch.main.merge", "refs/heads/main", vec![]),
            ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*", vec![]),
            ("core.editor", "vim", vec![]),
        ] {
            let text = format!("local\0file:.git/config\0{key}\n{value}\0");
            let all = settings(text.as_bytes(), &top);
            let mut found: Vec<PathBuf> =
                all.iter().flat_map(|one| one.paths(&top, Some(&home))).collect();
            found.dedup();
            let expected: Vec<PathBuf> = expected.iter().map(|path| top.join(path)).collect();
            assert_eq!(found, expected, "{key} {value}");
        }
        // What we set ourselves is no setting of anybody, and a key may have no value.
        let text = b"command\0command line:\0core.hooksPath\ntools/hooks\0local\0file:.git/config\0core.bare\0";
        assert!(settings(text, &top).is_empty());
    }
}
