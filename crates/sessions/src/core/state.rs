//! The state of the core loop: a fold over its notes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass_kernel::{Digest, Timestamp};

use super::delivery::{Delivery, DeliveryKind};
use super::judge::Judge;
use super::note::{CoreNote, Finding, PlanStep, StepStatus};

/// The gate of workflows in which nothing may be written.
pub const INFORMATION_ONLY: &str = "information_only";
/// The gate of workflows whose work a skill or command does, with gates of its own.
pub const DELEGATED: &str = "delegated";
/// The gate of workflows all of whose steps must be done.
pub const ALL_ITEMS: &str = "all_items_processed";

/// The most that waits to be written to the tracker.
const DELIVERIES_MAX: usize = 200;

/// The state of the core loop of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CoreState {
    /// The number of the prompt that is worked on.
    pub prompt: u32,
    /// Its text.
    pub prompt_text: String,
    /// The file with what the hydrator is given.
    pub context: Option<String>,
    /// Its plan.
    pub plan: PlanState,
    /// The plan of an earlier prompt whose work is not closed.
    pub earlier: Option<Box<Plan>>,
    /// What the critic says of the plan.
    pub critic: CriticState,
    /// How often the plan was sent back.
    pub revisions: u32,
    /// What the custodiet stopped the session for.
    pub blocked: Option<Block>,
    /// How often it did.
    pub blocks: u32,
    /// What the verifier says of the work.
    pub qa: QaState,
    /// When the work was last verified.
    pub verified_at: Option<Timestamp>,
    /// When an audit was last begun.
    pub audited_at: Option<Timestamp>,
    /// The last warning of an audit.
    pub warning: Option<String>,
    /// When the session was last reflected on.
    pub reflected_at: Option<Timestamp>,
    /// The last reflection and its outcome.
    pub reflection: Option<(String, String)>,
    /// Whether the work was handed to a skill or command.
    pub skill: Option<String>,
    /// How often the agent was not let stop since the prompt.
    pub stops_refused: u32,
    /// The judges that were started and have not answered, by the client's id of the use.
    pub running: BTreeMap<String, Running>,
    /// How many plans there were.
    pub plans: u32,
    /// The files that were last looked at by the verifier, and at which prompt.
    pub verified_tree: Option<(String, u32)>,
    /// The commit at the session's first prompt, and the files that were changed already.
    pub began: Option<(Option<String>, Vec<String>)>,
    /// When each judge was last started, and what it said.
    pub judges: BTreeMap<Judge, LastJudge>,
    /// The workflows that were selected.
    pub workflows: Vec<String>,
    /// When work was last closed.
    pub closed_at: Option<Timestamp>,
    /// The step at which the last close failed, and why.
    pub close_failure: Option<(String, String)>,
    /// The file with the insights.
    pub insights: Option<String>,
    /// What waits to be written to the tracker, oldest first.
    pub undelivered: Vec<Delivery>,
    /// The items of the tracker that stand for something of this session, by key.
    pub items: BTreeMap<String, String>,
}

/// A judge that was started and has not answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Running {
    /// The judge.
    pub judge: Judge,
    /// The digest of the prompt that it was given.
    pub prompt_digest: Digest,
    /// The prompt of the user that it was started for.
    pub prompt: u32,
    /// How many plans there were then.
    pub plans: u32,
    /// The files as they were then.
    pub tree: Option<String>,
    /// The client's id of the subagent, if it works in the background.
    pub agent: Option<String>,
}

/// When a judge was last started, and what it said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastJudge {
    /// When.
    pub started_at: Timestamp,
    /// How often it was started.
    pub times: u32,
    /// Its verdict or result.
    pub said: Option<String>,
}

/// Whether a prompt has a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum PlanState {
    /// There is no prompt.
    #[default]
    None,
    /// The prompt needs none.
    Skipped {
        /// Why.
        reason: String,
    },
    /// It needs one; what the critic found wrong with the last one.
    Due {
        /// The findings.
        findings: Vec<Finding>,
    },
    /// It has one.
    Made(Box<Plan>),
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What the person wants.
    pub intent: String,
    /// The workflow.
    pub workflow: String,
    /// Its gates.
    pub gates: Vec<String>,
    /// When the work is done.
    pub criteria: Vec<String>,
    /// The steps, and how far they are.
    pub steps: Vec<(PlanStep, StepStatus)>,
}

