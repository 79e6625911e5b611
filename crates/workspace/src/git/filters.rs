//! Programs that convert files on their way into and out of a repository.
//!
//! A file's attributes name a filter driver, and the settings say which program that is. Both can come
//! from the repository. So a driver runs only if the user's settings of Windlass name it
//! (`git.filters`), and only as the user's own settings of git define it. Any other driver is disabled
//! by its name, and an operation that would have needed it is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use super::error::GitCause;
use super::program::Helper;
use super::{Git, GitError, os, path_of, split_once};

/// The name in `git.filters` that allows conversions of encodings.
const ENCODING: &str = "working-tree-encoding";
/// How git writes the mode of a nested repository.
pub(super) const NESTED_MODE: &[u8] = b"160000";
/// How git shows an attribute without a value. A driver can have such a name.
const STATES: [&[u8]; 3] = [b"unspecified", b"unset", b"set"];
/// The settings of a driver that name a program.
const COMMANDS: [&str; 3] = ["clean", "smudge", "process"];
/// How many paths one process looks up, so that its output stays below the limit.
const PATHS_MAX: usize = 50_000;

/// Which files an operation converts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Files<'a> {
    /// Those of the work tree, with this index or the user's own.
    Worktree(Option<&'a Path>),
    /// Those of this index, which are going to be written.
    Index(&'a Path),
}

/// What happens when a file needs a driver that is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnFilter {
    /// The operation is refused.
    Refuse,
    /// The driver is disabled.
    Disable,
}

/// Path, name and value of an attribute.
pub(super) type Attribute = (Vec<u8>, Vec<u8>, Vec<u8>);

/// The definitions of the drivers: by name, then by setting.
type Drivers = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Definition>>;

/// What an operation needs to know before git converts files.
pub(super) struct Conversions {
    /// The settings under which no driver runs but the allowed ones.
    pub settings: Vec<(OsString, OsString)>,
    /// The files of the work tree that are neither in the index nor ignored.
    pub untracked: Vec<Vec<u8>>,
    /// The nested repositories in the user's own index.
    pub nested: Vec<Vec<u8>>,
    /// Whether the work tree has only a part of the files.
    pub is_sparse: bool,
    /// A text that differs whenever equal files may be converted in another way; `None` if that is not known, or if
    /// programs convert them.
    pub fingerprint: Option<String>,
    /// The version of an index that git writes anew; `None` if the settings name one that is not known here.
    pub index_version: Option<&'static str>,
}

/// What the settings say about conversions.
#[derive(Debug, Default, PartialEq, Eq)]
struct Configured {
    drivers: Drivers,
    is_sparse: bool,
    index: IndexSettings,
    /// All settings that matter.
    bytes: Vec<u8>,
}

/// What the settings say about the version of an index.
#[derive(Debug, Default, PartialEq, Eq)]
struct IndexSettings {
    version: Option<Vec<u8>>,
    has_many_files: bool,
}

/// The paths that are looked up, each with a NUL at its end.
struct Listed {
    paths: Vec<Vec<u8>>,
    untracked: Vec<Vec<u8>>,
    /// Only if the user's own index is listed.
    nested: Vec<Vec<u8>>,
}

/// A setting of a driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Definition {
    /// The value in the settings of the user or the system.
    user: Option<Vec<u8>>,
    /// The value in the settings of the repository or the work tree.
    repository: Option<Vec<u8>>,
}

impl Git {
    /// Checks that the work tree has all files, and that none of them needs a program that the user's settings do not
    /// allow.
    ///
    /// # Errors
    /// [`GitError`] with [`GitCause::Filter`] names the first such file.
    pub fn check_filters(&self) -> Result<(), GitError> {
        let operation = "check the filters";
        let top = self.at_top(operation)?;
        let found = top.conversions(operation, Files::Worktree(None), OnFilter::Refuse)?;
        if found.is_sparse {
            return Err(GitError::new(operation, GitCause::Sparse));
        }
        Ok(())
    }

