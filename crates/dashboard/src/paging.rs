//! Lists of traces by pages, newest first, over several projects. What one page looks at is bounded; a page that found
//! less than it may have says where the next one begins.

use std::sync::Arc;

use windlass_kernel::{Code, Machine, PlanId, State, TraceId};
use windlass_store::{Store, TraceFilter, TraceState};

use crate::dashboard::{Context, shown};
use crate::problem::Problem;
use crate::project::Project;

/// The most items of one page.
pub const ITEMS_MAX: usize = 200;
/// The items of a page if nobody says so.
const ITEMS: usize = 50;
/// The traces that are listed at once.
const TRACES: usize = 256;
/// The most traces that are listed for one page of one project.
const LISTED_MAX: usize = 4_000;
/// The most traces whose entries are read for one page of one project.
const READ_MAX: usize = 400;

/// Which page of a list is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Paging {
    /// Only what is older than this trace.
    pub before: Option<TraceId>,
    /// At most so many items.
    pub limit: usize,
}

impl Paging {
    /// The page that the fields `cursor` and `limit` name.
    ///
    /// # Errors
    /// [`Problem`] if one of them is no cursor or limit.
    pub fn of(context: &Context<'_>) -> Result<Self, Problem> {
        let invalid = |name: &str, why: String| {
            Problem::new(Code::RequestInvalid, format!("`{name}`: {why}"))
        };
        let before = context.field("cursor").map(|cursor| {
            cursor.parse().map_err(|_| invalid("cursor", "it is not one of this server".to_owned()))
        });
        let limit = context.field("limit").map(|limit| match limit.parse::<usize>() {
            Ok(limit) if (1..=ITEMS_MAX).contains(&limit) => Ok(limit),
            Ok(_) | Err(_) => {
                Err(invalid("limit", format!("it is a number from 1 to {ITEMS_MAX}")))
            }
        });
        Ok(Self { before: before.transpose()?, limit: limit.transpose()?.unwrap_or(ITEMS) })
    }
}

/// What a look at one trace found.
pub enum Look<T> {
    /// It is not wanted, which its head says.
    Passed,
    /// It is not wanted, which its entries say.
    Read,
    /// It is wanted.
    Wanted(T),
}

/// Which traces are looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Among {
    /// Only those that have not ended.
    pub open_only: bool,
    /// Only those in this state.
    pub state: Option<State>,
    /// Only those of this kind.
    pub machine: Option<Machine>,
    /// Only those of this plan.
    pub plan_id: Option<PlanId>,
}

/// What was found in one project.
pub struct Found<T> {
    /// The items with their traces, newest first.
    items: Vec<(TraceId, T)>,
    /// The last trace that was looked at, if there may be more.
    reached: Option<TraceId>,
}

/// A page.
#[derive(Debug)]
pub struct Page<T> {
    /// The items, newest first.
    pub items: Vec<T>,
    /// Where the next page begins; `None` if there is no more.
    pub next: Option<TraceId>,
}

/// Looks through the traces of a store, newest first, until the page is full or enough was looked at.
///
/// # Errors
/// [`Problem`] if the store cannot be read, or `look` fails.
pub fn scan<T>(
    store: &dyn Store,
    among: Among,
    paging: Paging,
    look: &mut dyn FnMut(&TraceState) -> Result<Look<T>, Problem>,
) -> Result<Found<T>, Problem> {
    let (mut listed, mut read) = (0, 0);
    let mut found = Found { items: Vec::new(), reached: paging.before };
    loop {
        let filter = TraceFilter {
            open_only: among.open_only,
            state: among.state,
            machine: among.machine,
            plan_id: among.plan_id,
            before: found.reached,
            ..TraceFilter::all(TRACES)
        };
        let page = store.list_traces(&filter)?;
        for trace in &page {
            let id = trace.head.trace_id;
            if found.items.len() == paging.limit || read == READ_MAX || listed == LISTED_MAX {
                return Ok(found);
            }
            listed += 1;
            match look(trace)? {
                Look::Passed => {}
                Look::Read => read += 1,
                Look::Wanted(item) => {
                    read += 1;
                    found.items.push((id, item));
                }
            }
            found.reached = Some(id);
        }
        if page.len() < TRACES {
            return Ok(Found { reached: None, ..found });
        }
    }
}

/// One page of what was found in several projects.
pub fn merge<T>(found: Vec<Found<T>>, limit: usize) -> Page<T> {
    // Beyond where one project was left, the order of all is not known.
    let left = found.iter().filter_map(|one| one.reached).max();
    let mut all: Vec<(TraceId, T)> = found.into_iter().flat_map(|one| one.items).collect();
    all.sort_by_key(|(id, _)| std::cmp::Reverse(*id));
    let known = all.iter().take_while(|(id, _)| left.is_none_or(|left| *id >= left)).count();
    let cut = all.get(limit.saturating_sub(1)).filter(|_| known > limit);
    let next = cut.map(|(id, _)| *id).or(left);
    all.truncate(known.min(limit));
    Page { items: all.into_iter().map(|(_, item)| item).collect(), next }
}

/// The projects that the field `project` names; all if it is absent.
pub fn projects<'a>(context: &'a Context<'_>) -> Vec<&'a Arc<dyn Project>> {
    let wanted = context.field("project");
    let all = context.projects;
    // One of several that cannot be used does not take the others away.
    let is_wanted = |one: &&Arc<dyn Project>| match wanted {
        Some(wanted) => wanted == one.id(),
        None => all.len() == 1 || matches!(context.tolerate(one, one.ready()), Ok(Some(()))),
    };
    all.iter().filter(is_wanted).collect()
}

/// The project that the field `project` names; the first one if it is absent.
///
/// # Errors
/// [`Problem`] if there is none.
pub fn chosen<'a>(context: &'a Context<'_>) -> Result<&'a Arc<dyn Project>, Problem> {
    let first = projects(context).into_iter().next();
    first.ok_or_else(|| {
        let name = context.field("project").unwrap_or_default();
        Problem::not_found(format!("there is no project `{}`", shown(name)))
    })
}

#[cfg(test)]
mod tests {
    use windlass_kernel::Uuid7;

    use super::*;

    fn id(number: u64) -> TraceId {
        TraceId(Uuid7::from_parts(number, [0; 10]))
    }

    fn found(ids: &[u64], reached: Option<u64>) -> Found<u64> {
        let items = ids.iter().map(|&number| (id(number), number)).collect();
        Found { items, reached: reached.map(id) }
    }

    #[test]
    fn a_page_has_nothing_that_is_older_than_what_was_not_looked_at() {
        let page = merge(vec![found(&[9, 7], Some(5)), found(&[8, 4, 3], None)], 10);
        assert_eq!((page.items, page.next), (vec![9, 8, 7], Some(id(5))));
        let page = merge(vec![found(&[9, 7], None), found(&[8, 4, 3], None)], 10);
        assert_eq!((page.items, page.next), (vec![9, 8, 7, 4, 3], None));
        let page = merge(vec![found(&[9, 7], None), found(&[8, 4, 3], None)], 3);
        assert_eq!((page.items, page.next), (vec![9, 8, 7], Some(id(7))));
        let page = merge(vec![found(&[], Some(6)), found(&[8, 4], Some(4))], 10);
        assert_eq!((page.items, page.next), (vec![8], Some(id(6))));
    }
}
