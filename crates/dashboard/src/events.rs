//! What happens in the journals of projects, sent to whoever listens (server-sent events).
//!
//! Each event has an id. A listener that comes back names the last one it has seen and gets those since then; if they
//! are no longer known, it is told to read everything anew.

use std::collections::VecDeque;
use std::iter;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::request::Parts;
use hyper::body::{Body, Frame};
use serde_json::json;
use tokio::sync::mpsc;
use windlass_kernel::run::RunName;
use windlass_store::Store;
use windlass_views::{RecordedEvent, Watcher};

use crate::access::{Visit, Visitor};
use crate::dashboard::{Dashboard, Projects, now};

/// How often journals are looked at.
const POLL: Duration = Duration::from_millis(80);
/// After a look, how many times as long nothing is looked at.
const BACKOFF_FACTOR: u32 = 4;
/// How many events are remembered for those who come back.
const REMEMBERED: usize = 4096;
/// How many events a listener may be behind; a slower one is cut off, and comes back.
const BEHIND_MAX: usize = 512;
/// How many may listen at once.
const LISTENERS_MAX: usize = 256;
/// How many of them may be one person.
const LISTENERS_OF_ONE_MAX: usize = 128;
/// How long a browser waits before it asks again.
const RETRY: &[u8] = b"retry: 1000\n\n";
/// How often it is asked whether a listener may still listen, if the people have not changed.
const ADMISSION: Duration = Duration::from_secs(1);
/// How often a listener hears that the server is there.
const BEAT: Duration = Duration::from_secs(15);

/// What is known of the events so far.
#[derive(Default)]
struct State {
    /// The number of the newest event.
    newest: u64,
    remembered: VecDeque<(u64, Bytes)>,
    listeners: Vec<Listener>,
}

/// Somebody who listens.
struct Listener {
    sender: mpsc::Sender<Bytes>,
    admission: Admission,
}

/// Who listens, and whether they still may.
pub struct Admission {
    /// The name.
    pub name: String,
    /// Whether the person may still listen. It is asked before each look at the journals.
    pub is_valid: Box<dyn FnMut() -> bool + Send>,
}

impl Admission {
    /// How a visitor who listens is asked again and again who they are: at once when the people change, and every second,
    /// since logins expire.
    pub fn of(dashboard: &Dashboard, visitor: Visitor, request: Parts) -> Self {
        let (access, hosts) = (dashboard.access.clone(), dashboard.hosts.clone());
        let name = visitor.name.clone();
        let mut checked = (access.stamp(), Instant::now());
        let is_valid = move || {
            let stamp = access.stamp();
            if stamp == checked.0 && checked.1.elapsed() < ADMISSION {
                return true;
            }
            checked = (stamp, Instant::now());
            let visit = hosts.visit(&access, &request, now());
            matches!(visit, Ok(Visit::By(found)) if found == visitor)
        };
        Self { name, is_valid: Box::new(is_valid) }
    }
}

/// Sends events to listeners.
#[derive(Clone)]
pub struct Hub {
    state: Arc<Mutex<State>>,
    /// Tells the events of this server from those of an earlier one.
    boot: String,
}

/// The events that one listener gets.
pub struct Stream(mpsc::Receiver<Bytes>);

impl Body for Stream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