    /// Returns the settings under which an operation runs no driver but the allowed ones. It must be
    /// called at the top of the work tree.
    pub(super) fn filter_settings(
        &self,
        operation: &'static str,
        files: Files<'_>,
        on_filter: OnFilter,
    ) -> Result<Vec<(OsString, OsString)>, GitError> {
        Ok(self.conversions(operation, files, on_filter)?.settings)
    }

    /// Like [`Self::filter_settings`], with what was learned on the way.
    pub(super) fn conversions(
        &self,
        operation: &'static str,
        files: Files<'_>,
        on_filter: OnFilter,
    ) -> Result<Conversions, GitError> {
        let allowed = self.allowed_filters(operation)?;
        let is_allowed = |name: &[u8]| allowed.iter().any(|known| known.as_bytes() == name);
        let Configured { drivers, is_sparse, index, bytes } =
            self.configured_conversions(operation)?;
        let Listed { paths, untracked, nested } = self.list(operation, files)?;
        let sources = match files {
            Files::Worktree(_) => self.attribute_sources(operation, &paths, &bytes)?,
            Files::Index(_) => None,
        };
        let mut runs_programs = false;
        let mut used: BTreeSet<Vec<u8>> = STATES.map(<[u8]>::to_vec).into();
        for (path, attribute, value) in
            self.known_attributes(operation, files, &paths, sources.as_deref())?
        {
            let refuse = |conversion: String| {
                let path = path_of(&path);
                Err(GitError::new(operation, GitCause::Filter { path, conversion }))
            };
            let name = String::from_utf8_lossy(&value).into_owned();
            if STATES.contains(&value.as_slice()) {
                continue;
            }
            runs_programs |= is_allowed(&value) || attribute == ENCODING.as_bytes();
            if attribute == ENCODING.as_bytes() {
                let converts = !name.eq_ignore_ascii_case("utf-8") && !name.is_empty();
                if converts && on_filter == OnFilter::Refuse && !is_allowed(ENCODING.as_bytes()) {
                    return refuse(format!("{ENCODING} `{name}`"));
                }
            } else {
                let driver = drivers.get(&value);
                let runs = driver.is_some_and(|driver| driver.values().any(Definition::is_set));
                let trusted = is_allowed(&value) && driver.is_some_and(is_the_users);
                if runs && !trusted && on_filter == OnFilter::Refuse {
                    return refuse(format!("filter `{name}`"));
                }
                used.insert(value);
            }
        }
        used.extend(drivers.keys().cloned());
        used.retain(|name| !(is_allowed(name) && drivers.get(name).is_some_and(is_the_users)));
        let settings = used.iter().flat_map(|name| disabled(name)).collect();
        let fingerprint = sources.filter(|_| !runs_programs);
        let index_version = index.version();
        Ok(Conversions { settings, untracked, nested, is_sparse, fingerprint, index_version })
    }

    fn allowed_filters(&self, operation: &'static str) -> Result<Arc<BTreeSet<String>>, GitError> {
        if let Some(filters) = &self.filters {
            return Ok(Arc::clone(filters));
        }
        let fail = |why| GitError::new(operation, GitCause::Helper(why));
        Ok(Arc::new(Helper::current().map_err(fail)?.filters.clone()))
    }

    /// Reads the drivers that the settings define, and whether the work tree is sparse.
    fn configured_conversions(&self, operation: &'static str) -> Result<Configured, GitError> {
        let listed = self
            .read(operation)
            .args(["config", "-z", "--show-scope", "--get-regexp"])
            .arg("^(filter|core|attr|index|feature)\\.")
            .run()?;
        if !matches!(listed.code, Some(0 | 1)) {
            return Err(listed.failure(operation, self.root()));
        }
        parse_settings(&listed.stdout)
            .ok_or_else(|| GitError::unexpected(operation, &listed.stdout))
    }

