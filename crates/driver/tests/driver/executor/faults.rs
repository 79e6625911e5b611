//! A store that dies at an append, or refuses some.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_store::{Append, AppendError, Appended, Store, StoreError};
use windlass_testkit::gateway::Meddle;

/// When the store fails.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Never.
    None,
    /// From this append on, which is not written.
    Before(u64),
    /// From this append on, which is written though nobody hears of it.
    After(u64),
    /// Whenever an entry's body holds this text.
    Holding(&'static str),
    /// From the append on that holds this text, which is written though nobody hears of it.
    AfterHolding(&'static str),
}

/// Refuses appends, and counts them.
pub struct Faults {
    fault: Fault,
    pub appends: AtomicU64,
    /// The appends that came after the first refusal.
    pub after_refusal: AtomicU64,
    refused: AtomicU64,
}

impl Faults {
    pub const fn new(fault: Fault) -> Self {
        let [appends, after_refusal, refused] = [const { AtomicU64::new(0) }; 3];
        Self { fault, appends, after_refusal, refused }
    }

    fn gone() -> AppendError {
        AppendError::Store(StoreError::ReadOnly { operation: "append" })
    }
}

/// Shared with the test that counts.
pub struct Shared(pub Arc<Faults>);

impl Meddle for Shared {
    fn append(&self, inner: &dyn Store, append: Append<'_>) -> Result<Appended, AppendError> {
        let faults = &self.0;
        let number = faults.appends.fetch_add(1, Ordering::SeqCst) + 1;
        let is_run = append.entries[0].entry.schema_id.contains("run");
        if faults.refused.load(Ordering::SeqCst) > 0 && is_run {
            faults.after_refusal.fetch_add(1, Ordering::SeqCst);
        }
        let refuse = || {
            faults.refused.fetch_add(1, Ordering::SeqCst);
            Err(Faults::gone())
        };
        match faults.fault {
            Fault::Before(at) if number >= at => refuse(),
            Fault::After(at) if number > at => refuse(),
            Fault::After(at) if number == at => {
                inner.append(append)?;
                refuse()
            }
            Fault::Holding(text) => {
                let holds = |body: &[u8]| String::from_utf8_lossy(body).contains(text);
                if append.entries.iter().any(|entry| holds(&entry.body)) {
                    return refuse();
                }
                inner.append(append)
            }
            Fault::AfterHolding(text) => {
                let holds = |body: &[u8]| String::from_utf8_lossy(body).contains(text);
                if faults.refused.load(Ordering::SeqCst) > 0 {
                    return refuse();
                }
                if append.entries.iter().any(|entry| holds(&entry.body)) {
                    inner.append(append)?;
                    return refuse();
                }
                inner.append(append)
            }
            Fault::None | Fault::Before(_) | Fault::After(_) => inner.append(append),
        }
    }
}
