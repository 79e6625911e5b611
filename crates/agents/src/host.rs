//! Our MCP server as a client sees it. Its calls go to the thread of the invocation, which makes them.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use windlass_engine::ToolDefinition;
use windlass_engine::executors::{Agent, SUBAGENT_TOOL};
use windlass_kernel::RiskLevel;
use windlass_mcp::{ClientInfo, Progress, ToolAnswer, ToolHost, ToolInfo, ToolUse};

use crate::answer::{FINISH, finish_schema};

/// What the thread of an invocation is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// The client asked for the list of tools.
    Listed,
    /// A connection of the client to our tools ended.
    Disconnected,
    /// The client calls a tool.
    Call {
        /// The call.
        tool_use: ToolUse,
        /// Where its answer goes.
        answer: Sender<ToolAnswer>,
    },
    /// A call was made.
    Called(Box<crate::invocation::MadeCall>),
    /// The client printed a line.
    Line(String),
    /// The client closed its output.
    OutputEnded,
    /// The forwarder has news.
    Forwarder(crate::forwarder::News),
}

/// The tools that one agent is offered, by the names that clients allow.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    tools: BTreeMap<String, ToolDefinition>,
    finish: Value,
}

impl Offer {
    /// The tools of this agent, and `finish`.
    pub(crate) fn new(agent: &Agent, all: Vec<ToolDefinition>, verdicts: &[String]) -> Self {
        // Which subagents there are is a setting of its own.
        let named = |tool: &str| {
            tool == SUBAGENT_TOOL
                || agent.tools.as_ref().is_none_or(|names| names.iter().any(|name| name == tool))
        };
        let offered = all.into_iter().filter(|definition| named(&definition.tool));
        let tools = offered.map(|definition| (plain_name(&definition.tool), definition)).collect();
        Self { tools, finish: finish_schema(verdicts) }
    }

    /// The tool with this name, as `server/tool`.
    pub(crate) fn tool(&self, name: &str) -> Option<&ToolDefinition> {
        self.tools.get(name)
    }

    /// The names of all tools.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str).chain([FINISH])
    }

    /// All tools as clients and models are told of them.
    pub(crate) fn infos(&self) -> Vec<ToolInfo> {
        let info = |name: &str, description: &str, schema: &Value, reads: bool| ToolInfo {
            name: name.to_owned(),
            title: None,
            description: description.to_owned(),
            input_schema: schema.clone(),
            output_schema: None,
            annotations: Some(json!({ "readOnlyHint": reads, "openWorldHint": false })),
        };
        let tools = self.tools.iter().map(|(name, tool)| {
            info(name, &tool.description, &tool.input_schema, tool.class == RiskLevel::Read)
        });
        let text = "Give your answer and end your work. Call it once, when everything is done.";
        tools.chain([info(FINISH, text, &self.finish, true)]).collect()
    }
}

/// A name that all clients accept.
fn plain_name(tool: &str) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || char == '-';
    tool.chars().map(|char| if plain(char) { char } else { '_' }).collect()
}

/// Passes the calls of a client on.
pub(crate) struct Host {
    offer: Offer,
    sender: Mutex<Sender<Message>>,
}

impl Host {
    pub(crate) const fn new(offer: Offer, sender: Sender<Message>) -> Self {
        Self { offer, sender: Mutex::new(sender) }
    }

    fn send(&self, message: Message) -> Option<()> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).send(message).ok()
    }
}

impl ToolHost for Host {
    fn tools(&self) -> Vec<ToolInfo> {
        self.offer.infos()
    }

    fn call(&self, tool_use: ToolUse, _: &dyn Progress) -> ToolAnswer {
        let (answer, receiver): (_, Receiver<ToolAnswer>) = channel();
        let sent = self.send(Message::Call { tool_use, answer });
        let answer = sent.and_then(|()| receiver.recv().ok());
        answer.unwrap_or_else(|| ToolAnswer::Error("the work of this agent has ended".to_owned()))
    }

    fn listed(&self, _: &ClientInfo) {
        self.send(Message::Listed);
    }
}

#[cfg(test)]
mod tests {
    use windlass_kernel::Digest;

    use super::*;

    #[test]
    fn an_agent_is_offered_the_tools_that_it_names_and_finish() {
        let offered = |tools: Option<&[&str]>| -> Vec<String> {
            let tools = tools.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            let agent = Agent {
                name: "builder".to_owned(),
                description: String::new(),
                model: None,
                tools,
                prompt: String::new(),
                subagents: Vec::new(),
                digest: Digest::GENESIS,
            };
            let all = ["files/read", "shell/run"].map(|tool| ToolDefinition {
                tool: tool.to_owned(),
                class: RiskLevel::Write,
                description: String::new(),
                input_schema: json!({}),
            });
            Offer::new(&agent, all.to_vec(), &[]).names().map(str::to_owned).collect()
        };
        assert_eq!(offered(None), ["files_read", "shell_run", FINISH]);
        assert_eq!(offered(Some(&["shell/run", "other/tool"])), ["shell_run", FINISH]);
        assert_eq!(offered(Some(&[])), [FINISH]);
    }
}
