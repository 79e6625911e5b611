//! What survives a process, and the processes that live on it.

use std::sync::Arc;
use std::time::Duration;

use windlass_connect::Connect;
use windlass_kernel::HolderId;
use windlass_runtime::{
    Clock as _, Gateway, GatewayError, ReadDurability, RecoveredCall, Settings, Supervisor,
};
use windlass_store::{MemoryStore, Shared, Store};

use super::clock::TestClock;
use super::crash::{Crash, CrashingConnector, CrashingStore};
use super::meddle::Meddled;
use super::supervisor::TestSupervisor;
use super::tools::{ToolWorld, Tools};

/// The store's tables, what the tools did, and where the clock stands.
#[derive(Clone)]
pub struct World {
    /// The store's tables.
    pub shared: Shared,
    /// The tools.
    pub tools: Arc<ToolWorld>,
    /// Time and ids.
    pub clock: Arc<TestClock>,
}

impl Default for World {
    fn default() -> Self {
        let shared = Shared::default();
        let tools = Arc::new(ToolWorld::new(shared.clone(), Tools::default()));
        Self { shared, tools, clock: Arc::default() }
    }
}

impl World {
    /// A world of its own that goes on where this one stands. No process of this one lives in it.
    #[must_use]
    pub fn fork(&self) -> Self {
        let shared = Shared::default();
        let tables = self.shared.tables();
        shared.tamper(|empty| *empty = tables);
        let tools = self.tools.lock().clone();
        let tools = Arc::new(ToolWorld::new(shared.clone(), tools));
        Self { shared, tools, clock: Arc::new(self.clock.fork()) }
    }

    /// Opens a handle of the store, as a process of its own.
    #[must_use]
    pub fn store(&self) -> MemoryStore {
        MemoryStore::open(&self.shared, HolderId(self.clock.new_id()))
    }

    /// Starts a process that is made of `parts`.
    #[must_use]
    pub fn start(&self, parts: &dyn Parts, reads: ReadDurability, crash: &Arc<Crash>) -> Process {
        let store = Meddled::new(Arc::new(self.store()), CrashingStore(Arc::clone(crash)));
        let connect =
            CrashingConnector { tools: Arc::clone(&self.tools), crash: Arc::clone(crash) };
        let gateway = Gateway::new(
            parts.store(Arc::new(store), self),
            parts.supervisor(),
            parts.connect(Arc::new(connect), self),
            Arc::clone(&self.clock) as Arc<_>,
            Settings { reads: parts.reads(reads), key_wait: Duration::ZERO },
            ".",
        );
        Process { gateway }
    }

    /// Starts a gateway on this world that does not crash.
    #[must_use]
    pub fn gateway(&self, supervisor: Arc<dyn Supervisor>) -> Gateway {
        self.gateway_on(Arc::new(self.store()), supervisor)
    }

    /// Starts a gateway on a store of the caller's making.
    #[must_use]
    pub fn gateway_on(&self, store: Arc<dyn Store>, supervisor: Arc<dyn Supervisor>) -> Gateway {
        let settings = Settings { reads: ReadDurability::WriteAhead, key_wait: Duration::ZERO };
        let tools = Arc::clone(&self.tools) as Arc<_>;
        Gateway::new(store, supervisor, tools, Arc::clone(&self.clock) as Arc<_>, settings, ".")
    }
}

/// A gateway that lives until it is dropped.
pub struct Process {
    /// The gateway.
    pub gateway: Gateway,
}

/// What a process is made of. By default the honest parts; a planted bug replaces one.
pub trait Parts: Send + Sync {
    /// The store that the gateway sees.
    fn store(&self, honest: Arc<dyn Store>, _world: &World) -> Arc<dyn Store> {
        honest
    }

    /// The connectors that the gateway sees.
    fn connect(&self, honest: Arc<dyn Connect>, _world: &World) -> Arc<dyn Connect> {
        honest
    }

    /// The supervisor that the gateway sees.
    fn supervisor(&self) -> Arc<dyn Supervisor> {
        Arc::new(TestSupervisor::default())
    }

    /// When the gateway commits its reads.
    fn reads(&self, honest: ReadDurability) -> ReadDurability {
        honest
    }

    /// What a process does about its predecessors before it serves anyone.
    ///
    /// # Errors
    /// As the gateway's own recovery.
    fn recover(&self, gateway: &Gateway) -> Result<Vec<RecoveredCall>, GatewayError> {
        gateway.recover_all()
    }

    /// What happens to the world when a process has died.
    fn after_death(&self, _world: &World) {}
}

/// Nothing is broken.
pub struct Honest;

impl Parts for Honest {}
