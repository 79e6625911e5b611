//! What many sessions have in common.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Insights;
use crate::core::reflection::SessionOutcome;
use crate::core::verdicts::CriticVerdict;

/// Counts over some sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TrendCounts {
    /// The sessions that custodiet blocked at least once.
    pub blocked_sessions: u32,
    /// The critic's last verdicts.
    pub critic_verdicts: BTreeMap<CriticVerdict, u32>,
    /// How often custodiet blocked a session.
    pub custodiet_blocks: u32,
    /// What hindered the work and in how many sessions, the most frequent first. Texts that differ
    /// only in case and white space are one.
    pub friction_points: Vec<(String, u32)>,
    /// How the sessions ended.
    pub outcomes: BTreeMap<SessionOutcome, u32>,
    /// The sessions.
    pub sessions: u32,
    /// The agents, and in how many sessions they were invoked.
    pub subagents: BTreeMap<String, u32>,
    /// The workflows, and in how many sessions they were used.
    pub workflows: BTreeMap<String, u32>,
}

/// What many sessions have in common, in all and in each week.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Trends {
    /// Over all sessions.
    pub total: TrendCounts,
    /// Over the sessions of each week of ISO 8601, such as `2026-W03`.
    pub weeks: BTreeMap<String, TrendCounts>,
}

impl Trends {
    /// Counts over these sessions.
    #[must_use]
    pub fn of(insights: &[Insights]) -> Self {
        let mut weeks: BTreeMap<String, Vec<&Insights>> = BTreeMap::new();
        for one in insights {
            weeks.entry(one.date.week()).or_default().push(one);
        }
        let weeks = weeks.into_iter().map(|(week, sessions)| (week, counts(sessions)));
        Self { total: counts(insights), weeks: weeks.collect() }
    }
}

fn add<K: Ord>(counts: &mut BTreeMap<K, u32>, key: K) {
    let count = counts.entry(key).or_default();
    *count = count.saturating_add(1);
}

/// The entries of a list, each once.
fn distinct(list: Option<&Vec<String>>) -> std::collections::BTreeSet<&String> {
    list.into_iter().flatten().collect()
}

fn counts<'a>(sessions: impl IntoIterator<Item = &'a Insights>) -> TrendCounts {
    let mut counts = TrendCounts::default();
    let mut friction: BTreeMap<String, (String, u32)> = BTreeMap::new();
    for session in sessions {
        counts.sessions = counts.sessions.saturating_add(1);
        add(&mut counts.outcomes, session.outcome);
        let blocks = session.custodiet_blocks.unwrap_or_default();
        counts.custodiet_blocks = counts.custodiet_blocks.saturating_add(blocks);
        counts.blocked_sessions = counts.blocked_sessions.saturating_add(u32::from(blocks > 0));
        if let Some(verdict) = session.critic_verdict {
            add(&mut counts.critic_verdicts, verdict);
        }
        for name in distinct(session.workflows_used.as_ref()) {
            add(&mut counts.workflows, name.clone());
        }
        for name in distinct(session.subagents_invoked.as_ref()) {
            add(&mut counts.subagents, name.clone());
        }
        let mut seen = std::collections::BTreeSet::new();
        for point in session.friction_points.iter().flatten() {
            let shown = point.split_whitespace().collect::<Vec<_>>().join(" ");
            let key = shown.to_lowercase();
            if !key.is_empty() && seen.insert(key.clone()) {
                let (_, count) = friction.entry(key).or_insert((shown, 0));
                *count = count.saturating_add(1);
            }
        }
    }
    counts.friction_points = friction.into_values().collect();
    // Stable: equally frequent ones stay in the order of their texts.
    counts.friction_points.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}
