//! Random requests, compared with a simple model.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use windlass_work::{Change, LinkKind, NewItem, Status, Tracker};

use crate::{ids, tracker};

#[derive(Clone, Debug)]
enum Request {
    Create { title: String, priority: u8 },
    Close(usize),
    Open(usize),
    Block(usize, usize),
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        ("[^\\p{Cc}]{1,40}", 0_u8..5)
            .prop_map(|(title, priority)| Request::Create { title, priority }),
        (0_usize..12).prop_map(Request::Close),
        (0_usize..12).prop_map(Request::Open),
        (0_usize..12, 0_usize..12).prop_map(|(from, to)| Request::Block(from, to)),
    ]
}

/// What the tracker must have.
#[derive(Default)]
struct Model {
    /// The ids in the order of their creation, with priority and whether they are closed.
    items: Vec<(String, u8, bool)>,
    blocks: BTreeSet<(usize, usize)>,
}

impl Model {
    fn leads(&self, from: usize, to: usize) -> bool {
        from == to || self.blocks.iter().any(|(a, b)| *a == from && self.leads(*b, to))
    }

    fn sorted(&self, keep: impl Fn(usize) -> bool) -> Vec<&str> {
        let mut kept: Vec<_> = (0..self.items.len()).filter(|at| keep(*at)).collect();
        kept.sort_by_key(|at| (self.items[*at].1, *at));
        kept.into_iter().map(|at| self.items[at].0.as_str()).collect()
    }

    fn blockers(&self, at: usize) -> BTreeSet<&str> {
        let blockers = self.blocks.iter().filter(|(from, to)| *to == at && !self.items[*from].2);
        blockers.map(|(from, _)| self.items[*from].0.as_str()).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_tracker_equals_its_model(requests in prop::collection::vec(request(), 1..40)) {
        let folder = tempfile::TempDir::new().unwrap();
        let tracker = tracker(&folder.path().join("work.db"));
        let mut model = Model::default();
        for request in requests {
            let known = model.items.len();
            match request {
                Request::Create { title, priority } => {
                    let new = NewItem { priority, ..NewItem::task(title.clone()) };
                    match tracker.create(&new) {
                        Ok(item) => {
                            prop_assert_eq!(&item.title, &title);
                            model.items.push((item.id, priority, false));
                        }
                        Err(error) => prop_assert!(title.trim().is_empty(), "{error} {title:?}"),
                    }
                }
                Request::Close(at) if at < known => {
                    tracker.close(&model.items[at].0, "done").unwrap();
                    model.items[at].2 = true;
                }
                Request::Open(at) if at < known => {
                    let change = Change { status: Some(Status::Open), ..Change::default() };
                    tracker.update(&model.items[at].0, &change).unwrap();
                    model.items[at].2 = false;
                }
                Request::Block(from, to) if from < known && to < known => {
                    let (source, target) = (&model.items[from].0, &model.items[to].0);
                    let linked = tracker.link(source, target, LinkKind::Blocks);
                    prop_assert_eq!(linked.is_ok(), !model.leads(to, from));
                    if linked.is_ok() {
                        model.blocks.insert((from, to));
                    }
                }
                Request::Close(_) | Request::Open(_) | Request::Block(..) => {}
            }
        }
        let open = tracker.open(usize::MAX).unwrap();
        prop_assert_eq!(ids(&open), model.sorted(|at| !model.items[at].2));
        let blocked = tracker.blocked(usize::MAX).unwrap();
        let is_blocked = |at: usize| !model.items[at].2 && !model.blockers(at).is_empty();
        prop_assert_eq!(ids(&blocked), model.sorted(is_blocked));
        let found: BTreeMap<_, BTreeSet<_>> = open
            .iter()
            .map(|item| (item.id.as_str(), item.blockers.iter().map(String::as_str).collect()))
            .collect();
        for (at, (id, ..)) in model.items.iter().enumerate().filter(|(_, item)| !item.2) {
            prop_assert_eq!(&found[id.as_str()], &model.blockers(at));
        }
    }
}