/// What the critic says of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum CriticState {
    /// Nothing yet.
    #[default]
    Due,
    /// It may be carried out.
    Proceed,
    /// It was sent back as often as it may be: a person decides.
    Undecided {
        /// Why it was sent back last.
        reason: String,
    },
    /// It must not be carried out.
    Halt {
        /// Why.
        reason: String,
    },
}

/// What the custodiet stopped a session for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Why.
    pub reason: String,
    /// What is wrong.
    pub issue: String,
    /// Which rule it breaks.
    pub principle: String,
    /// What would be right.
    pub correction: String,
    /// When.
    pub at: Timestamp,
}

/// What the verifier says of the work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum QaState {
    /// Nothing yet.
    #[default]
    NotJudged,
    /// It is as it should be.
    Verified,
    /// It must be mended.
    Issues {
        /// What.
        issues: Vec<Finding>,
    },
}

impl CoreState {
    /// The state after a note. `revisions_max` is how often a plan may be sent back.
    pub fn apply(&mut self, at: Timestamp, note: &CoreNote, revisions_max: u32) {
        match note {
            CoreNote::PromptTaken { number, text, context, skipped } => {
                self.prompt = *number;
                self.prompt_text.clone_from(text);
                self.context.clone_from(context);
                if let PlanState::Made(plan) = &self.plan {
                    self.earlier = Some(plan.clone());
                }
                self.plan = match skipped {
                    Some(reason) => PlanState::Skipped { reason: reason.clone() },
                    None => PlanState::Due { findings: Vec::new() },
                };
                self.critic = CriticState::Due;
                (self.revisions, self.stops_refused) = (0, 0);
                (self.skill, self.warning) = (None, None);
            }
            CoreNote::JudgeStarted { judge, id, prompt, tree, .. } => {
                // One that was started before and has not answered will not.
                self.running.retain(|_, one| one.judge != *judge);
                let running = Running {
                    judge: *judge,
                    prompt_digest: *prompt,
                    prompt: self.prompt,
                    plans: self.plans,
                    tree: tree.clone(),
                    agent: None,
                };
                self.running.insert(id.clone(), running);
                if *judge == Judge::Custodiet {
                    self.audited_at = Some(at);
                }
                let last = self.judges.entry(*judge).or_insert(LastJudge {
                    started_at: at,
                    times: 0,
                    said: None,
                });
                last.started_at = at;
                last.times = last.times.saturating_add(1);
            }
            CoreNote::JudgeLaunched { id, agent } => {
                if let Some(running) = self.running.get_mut(id) {
                    running.agent = Some(agent.clone());
                }
            }
            CoreNote::AnswerRefused { judge, id, .. } => self.ended(id, *judge, "unreadable"),
            CoreNote::Planned { id, intent, workflow, gates, criteria, steps, .. } => {
                self.ended(id, Judge::PromptHydrator, workflow);
                self.plans = self.plans.saturating_add(1);
                if !self.workflows.contains(workflow) {
                    self.workflows.push(workflow.clone());
                }
                let steps = steps.iter().map(|step| (step.clone(), StepStatus::Pending)).collect();
                self.plan = PlanState::Made(Box::new(Plan {
                    intent: intent.clone(),
                    workflow: workflow.clone(),
                    gates: gates.clone(),
                    criteria: criteria.clone(),
                    steps,
                }));
                self.critic = CriticState::Due;
            }
            CoreNote::Criticised { id, verdict, reason, findings, criteria } => {
                self.ended(id, Judge::Critic, verdict);
                self.criticised(verdict, reason, findings, criteria, revisions_max);
            }
            CoreNote::Audited { id, verdict, reason, issue, principle, correction } => {
                self.ended(id, Judge::Custodiet, verdict);
                match verdict.as_str() {
                    "OK" => self.warning = None,
                    "WARN" => self.warning = Some(format!("{issue}: {correction}")),
                    // Whatever else was recorded is not "go on".
                    _ => {
                        self.blocks = self.blocks.saturating_add(1);
                        self.blocked = Some(Block {
                            reason: reason.clone(),
                            issue: issue.clone(),
                            principle: principle.clone(),
                            correction: correction.clone(),
                            at,
                        });
                        let (done, all) = self.steps_done();
                        let text = format!(
                            "Prompt: {}\nProgress: {done} of {all} steps\n\nIssue: {issue}\nPrinciple: {principle}\n\
                             Correction: {correction}\nReason: {reason}",
                            self.prompt_text
                        );
                        let title = format!("Blocked: {issue}");
                        self.deliver(format!("block/{id}"), DeliveryKind::Block, &title, &text);
                    }
                }
            }
            CoreNote::Verified { id, verdict, issues, tree, .. } => {
                self.ended(id, Judge::QaVerifier, verdict);
                self.verified_tree = tree.clone().map(|tree| (tree, self.prompt));
                if verdict == "VERIFIED" {
                    self.qa = QaState::Verified;
                    self.verified_at = Some(at);
                } else {
                    self.qa = QaState::Issues { issues: issues.clone() };
                }
            }
            CoreNote::Reflected { id, reflection, outcome, learnings, improvements } => {
                self.ended(id, Judge::Framework, outcome);
                let about = self.plan().map_or(&self.prompt_text, |plan| &plan.intent).clone();
                let title = format!("Reflection: {about}");
                self.deliver(
                    format!("reflection/{id}"),
                    DeliveryKind::Reflection,
                    &title,
                    reflection,
                );
                let mut known = std::collections::BTreeSet::new();
                let own = learnings.iter().enumerate().filter(|(_, one)| known.insert(*one));
                for (number, one) in own {
                    let key = format!("learning/{id}/{number}");
                    self.deliver(key, DeliveryKind::Learning, &format!("Learning: {one}"), one);
                }
                for (number, one) in improvements.iter().enumerate() {
                    let key = format!("improvement/{id}/{number}");
                    self.deliver(key, DeliveryKind::Improvement, &one.about, &one.text);
                }
                self.reflected_at = Some(at);
                self.reflection = Some((reflection.clone(), outcome.clone()));
            }
            CoreNote::Step { step, status } => {
                let prompt = self.prompt;
                if let PlanState::Made(plan) = &mut self.plan
                    && let Some((own, now)) = plan.steps.iter_mut().find(|(own, _)| own.id == *step)
                {
                    *now = *status;
                    let title = format!("{}: {}", own.id, status.as_str());
                    let text = own.text.clone();
                    let key = format!("step/{prompt}/{step}/{}", status.as_str());
                    self.deliver(key, DeliveryKind::Step, &title, &text);
                }
            }
            CoreNote::SkillUsed { name } => self.skill = Some(name.clone()),
            CoreNote::Began { head, dirty } => self.began = Some((head.clone(), dirty.clone())),
            CoreNote::BlockCleared { .. } => self.blocked = None,
            CoreNote::StopRefused { .. } => {
                self.stops_refused = self.stops_refused.saturating_add(1);
            }
            CoreNote::Delivered { key, item } => {
                self.undelivered.retain(|one| one.key != *key);
                self.items.insert(key.clone(), item.clone());
            }
            CoreNote::InsightsWritten { path } => self.insights = Some(path.clone()),
            CoreNote::Closing(step) if !step.ok => {
                self.close_failure = Some((step.step.clone(), step.detail.clone()));
            }
            CoreNote::Closed { commit } => {
                let key = format!("done/{}", self.prompt);
                let text =
                    commit.as_ref().map_or_else(String::new, |commit| format!("commit {commit}"));
                self.deliver(key, DeliveryKind::WorkDone, "done", &text);
                self.closed_at = Some(at);
                self.earlier = None;
                self.close_failure = None;
            }
            CoreNote::Closing(_)
            | CoreNote::TranscriptWritten { .. }
            | CoreNote::Unclosed { .. }
            | CoreNote::WorkChanged { .. } => {}
        }
    }

