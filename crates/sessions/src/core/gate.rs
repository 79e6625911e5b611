//! What must happen before work may write, and before the agent may stop.

use super::cached::CoreProgress;
use super::judge::Judge;
use super::state::{ALL_ITEMS, CriticState, DELEGATED, INFORMATION_ONLY, PlanState, QaState};

/// What is missing, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The gate that is closed.
    pub gate: &'static str,
    /// What is wrong, and what to do next, for the agent.
    pub text: String,
    /// What is wrong, for anybody.
    pub why: String,
    /// What comes next.
    pub next: NextStep,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// A judge is started.
    Judge(Judge),
    /// The agent does something itself.
    Agent,
    /// A person decides.
    Person,
}

impl CoreProgress {
    /// Why nothing may be written now.
    #[must_use]
    pub fn refuses_writing(&self) -> Option<Missing> {
        self.refuses_by_plan().or_else(|| {
            let is_running = self.state.running.values().any(|one| one.judge == Judge::Custodiet);
            let why = match (self.counters.audit_due, is_running) {
                (true, _) => "an audit of the work so far is due",
                // It was broken off, or the agent did not wait for it.
                (false, true) => "an audit was begun and has not answered",
                (false, false) => return None,
            };
            Some(judge("audit", Judge::Custodiet, why))
        })
    }

    fn refuses_by_plan(&self) -> Option<Missing> {
        let plan = match &self.state.plan {
            PlanState::Skipped { .. } => return None,
            PlanState::None => {
                return Some(person(
                    "hydration",
                    "no prompt of the user is on record: ask the user for one",
                ));
            }
            PlanState::Due { findings } => {
                let why = if findings.is_empty() {
                    "the prompt has no plan yet"
                } else {
                    "the plan was sent back"
                };
                return Some(judge("hydration", Judge::PromptHydrator, why));
            }
            PlanState::Made(plan) => plan,
        };
        if self.state.has_gate(INFORMATION_ONLY) {
            let text = format!(
                "the workflow `{}` gives information only, so nothing may be written: answer, or ask the user for a \
                 prompt that says what to change",
                plan.workflow
            );
            let why = format!("the workflow `{}` gives information only", plan.workflow);
            return Some(Missing { gate: "information_only", text, why, next: NextStep::Person });
        }
        if self.state.has_gate(DELEGATED) {
            let text = format!(
                "the workflow `{}` hands the work over: use the Skill tool for the named skill or command first",
                plan.workflow
            );
            let why = "no skill or command was used".to_owned();
            let missing = Missing { gate: "delegated", text, why, next: NextStep::Agent };
            return self.state.skill.is_none().then_some(missing);
        }
        match &self.state.critic {
            CriticState::Proceed => None,
            CriticState::Due => {
                Some(judge("critic", Judge::Critic, "the critic has not reviewed the plan"))
            }
            CriticState::Undecided { reason } => Some(person(
                "critic",
                &format!(
                    "the critic sent the plan back as often as it may ({reason}): tell the user and ask what to do"
                ),
            )),
            CriticState::Halt { reason } => Some(person(
                "critic",
                &format!(
                    "the critic halted the plan ({reason}): tell the user; a new prompt begins anew"
                ),
            )),
        }
    }

