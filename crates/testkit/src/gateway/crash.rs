//! A process that dies at its n-th point.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use windlass_connect::{Connect, Job, Reply, Target};
use windlass_kernel::artifact::{FileChange, Redispatch};
use windlass_kernel::{ReplayPoint, TraceId};
use windlass_store::{
    AcquireError, Append, AppendError, Appended, Lease, Store, StoreError, TraceFilter, TraceState,
};

use super::Meddle;
use super::tools::ToolWorld;

/// What a crash unwinds with; nobody else can throw it.
struct Crashed;

type Interlude = Box<dyn FnOnce(&'static str) + Send>;

/// Counts the points that a process passes and ends it at one of them.
#[derive(Default)]
pub struct Crash {
    at: Option<u32>,
    passed: AtomicU32,
    dead: AtomicBool,
    interlude: Mutex<Option<(u32, Interlude)>>,
}

impl Crash {
    /// Ends the process at its `at`-th point, or never.
    #[must_use]
    pub fn at(at: Option<u32>) -> Arc<Self> {
        Arc::new(Self { at, ..Self::default() })
    }

    /// Ends it likewise, and lets `interlude` happen at another point before.
    #[must_use]
    pub fn with_interlude(
        at: Option<u32>,
        when: u32,
        interlude: impl FnOnce(&'static str) + Send + 'static,
    ) -> Arc<Self> {
        let interlude = Mutex::new(Some((when, Box::new(interlude) as Interlude)));
        Arc::new(Self { at, interlude, ..Self::default() })
    }

    /// Passes a point.
    pub fn point(&self, name: &'static str) {
        let passed = self.passed.fetch_add(1, Ordering::SeqCst) + 1;
        let mut interlude = self.interlude.lock().unwrap_or_else(PoisonError::into_inner);
        let due = interlude.take_if(|(when, _)| *when == passed);
        drop(interlude);
        if let Some((_, happen)) = due {
            happen(name);
        }
        if self.at == Some(passed) {
            self.dead.store(true, Ordering::SeqCst);
            // Unlike a panic this says nothing on its way.
            std::panic::resume_unwind(Box::new(Crashed));
        }
    }

    /// How many points were passed.
    #[must_use]
    pub fn passed(&self) -> u32 {
        self.passed.load(Ordering::SeqCst)
    }

    /// Whether what was thrown is a crash of this kind; anything else is a failure of the test.
    #[must_use]
    pub fn is_crash(thrown: &(dyn Any + Send)) -> bool {
        thrown.is::<Crashed>()
    }

    /// A dead process changes nothing any more, not even while it is taken down.
    fn alive(&self, operation: &'static str) -> Result<(), StoreError> {
        if self.dead.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable {
                operation,
                source: "the process is dead".into(),
            });
        }
        Ok(())
    }
}

/// A store whose process can die before and after everything it makes durable.
pub struct CrashingStore(pub Arc<Crash>);

impl CrashingStore {
    fn around<T, E: From<StoreError>>(
        &self,
        [before, after]: [&'static str; 2],
        act: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.0.alive(before)?;
        self.0.point(before);
        let result = act();
        self.0.point(after);
        result
    }
}

impl Meddle for CrashingStore {
    fn append(&self, inner: &dyn Store, append: Append<'_>) -> Result<Appended, AppendError> {
        self.around(["append.before", "append.after"], || inner.append(append))
    }

    fn acquire(&self, inner: &dyn Store, trace_id: TraceId) -> Result<Lease, AcquireError> {
        self.around(["acquire.before", "acquire.after"], || inner.acquire(trace_id))
    }

    fn release(&self, inner: &dyn Store, lease: Lease) -> Result<(), StoreError> {
        self.around(["release.before", "release.after"], || inner.release(lease))
    }

    fn write_replay_point(
        &self,
        inner: &dyn Store,
        lease: &Lease,
        checkpoint: &ReplayPoint,
    ) -> Result<(), AppendError> {
        let points = ["write_replay_point.before", "write_replay_point.after"];
        self.around(points, || inner.write_replay_point(lease, checkpoint))
    }

    fn record_redispatch(
        &self,
        inner: &dyn Store,
        lease: &Lease,
        redispatch: &Redispatch,
    ) -> Result<(), AppendError> {
        let points = ["record_redispatch.before", "record_redispatch.after"];
        self.around(points, || inner.record_redispatch(lease, redispatch))
    }

    fn list_traces(
        &self,
        inner: &dyn Store,
        filter: &TraceFilter,
    ) -> Result<Vec<TraceState>, StoreError> {
        self.0.alive("list traces")?;
        inner.list_traces(filter)
    }
}

/// Tools whose caller can die before it calls them and before it hears their answer.
pub struct CrashingConnector {
    /// The tools.
    pub tools: Arc<ToolWorld>,
    /// When the caller dies.
    pub crash: Arc<Crash>,
}

impl Connect for CrashingConnector {
    fn perform(&self, job: &Job<'_>) -> Reply {
        self.crash.point("effect.before");
        let reply = self.tools.perform(job);
        self.crash.point("effect.after");
        reply
    }

    fn foresee(&self, target: &Target, tool: &str, args: &Value) -> Option<FileChange> {
        self.tools.foresee(target, tool, args)
    }
}
