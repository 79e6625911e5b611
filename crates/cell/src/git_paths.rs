//! Where a work tree's git directories are, found without git.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// The longest `.git` file or `commondir` file.
const LINK_BYTES_MAX: u64 = 16 * 1024;

/// How deep folders of submodules are searched.
const MODULES_DEPTH_MAX: usize = 16;

/// The git directories of a work tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitPaths {
    /// The top of the work tree.
    pub top: PathBuf,
    /// The `.git` file, if `.git` is a file that names the git directory.
    pub link: Option<PathBuf>,
    /// The git directory of this work tree.
    pub directory: PathBuf,
    /// The git directory that all work trees of the repository share.
    pub common: PathBuf,
}

/// Finds the repository of a folder; `None` if it is in none.
///
/// # Errors
/// A text, when `.git` is neither a folder nor a valid file.
pub fn find_git(folder: &Path) -> Result<Option<GitPaths>, String> {
    for top in folder.ancestors() {
        let path = top.join(".git");
        let Ok(metadata) = path.symlink_metadata() else { continue };
        let paths = if metadata.is_dir() {
            GitPaths { top: top.to_owned(), link: None, common: path.clone(), directory: path }
        } else if metadata.is_file() {
            let named = read_link(&path, "gitdir: ")?;
            let directory = absolute(top, &named);
            let shared = directory.join("commondir");
            let common = match shared.symlink_metadata() {
                Ok(_) => absolute(&directory, &read_link(&shared, "")?),
                Err(_) => directory.clone(),
            };
            if !belongs(&directory, &common, &path, top) {
                let text = "names a git directory that does not name it in return";
                return Err(format!("`{}` {text}", path.display()));
            }
            GitPaths { top: top.to_owned(), link: Some(path), directory, common }
        } else {
            return Err(format!("`{}` is neither a folder nor a file", path.display()));
        };
        return if paths.common.join("HEAD").symlink_metadata().is_ok() {
            Ok(Some(paths))
        } else {
            Err(format!("`{}` is not a git directory", paths.common.display()))
        };
    }
    Ok(None)
}

/// Whether a git directory is that of a work tree. A command can write a `.git` file into a folder that has
/// none, and would so be shown the repository of another project; it cannot write into that repository.
fn belongs(directory: &Path, common: &Path, link: &Path, top: &Path) -> bool {
    let same = |a: &Path, b: &Path| match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        (_, _) => false,
    };
    if directory != common {
        // A linked work tree.
        let place =
            directory.parent().filter(|parent| parent.file_name() == Some("worktrees".as_ref()));
        let back = read_link(&directory.join("gitdir"), "");
        return place.and_then(Path::parent).is_some_and(|parent| same(parent, common))
            && back.is_ok_and(|back| same(&absolute(directory, &back), link));
    }
    // A submodule, or a git directory elsewhere.
    work_trees(directory).iter().any(|named| same(named, top))
}

/// The work trees that a git directory names by `core.worktree`.
fn work_trees(directory: &Path) -> Vec<PathBuf> {
    let config = std::fs::read_to_string(directory.join("config")).unwrap_or_default();
    let values = config.lines().filter_map(|line| {
        let value = line.trim().strip_prefix("worktree")?.trim_start().strip_prefix('=')?;
        Some(value.trim().trim_matches('"'))
    });
    values.map(|value| absolute(directory, Path::new(value))).collect()
}

impl GitPaths {
    /// The `.git` files of its submodules, those of submodules included: a git outside that looks at the work
    /// tree goes where they point. Which submodules there are no command can change.
    #[must_use]
    pub fn submodule_links(&self) -> BTreeSet<PathBuf> {
        let mut links = BTreeSet::new();
        for directory in [&self.common, &self.directory] {
            collect_links(&directory.join("modules"), 0, &mut links);
        }
        links.retain(|link| link.starts_with(&self.top));
        links
    }
}

fn collect_links(folder: &Path, depth: usize, links: &mut BTreeSet<PathBuf>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    for directory in folders.map(|entry| entry.path()).filter(|_| depth < MODULES_DEPTH_MAX) {
        if directory.join("HEAD").symlink_metadata().is_ok() {
            links.extend(work_trees(&directory).into_iter().map(|tree| tree.join(".git")));
            collect_links(&directory.join("modules"), depth + 1, links);
        } else {
            // The name of a submodule can have several parts.
            collect_links(&directory, depth + 1, links);
        }
    }
}

fn read_link(path: &Path, prefix: &str) -> Result<PathBuf, String> {
    let cannot = |why: &str| format!("`{}` cannot be read: {why}", path.display());
    let metadata = path.symlink_metadata().map_err(|error| cannot(&error.to_string()))?;
    if !metadata.is_file() || metadata.len() > LINK_BYTES_MAX {
        return Err(cannot("it is not a short file"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| cannot(&error.to_string()))?;
    let named = text.trim_end_matches(['\n', '\r']).strip_prefix(prefix);
    let named = named.filter(|named| !named.is_empty() && !named.contains('\n'));
    named.map(PathBuf::from).ok_or_else(|| cannot("it names no folder"))
}

/// The path from a base, without `.` and `..`.
fn absolute(base: &Path, path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in base.join(path).components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};

    use super::*;

    /// A repository with a work tree, and what the work tree's git directory names in return.
    fn world(back: &str) -> (tempfile::TempDir, Result<Option<GitPaths>, String>) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let directory = root.join("main/.git/worktrees/tree");
        for path in [&directory, &root.join("tree"), &root.join("other")] {
            create_dir_all(path).unwrap();
        }
        write(root.join("main/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        write(root.join("other/.git"), "").unwrap();
        write(directory.join("commondir"), "../..\n").unwrap();
        write(directory.join("gitdir"), format!("{}\n", root.join(back).display())).unwrap();
        let link = format!("gitdir: {}\n", directory.display());
        write(root.join("tree/.git"), link).unwrap();
        let found = find_git(&root.join("tree"));
        (folder, found)
    }

    #[test]
    fn a_work_tree_is_followed_only_to_a_git_directory_that_names_it_in_return() {
        let (folder, found) = world("tree/.git");
        let root = folder.path().canonicalize().unwrap();
        let expected = GitPaths {
            top: root.join("tree"),
            link: Some(root.join("tree/.git")),
            directory: root.join("main/.git/worktrees/tree"),
            common: root.join("main/.git"),
        };
        assert_eq!(found, Ok(Some(expected)));
        for back in ["other/.git", "missing/.git"] {
            let (_folder, found) = world(back);
            assert!(found.unwrap_err().contains("does not name it in return"), "{back}");
        }
    }
}