    /// Why a judge may not be started now: it would only be asked until it says something else.
    #[must_use]
    pub fn refuses_judge(&self, judge: Judge, tree: Option<&str>) -> Option<String> {
        let state = &self.state;
        if state.awaits(Some(judge)) {
            return Some(format!(
                "{} is working in the background: end your turn, and go on when it has answered",
                judge.as_str()
            ));
        }
        match judge {
            Judge::PromptHydrator => match &state.plan {
                PlanState::Due { .. } => None,
                PlanState::None => Some("no prompt of the user is on record".to_owned()),
                PlanState::Skipped { .. } => Some("the user asked for no plan".to_owned()),
                PlanState::Made(_) => {
                    Some("the prompt has its plan; a new prompt of the user begins anew".to_owned())
                }
            },
            Judge::Critic => match (&state.plan, &state.critic) {
                (PlanState::Made(_), CriticState::Due) => None,
                (PlanState::Made(_), CriticState::Proceed) => {
                    Some("the critic has approved the plan".to_owned())
                }
                (
                    PlanState::Made(_)
                    | PlanState::None
                    | PlanState::Due { .. }
                    | PlanState::Skipped { .. },
                    _,
                ) => {
                    let missing = self.refuses_by_plan().map(|missing| missing.text);
                    Some(missing.unwrap_or_else(|| "there is no plan to review".to_owned()))
                }
            },
            Judge::QaVerifier => {
                let seen = state.verified_tree.as_ref();
                let is_same = seen.is_some_and(|(seen, prompt)| {
                    Some(seen.as_str()) == tree && *prompt == state.prompt
                });
                let has_issues = matches!(state.qa, QaState::Issues { .. });
                (is_same && has_issues).then(|| {
                    "nothing was changed since the verifier found issues: mend them first, or tell the user".to_owned()
                })
            }
            Judge::Custodiet | Judge::Framework => None,
        }
    }

    /// Why the agent should not stop yet.
    #[must_use]
    pub fn refuses_stopping(&self) -> Option<Missing> {
        if self.state.blocked.is_some() {
            return None;
        }
        if let PlanState::Due { .. } = self.state.plan {
            return self.refuses_by_plan();
        }
        if self.state.has_gate(INFORMATION_ONLY) && !self.counters.wrote {
            return None;
        }
        let is_delegated = self.state.has_gate(DELEGATED);
        let (done, all) = self.state.steps_done();
        if self.state.has_gate(ALL_ITEMS) && done < all {
            let text = format!(
                "{done} of {all} steps of the batch are done: go on, and say of each step that it is done with `windlass \
                 session step STEP completed`"
            );
            let why = format!("{done} of {all} steps of the batch are done");
            return Some(Missing { gate: "steps", text, why, next: NextStep::Agent });
        }
        if self.counters.wrote && !is_delegated {
            return Some(match &self.state.qa {
                QaState::Issues { issues } if !issues.is_empty() => {
                    let list: Vec<&str> =
                        issues.iter().map(|one| one.text.as_str()).take(20).collect();
                    judge(
                        "qa",
                        Judge::QaVerifier,
                        &format!(
                            "the verifier found issues: {}; mend them first, then",
                            list.join("; ")
                        ),
                    )
                }
                QaState::Issues { .. } | QaState::NotJudged | QaState::Verified => {
                    judge("qa", Judge::QaVerifier, "the work is not verified")
                }
            });
        }
        self.counters
            .worked
            .then(|| judge("reflection", Judge::Framework, "the session is not reflected on"))
    }

    /// All that keeps the session from being closed as a success.
    #[must_use]
    pub fn open_ends(&self) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(block) = &self.state.blocked {
            found.push(format!("blocked: {}", block.reason));
        }
        found.extend(self.refuses_stopping().map(|missing| missing.gate.to_owned()));
        if let Some((step, reason)) = &self.state.close_failure {
            found.push(format!("close failed at {step}: {reason}"));
        } else if self.counters.unclosed {
            found.push("not closed: the work is not pushed".to_owned());
        }
        found
    }
}

fn judge(gate: &'static str, judge: Judge, why: &str) -> Missing {
    let text = format!(
        "{why}: use the Agent tool with subagent_type \"{}\" (Windlass gives it its prompt) and wait for its answer",
        judge.as_str()
    );
    Missing { gate, text, why: why.to_owned(), next: NextStep::Judge(judge) }
}

fn person(gate: &'static str, text: &str) -> Missing {
    Missing { gate, text: text.to_owned(), why: text.to_owned(), next: NextStep::Person }
}