    fn criticised(
        &mut self,
        verdict: &str,
        reason: &str,
        findings: &[Finding],
        criteria: &[String],
        revisions_max: u32,
    ) {
        match verdict {
            "PROCEED" => {
                self.critic = CriticState::Proceed;
                if let PlanState::Made(plan) = &mut self.plan {
                    if !criteria.is_empty() {
                        plan.criteria = criteria.to_vec();
                    }
                    let lines = |texts: Vec<&str>| -> String {
                        texts.iter().map(|text| format!("- {text}\n")).collect()
                    };
                    let text = format!(
                        "Workflow: {}\n\nCriteria:\n{}\nPlan:\n{}",
                        plan.workflow,
                        lines(plan.criteria.iter().map(String::as_str).collect()),
                        lines(plan.steps.iter().map(|(step, _)| step.text.as_str()).collect())
                    );
                    let title = plan.intent.clone();
                    let key = format!("work/{}", self.prompt);
                    self.deliver(key, DeliveryKind::Work, &title, &text);
                }
            }
            "REVISE" if self.revisions < revisions_max => {
                self.revisions = self.revisions.saturating_add(1);
                self.plan = PlanState::Due { findings: findings.to_vec() };
                self.critic = CriticState::Due;
            }
            "REVISE" => self.critic = CriticState::Undecided { reason: reason.to_owned() },
            _ => self.critic = CriticState::Halt { reason: reason.to_owned() },
        }
    }

