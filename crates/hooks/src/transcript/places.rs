//! Where clients keep their transcripts.

use crate::client::Client;
use crate::install::Root;

/// The longest name that Claude Code gives to a folder before it cuts it.
const CLAUDE_NAME_MAX: usize = 200;

/// Files of transcripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptPlace {
    /// The client's folder of the user.
    pub root: Root,
    /// The folder below it, in which `*` stands for any text without `/`.
    pub folder: String,
    /// The files, in which `*` stands for any text without `/`.
    pub file: &'static str,
    /// Whether these are transcripts of subagents. The name of the folder that they belong to, the session's id, is
    /// the last `*` of `folder`; Codex keeps them among the others.
    pub subagents: bool,
    /// How to know which project they are about.
    pub project: ProjectSign,
}

/// How to know which project a transcript is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectSign {
    /// By [`Transcript::cwd`](crate::Transcript::cwd): the project's root or a folder in it. The pattern may match
    /// other projects as well.
    Cwd,
    /// By a file with the project's path as its content, at this path from the first `*` of the folder.
    File(&'static str),
}

/// The folder with the databases of OpenCode: `opencode.db`, or `opencode-CHANNEL.db` of a version that is not a release.
pub const OPENCODE_DATA: Root =
    Root::User { variable: "XDG_DATA_HOME", below: "opencode", in_home: ".local/share/opencode" };

/// Where the client keeps the transcripts of sessions in this project, or `None` if they are in a database: OpenCode's
/// are in the folder [`OPENCODE_DATA`].
///
/// The path in a hook event is a better answer where there is one.
#[must_use]
pub fn transcript_places(client: Client, project_root: &str) -> Option<Vec<TranscriptPlace>> {
    let user = |variable, below, in_home| Root::User { variable, below, in_home };
    let place = |root, folder: String, file, subagents, project| TranscriptPlace {
        root,
        folder,
        file,
        subagents,
        project,
    };
    match client {
        Client::Claude => {
            let root = user("CLAUDE_CONFIG_DIR", "", ".claude");
            let folder = format!("projects/{}*", claude_name(project_root));
            let of_agents = format!("{folder}/*/subagents");
            Some(vec![
                place(root, folder, "*.jsonl", false, ProjectSign::Cwd),
                place(root, of_agents, "agent-*.jsonl", true, ProjectSign::Cwd),
            ])
        }
        Client::Codex => {
            let root = user("CODEX_HOME", "", ".codex");
            let folder = "sessions/*/*/*".to_owned();
            Some(vec![place(root, folder, "rollout-*.jsonl", false, ProjectSign::Cwd)])
        }
        Client::Gemini => {
            let root = user("GEMINI_CLI_HOME", ".gemini", ".gemini");
            let sign = ProjectSign::File(".project_root");
            let folder = "tmp/*/chats".to_owned();
            let of_agents = "tmp/*/chats/*".to_owned();
            Some(vec![
                place(root, folder, "session-*.json*", false, sign),
                place(root, of_agents, "*.jsonl", true, sign),
            ])
        }
        Client::OpenCode => None,
    }
}

/// The beginning of the names that Claude Code gives to the folders of sessions in `path` or below. It counts and
/// replaces units of UTF-16.
fn claude_name(path: &str) -> String {
    let units = path.encode_utf16().take(CLAUDE_NAME_MAX);
    let kept = |unit: u16| u8::try_from(unit).ok().filter(u8::is_ascii_alphanumeric);
    units.map(|unit| kept(unit).map_or('-', char::from)).collect()
}
