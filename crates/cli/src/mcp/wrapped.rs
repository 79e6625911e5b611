//! Which server is wrapped: by a command line, or by the file of a client.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use windlass_kernel::Code;

use super::pins::{Pin, is_name, plain_name};
use crate::args::McpWrap;
use crate::failure::Failure;
use crate::input;

/// The largest file of a client.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Programs that start other programs.
const LAUNCHERS: [&str; 9] =
    ["node", "npx", "bunx", "uvx", "python", "python3", "bash", "sh", "env"];

/// A server that is to be wrapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrapRequest {
    /// Its name.
    pub name: String,
    /// How it is started; it has no tools yet.
    pub pin: Pin,
    /// Variables that the file of a client sets.
    pub values: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct ClientFile {
    #[serde(rename = "mcpServers", alias = "servers")]
    servers: BTreeMap<String, ClientServer>,
}

#[derive(Deserialize)]
struct ClientServer {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

fn invalid(message: String) -> Failure {
    Failure::new(Code::RequestInvalid, message)
}

/// The server that the options name.
pub fn request(options: &McpWrap) -> Result<WrapRequest, Failure> {
    let mut request = match &options.config {
        Some(path) => from_file(path, options.server.as_deref())?,
        None => {
            let name = options.name.clone().or_else(|| guess_name(&options.command));
            let name = name.unwrap_or_default();
            let command = options.command.clone();
            let pin = Pin { command, env: options.env.clone(), ..Pin::default() };
            WrapRequest { name, pin, values: BTreeMap::new() }
        }
    };
    request.pin.read.clone_from(&options.read);
    for list in [&mut request.pin.read, &mut request.pin.env] {
        list.sort();
        list.dedup();
    }
    if !is_name(&request.name) {
        let message = format!(
            "`{}` is no name of a server; a name has 1 to 56 of a-z, 0-9, `_` and `-`",
            request.name.escape_debug()
        );
        return Err(invalid(message).hint("choose one with `--name`"));
    }
    let is_variable = |name: &String| {
        !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
    };
    if let Some(name) = request.pin.env.iter().find(|name| !is_variable(name)) {
        return Err(invalid(format!("`{}` is no name of a variable", name.escape_debug())));
    }
    Ok(request)
}

fn from_file(path: &Path, server: Option<&str>) -> Result<WrapRequest, Failure> {
    let bytes = input::read(path, FILE_BYTES_MAX)?;
    let file: ClientFile = serde_json::from_slice(&bytes).map_err(|error| {
        let message = format!("`{}` is not a file of MCP servers: {error}", path.display());
        Failure::new(Code::JsonInvalid, message).hint("it needs a table `mcpServers`")
    })?;
    let names: Vec<&str> = file.servers.keys().map(String::as_str).collect();
    let name = match (server, names.as_slice()) {
        (Some(name), _) => name,
        (None, [only]) => only,
        (None, _) => {
            let message = format!("`{}` has {} servers", path.display(), names.len());
            return Err(
                invalid(message).hint(format!("choose one with `--server`: {}", names.join(", ")))
            );
        }
    };
    let Some(found) = file.servers.get(name) else {
        let message = format!("`{}` has no server `{name}`", path.display());
        return Err(invalid(message).hint(format!("it has {}", names.join(", "))));
    };
    let Some(command) = &found.command else {
        let message = format!("server `{name}` has no `command`");
        return Err(invalid(message).hint(
            "only servers that are started can be wrapped; one with an address can be registered in \
             `.windlass/tools.toml`",
        ));
    };
    let words: Vec<String> = std::iter::once(command).chain(&found.args).cloned().collect();
    // Their values would be recorded with the command line.
    if let Some(word) = words.iter().find(|word| word.contains("${")) {
        let message =
            format!("server `{name}` has `{word}`, and variables are expanded only in `env`");
        return Err(invalid(message));
    }
    let mut values = BTreeMap::new();
    for (variable, value) in &found.env {
        // A variable of its own environment has its value already.
        if let Some(value) = expanded(value)? {
            values.insert(variable.clone(), value);
        }
    }
    let env = found.env.keys().cloned().collect();
    let pin = Pin { command: words, env, ..Pin::default() };
    Ok(WrapRequest { name: plain_name(name), pin, values })
}

/// The value of a variable in the file of a client, where `${NAME}` and `${NAME:-DEFAULT}` stand for a variable.
fn expanded(value: &str) -> Result<Option<String>, Failure> {
    if !value.contains("${") {
        return Ok(Some(value.to_owned()));
    }
    let inner = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    let Some(inner) = inner.filter(|inner| !inner.contains("${")) else {
        let message = "a variable is expanded only if it is the whole value: `${NAME}`";
        return Err(invalid(message.to_owned()));
    };
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default.to_owned())),
        None => (inner, None),
    };
    Ok(std::env::var(name).ok().or(default))
}

/// A name for a server by its command line: that of its program or package.
fn guess_name(command: &[String]) -> Option<String> {
    let base =
        |word: &str| Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned());
    let mut words = command.iter().filter(|word| !word.starts_with('-'));
    let mut word = words.next()?;
    if base(word).is_some_and(|name| LAUNCHERS.contains(&name.as_str())) {
        word = words.next()?;
    }
    let path = Path::new(word);
    let stem = path.file_stem()?.to_string_lossy().into_owned();
    // The entry points of packages all have the same names.
    let is_generic =
        |name: &str| matches!(name, "index" | "main" | "dist" | "build" | "src" | "server");
    let mut parents =
        path.ancestors().skip(1).filter_map(Path::file_name).map(|name| name.to_string_lossy());
    let name = if is_generic(&stem) {
        parents.find(|name| !is_generic(name)).map_or(stem.clone(), |name| name.into_owned())
    } else {
        stem
    };
    // The version of a package.
    let name = name.split('@').next().unwrap_or_default();
    let short =
        ["mcp-server-", "server-", "mcp-"].iter().find_map(|prefix| name.strip_prefix(prefix));
    Some(plain_name(short.filter(|name| !name.is_empty()).unwrap_or(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_guessed_from_the_package() {
        for (line, name) in [
            ("mcp-server-memory", "memory"),
            ("npx -y @modelcontextprotocol/server-memory@1.0", "memory"),
            ("node /opt/node_modules/@x/server-filesystem/dist/index.js /tmp", "filesystem"),
            ("/usr/bin/Counting_Server --log x", "counting_server"),
            ("bash server.sh", "server"),
            ("uvx mcp-server-git", "git"),
        ] {
            let command: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(guess_name(&command).as_deref(), Some(name), "{line}");
        }
        assert_eq!(guess_name(&[]), None);
    }

    #[test]
    fn only_whole_values_are_expanded() {
        assert_eq!(expanded("plain").unwrap().as_deref(), Some("plain"));
        assert_eq!(expanded("${WINDLASS_NOT_SET:-else}").unwrap().as_deref(), Some("else"));
        assert_eq!(expanded("${WINDLASS_NOT_SET}").unwrap(), None);
        for text in ["a${B}", "${A}${B}", "${A"] {
            assert_eq!(expanded(text).unwrap_err().code(), Code::RequestInvalid, "{text}");
        }
    }
}
