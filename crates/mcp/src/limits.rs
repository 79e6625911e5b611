//! What a server bears at most.

use std::time::Duration;

/// The limits of a server.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The longest message, in bytes.
    pub message_bytes_max: usize,
    /// The most calls at once. Further ones wait.
    pub calls_max: usize,
    /// The most calls that wait. Further ones are refused.
    pub calls_waiting_max: usize,
    /// The total size of the messages of all calls that wait or are in progress.
    pub calls_bytes_max: usize,
    /// The most tools in one answer to `tools/list`.
    pub tools_page: usize,
    /// How often a client that asked for progress hears of its call.
    pub beat: Duration,
    /// The most open subscriptions of a session to changes of the tools.
    pub subscriptions_max: usize,
    /// The most sessions over HTTP.
    pub sessions_max: usize,
    /// How long a session over HTTP lives without a request, a call or an open stream.
    pub session_idle: Duration,
    /// The most connections over HTTP. Further ones are closed at once.
    pub connections_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes_max: 16 * 1024 * 1024,
            calls_max: 64,
            calls_waiting_max: 1024,
            calls_bytes_max: 256 * 1024 * 1024,
            tools_page: 256,
            beat: Duration::from_secs(15),
            subscriptions_max: 256,
            sessions_max: 64,
            session_idle: Duration::from_secs(30 * 60),
            connections_max: 256,
        }
    }
}