impl Hub {
    /// Watches projects in a thread of its own, until the hub is dropped. What happens from now on is told: the first look
    /// is made here, so that nothing is missed between the greeting of a listener and the start of the thread.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(projects: Arc<Projects>, boot: String) -> std::io::Result<Self> {
        let state = Arc::new(Mutex::new(State::default()));
        let weak = Arc::downgrade(&state);
        let all = projects.list();
        let watchers = all.iter().map(|project| begin(project.store().ok()?)).collect();
        let name = boot.clone();
        std::thread::Builder::new()
            .name("windlass-events".to_owned())
            .spawn(move || watch(&projects, watchers, &name, &weak))?;
        Ok(Self { state, boot })
    }

    /// The id of the newest event. What happens later is told to who listens after it.
    #[must_use]
    pub fn newest(&self) -> String {
        self.id_of_newest(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn id_of_newest(&self, state: &State) -> String {
        format!("{}.{}", self.boot, state.newest)
    }

    /// Begins to listen, after the event with this id; `None` if too many listen, in all or as this person.
    pub fn listen(&self, last: Option<&str>, admission: Admission) -> Option<Stream> {
        let (sender, receiver) = mpsc::channel(BEHIND_MAX);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.listeners.retain(|listener| !listener.sender.is_closed());
        let is_same = |listener: &&Listener| listener.admission.name == admission.name;
        let own = state.listeners.iter().filter(is_same).count();
        if state.listeners.len() >= LISTENERS_MAX || own >= LISTENERS_OF_ONE_MAX {
            return None;
        }
        for bytes in self.since(&state, last) {
            // What does not fit is missed by a listener that is cut off at the next event, and asks again.
            drop(sender.try_send(bytes));
        }
        state.listeners.push(Listener { sender, admission });
        Some(Stream(receiver))
    }

    fn since(&self, state: &State, last: Option<&str>) -> Vec<Bytes> {
        let hello = |event: &str| {
            let id = self.id_of_newest(state);
            vec![
                Bytes::from_static(RETRY),
                Bytes::from(format!("id: {id}\nevent: {event}\ndata: {{}}\n\n")),
            ]
        };
        let Some(last) = last else { return hello("ready") };
        let number = last.split_once('.').filter(|(boot, _)| *boot == self.boot);
        let Some(number) = number.and_then(|(_, number)| number.parse::<u64>().ok()) else {
            return hello("reset");
        };
        let oldest = state.remembered.front().map_or(state.newest + 1, |(number, _)| *number);
        let missed = state.remembered.iter().filter(|(one, _)| *one > number);
        let missed: Vec<Bytes> = iter::once(Bytes::from_static(RETRY))
            .chain(missed.map(|(_, bytes)| bytes.clone()))
            .collect();
        if number > state.newest || number + 1 < oldest || missed.len() >= BEHIND_MAX {
            return hello("reset");
        }
        missed
    }
}

impl State {
    /// Sends an event to all, and remembers it.
    fn send(&mut self, boot: &str, data: &str) {
        self.newest += 1;
        let text = format!("id: {boot}.{}\nevent: entry\ndata: {data}\n\n", self.newest);
        let bytes = Bytes::from(text);
        if self.remembered.len() == REMEMBERED {
            self.remembered.pop_front();
        }
        self.remembered.push_back((self.newest, bytes.clone()));
        self.tell(&bytes);
    }

    /// Tells all who listen to read everything anew.
    fn tell_to_read(&mut self, boot: &str) {
        self.newest += 1;
        self.remembered.clear();
        let text = format!("id: {boot}.{}\nevent: reset\ndata: {{}}\n\n", self.newest);
        self.tell(&Bytes::from(text));
    }

    /// Sends bytes to all who listen; whoever is too far behind is cut off.
    fn tell(&mut self, bytes: &Bytes) {
        self.listeners.retain(|listener| listener.sender.try_send(bytes.clone()).is_ok());
    }

    /// Ends the streams of those who may no longer listen.
    fn expel(&mut self) {
        self.listeners.retain_mut(|listener| (listener.admission.is_valid)());
    }
}

/// A journal, and how far it was looked at.
type Watched = (Arc<dyn Store>, Watcher);

/// Watches a journal from now on; `None` if it cannot be read.
fn begin(store: Arc<dyn Store>) -> Option<Watched> {
    Watcher::new(store.as_ref()).ok().map(|new| (store, new))
}

/// Looks at the journals again and again.
fn watch(
    projects: &Projects,
    mut watchers: Vec<Option<Watched>>,
    boot: &str,
    weak: &Weak<Mutex<State>>,
) {
    let mut quiet = Duration::ZERO;
    while let Some(state) = weak.upgrade() {
        let began = Instant::now();
        let all = projects.list();
        if all.len() > watchers.len() {
            watchers.resize_with(all.len(), || None);
            state.lock().unwrap_or_else(PoisonError::into_inner).tell_to_read(boot);
        }
        state.lock().unwrap_or_else(PoisonError::into_inner).expel();
        for (project, watcher) in all.iter().zip(&mut watchers) {
            // A journal that cannot be read now is tried again; pages say what is wrong with it.
            let Ok(store) = project.store() else { continue };
            // Another journal in the place of the first one is watched from now on, and pages are read anew.
            let is_new = watcher.as_ref().is_none_or(|(watched, _)| !Arc::ptr_eq(watched, &store));
            if is_new {
                let was_watched = watcher.is_some();
                *watcher = begin(store);
                if was_watched {
                    state.lock().unwrap_or_else(PoisonError::into_inner).tell_to_read(boot);
                }
                continue;
            }
            let Some((_, watcher)) = watcher else { continue };
            let mut told = |event: RecordedEvent<'_>| {
                let data = json!({
                    "project": project.id(),
                    "run": RunName::of(event.trace_id).to_string(),
                    "entry": event.sequence_number,
                    "kind": event.event.kind(),
                    "at": event.ts,
                });
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                state.send(boot, &data.to_string());
            };
            let Ok(polled) = watcher.poll(store.as_ref(), &mut told) else { continue };
            for call in polled.calls {
                let call = call.to_string();
                let data = json!({ "project": project.id(), "call": call, "kind": "call" });
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                state.send(boot, &data.to_string());
            }
        }
        quiet += POLL;
        if quiet >= BEAT {
            quiet = Duration::ZERO;
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.tell(&Bytes::from_static(b": still here\n\n"));
        }
        drop(state);
        std::thread::sleep(POLL.max(began.elapsed() * BACKOFF_FACTOR));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub() -> Hub {
        Hub { state: Arc::default(), boot: "b".to_owned() }
    }

    fn admission(name: &str) -> Admission {
        Admission { name: name.to_owned(), is_valid: Box::new(|| true) }
    }

    fn listen(hub: &Hub, last: Option<&str>) -> Option<Stream> {
        hub.listen(last, admission("ann"))
    }

    fn send(hub: &Hub, data: &str) {
        hub.state.lock().unwrap().send("b", data);
    }

    fn texts(stream: &mut Stream) -> Vec<String> {
        let mut all = Vec::new();
        while let Ok(bytes) = stream.0.try_recv() {
            all.extend((bytes != RETRY).then(|| String::from_utf8(bytes.to_vec()).unwrap()));
        }
        all
    }

    #[test]
    fn who_comes_back_gets_what_was_missed_and_nothing_twice() {
        let hub = hub();
        let mut first = listen(&hub, None).unwrap();
        assert!(texts(&mut first)[0].contains("event: ready"));
        for number in 1..=3 {
            send(&hub, &format!("{{\"n\":{number}}}"));
        }
        let seen = texts(&mut first);
        assert_eq!(seen.len(), 3);
        assert!(seen[2].starts_with("id: b.3\n"));
        drop(first);
        let mut again = listen(&hub, Some("b.1")).unwrap();
        let missed = texts(&mut again);
        assert_eq!(missed.len(), 2, "{missed:?}");
        assert!(missed[0].starts_with("id: b.2\n"));
        assert_eq!(texts(&mut listen(&hub, Some("b.3")).unwrap()), Vec::<String>::new());
    }

    #[test]
    fn who_missed_too_much_is_told_to_read_anew() {
        let hub = hub();
        for number in 0..REMEMBERED + 2 {
            send(&hub, &number.to_string());
        }
        for last in ["b.1", "b.999999", "old.3", "b.x", "", "b.3"] {
            let told = texts(&mut listen(&hub, Some(last)).unwrap());
            assert_eq!(told.len(), 1, "{last}");
            assert!(told[0].contains("event: reset"), "{last}: {told:?}");
            assert!(told[0].contains(&format!("id: b.{}", REMEMBERED + 2)), "{told:?}");
        }
    }

    #[test]
    fn a_slow_listener_is_cut_off_and_too_many_are_refused() {
        let hub = hub();
        let slow = listen(&hub, None).unwrap();
        for number in 0..BEHIND_MAX + 1 {
            send(&hub, &number.to_string());
        }
        assert!(hub.state.lock().unwrap().listeners.is_empty());
        drop(slow);
        let own: Vec<Stream> =
            (0..LISTENERS_OF_ONE_MAX).map(|_| listen(&hub, None).unwrap()).collect();
        assert!(listen(&hub, None).is_none());
        let other = |number: usize| hub.listen(None, admission(&number.to_string()));
        let others: Vec<Stream> =
            (own.len()..LISTENERS_MAX).map(|number| other(number).unwrap()).collect();
        assert!(other(LISTENERS_MAX).is_none());
        drop((own, others));
        assert!(listen(&hub, None).is_some());
    }

    #[test]
    fn who_may_no_longer_listen_hears_nothing_more() {
        let hub = hub();
        let (mut gone, mut other) =
            (listen(&hub, None).unwrap(), hub.listen(None, admission("bob")).unwrap());
        let mut state = hub.state.lock().unwrap();
        state.listeners[0].admission.is_valid = Box::new(|| false);
        state.expel();
        state.send("b", "{}");
        drop(state);
        assert_eq!(texts(&mut gone).len(), 1, "the greeting");
        assert!(gone.0.is_closed());
        assert_eq!(texts(&mut other).len(), 2);
    }
}
