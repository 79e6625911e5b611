//! The policy as it was loaded last, so that an event of a session need not parse and try its rules again.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use windlass_policy::{PolicySet, policy_hash};

use crate::failure::Failure;
use crate::input;
use crate::part::Part;

/// The maximum size of a kept policy.
const KEPT_BYTES_MAX: u64 = 64 << 20;

/// A policy and the program that loaded it: another may read the same rules differently.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptPolicy<'a> {
    program: &'a str,
    set: PolicySet,
}

/// The file of a part's policy in the state folder, which only the user can write to.
fn file(part: Part) -> String {
    format!("kept-{}.json", part.as_str())
}

/// Loads the policy of the files of a part, or takes the one that this program loaded from exactly these files before.
pub fn load(
    state: &Path,
    part: Part,
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<PolicySet, Failure> {
    let Some(program) = program() else { return Ok(PolicySet::load(files)?) };
    let path = state.join(file(part));
    let hash = policy_hash(files)?;
    // What is no file of such a size is no kept policy, and must not be waited for.
    let kept = input::read(&path, KEPT_BYTES_MAX).unwrap_or_default();
    match serde_json::from_slice::<KeptPolicy<'_>>(&kept) {
        Ok(kept) if kept.program == program && kept.set.hash() == hash => return Ok(kept.set),
        Ok(_) | Err(_) => {}
    }
    let kept = KeptPolicy { program: &program, set: PolicySet::load(files)? };
    // Without the file it is loaded in full again.
    if let Ok(bytes) = serde_json::to_vec(&kept) {
        let _ = crate::atomic::write(&path, &bytes);
    }
    Ok(kept.set)
}

/// What tells this program from every other.
fn program() -> Option<String> {
    let file = std::fs::metadata("/proc/self/exe").ok()?;
    let (seconds, nanoseconds) = (file.ctime(), file.ctime_nsec());
    let version = env!("CARGO_PKG_VERSION");
    Some(format!("{version} {} {} {seconds}.{nanoseconds}", file.ino(), file.size()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(verdict: &str) -> BTreeMap<String, Vec<u8>> {
        let rule = format!(
            "[[rule]]\nid = \"r\"\nverdict = \"{verdict}\"\nreason = \"because\"\ntool = \"shell/run\"\n\
             matches = [{{ tool = \"shell/run\" }}]\n"
        );
        let tools = "[server.shell]\nconnector = \"command\"\n[server.shell.tool.run]\nclass = \"write\"\n\
                     argv = [\"true\"]\n";
        BTreeMap::from([
            ("tools.toml".to_owned(), tools.into()),
            ("policy/a.toml".to_owned(), rule.into()),
        ])
    }

    fn verdict(set: &PolicySet) -> &'static str {
        set.rules().first().unwrap().verdict().as_str()
    }

    #[test]
    fn a_policy_is_kept_and_taken_only_for_the_same_files_and_program() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join(file(Part::Policy));
        assert_eq!(verdict(&load(state.path(), Part::Policy, &files("deny")).unwrap()), "deny");
        let kept = std::fs::read_to_string(&path).unwrap();
        // It is taken: what the file says counts.
        let changed = kept.replace("\"verdict\":\"deny\"", "\"verdict\":\"ask\"");
        assert_ne!(changed, kept);
        std::fs::write(&path, &changed).unwrap();
        assert_eq!(verdict(&load(state.path(), Part::Policy, &files("deny")).unwrap()), "ask");
        // Not for other files, by another program, or when it cannot be read.
        assert_eq!(verdict(&load(state.path(), Part::Policy, &files("allow")).unwrap()), "allow");
        let program = program().unwrap();
        for other in
            [changed.replace(&program, "0.0.1 1 2 3.4"), changed.replace('}', ""), String::new()]
        {
            std::fs::write(&path, other).unwrap();
            assert_eq!(verdict(&load(state.path(), Part::Policy, &files("deny")).unwrap()), "deny");
        }
        // A pipe into which nobody writes is not waited for.
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        assert_eq!(verdict(&load(state.path(), Part::Policy, &files("deny")).unwrap()), "deny");
    }
}
