//! The judges as a client's subagents.

use windlass_kernel::Digest;
use windlass_loops::AgentFile;
use windlass_sessions::core::Judge;

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

/// Where Claude Code looks for a judge, from the root of the project.
pub fn client_path(judge: Judge) -> String {
    format!(".claude/agents/{}.md", judge.as_str())
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

/// The digest of a client's file.
pub fn digest(text: &[u8]) -> Digest {
    Digest::of(text)
}
