//! What runs have used: tokens, cost and calls, by day, run, agent and model.
//!
//! It is counted from the journals by a thread, once for each entry, and kept in memory. A request never waits long for
//! it: it shows what is counted, and says so if that is not all.

mod count;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;
use windlass_kernel::run::RunName;
use windlass_kernel::{Code, Timestamp, TraceId};

use crate::dashboard::{Context, now};
use crate::model::UnusableProject;
use crate::paging::projects;
use crate::problem::Problem;
use crate::project::Project;

use count::Counted;

/// How many days a window has: what can be asked for.
pub const WINDOWS: [u32; 4] = [1, 7, 30, 90];
/// The days of a window if nobody says so.
const WINDOW: u32 = 30;
/// The most runs of a project that are counted, the newest ones.
pub const RUNS_MAX: usize = 2_000;
/// The most calls of a project that are counted, the newest ones.
pub const CALLS_MAX: usize = 50_000;
/// The most rows of a table; the rest is one row.
const ROWS_MAX: usize = 20;
/// How long a request waits for the count.
const PATIENCE: Duration = Duration::from_millis(20);
/// A count that is as new as this is not made again.
const FRESH: Duration = Duration::from_millis(500);
/// Nor is one that took long, for so many times as long: whoever watches must not slow down what is watched.
const REST_FACTOR: u32 = 40;
/// But at most for so long.
const REST_MAX: Duration = Duration::from_secs(10);
/// The milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// An amount of usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Amount {
    /// Tokens.
    pub tokens: u64,
    /// Cost, in millionths of a dollar.
    pub cost_micros: u64,
    /// Calls.
    pub calls: u64,
    /// Agents and programs that were started.
    pub invocations: u64,
}

impl Amount {
    fn add(&mut self, other: Self) {
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost_micros = self.cost_micros.saturating_add(other.cost_micros);
        self.calls = self.calls.saturating_add(other.calls);
        self.invocations = self.invocations.saturating_add(other.invocations);
    }
}

/// The usage of one day, run, agent or model.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SpendRow {
    /// The project, if the row is a run.
    pub project: Option<String>,
    /// The day, the run, the agent or the model; empty where the record does not say.
    pub name: String,
    /// How much.
    #[serde(flatten)]
    pub amount: Amount,
}

/// What was used in a window of days.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Spend {
    /// How many days the window has; the last one is today, in UTC.
    pub days_in_window: u32,
    /// All of it.
    pub total: Amount,
    /// By day, oldest first; days without usage included.
    pub days: Vec<SpendRow>,
    /// By run: those that used most, and the rest in one row.
    pub runs: Vec<SpendRow>,
    /// By agent or program. Calls are not counted by agent.
    pub agents: Vec<SpendRow>,
    /// By model. Calls are not counted by model.
    pub models: Vec<SpendRow>,
    /// Whether some usage was not reported by its agent.
    pub unaccounted: bool,
    /// When everything was last counted; `null` before the first count has come to its end.
    #[schemars(with = "Option<String>")]
    pub counted_at: Option<Timestamp>,
    /// What is not counted since there is too much of it, in words.
    pub left_out: Vec<String>,
    /// The projects that cannot be used; nothing of them is counted.
    pub unusable: Vec<UnusableProject>,
}

/// The counts of all projects.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Default)]
struct State {
    projects: BTreeMap<String, Counted>,
    /// The projects that are being counted.
    at_work: BTreeMap<String, ()>,
    /// When each project was counted last, to its end.
    counted_at: BTreeMap<String, Timestamp>,
    /// Until when a project is not counted again.
    rests: BTreeMap<String, Instant>,
    /// Why a project could not be counted.
    failed: BTreeMap<String, Problem>,
}

