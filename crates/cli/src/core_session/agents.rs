//! The judges as a client's subagents.

use std::path::{Path, PathBuf};

use windlass_kernel::Digest;
use windlass_loops::AgentFile;
use windlass_sessions::core::Judge;

use crate::user_folders;

/// The tools of Claude Code that tools of ours are.
const TOOLS: [(&str, &str); 7] = [
    ("fs/read", "Read"),
    ("fs/list", "Glob"),
    ("fs/search", "Grep"),
    ("shell/read", "Bash"),
    ("work/", "Bash"),
    ("memory/", "Bash"),
    ("shell/run", "Bash"),
];

/// The files of the judges that come with Windlass.
const SHIPPED: [(Judge, &str); 5] = [
    (Judge::PromptHydrator, include_str!("../../../../loops/agents/prompt-hydrator.md")),
    (Judge::Critic, include_str!("../../../../loops/agents/critic.md")),
    (Judge::Custodiet, include_str!("../../../../loops/agents/custodiet.md")),
    (Judge::QaVerifier, include_str!("../../../../loops/agents/qa-verifier.md")),
    (Judge::Framework, include_str!("../../../../loops/agents/framework.md")),
];

/// The file of a judge: the project's, or the one that comes with Windlass.
pub fn source(
    files: &std::collections::BTreeMap<String, Vec<u8>>,
    judge: Judge,
) -> Result<AgentFile, String> {
    let name = format!("agents/{}.md", judge.as_str());
    let shipped = SHIPPED.iter().find(|(one, _)| *one == judge).map(|(_, text)| text.as_bytes());
    let bytes = files.get(&name).map(Vec::as_slice).or(shipped).unwrap_or_default();
    AgentFile::parse(&name, bytes).map_err(|error| error.to_string())
}

/// The name of a judge's file.
pub fn file_name(judge: Judge) -> String {
    format!("{}.md", judge.as_str())
}

/// The folders in which Claude Code looks for agents: that of the project, and that of the user.
fn folders(root: &Path) -> Vec<PathBuf> {
    let own = std::env::var_os("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let user = own.or_else(|| Some(user_folders::home()?.join(".claude")));
    let all = [Some(root.join(".claude")), user].into_iter().flatten();
    all.map(|folder| folder.join("agents")).collect()
}

/// The file that Claude Code takes for a judge: the project's, or the user's; both may be there if they say the same.
pub fn client_path(root: &Path, judge: Judge) -> PathBuf {
    let paths: Vec<PathBuf> =
        folders(root).iter().map(|folder| folder.join(file_name(judge))).collect();
    let found = paths.iter().find(|path| path.symlink_metadata().is_ok());
    found.or(paths.first()).cloned().unwrap_or_default()
}

/// The file of a judge as Claude Code reads it.
pub fn client_file(agent: &AgentFile) -> String {
    let mut tools: Vec<&str> = Vec::new();
    for own in agent.tools.iter().flatten() {
        let is_it = |name: &str| own == name || name.ends_with('/') && own.starts_with(name);
        if let Some((_, theirs)) = TOOLS.iter().find(|(name, _)| is_it(name))
            && !tools.contains(theirs)
        {
            tools.push(theirs);
        }
    }
    let description = agent.description.split_whitespace().collect::<Vec<_>>().join(" ");
    let description = serde_json::Value::from(description).to_string();
    let model = agent.model.as_ref().map(|model| format!("model: {model}\n")).unwrap_or_default();
    format!(
        "---\nname: {}\ndescription: {description}\ntools: {}\n{model}---\n\n{}\n",
        agent.name,
        tools.join(", "),
        agent.prompt
    )
}

/// The most files of agents that are looked through.
const FILES_MAX: usize = 1000;
/// The most of a file that is looked at.
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// Fails if the client may take another file for a judge's than `text`: one of the same name, or behind a link.
pub fn require_only(root: &Path, judge: Judge, text: &str) -> Result<(), String> {
    let own = client_path(root, judge);
    let mut folders = folders(root);
    let is_same = |path: &Path| {
        path.file_name().is_some_and(|name| name == file_name(judge).as_str())
            && std::fs::read(path).is_ok_and(|bytes| bytes == text.as_bytes())
    };
    for link in [root.join(".claude"), root.join(".claude/agents"), own.clone()] {
        if link.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
            return Err(format!(
                "`{}` is a symbolic link; agents of the core loop are files",
                link.display()
            ));
        }
    }
    let mut seen = 0_usize;
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            seen = seen.saturating_add(1);
            if seen > FILES_MAX {
                return Err(format!("`{}` has too many files", folder.display()));
            }
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path != own && is_named(&path, judge) && !is_same(&path) {
                return Err(format!(
                    "`{}` is another agent called {}; ask the user to remove it",
                    path.display(),
                    judge.as_str()
                ));
            }
        }
    }
    Ok(())
}

/// Whether the beginning of a file calls an agent like a judge.
fn is_named(path: &Path, judge: Judge) -> bool {
    use std::io::Read as _;
    if path.extension().is_none_or(|extension| extension != "md") {
        return false;
    }
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(HEAD_BYTES_MAX).read_to_end(&mut bytes));
    let text = String::from_utf8_lossy(&bytes);
    // One that cannot be read may be called anything.
    read.is_err()
        || text.lines().any(|line| {
            let name = line.trim().strip_prefix("name:").map(str::trim);
            name.is_some_and(|name| name.trim_matches(['"', '\'']) == judge.as_str())
        })
}

/// The digest of a client's file.
pub fn digest(text: &[u8]) -> Digest {
    Digest::of(text)
}
