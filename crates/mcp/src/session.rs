//! What a server knows of one client, and the requests of it that are still open.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::RequestId;
use serde_json::json;

use crate::host::ClientInfo;
use crate::wire;

/// Takes messages to a client.
pub(crate) trait Outbox: Send + Sync {
    /// Takes an answer; may wait for room. If the client is gone, the answer is lost.
    fn send(&self, message: Vec<u8>);

    /// Takes a message if there is room for it; returns whether there was.
    fn offer(&self, message: Vec<u8>) -> bool;

    /// Whether nobody will read a message any more.
    fn is_closed(&self) -> bool;
}

/// An open request. Ids are unique within a scope: a connection, or one request over HTTP without a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RequestKey {
    pub(crate) scope: u64,
    pub(crate) id: RequestId,
}

/// One client's session.
pub(crate) struct Session {
    pub(crate) id: String,
    ordinals: AtomicU64,
    client: Mutex<Option<ClientInfo>>,
    calls: Mutex<OpenCalls>,
    /// Told when a call has ended.
    ended: Condvar,
    /// Where notifications go that belong to no request.
    out: Mutex<Option<Arc<dyn Outbox>>>,
    subscriptions: Mutex<Vec<Subscription>>,
}

struct OpenCalls {
    closed: bool,
    running: usize,
    cancelled: HashMap<RequestKey, bool>,
    last_used: Instant,
}

struct Subscription {
    key: RequestKey,
    out: Arc<dyn Outbox>,
}

/// Why a call is not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotOpened {
    /// The session has ended.
    Closed,
    /// A call with the same id is still open.
    Duplicate,
}

impl Session {
    pub(crate) fn new(id: String) -> Self {
        Self {
            id,
            ordinals: AtomicU64::new(0),
            client: Mutex::new(None),
            calls: Mutex::new(OpenCalls {
                closed: false,
                running: 0,
                cancelled: HashMap::new(),
                last_used: Instant::now(),
            }),
            ended: Condvar::new(),
            out: Mutex::new(None),
            subscriptions: Mutex::new(Vec::new()),
        }
    }

