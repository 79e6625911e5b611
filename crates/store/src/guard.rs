//! A lease that is given back whatever happens.

use std::sync::Arc;

use crate::store::Store;
use crate::types::Lease;

/// Holds a lease and gives it back when it goes out of scope.
pub struct Guard {
    store: Arc<dyn Store>,
    lease: Option<Lease>,
}

impl Guard {
    /// Takes charge of a lease.
    #[must_use]
    pub const fn new(store: Arc<dyn Store>, lease: Lease) -> Self {
        Self { store, lease: Some(lease) }
    }

    /// The lease, until it was released.
    #[must_use]
    pub const fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Tells that an append has released it: there is nothing left to give back.
    pub fn released(&mut self) {
        self.lease = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            // One that cannot be given back is freed when the process ends; what is recorded is
            // recorded, and its caller must hear of it all the same.
            drop(self.store.release(lease));
        }
    }
}
