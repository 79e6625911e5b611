//! A lease that is released when it goes out of scope.

use std::sync::Arc;

use crate::store::Store;
use crate::types::Lease;

/// Owns a lease and releases it when dropped.
pub struct Guard {
    store: Arc<dyn Store>,
    lease: Option<Lease>,
}

impl Guard {
    /// Takes over a lease.
    #[must_use]
    pub const fn new(store: Arc<dyn Store>, lease: Lease) -> Self {
        Self { store, lease: Some(lease) }
    }

    /// The lease, if it is not released.
    #[must_use]
    pub const fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Notes that an append has released the lease.
    pub fn released(&mut self) {
        self.lease = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            // A lease that cannot be released is free when the process ends. The caller's result must
            // not depend on that.
            drop(self.store.release(lease));
        }
    }
}
