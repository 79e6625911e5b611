//! A scripted model on loopback, for checking coding agents without a real one.
//!
//! It answers the protocols of the common clients (Anthropic Messages, OpenAI Responses and Chat
//! Completions, Gemini) by a [`Script`]: texts, tool calls, and failures of every kind. It reports what
//! it was asked: the tools that were offered, the results that came back.
//!
//! It listens on 127.0.0.1 only and never connects to anything but itself. It decides nothing, keeps no
//! files, and knows neither policy nor journal.

mod http;
mod progress;
mod script;
mod serve;
mod tools;
mod transcript;
mod wire;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::Serialize;

pub use progress::AnsweredBy;
pub use script::{
    Call, CallKind, Conversation, DropAt, HttpError, Order, Script, ScriptError, Step, Usage,
};
pub use tools::OfferedTool;
pub use transcript::ToolResult;
pub use wire::Protocol;

use serve::Server;

/// A request for an answer of the model.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct SeenRequest {
    /// The protocol.
    pub protocol: Protocol,
    /// The path, without its query.
    pub path: String,
    /// The model that was asked for; empty if the request named none.
    pub model: String,
    /// Whether the answer was asked for as a stream.
    pub stream: bool,
    /// The tools that were offered, in order.
    pub tools: Vec<OfferedTool>,
    /// The results of tool calls that the request shows, in order.
    pub results: Vec<ToolResult>,
    /// The system prompt.
    pub system: String,
    /// What the user wrote, in order; clients add texts of their own.
    pub user: Vec<String>,
    /// How many answers of the script the request shows.
    pub turns: u64,
    /// Whether a header with credentials was present. Its value is not kept.
    pub credentials: bool,
    /// What answered it.
    pub answered_by: AnsweredBy,
    /// The tools that the step calls and the request does not offer; the answer then says so and calls nothing.
    pub not_offered: Vec<String>,
}

/// A model that is served until this value is dropped.
#[derive(Debug)]
pub struct LoopbackModel {
    address: SocketAddr,
    server: Arc<Server>,
    listening: Option<JoinHandle<()>>,
}

impl LoopbackModel {
    /// Serves a script on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// If the script contradicts itself, or if the port cannot be opened.
    pub fn start(script: Script) -> io::Result<Self> {
        script.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let server = Arc::new(Server::new(script));
        let serving = Arc::clone(&server);
        let name = "loopback-model".to_owned();
        let listening =
            thread::Builder::new().name(name).spawn(move || serving.listen(&listener))?;
        Ok(Self { address, server, listening: Some(listening) })
    }

    /// The address that it listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests for answers up to now, in order. A request is listed before it is answered.
    #[must_use]
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.server.requests()
    }

    /// All other requests up to now, as method and path: lists of models, counts of tokens, and paths that
    /// are answered with 404.
    #[must_use]
    pub fn other_requests(&self) -> Vec<String> {
        self.server.other_requests()
    }

    /// Waits until there are `count` requests for answers, and says whether there are.
    #[must_use]
    pub fn wait_for(&self, count: usize, timeout: Duration) -> bool {
        self.server.wait_for(count, timeout)
    }
}

impl Drop for LoopbackModel {
    /// Closes all connections and waits for their threads.
    fn drop(&mut self) {
        self.server.stop();
        // The listening thread waits for a connection; without one it would never see the stop.
        if TcpStream::connect(self.address).is_ok()
            && let Some(listening) = self.listening.take()
        {
            let _ = listening.join();
        }
    }
}
