//! The words of a command as paths.

use std::collections::BTreeSet;

use windlass_text::{Glob, GlobKind};

use super::facts::{DEVICES, Facts, OWN_PLACES, folder_of_pattern, lies_in, within};
use super::path::{PathFact, could_be_path};
use crate::shell::{Access, Word};
use crate::{ResolvedPath, Workspace};

/// Places of a cell that hold nothing of the person's: they may be read.
const OPEN_PLACES: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/opt",
    "/etc/os-release",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/loadavg",
    "/proc/version",
    "/proc/uptime",
];

impl Facts {
    /// Treats a word, and the text after `=`, `:`, `@`, `,` or an option's letter in it, as a path; for
    /// each folder, which part of the word lies outside from there.
    pub(super) fn take_word(
        &mut self,
        word: &Word,
        access: Option<Access>,
        folders: &[String],
        workspace: &dyn Workspace,
        paths: &mut Vec<PathFact>,
    ) -> Vec<Option<String>> {
        let text = word.text.as_str();
        let mut parts = vec![(text, true)];
        let separators = ['=', ':', '@', ','];
        if text.contains(separators) {
            for separator in separators {
                let ends = [text.split_once(separator), text.rsplit_once(separator)];
                let values =
                    ends.into_iter().flatten().map(|(_, behind)| (behind, separator == '='));
                parts.extend(values);
            }
        }
        if let Some(cluster) = text.strip_prefix('-').filter(|rest| !rest.starts_with('-')) {
            // Behind any letter of a cluster a value can begin.
            let letters =
                cluster.char_indices().take_while(|(_, char)| char.is_ascii_alphanumeric());
            parts.extend(
                letters
                    .filter_map(|(at, _)| cluster.get(at + 1..))
                    .enumerate()
                    .map(|(at, value)| (value, at == 0 || value.starts_with(['/', '~', '.']))),
            );
        }
        if word.is_pattern() && !could_be_path(text) {
            // It is too long for a path, but the files that it matches need not be.
            self.findings.insert("a file name pattern that is too long".to_owned());
        }
        if text.contains(['*', '?', '[']) && word.is_pattern() {
            for folder in folders {
                self.take_linked(&within(folder, text), access, workspace, paths);
            }
        }
        let mut known: BTreeSet<&str> = BTreeSet::new();
        let mut all_outside: Vec<Option<String>> = vec![None; folders.len()];
        let is_whole = parts.len() == 1;
        for (part, may_ask) in parts {
            if !could_be_path(part) || DEVICES.contains(&part) || !is_whole && !known.insert(part) {
                continue;
            }
            let is_open = lies_in(OWN_PLACES, part)
                || (access == Some(Access::Read) || text.starts_with('-'))
                    && lies_in(OPEN_PLACES, part);
            let looks = part.contains('/') || part.starts_with('~') || part == "..";
            for (folder, found) in folders.iter().zip(&mut all_outside) {
                let (normal, outside) = match workspace.resolve(&within(folder, part)) {
                    ResolvedPath::Inside(normal) => (normal, false),
                    ResolvedPath::Outside(resolved) => (resolved, true),
                    ResolvedPath::Unresolvable(why) => {
                        self.findings.insert(format!("a word that is no path: {why}"));
                        continue;
                    }
                };
                // A plain name can only lead outside by a link.
                if outside && may_ask && !is_open {
                    found.get_or_insert_with(|| part.to_owned());
                }
                let normal = normal.trim_start_matches(['~', '/']);
                if part == text
                    && folders.len() == 1
                    && !outside
                    && access == Some(Access::Read)
                    && let Some(files) = matching_files(word, normal, workspace)
                {
                    let fact = |file: &String| PathFact::new(file, file, access, self.folds_case);
                    paths.extend(files.iter().map(fact).map(PathFact::one_of_many));
                    continue;
                }
                let fact = PathFact::new(text, normal, access, self.folds_case);
                let fact = if word.is_pattern() { fact.pattern() } else { fact };
                paths.push(if looks && may_ask { fact } else { fact.maybe() });
            }
        }
        all_outside
    }
}

/// The files that a pattern of the shell matches; `None` if that is not certain, or there are none yet.
pub(super) fn matching_files(
    word: &Word,
    pattern: &str,
    workspace: &dyn Workspace,
) -> Option<Vec<String>> {
    let plain = |char: char| char.is_ascii_alphanumeric() || "*?._-/".contains(char);
    if !word.is_pattern() || word.dynamic || word.quoted || !pattern.chars().all(plain) {
        return None;
    }
    let glob = Glob::new(pattern, GlobKind::Path).ok()?;
    let parts: Vec<&str> = pattern.split('/').collect();
    let matches = |file: &String| {
        // A folder that matches stands for nothing that is read, but deeper files can match `**`.
        let names: Vec<&str> = file.split('/').collect();
        let hides = |(name, part): (&&str, &&str)| name.starts_with('.') && !part.starts_with('.');
        glob.matches_str(file)
            && !(names.len() == parts.len() && names.iter().zip(&parts).any(hides))
    };
    let files = workspace.files_below(folder_of_pattern(pattern))?;
    let files: Vec<String> = files.into_iter().filter(matches).collect();
    (!files.is_empty()).then_some(files)
}