    fn deliver(&mut self, key: String, kind: DeliveryKind, title: &str, text: &str) {
        let is_known =
            self.undelivered.iter().any(|one| one.key == key) || self.items.contains_key(&key);
        if is_known || self.undelivered.len() >= DELIVERIES_MAX {
            return;
        }
        let title = title.lines().next().unwrap_or_default().chars().take(200).collect();
        self.undelivered.push(Delivery { key, kind, title, text: text.to_owned() });
    }

    /// Why the answer of a judge is about something else than what there is now.
    #[must_use]
    pub fn outdates(&self, running: &Running) -> Option<&'static str> {
        match running.judge {
            Judge::PromptHydrator if running.prompt != self.prompt => {
                Some("it planned for an earlier prompt")
            }
            Judge::Critic if running.prompt != self.prompt || running.plans != self.plans => {
                Some("it reviewed another plan")
            }
            Judge::PromptHydrator
            | Judge::Critic
            | Judge::Custodiet
            | Judge::QaVerifier
            | Judge::Framework => None,
        }
    }

    /// Whether a judge works in the background for the present prompt.
    #[must_use]
    pub fn awaits(&self, judge: Option<Judge>) -> bool {
        self.running.values().any(|one| {
            one.agent.is_some()
                && one.prompt == self.prompt
                && judge.is_none_or(|judge| one.judge == judge)
        })
    }

    /// Whether the hydrator may be started for the prompt, now or after the critic has sent its plan back.
    #[must_use]
    pub fn may_be_planned(&self) -> bool {
        match &self.plan {
            PlanState::None | PlanState::Skipped { .. } => false,
            PlanState::Due { .. } => true,
            PlanState::Made(_) => {
                let is_reviewed = !self.has_gate(INFORMATION_ONLY) && !self.has_gate(DELEGATED);
                is_reviewed && matches!(self.critic, CriticState::Due)
            }
        }
    }

    fn ended(&mut self, id: &str, judge: Judge, said: &str) {
        self.running.remove(id);
        if let Some(last) = self.judges.get_mut(&judge) {
            last.said = Some(said.to_owned());
        }
    }

    /// The plan, if there is one.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        match &self.plan {
            PlanState::Made(plan) => Some(plan),
            PlanState::None | PlanState::Skipped { .. } | PlanState::Due { .. } => None,
        }
    }

    /// The plan that unverified work was done by: the present one, or else that of an earlier prompt.
    #[must_use]
    pub fn work_plan(&self) -> Option<&Plan> {
        self.plan().or(self.earlier.as_deref())
    }

    /// Whether the plan's workflow has a gate.
    #[must_use]
    pub fn has_gate(&self, gate: &str) -> bool {
        self.plan().is_some_and(|plan| plan.gates.iter().any(|one| one == gate))
    }

    /// How many steps of the plan are done, and how many there are.
    #[must_use]
    pub fn steps_done(&self) -> (usize, usize) {
        let steps = self.plan().map_or(&[][..], |plan| &plan.steps);
        let done = steps.iter().filter(|(_, status)| *status == StepStatus::Completed).count();
        (done, steps.len())
    }
}
