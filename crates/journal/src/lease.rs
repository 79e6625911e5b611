//! A lease that is released when it goes out of scope.

use std::sync::Arc;

use windlass_store::{Lease, Store};

/// Holds a lease and releases it on drop.
pub(crate) struct HeldLease {
    store: Arc<dyn Store>,
    lease: Option<Lease>,
}

impl HeldLease {
    pub(crate) const fn new(store: Arc<dyn Store>, lease: Lease) -> Self {
        Self { store, lease: Some(lease) }
    }

    /// The lease, until it was released.
    pub(crate) const fn get(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Notes that an append has released the lease.
    pub(crate) fn released(&mut self) {
        self.lease = None;
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            // A lease that cannot be released is freed when the process ends. The caller must still
            // hear that its entries are recorded.
            drop(self.store.release(lease));
        }
    }
}
