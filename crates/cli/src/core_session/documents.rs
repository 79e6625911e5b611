//! The files that others read of a session: its state and its insights.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use windlass_formats::Moment;
use windlass_formats::core::{
    CriticVerdict, Date, HydrationState, Insights, MainAgentState, Recorded, Reflection,
    SessionFlags, SessionState, SubagentState, insights_path, session_state_path,
};
use windlass_kernel::{Timestamp, TraceId};
use windlass_sessions::core::{CoreProgress, CoreState, Judge, PlanState};

use crate::user_folders;

/// When a run was begun: its id has the time.
pub fn begun(run: TraceId) -> Timestamp {
    let bytes = run.0.as_bytes().iter().take(6);
    let ms = bytes.fold(0_i64, |time, byte| (time << 8) | i64::from(*byte));
    Timestamp::from_unix_ms(ms).unwrap_or(Timestamp::EPOCH)
}

/// A session, for its files.
pub struct SessionFiles<'a> {
    /// The client's id of it.
    pub session: &'a str,
    /// Its run.
    pub run: TraceId,
    /// The folder in which the client works.
    pub folder: &'a str,
    /// Where what lasts is kept.
    pub data: Option<&'a Path>,
}

impl SessionFiles<'_> {
    fn date(&self) -> Date {
        Date::from(begun(self.run))
    }

    /// The file of its state.
    pub fn state_path(&self) -> Option<PathBuf> {
        Some(session_state_path(&user_folders::home()?, self.folder, self.date(), self.session))
    }

    /// The file of what was said in it, beside its state; the same is beside it as JSON.
    pub fn transcript_path(&self) -> Option<PathBuf> {
        Some(self.state_path()?.with_file_name("transcript.md"))
    }

    /// The file of its insights.
    pub fn insights_path(&self) -> Option<PathBuf> {
        Some(insights_path(self.data?, self.date(), self.session))
    }

    /// Its insights: what an agent wrote of it, over what the records show.
    pub fn insights(&self, progress: &CoreProgress, stop_reason: &str) -> Insights {
        let own = self.recorded(progress, stop_reason);
        let before = self.insights_path().and_then(|path| std::fs::read(path).ok());
        let before = before.and_then(|bytes| Insights::read(&bytes).ok());
        match before.filter(|before| before.summary != own.summary) {
            Some(rich) => rich.merge(&own).unwrap_or(own),
            None => own,
        }
    }

    /// Its insights, as far as the records show them.
    pub fn recorded(&self, progress: &CoreProgress, stop_reason: &str) -> Insights {
        let state = &progress.state;
        let criteria = state.plan().map_or(0, |plan| plan.criteria.len());
        let project = Path::new(self.folder).file_name();
        let subagents: BTreeMap<String, u32> = state
            .judges
            .iter()
            .map(|(judge, last)| (judge.as_str().to_owned(), last.times))
            .collect();
        let mut own = Insights::automatic(Recorded {
            acceptance_criteria_count: u32::try_from(criteria).unwrap_or(u32::MAX),
            critic_verdict: critic_verdict(progress),
            custodiet_blocks: state.blocks,
            date: self.date(),
            project: project
                .map_or_else(|| "root".to_owned(), |name| name.to_string_lossy().into_owned()),
            session_id: self.session.to_owned(),
            stop_reason: Some(stop_reason.to_owned()),
            subagents,
            workflows_used: state.workflows.clone(),
        });
        if let Some((reflection, outcome)) = &state.reflection {
            let value = serde_json::json!({ "outcome": outcome, "text": reflection });
            own.framework_reflections = Some(vec![value]);
            if let Ok(read) = Reflection::parse(reflection) {
                own.outcome = read.outcome;
                own.accomplishments = read.accomplishment.into_iter().collect();
                own.friction_points = Some(read.root_cause.into_iter().collect());
                own.proposed_changes = Some(vec![read.proposed_change]);
            }
        }
        own
    }

    /// Its state as others read it.
    pub fn state(&self, progress: &CoreProgress, ended: Option<Timestamp>) -> SessionState {
        let state = &progress.state;
        let mut document =
            SessionState::new(self.session, self.date(), Moment::from(begun(self.run)));
        document.ended_at = ended.map(Moment::from);
        let started =
            |judge: Judge| state.judges.get(&judge).map(|last| Moment::from(last.started_at));
        document.state = SessionFlags {
            active_skill: state.skill.clone(),
            current_workflow: state.plan().map(|plan| plan.workflow.clone()),
            custodiet_block_reason: state.blocked.as_ref().map(|block| block.reason.clone()),
            custodiet_blocked: state.blocked.is_some(),
            error_flag: state
                .close_failure
                .as_ref()
                .map(|(step, reason)| format!("{step}: {reason}")),
            gates_bypassed: matches!(state.plan, PlanState::Skipped { .. }),
            hydration_pending: matches!(state.plan, PlanState::Due { .. }),
            last_compliance_ts: started(Judge::Custodiet),
            last_drift_warning: state.warning.clone(),
            last_hydration_ts: started(Judge::PromptHydrator),
            tool_calls_since_compliance: progress.counters.uses_since_audit,
        };
        document.hydration = HydrationState {
            acceptance_criteria: state.plan().map(|plan| plan.criteria.clone()).unwrap_or_default(),
            critic_verdict: critic_verdict(progress),
            hydrated_intent: state.plan().map(|plan| plan.intent.clone()),
            original_prompt: Some(state.prompt_text.clone()).filter(|text| !text.is_empty()),
        };
        let (done, all) = state.steps_done();
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        document.main_agent = MainAgentState {
            current_task: current_task(state),
            todos_completed: count(done),
            todos_total: count(all),
        };
        for (judge, last) in &state.judges {
            let is_verdict = *judge == Judge::Critic;
            let criteria = state.plan().filter(|_| is_verdict).map(|plan| plan.criteria.clone());
            document.subagents.insert(
                judge.as_str().to_owned(),
                SubagentState {
                    acceptance_criteria: criteria,
                    last_invoked: Moment::from(last.started_at),
                    result: last.said.clone().filter(|_| !is_verdict),
                    verdict: last.said.clone().filter(|_| is_verdict),
                },
            );
        }
        document
    }
}

