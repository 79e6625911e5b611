//! The sessions of clients over HTTP.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::server::Core;
use crate::session::{Session, lock};

/// All sessions of an HTTP server.
pub(crate) struct Sessions {
    known: Mutex<Known>,
    /// For requests that stand for themselves. It ends with the server.
    stateless: Arc<Session>,
}

struct Known {
    closed: bool,
    by_id: HashMap<String, Arc<Session>>,
}

impl Sessions {
    pub(crate) fn new(core: &Core) -> Result<Self, getrandom::Error> {
        let known = Known { closed: false, by_id: HashMap::new() };
        Ok(Self { known: Mutex::new(known), stateless: core.open_session(new_id()?) })
    }

    pub(crate) fn stateless(&self) -> &Arc<Session> {
        &self.stateless
    }

    /// A new session, unless there are too many or the server is closing.
    pub(crate) fn create(&self, core: &Core) -> Option<Arc<Session>> {
        let id = new_id().ok()?;
        let mut known = lock(&self.known);
        if known.by_id.len() >= core.limits.sessions_max {
            known.by_id.retain(|_, session| {
                let keep = !session.is_idle(core.limits.session_idle);
                if !keep {
                    session.close();
                }
                keep
            });
        }
        if known.closed || known.by_id.len() >= core.limits.sessions_max {
            return None;
        }
        let session = core.open_session(id.clone());
        known.by_id.insert(id, Arc::clone(&session));
        Some(session)
    }

    /// A session that has not been idle for too long.
    pub(crate) fn find(&self, core: &Core, id: &str) -> Option<Arc<Session>> {
        let session = lock(&self.known).by_id.get(id).cloned()?;
        if session.is_idle(core.limits.session_idle) {
            self.remove(id);
            return None;
        }
        session.touch();
        Some(session)
    }

    /// Ends a session. Its calls in progress go on.
    pub(crate) fn remove(&self, id: &str) -> bool {
        let removed = lock(&self.known).by_id.remove(id);
        if let Some(session) = &removed {
            session.close();
        }
        removed.is_some()
    }

    /// Refuses new calls and sessions, and waits for the calls in progress.
    pub(crate) fn close(&self) {
        let mut all: Vec<Arc<Session>> = {
            let mut known = lock(&self.known);
            known.closed = true;
            known.by_id.values().cloned().collect()
        };
        all.push(Arc::clone(&self.stateless));
        for session in &all {
            session.close();
        }
        for session in &all {
            session.wait();
        }
    }
}

/// 128 random bits.
fn new_id() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
