//! Lists of grants.

use windlass_journal::{Check, Reader};
use windlass_kernel::grant::{Decided, Grant, Status, Terms};
use windlass_kernel::{State, Timestamp};
use windlass_store::{Store, TraceFilter};

use crate::error::GatewayError;

/// The number of grants that are listed at a time.
const PAGE: usize = 256;

/// Grants, and how many more there are that cannot be read. Verification says which.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GrantList {
    /// The grants, newest first.
    pub grants: Vec<Grant>,
    /// The number of those that cannot be read, and of traces of which nobody can tell what they are.
    pub unreadable: u64,
}

/// The grants of everything that can be used now.
///
/// # Errors
/// [`GatewayError`] if the store fails.
pub fn grants_of_everything(
    store: &dyn Store,
    now: Timestamp,
) -> Result<Vec<(Terms, Decided)>, GatewayError> {
    let open = grants_in(store, State::Granted)?.grants.into_iter();
    let open = open.filter(|grant| grant.status(now) == Status::Open);
    Ok(open.filter_map(|grant| grant.granted).filter(|(terms, _)| terms.everything).collect())
}

/// The grants in a state, newest first.
pub(crate) fn grants_in(store: &dyn Store, state: State) -> Result<GrantList, GatewayError> {
    let mut all = GrantList::default();
    let open_only = state == State::Granted;
    let mut filter = TraceFilter { open_only, state: Some(state), ..TraceFilter::all(PAGE) };
    loop {
        let page = store.list_traces(&filter)?;
        filter.before = page.last().map(|state| state.head.trace_id);
        for trace in &page {
            // Another process may be using it, so that its end is not compared.
            match Reader::<Grant>::state_of(store, trace.head.trace_id, Check::Prefix) {
                Ok(grant) => all.grants.push(grant),
                Err(error) if error.is_damage() => all.unreadable += 1,
                Err(error) => return Err(error.into()),
            }
        }
        if page.len() < PAGE {
            return Ok(all);
        }
    }
}
