//! A process that dies at its n-th point: from then on nothing of it reaches the world.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use windlass_connect::{Certainty, Connect, Job, Reply};
use windlass_kernel::artifact::Redispatch;
use windlass_kernel::{Code, ReplayPoint, TraceId};
use windlass_store::{AcquireError, Append, AppendError, Appended, Lease, Store, StoreError};
use windlass_testkit::gateway::Meddle;

/// One life of a process.
#[derive(Debug, Default)]
pub struct Life {
    ends_at: Option<u32>,
    passed: AtomicU32,
    dead: AtomicBool,
}

impl Life {
    /// A life that ends at its `at`-th point, or never.
    pub fn until(at: Option<u32>) -> Arc<Self> {
        Arc::new(Self { ends_at: at, ..Self::default() })
    }

    /// Passes a point; whoever gets `false` is dead and must not go on.
    pub fn point(&self) -> bool {
        if self.is_over() {
            return false;
        }
        let passed = self.passed.fetch_add(1, Ordering::SeqCst) + 1;
        if self.ends_at == Some(passed) {
            self.dead.store(true, Ordering::SeqCst);
        }
        !self.is_over()
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable { operation: "live", source: "the process is dead".into() }
}

/// A store whose process can die before and after everything that it makes durable.
pub struct Mortal(pub Arc<Life>);

impl Mortal {
    fn around<T, E: From<StoreError>>(&self, act: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        if !self.0.point() {
            return Err(gone().into());
        }
        let result = act();
        if !self.0.point() {
            return Err(gone().into());
        }
        result
    }
}

impl Meddle for Mortal {
    fn append(&self, inner: &dyn Store, append: Append<'_>) -> Result<Appended, AppendError> {
        self.around(|| inner.append(append))
    }

    fn acquire(&self, inner: &dyn Store, trace_id: TraceId) -> Result<Lease, AcquireError> {
        self.around(|| inner.acquire(trace_id))
    }

    fn release(&self, inner: &dyn Store, lease: Lease) -> Result<(), StoreError> {
        self.around(|| inner.release(lease))
    }

    fn record_redispatch(
        &self,
        inner: &dyn Store,
        lease: &Lease,
        redispatch: &Redispatch,
    ) -> Result<(), AppendError> {
        if self.0.is_over() {
            return Err(gone().into());
        }
        inner.record_redispatch(lease, redispatch)
    }

    fn write_replay_point(
        &self,
        inner: &dyn Store,
        lease: &Lease,
        point: &ReplayPoint,
    ) -> Result<(), AppendError> {
        if self.0.is_over() {
            return Err(gone().into());
        }
        inner.write_replay_point(lease, point)
    }
}

/// Tools whose caller can die before it calls them and before it hears their answer.
pub struct MortalConnect<C> {
    /// The tools.
    pub tools: C,
    /// When the caller dies.
    pub life: Arc<Life>,
}

impl<C: Connect> Connect for MortalConnect<C> {
    fn foresee(
        &self,
        target: &windlass_connect::Target,
        tool: &str,
        args: &serde_json::Value,
    ) -> Option<windlass_kernel::artifact::FileChange> {
        self.tools.foresee(target, tool, args)
    }

    fn perform(&self, job: &Job<'_>) -> Reply {
        let unheard = || Reply::Failure {
            code: Code::ToolServerUnavailable,
            message: "nobody is there to hear it".to_owned(),
            result: None,
            certainty: Certainty::Unknown,
        };
        if !self.life.point() {
            return unheard();
        }
        let reply = self.tools.perform(job);
        if self.life.point() { reply } else { unheard() }
    }
}