    /// The next position of a call, from 1.
    pub(crate) fn next_ordinal(&self) -> u64 {
        self.ordinals.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn client(&self) -> Option<ClientInfo> {
        lock(&self.client).clone()
    }

    pub(crate) fn set_client(&self, client: ClientInfo) {
        *lock(&self.client) = Some(client);
    }

    /// Sets where notifications go; what was set before ends.
    pub(crate) fn set_out(&self, out: Option<Arc<dyn Outbox>>) {
        *lock(&self.out) = out;
    }

    /// Registers a call that will wait or run.
    pub(crate) fn open(&self, key: &RequestKey) -> Result<(), NotOpened> {
        let mut calls = lock(&self.calls);
        if calls.closed {
            return Err(NotOpened::Closed);
        }
        if calls.cancelled.contains_key(key) {
            return Err(NotOpened::Duplicate);
        }
        calls.cancelled.insert(key.clone(), false);
        Ok(())
    }

    /// Takes up a registered call, and says whether it may start. Either way its answer is waited for until
    /// [`Session::end`].
    pub(crate) fn begin(&self, key: &RequestKey) -> bool {
        let mut calls = lock(&self.calls);
        calls.running += 1;
        !calls.closed && calls.cancelled.get(key) == Some(&false)
    }

    /// Whether the client still wants the answer to a call that was performed or refused. Its id is free again.
    pub(crate) fn wants_answer(&self, key: &RequestKey) -> bool {
        lock(&self.calls).cancelled.remove(key) == Some(false)
    }

    /// Ends a call that was taken up, after its answer.
    pub(crate) fn end(&self) {
        let mut calls = lock(&self.calls);
        calls.running = calls.running.saturating_sub(1);
        calls.last_used = Instant::now();
        self.ended.notify_all();
    }

    /// Notes that the client does not want the answer to a request. A call that runs goes on.
    pub(crate) fn cancel(&self, key: &RequestKey) {
        if let Some(cancelled) = lock(&self.calls).cancelled.get_mut(key) {
            *cancelled = true;
        }
        lock(&self.subscriptions).retain(|subscription| subscription.key != *key);
    }

    /// Ends the session. Calls that wait never start.
    pub(crate) fn close(&self) {
        lock(&self.calls).closed = true;
        self.set_out(None);
        lock(&self.subscriptions).clear();
    }

    /// Waits for the calls that were taken up.
    pub(crate) fn wait(&self) {
        let calls = lock(&self.calls);
        let running = |calls: &mut OpenCalls| calls.running > 0;
        drop(self.ended.wait_while(calls, running).unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn touch(&self) {
        lock(&self.calls).last_used = Instant::now();
    }

    /// Whether the session was of no use for this long.
    pub(crate) fn is_idle(&self, idle: Duration) -> bool {
        let calls = lock(&self.calls);
        let unused = calls.cancelled.is_empty() && calls.running == 0;
        let listening = lock(&self.out).as_ref().is_some_and(|out| !out.is_closed());
        unused && !listening && calls.last_used.elapsed() >= idle
    }

    /// Subscribes a request to changes of the tools, unless there are `max` already. No change is told
    /// before `acknowledgment`.
    pub(crate) fn subscribe(
        &self,
        key: RequestKey,
        out: Arc<dyn Outbox>,
        max: usize,
        acknowledgment: Vec<u8>,
    ) -> bool {
        let mut subscriptions = lock(&self.subscriptions);
        subscriptions.retain(|subscription| !subscription.out.is_closed());
        let subscribed = subscriptions.len() < max && out.offer(acknowledgment);
        if subscribed {
            subscriptions.push(Subscription { key, out });
        }
        subscribed
    }

    /// Tells the client that the tools have changed, in the way that its protocol has.
    pub(crate) fn tools_changed(&self) {
        const METHOD: &str = "notifications/tools/list_changed";
        if lock(&self.client).is_some()
            && let Some(out) = lock(&self.out).as_ref()
        {
            out.offer(wire::notification(METHOD, &json!({})));
        }
        for subscription in lock(&self.subscriptions).iter() {
            let params = json!({ "_meta": subscription_meta(&subscription.key.id) });
            subscription.out.offer(wire::notification(METHOD, &params));
        }
    }
}

/// The `_meta` of a message that belongs to a subscription.
pub(crate) fn subscription_meta(id: &RequestId) -> serde_json::Value {
    json!({ "io.modelcontextprotocol/subscriptionId": id })
}

/// A poisoned lock guards plain data, which no panic leaves half changed.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: i64) -> RequestKey {
        RequestKey { scope: 0, id: RequestId::Number(id) }
    }

    #[test]
    fn a_call_that_waits_for_nobody_does_not_begin() {
        let session = Session::new("s".to_owned());
        for id in 1..=4 {
            assert_eq!(session.open(&key(id)), Ok(()));
        }
        assert_eq!(session.open(&key(1)), Err(NotOpened::Duplicate));
        assert!(session.begin(&key(1)));
        session.cancel(&key(2));
        assert!(!session.begin(&key(2)));
        assert!(session.begin(&key(3)));
        session.cancel(&key(3));
        assert!(session.wants_answer(&key(1)));
        assert!(!session.wants_answer(&key(3)));
        session.close();
        assert!(!session.begin(&key(4)));
        assert_eq!(session.open(&key(5)), Err(NotOpened::Closed));
        for _ in 0..4 {
            assert!(!session.is_idle(Duration::ZERO), "its answer is waited for");
            session.end();
        }
        session.wait();
    }

    #[test]
    fn a_session_in_use_is_not_idle() {
        let session = Session::new("s".to_owned());
        assert!(session.is_idle(Duration::ZERO));
        assert!(!session.is_idle(Duration::from_secs(3600)));
        session.open(&key(1)).unwrap();
        assert!(!session.is_idle(Duration::ZERO), "a call waits");
        assert!(session.begin(&key(1)) && session.wants_answer(&key(1)));
        assert!(!session.is_idle(Duration::ZERO), "a call runs");
        session.end();
        assert!(session.is_idle(Duration::ZERO));
    }
}
