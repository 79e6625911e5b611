//! Files and folders that have other names: links lead to them which rules are about.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::mark::Mark;
use crate::rel_path::RelPath;
use crate::rules::{Rule, Rules};

/// The targets, with the links that lead to each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Targets(BTreeMap<RelPath, BTreeSet<RelPath>>);

impl Targets {
    /// Those of the links among what was seen.
    pub fn of(marks: &BTreeMap<RelPath, Mark>) -> Self {
        let mut targets = Self::default();
        for (link, mark) in marks {
            let Mark::Link { leads, .. } = mark else { continue };
            for target in leads.iter().filter(|target| !link.is_within(target)) {
                targets.0.entry(target.clone()).or_default().insert(link.clone());
            }
        }
        targets
    }

    /// These and others; `None` if the others bring nothing new.
    pub fn and(&self, others: Self) -> Option<Self> {
        let mut all = self.clone();
        for (target, links) in others.0 {
            all.0.entry(target).or_default().extend(links);
        }
        (all != *self).then_some(all)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rule that a path matches by one of its names.
    pub fn rule<'a>(&self, rules: &'a Rules, path: &RelPath) -> Option<&'a Rule> {
        rules.of(&path.text()).or_else(|| self.rule_by_link(rules, path))
    }

    /// The rule that a path matches by a name that a link gives it.
    fn rule_by_link<'a>(&self, rules: &'a Rules, path: &RelPath) -> Option<&'a Rule> {
        if self.0.is_empty() {
            return None;
        }
        path.above().chain([path.clone()]).find_map(|target| {
            let rest = path.as_path().strip_prefix(target.as_path()).ok()?;
            self.0.get(&target)?.iter().find_map(|link| rules.of(&link.beneath(rest).text()))
        })
    }

    /// The rule that a link matches, or something that is reached through it.
    pub fn rule_of_link<'a>(&self, rules: &'a Rules, path: &RelPath) -> Option<&'a Rule> {
        let through = |(target, links): (&RelPath, &BTreeSet<RelPath>)| {
            let is_on_the_way = target.is_within(path);
            links.iter().filter(|_| is_on_the_way).find_map(|link| rules.of_or_below(link))
        };
        self.rule(rules, path)
            .or_else(|| rules.of_or_below(path))
            .or_else(|| self.0.iter().find_map(through))
    }
}
