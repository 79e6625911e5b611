//! The files that a call names, as a person decides about them.

use std::collections::BTreeMap;
use std::path::Path;

use windlass_kernel::Digest;
use windlass_kernel::artifact::NamedFile;
use windlass_policy::{ResolvedPath, Workspace as _, files_matching, folder_of_pattern};

use crate::workspace::FileWorkspace;

/// The most files of a call that are shown to a person, and the most that is read of each.
const NAMED_FILES_MAX: usize = 256;
const NAMED_FILE_BYTES_MAX: u64 = 32 << 20;

impl FileWorkspace {
    /// The files of the workspace that these paths name, are below, or match, with the digests of their contents.
    /// For more files than can be shown the folder or the pattern stands, with a digest of all of them. What
    /// Windlass itself writes counts only where a path leads into it.
    pub(crate) fn named_files(&self, paths: &[String]) -> Vec<NamedFile> {
        let mut named = BTreeMap::new();
        for path in paths {
            let is_pattern = path.contains(['*', '?', '[']);
            let without_views = |start: &str, files: Option<Vec<String>>| match self.resolve(start)
            {
                ResolvedPath::Inside(start) if self.is_view(&start) => files,
                ResolvedPath::Inside(_)
                | ResolvedPath::Outside(_)
                | ResolvedPath::Unresolvable(_) => {
                    let own = |file: &String| !self.is_view(file);
                    files.map(|files| files.into_iter().filter(own).collect())
                }
            };
            let (shown, files) = match self.resolve(path) {
                _ if is_pattern => {
                    let files = files_matching(self, path);
                    (path.clone(), without_views(folder_of_pattern(path), files))
                }
                ResolvedPath::Inside(path) if self.root().join(&path).is_dir() => {
                    let files = without_views(&path, self.files_below(&path));
                    (path, files)
                }
                ResolvedPath::Inside(path) => (path.clone(), Some(vec![path])),
                ResolvedPath::Outside(_) | ResolvedPath::Unresolvable(_) => continue,
            };
            let digest = |file: &String| Some((file.clone(), digest_of(&self.root().join(file))?));
            match files {
                Some(files) if named.len() + files.len() <= NAMED_FILES_MAX => {
                    named.extend(files.iter().filter_map(digest));
                }
                Some(files) => {
                    named.insert(shown, self.digest_of_all(files));
                }
                // Nobody could look at so many files; that the folder itself changes is noticed.
                None => {
                    let folder = self.root().join(&shown);
                    named.insert(shown, Digest::of(about(&folder).unwrap_or_default().as_bytes()));
                }
            }
        }
        named.into_iter().map(|(path, digest)| NamedFile { digest, path }).collect()
    }

    /// One digest of many files: of their contents, or of what tells these if they are too large to be read.
    fn digest_of_all(&self, mut files: Vec<String>) -> Digest {
        files.sort();
        let size = |file: &String| {
            std::fs::symlink_metadata(self.root().join(file)).map_or(0, |meta| meta.len())
        };
        let is_large = files.iter().map(size).sum::<u64>() > NAMED_FILE_BYTES_MAX;
        let mut text = String::new();
        for file in files {
            let full = self.root().join(&file);
            let content =
                if is_large { about(&full) } else { digest_of(&full).map(|one| one.to_string()) };
            text.push_str(&format!("{file}\0{}\n", content.unwrap_or_default()));
        }
        Digest::of(text.as_bytes())
    }
}

/// The digest of a file: of its content, or of what tells its content if it is too large to be read; of a
/// symlink, where it leads.
fn digest_of(path: &Path) -> Option<Digest> {
    use std::io::Read as _;
    let meta = std::fs::symlink_metadata(path).ok()?;
    if meta.is_symlink() {
        let target = std::fs::read_link(path).ok()?;
        return Some(Digest::of(target.as_os_str().as_encoded_bytes()));
    }
    if !meta.is_file() {
        return None;
    }
    if meta.len() > NAMED_FILE_BYTES_MAX {
        return about(path).map(|about| Digest::of(about.as_bytes()));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(NAMED_FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(Digest::of(&bytes))
}

/// What changes whenever the content of a file does.
fn about(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = std::fs::symlink_metadata(path).ok()?;
    let modified = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
    Some(format!("{:?}", (meta.len(), meta.ino(), modified)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_windlass_writes_is_named_only_where_it_is_meant() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for file in ["own/views/a", "own/views/deep/b", "own/policy", "code"] {
            std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            std::fs::write(root.join(file), "x").unwrap();
        }
        let views = [root.join("own/views"), "/elsewhere".into()];
        let workspace = FileWorkspace::new(&root).unwrap().with_views(&views);
        let names = |path: &str| {
            let named = workspace.named_files(&[path.to_owned()]);
            named.into_iter().map(|one| one.path).collect::<Vec<_>>()
        };
        assert_eq!(names("."), ["code", "own/policy"]);
        assert_eq!(names("*"), ["code", "own/policy"]);
        assert_eq!(names("own"), ["own/policy"]);
        assert_eq!(names("o*/v*"), Vec::<String>::new());
        assert_eq!(names("own/views"), ["own/views/a", "own/views/deep/b"]);
        assert_eq!(names("own/views/d*"), ["own/views/deep/b"]);
        assert_eq!(names("own/views/a"), ["own/views/a"]);
    }

    #[test]
    fn what_is_in_folders_and_behind_patterns_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("new/sub")).unwrap();
        for file in ["new/ci.yml", "new/sub/b", "other"] {
            std::fs::write(root.join(file), "good").unwrap();
        }
        symlink("ci.yml", root.join("new/link")).unwrap();
        let workspace = FileWorkspace::new(&root).unwrap();
        let named = |path: &str| workspace.named_files(&[path.to_owned()]);
        let names = |path: &str| named(path).into_iter().map(|one| one.path).collect::<Vec<_>>();
        assert_eq!(names("new"), ["new/ci.yml", "new/link", "new/sub/b"]);
        assert_eq!(names("./new/"), ["new/ci.yml", "new/link", "new/sub/b"]);
        assert_eq!(names("new/*"), ["new/ci.yml", "new/link", "new/sub/b"]);
        assert_eq!(names("new/*.yml"), ["new/ci.yml"]);
        assert_eq!(names("oth?r"), ["other"]);
        for path in ["new", "new/*", "."] {
            let before = named(path);
            for change in ["evil", "worse"] {
                std::fs::write(root.join("new/sub/b"), change).unwrap();
                assert_ne!(named(path), before, "{path}");
            }
            std::fs::write(root.join("new/sub/b"), "good").unwrap();
            assert_eq!(named(path), before, "{path}");
            std::fs::write(root.join("new/more"), "x").unwrap();
            assert_ne!(named(path), before, "{path}");
            std::fs::remove_file(root.join("new/more")).unwrap();
        }
        for at in 0..=NAMED_FILES_MAX {
            std::fs::write(root.join(format!("new/{at}")), "x").unwrap();
        }
        assert_eq!(names("new"), ["new"]);
        let before = named("new");
        std::fs::write(root.join("new/7"), "y").unwrap();
        assert_ne!(named("new"), before);
    }
}