/// The item of the tracker that is worked on: that of the prompt's plan, or of an earlier one whose work is not closed.
fn current_task(state: &CoreState) -> Option<String> {
    let of_prompt = |prompt: u32| state.items.get(&format!("work/{prompt}")).cloned();
    match (&state.plan, &state.earlier) {
        (PlanState::Made(_), _) => of_prompt(state.prompt),
        (PlanState::None | PlanState::Due { .. } | PlanState::Skipped { .. }, Some(_)) => {
            let prompts = state.items.keys().filter_map(|key| key.strip_prefix("work/"));
            of_prompt(prompts.filter_map(|prompt| prompt.parse().ok()).max()?)
        }
        (PlanState::None | PlanState::Due { .. } | PlanState::Skipped { .. }, None) => None,
    }
}

fn critic_verdict(progress: &CoreProgress) -> Option<CriticVerdict> {
    match progress.state.judges.get(&Judge::Critic)?.said.as_deref()? {
        "PROCEED" => Some(CriticVerdict::Proceed),
        "REVISE" => Some(CriticVerdict::Revise),
        "HALT" => Some(CriticVerdict::Halt),
        _ => None,
    }
}

/// Writes a file of the user whole, or not at all.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("`{}` cannot be written: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    }
    crate::atomic::write(path, bytes).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_see_a_file_whole_and_one_that_cannot_be_written_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/session-state.json");
        let texts: [Vec<u8>; 2] = [b"a".repeat(1 << 20), b"b".repeat(3 << 20)];
        write(&path, &texts[0]).unwrap();
        let writer = {
            let (path, texts) = (path.clone(), texts.clone());
            std::thread::spawn(move || {
                for round in 0..60 {
                    write(&path, &texts[round % 2]).unwrap();
                }
            })
        };
        while !writer.is_finished() {
            let read = std::fs::read(&path).unwrap();
            assert!(texts.contains(&read), "{} bytes", read.len());
        }
        writer.join().unwrap();
        // A link that somebody put in its place is replaced, not followed.
        let other = folder.path().join("other");
        std::fs::write(&other, b"mine").unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        write(&path, &texts[0]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), texts[0]);
        assert_eq!(std::fs::read(&other).unwrap(), b"mine");
    }
}
