//! The only way from a cell to the network: an HTTP proxy that checks every host.
//!
//! A command in a cell has a network of its own with nothing but loopback. The broker serves a
//! socket that listens there, from outside. It lets a request through if a rule lists its host and
//! port, if the host's addresses are public, and if a TLS greeting names the same host; it refuses
//! everything that could be read in two ways. Routes lead to hosts that the user's settings name: the
//! broker adds a credential that the cell never sees, and shows what passes to an inspector.
//!
//! This crate knows neither policy nor journal: rules come in, events go out. It is one of three crates
//! with asynchronous code; its runtime has one thread and ends with its [`BrokerHandle`].

mod address;
mod body;
mod event;
mod follow;
mod forward;
mod hello;
mod http;
mod inspect;
mod model_api;
mod route;
mod rules;
mod scrub;
mod serve;
mod tunnel;
mod upstream;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use windlass_kernel::Code;

pub use address::AddressKind;
pub use event::{BrokerEvent, BrokerObserver, End, Passage, Refusal, Unreachable};
pub use inspect::{InspectedRequest, RouteInspector};
pub use model_api::{
    EventSplitter, ModelProtocol, ModelRequest, ModelRequestError, ModelResponse, ModelTrouble,
    OfferedTool, ResponseReader, ToolUse, Usage,
};
pub use route::{Credential, Route, RouteError, RouteSwitch};
pub use rules::{BrokerRules, Limits, Trust};
pub use upstream::{Resolver, SystemResolver};

use body::Budget;
use serve::{Shared, serve, turn_away};

/// The most lookups at once.
const LOOKUPS_MAX: usize = 16;
/// The most connections at once that are being turned away; further ones are closed at once.
const TURNED_AWAY_MAX: usize = 64;
/// How many bodies of the largest size may be held for inspection at once.
const HELD_BODIES_MAX: u64 = 4;
/// How long to wait after an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why a broker could not be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// The system refused a thread or the use of the socket.
    #[error("cannot start the network broker")]
    System(#[source] std::io::Error),
    /// The certificate authorities cannot be used.
    #[error("cannot read the certificate authorities for the network broker")]
    Trust(#[source] rustls::Error),
}

impl StartError {
    /// Its code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::System(_) | Self::Trust(_) => Code::NetworkUnreachable,
        }
    }
}

/// Serves a listening socket as a proxy.
#[derive(Debug)]
pub struct Broker;

impl Broker {
    /// Starts to serve `listener`, with the system's resolver.
    ///
    /// # Errors
    /// [`StartError`] if it cannot start; then nothing is served.
    pub fn start(
        listener: TcpListener,
        rules: BrokerRules,
        observer: Arc<dyn BrokerObserver>,
    ) -> Result<BrokerHandle, StartError> {
        Self::start_with_resolver(listener, rules, observer, Arc::new(SystemResolver))
    }

    /// Starts to serve `listener`, with another resolver.
    ///
    /// # Errors
    /// [`StartError`] if it cannot start; then nothing is served.
    pub fn start_with_resolver(
        listener: TcpListener,
        rules: BrokerRules,
        observer: Arc<dyn BrokerObserver>,
        resolver: Arc<dyn Resolver>,
    ) -> Result<BrokerHandle, StartError> {
        let secure = rules.routes.iter().any(|route| route.scheme == route::Scheme::Https);
        let tls = secure.then(|| upstream::tls_connector(&rules.trust));
        let tls = tls.transpose().map_err(StartError::Trust)?;
        let budget = Arc::new(Budget::new(rules.limits.broker_bytes_max));
        let held_bytes_max = rules.limits.inspected_bytes_max.saturating_mul(HELD_BODIES_MAX);
        let held = Arc::new(Budget::new(Some(held_bytes_max)));
        let (requests, passages) = (AtomicU64::new(0), AtomicU64::new(0));
        let shared =
            Arc::new(Shared { rules, resolver, observer, tls, budget, held, requests, passages });
        listener.set_nonblocking(true).map_err(StartError::System)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(LOOKUPS_MAX)
            .build()
            .map_err(StartError::System)?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(StartError::System)?
        };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("windlass-broker".to_owned())
            .spawn(move || {
                runtime.block_on(accept(shared, listener, stopped));
                // A lookup cannot be interrupted. It holds nothing but a name.
                runtime.shutdown_background();
            })
            .map_err(StartError::System)?;
        Ok(BrokerHandle { stop: Some(stop), thread: Some(thread) })
    }
}

/// A running broker. Dropping it closes all its connections, and returns when they are closed and the
/// observer has been told of each.
#[derive(Debug)]
#[must_use = "a broker stops when its handle is dropped"]
pub struct BrokerHandle {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for BrokerHandle {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the broker has closed its connections too.
            let _ = thread.join();
        }
    }
}

async fn accept(
    shared: Arc<Shared>,
    listener: tokio::net::TcpListener,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut served = JoinSet::new();
    let mut turned_away = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            Some(_) = served.join_next() => {}
            Some(_) = turned_away.join_next() => {}
            accepted = listener.accept() => {
                while served.try_join_next().is_some() {}
                match accepted {
                Ok((stream, _)) if served.len() < shared.rules.limits.connections_max => {
                    served.spawn(serve(Arc::clone(&shared), stream));
                }
                Ok((stream, _)) if turned_away.len() < TURNED_AWAY_MAX => {
                    turned_away.spawn(turn_away(Arc::clone(&shared), stream));
                }
                Ok((stream, _)) => drop(stream),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }}
        }
    }
    drop(listener);
    served.shutdown().await;
    turned_away.shutdown().await;
}