impl State {
    /// When a project was counted last. A count that is old, while another one is being made, is none.
    fn counted(&self, project: &str, now: Timestamp) -> Option<Timestamp> {
        let at = *self.counted_at.get(project)?;
        let is_old = now.unix_ms() - at.unix_ms() > i64::try_from(REST_MAX.as_millis()).ok()? * 2;
        (!is_old || !self.at_work.contains_key(project)).then_some(at)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    /// Begins to count some projects, so that whoever looks need not wait.
    #[must_use]
    pub fn start(projects: &[Arc<dyn Project>]) -> Self {
        let ledger = Self::default();
        for project in projects {
            // What goes wrong is told to whoever looks.
            drop(ledger.refresh(project, Duration::ZERO));
        }
        ledger
    }

    /// What runs have used in all, as far as it is counted: by the name of the run. Runs that are too old are missing.
    pub fn of_runs(&self, project: &Arc<dyn Project>) -> BTreeMap<String, Amount> {
        // What goes wrong is told on the page of the spend.
        drop(self.refresh(project, PATIENCE));
        let state = self.0.lock();
        let counted = state.projects.get(project.id());
        let runs = counted.into_iter().flat_map(|counted| counted.runs.iter());
        let total = |run: &count::CountedRun| {
            let mut total = Amount::default();
            run.used.values().for_each(|amount| total.add(*amount));
            total
        };
        runs.map(|(id, run)| (RunName::of(*id).to_string(), total(run))).collect()
    }

    /// Brings the count of a project up to date, as far as that goes in a moment.
    fn refresh(&self, project: &Arc<dyn Project>, patience: Duration) -> Result<(), Problem> {
        let id = project.id().to_owned();
        let started = Instant::now();
        let mut state = self.0.lock();
        if state.rests.get(&id).is_some_and(|until| Instant::now() < *until) {
            return Ok(());
        }
        if !state.at_work.contains_key(&id) {
            state.at_work.insert(id.clone(), ());
            let (shared, worker) = (Arc::clone(&self.0), Arc::clone(project));
            let thread = std::thread::Builder::new().name("windlass-spend".to_owned());
            let spawned = thread.spawn(move || work(&shared, &worker));
            if let Err(error) = spawned {
                state.at_work.remove(&id);
                return Err(Problem::new(Code::Internal, error.to_string()));
            }
        }
        while state.at_work.contains_key(&id) {
            let Some(left) = patience.checked_sub(started.elapsed()) else { return Ok(()) };
            let waited = self.0.done.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.failed.remove(&id).map_or(Ok(()), Err)
    }
}

/// Counts a project until there is nothing new.
fn work(shared: &Shared, project: &Arc<dyn Project>) {
    let (id, began, started) = (project.id(), now(), Instant::now());
    let counted = project.store().and_then(|store| {
        // Counting goes on without the lock; only its results are put in.
        let mut counted = shared.lock().projects.get(id).cloned().unwrap_or_default();
        counted.update(store.as_ref(), began, &mut |so_far| {
            shared.lock().projects.insert(id.to_owned(), so_far.clone());
        })?;
        Ok(counted)
    });
    let mut state = shared.lock();
    let rest = FRESH.max(started.elapsed() * REST_FACTOR).min(REST_MAX);
    match counted {
        Ok(counted) => {
            state.projects.insert(id.to_owned(), counted);
            state.counted_at.insert(id.to_owned(), began);
            state.rests.insert(id.to_owned(), Instant::now() + rest);
        }
        Err(problem) => drop(state.failed.insert(id.to_owned(), problem)),
    }
    state.at_work.remove(id);
    drop(state);
    shared.done.notify_all();
}

/// The window that the field `days` names.
///
/// # Errors
/// [`Problem`] if it is none of [`WINDOWS`].
pub fn window(context: &Context<'_>) -> Result<u32, Problem> {
    let Some(text) = context.field("days") else { return Ok(WINDOW) };
    let found = text.parse().ok().filter(|days| WINDOWS.contains(days));
    found.ok_or_else(|| {
        Problem::new(Code::RequestInvalid, "`days`: it is 1, 7, 30 or 90".to_owned())
    })
}

/// What the projects that a request names have used.
///
/// # Errors
/// [`Problem`] if a journal cannot be read.
pub fn report(context: &Context<'_>) -> Result<Spend, Problem> {
    context.require_all()?;
    let days = window(context)?;
    let ledger = &context.dashboard.spend;
    let mut wanted = Vec::new();
    for project in projects(context) {
        let counted = context.tolerate(project, ledger.refresh(project, PATIENCE))?;
        wanted.extend(counted.map(|()| project));
    }
    let today = now().unix_ms().div_euclid(DAY_MS);
    let first = today - i64::from(days) + 1;
    let state = ledger.0.lock();
    let times: Option<Vec<Timestamp>> =
        wanted.iter().map(|project| state.counted(project.id(), now())).collect();
    // Nothing is counted at once.
    let counted_at = times.and_then(|times| times.into_iter().chain([now()]).min());
    let mut sums = Sums { counted_at, ..Sums::default() };
    for project in &wanted {
        if let Some(counted) = state.projects.get(project.id()) {
            sums.add(project.id(), counted, first, wanted.len() > 1);
        }
    }
    drop(state);
    Ok(Spend { unusable: context.unusable(), ..sums.report(days, first, today) })
}

/// The sums of some projects.
#[derive(Default)]
struct Sums {
    counted_at: Option<Timestamp>,
    total: Amount,
    days: BTreeMap<i64, Amount>,
    runs: BTreeMap<(String, TraceId), Amount>,
    agents: BTreeMap<String, Amount>,
    models: BTreeMap<String, Amount>,
    unaccounted: bool,
    left_out: Vec<String>,
}

impl Sums {
    fn add(&mut self, project: &str, counted: &Counted, first: i64, several: bool) {
        let since = |day: &i64| *day >= first;
        for (id, run) in counted.runs.iter() {
            let in_window = run.used.iter().filter(|((day, ..), _)| since(day));
            for ((day, agent, model), amount) in in_window {
                self.total.add(*amount);
                self.days.entry(*day).or_default().add(*amount);
                self.runs.entry((project.to_owned(), *id)).or_default().add(*amount);
                self.agents.entry(agent.clone()).or_default().add(*amount);
                self.models.entry(model.clone()).or_default().add(*amount);
                self.unaccounted |= run.unaccounted;
            }
        }
        for ((day, plan), calls) in counted.calls.iter().filter(|((day, _), _)| since(day)) {
            let amount = Amount { calls: *calls, ..Amount::default() };
            self.total.add(amount);
            self.days.entry(*day).or_default().add(amount);
            // A call of no run has a plan of its own.
            if counted.runs.contains_key(plan) {
                self.runs.entry((project.to_owned(), *plan)).or_default().add(amount);
            }
        }
        let name = if several { format!("{project}: ") } else { String::new() };
        if counted.more_runs {
            self.left_out.push(format!("{name}only the newest {RUNS_MAX} runs are counted"));
        }
        if counted.more_calls {
            self.left_out.push(format!("{name}only the newest {CALLS_MAX} calls are counted"));
        }
    }

    fn report(self, days_in_window: u32, first: i64, today: i64) -> Spend {
        let days = (first..=today).map(|day| SpendRow {
            project: None,
            name: day_name(day),
            amount: self.days.get(&day).copied().unwrap_or_default(),
        });
        let runs = self.runs.into_iter().map(|((project, id), amount)| SpendRow {
            project: Some(project),
            name: RunName::of(id).to_string(),
            amount,
        });
        let named = |all: BTreeMap<String, Amount>| {
            let rows =
                all.into_iter().map(|(name, amount)| SpendRow { project: None, name, amount });
            most(rows.collect())
        };
        Spend {
            days_in_window,
            total: self.total,
            days: days.collect(),
            runs: most(runs.collect()),
            agents: named(self.agents),
            models: named(self.models),
            unaccounted: self.unaccounted,
            counted_at: self.counted_at,
            left_out: self.left_out,
            unusable: Vec::new(),
        }
    }
}

/// The rows that used most, and the rest in one.
fn most(mut rows: Vec<SpendRow>) -> Vec<SpendRow> {
    rows.sort_by_key(|row| {
        let Amount { tokens, cost_micros, calls, invocations } = row.amount;
        std::cmp::Reverse((cost_micros, tokens, calls, invocations))
    });
    if rows.len() > ROWS_MAX {
        let rest = rows.split_off(ROWS_MAX);
        let mut amount = Amount::default();
        rest.iter().for_each(|row| amount.add(row.amount));
        rows.push(SpendRow { project: None, name: format!("{} others", rest.len()), amount });
    }
    rows
}

/// A day as a date.
fn day_name(day: i64) -> String {
    let at = Timestamp::from_unix_ms(day.saturating_mul(DAY_MS)).unwrap_or(Timestamp::EPOCH);
    at.to_string().chars().take(10).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates_and_the_rest_is_one_row() {
        assert_eq!(day_name(0), "1970-01-01");
        assert_eq!(day_name(20_000), "2024-10-04");
        let rows = (1..=25_u64).map(|tokens| SpendRow {
            project: None,
            name: tokens.to_string(),
            amount: Amount { tokens, ..Amount::default() },
        });
        let rows = most(rows.collect());
        assert_eq!(rows.len(), 21);
        assert_eq!((rows[0].name.as_str(), rows[20].name.as_str()), ("25", "5 others"));
        assert_eq!(rows[20].amount.tokens, 1 + 2 + 3 + 4 + 5);
    }
}