    /// Lists the files that an operation converts.
    fn list(&self, operation: &'static str, files: Files<'_>) -> Result<Listed, GitError> {
        let list = self.read(operation).args(["ls-files", "-z", "-t", "--cached"]);
        let list = match files {
            Files::Worktree(Some(_)) => list.args(["--others", "--exclude-standard"]),
            // An index of our own says nothing new about nested repositories.
            Files::Worktree(None) => list.args(["--others", "--exclude-standard", "--stage"]),
            Files::Index(_) => list,
        };
        let bytes = with_index(list, files).reading_files().output()?;
        let unexpected = || GitError::unexpected(operation, &bytes);
        let mut listed = Listed { paths: Vec::new(), untracked: Vec::new(), nested: Vec::new() };
        for record in bytes.split_inclusive(|byte| *byte == 0) {
            // A letter says whether git knows the file.
            let (tag, mut path) = split_once(record, b' ').ok_or_else(unexpected)?;
            if tag == b"?" {
                listed.untracked.push(path.strip_suffix(b"\0").unwrap_or(path).to_vec());
            } else if files == Files::Worktree(None) {
                // Mode, object and stage, before the path.
                let facts;
                (facts, path) = split_once(path, b'\t').ok_or_else(unexpected)?;
                if facts.starts_with(NESTED_MODE) {
                    listed.nested.push(path.strip_suffix(b"\0").unwrap_or(path).to_vec());
                }
            }
            listed.paths.push(path.to_vec());
        }
        Ok(listed)
    }

    /// Reads path, name and value of the attributes that cause a conversion.
    pub(super) fn attributes(
        &self,
        operation: &'static str,
        files: Files<'_>,
        paths: &[Vec<u8>],
    ) -> Result<Vec<Attribute>, GitError> {
        let options: &[&str] = match files {
            Files::Worktree(_) => &[],
            Files::Index(_) => &["--cached"],
        };
        let mut found = Vec::new();
        for some in paths.chunks(PATHS_MAX) {
            let git = self.read(operation).args(["check-attr", "-z", "--stdin"]).args(options);
            let git = git.args(["filter", ENCODING]).stdin(some.concat());
            let read = with_index(git, files).output()?;
            let mut fields = read.strip_suffix(b"\0").unwrap_or(&read).split(|byte| *byte == 0);
            while let (Some(path), Some(name), Some(value)) =
                (fields.next(), fields.next(), fields.next())
            {
                if value != b"unspecified" {
                    found.push((path.to_vec(), name.to_vec(), value.to_vec()));
                }
            }
        }
        Ok(found)
    }
}

/// Lets git use the index that holds the files, if it is not the user's own.
fn with_index<'a>(git: super::Invocation<'a>, files: Files<'_>) -> super::Invocation<'a> {
    match files {
        Files::Worktree(None) => git,
        Files::Worktree(Some(index)) | Files::Index(index) => git.env("GIT_INDEX_FILE", index),
    }
}

impl Definition {
    /// Whether it names a program.
    fn is_set(&self) -> bool {
        [&self.user, &self.repository].into_iter().flatten().any(|value| !value.is_empty())
    }
}

/// Whether the user's settings define a driver, and the repository's do not change it.
fn is_the_users(driver: &BTreeMap<Vec<u8>, Definition>) -> bool {
    driver.values().all(|definition| match &definition.repository {
        None => true,
        Some(value) => definition.user.as_ref() == Some(value),
    })
}

/// The settings that disable a driver.
fn disabled(name: &[u8]) -> impl Iterator<Item = (OsString, OsString)> {
    let setting = |last: &str, value: &str| {
        let name = [b"filter.", name, b".", last.as_bytes()].concat();
        (os(&name).to_owned(), OsString::from(value))
    };
    let commands: Vec<_> = COMMANDS.iter().map(|command| setting(command, "")).collect();
    commands.into_iter().chain([setting("required", "false")])
}

impl IndexSettings {
    /// The version of an index that git writes anew.
    fn version(&self) -> Option<&'static str> {
        match self.version.as_deref() {
            None if self.has_many_files => Some("4"),
            None => Some("2"),
            Some(named) => ["2", "3", "4"].into_iter().find(|known| known.as_bytes() == named),
        }
    }
}

/// Whether git takes a value for false.
fn is_false(value: &[u8]) -> bool {
    let value = value.to_ascii_lowercase();
    matches!(value.as_slice(), b"" | b"false" | b"no" | b"off" | b"0")
}

/// Reads `scope NUL name LF value NUL` records; `None` for anything that is not that.
fn parse_settings(bytes: &[u8]) -> Option<Configured> {
    let mut found = Configured { bytes: bytes.to_vec(), ..Configured::default() };
    if bytes.is_empty() {
        return Some(found);
    }
    let mut fields = bytes.strip_suffix(b"\0")?.split(|byte| *byte == 0);
    while let Some(scope) = fields.next() {
        let record = fields.next()?;
        let (name, value) = split_once(record, b'\n').unwrap_or((record, b"true"));
        if name == b"core.sparsecheckout" {
            // The last one counts. What git does not take for false is sparse here.
            found.is_sparse = !is_false(value);
            continue;
        }
        match name {
            b"index.version" => found.index.version = Some(value.to_vec()),
            b"feature.manyfiles" => found.index.has_many_files = !is_false(value),
            _ => {}
        }
        if [&b"core."[..], b"attr.", b"index.", b"feature."]
            .iter()
            .any(|part| name.starts_with(part))
        {
            continue;
        }
        let name = name.strip_prefix(b"filter.")?;
        let dot = name.iter().rposition(|byte| *byte == b'.')?;
        let (driver, setting) = (name.get(..dot)?, name.get(dot + 1..)?);
        if !COMMANDS.iter().any(|known| known.as_bytes() == setting) {
            continue;
        }
        let settings = found.drivers.entry(driver.to_vec()).or_default();
        let definition = settings.entry(setting.to_vec()).or_default();
        match scope {
            b"system" | b"global" => definition.user = Some(value.to_vec()),
            b"command" => {}
            _ => definition.repository = Some(value.to_vec()),
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_read_with_their_origin() {
        let listed = b"global\0filter.lfs.clean\ngit-lfs clean\0local\0filter.lfs.clean\nevil\0\
            worktree\0filter.a.b.smudge\nx\0local\0filter.lfs.required\ntrue\0";
        let drivers = parse_settings(listed).unwrap().drivers;
        let clean = &drivers[&b"lfs"[..]][&b"clean"[..]];
        assert_eq!(clean.user.as_deref(), Some(&b"git-lfs clean"[..]));
        assert_eq!(clean.repository.as_deref(), Some(&b"evil"[..]));
        assert!(!is_the_users(&drivers[&b"lfs"[..]]));
        assert!(drivers.contains_key(&b"a.b"[..]) && drivers.len() == 2);
        assert_eq!(parse_settings(b""), Some(Configured::default()));
        for bad in [&b"global"[..], b"global\0", b"global\0other.x\n1\0", b"global\0filter.x\n1\0"]
        {
            assert_eq!(parse_settings(bad), None, "{:?}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn only_what_git_takes_for_false_is_not_sparse() {
        let sparse = |text: &str| parse_settings(text.as_bytes()).unwrap().is_sparse;
        for value in ["\nfalse", "\nno", "\nOff", "\n0", "\n"] {
            assert!(!sparse(&format!("local\0core.sparsecheckout{value}\0")), "{value:?}");
        }
        for value in ["", "\ntrue", "\nYES", "\non", "\n1", "\n2", "\nwhat"] {
            assert!(sparse(&format!("local\0core.sparsecheckout{value}\0")), "{value:?}");
        }
        // The last one counts.
        let two = "global\0core.sparsecheckout\ntrue\0local\0core.sparsecheckout\nfalse\0";
        assert!(!sparse(two));
    }
}
