//! Judges: started with our prompt, their answers taken from what the client reports.

use serde_json::{Value, json};
use windlass_hooks::{Answer, HookEvent, ToolUse};
use windlass_kernel::Digest;

use super::answered::{answer_text, judge_of, launched, told_of};
use super::guard::Core;
use super::judge::Judge;
use super::note::CoreNote;
use super::prompt::judge_prompt;
use super::state::Running;
use super::surroundings::SessionFacts;
use crate::error::SessionError;
use crate::guard::Guard;
use crate::sessions::Session;

impl Guard<'_> {
    /// Starts a judge with our prompt instead of the agent's.
    pub(crate) fn start_judge(
        &self,
        core: Core<'_>,
        event: &HookEvent,
        session: &Session<'_>,
        tool_use: &ToolUse,
        judge: Judge,
    ) -> Result<Answer, SessionError> {
        let deny = |reason: String| {
            let details = json!({ "judge": judge.as_str(), "refused": reason });
            self.note_in_core(event, session, || details);
            Ok(Answer::Deny { reason })
        };
        if event.subagent.is_some() {
            return deny("a subagent cannot start a judge of the core loop".to_owned());
        }
        let Some(id) = tool_use.id.clone() else {
            return deny("the client gave this use of a tool no id".to_owned());
        };
        let file = match core.surroundings.judge_file(judge) {
            Ok(file) => file,
            Err(reason) => return deny(reason),
        };
        let facts = SessionFacts { event, run: session.run };
        let now = session.core(core.settings, |progress| Ok((Vec::new(), progress.clone())))?;
        let tree = match judge {
            Judge::QaVerifier => core.surroundings.tree(),
            Judge::PromptHydrator | Judge::Critic | Judge::Custodiet | Judge::Framework => None,
        };
        if let Some(reason) = now.refuses_judge(judge, tree.as_deref()) {
            return deny(reason);
        }
        let material = core.surroundings.material(facts, judge, &now.state);
        let prompt = judge_prompt(judge, &now.state, &material);
        let note_tree = tree.clone();
        let note = CoreNote::JudgeStarted {
            judge,
            id,
            file: file.digest,
            prompt: Digest::of(prompt.as_bytes()),
            tree,
        };
        let started = session.core(core.settings, |progress| {
            // Its prompt is about the state that was read.
            let (then, state) = (&now.state, &progress.state);
            let is_same = (then.prompt, then.plans) == (state.prompt, state.plans)
                && progress.refuses_judge(judge, note_tree.as_deref()).is_none();
            Ok((Vec::from_iter(is_same.then_some(note)), is_same.then(|| progress.clone())))
        })?;
        let Some(progress) = started else {
            return deny("the session went on meanwhile: start it again".to_owned());
        };
        core.surroundings.project(facts, &progress, false);
        let description = tool_use.input.get("description").and_then(Value::as_str);
        let input = json!({
            "description": description.unwrap_or(judge.as_str()),
            "prompt": prompt,
            "run_in_background": false,
            "subagent_type": tool_use.input.get("subagent_type"),
        });
        Ok(Answer::Allow { input: Some(input), skip_prompt: true })
    }

    /// Takes the answer of a judge from the client's report.
    pub(crate) fn judged(
        &self,
        core: Core<'_>,
        event: &HookEvent,
        session: &Session<'_>,
        tool_use: &ToolUse,
        result: &Value,
        failure: Option<&str>,
    ) -> Result<Answer, SessionError> {
        let id = tool_use.id.clone().unwrap_or_default();
        let running = session.core(core.settings, |progress| {
            Ok((Vec::new(), progress.state.running.get(&id).cloned()))
        })?;
        let Some(running) = running else {
            let judge = judge_of(tool_use).map(Judge::as_str);
            self.note_in_core(event, session, || json!({ "judge": judge, "not_started": true }));
            let text = "UNGUARDED: this judge was not started through Windlass, so its answer does not count";
            return Ok(Answer::Tell { text: text.to_owned() });
        };
        if let (None, Some(agent)) = (failure, launched(result, &running)) {
            session
                .core(core.settings, |_| Ok((vec![CoreNote::JudgeLaunched { id, agent }], ())))?;
            let text = format!(
                "{} works in the background. End your turn, and go on when it has answered.",
                running.judge.as_str()
            );
            return Ok(Answer::Tell { text });
        }
        let said = match failure {
            Some(failure) => Err(format!("it failed: {failure}")),
            None => answer_text(result, &running),
        };
        let told = self.take_answer(core, event, session, id, &running, said)?;
        let progress = self.now(core, session)?;
        if let Some(reason) = Core::blocked(&progress) {
            return Ok(Answer::Deny { reason });
        }
        Ok(Answer::Tell { text: told })
    }

    /// Takes the answer of a judge that worked in the background from its end.
    pub(crate) fn judge_ended(
        &self,
        core: Core<'_>,
        event: &HookEvent,
        session: &Session<'_>,
        last_message: Option<&str>,
    ) -> Result<(), SessionError> {
        let Some(subagent) = &event.subagent else { return Ok(()) };
        let now = self.now(core, session)?;
        let is_it = |running: &Running| running.agent.as_deref() == Some(subagent.id.as_str());
        let found = now.state.running.iter().find(|(_, running)| is_it(running));
        let Some((id, running)) = found else { return Ok(()) };
        let said = last_message.filter(|text| !text.trim().is_empty());
        let said = said.map(str::to_owned).ok_or_else(|| "it gave no answer".to_owned());
        let told = self.take_answer(core, event, session, id.clone(), running, said)?;
        // Nobody is there to tell: the client's next message to the agent brings it.
        session.progress(|progress| progress.tell.push(told))
    }

    /// Records the answer of a judge, or why it is none; returns what the agent is told.
    fn take_answer(
        &self,
        core: Core<'_>,
        event: &HookEvent,
        session: &Session<'_>,
        id: String,
        running: &Running,
        said: Result<String, String>,
    ) -> Result<String, SessionError> {
        let (judge, state) = (running.judge, self.now(core, session)?.state);
        let answer = match state.outdates(running) {
            Some(reason) => Err(reason.to_owned()),
            None => said.and_then(|text| {
                let gates = state.work_plan().map(|plan| plan.gates.clone()).unwrap_or_default();
                let text = self.surroundings.redacted(&text);
                core.surroundings.read_answer(judge, &id, &text, &gates)
            }),
        };
        let answer = answer.and_then(|mut note| {
            if let CoreNote::Verified { tree, .. } = &mut note {
                tree.clone_from(&running.tree);
                if running.tree != core.surroundings.tree() {
                    return Err("files were changed while it looked at them".to_owned());
                }
            }
            Ok(note)
        });
        let note = answer.unwrap_or_else(|reason| CoreNote::AnswerRefused {
            judge,
            id: id.clone(),
            reason,
        });
        let told = session.core(core.settings, |progress| {
            // Another prompt or plan may have come since.
            let note = progress.state.unless_outdated(running, id, note);
            let told = told_of(&note);
            Ok((vec![note], told))
        })?;
        let progress = self.now(core, session)?;
        let facts = SessionFacts { event, run: session.run };
        core.surroundings.project(facts, &progress, false);
        if let Some(file) =
            progress.state.context.as_ref().filter(|_| !progress.state.may_be_planned())
        {
            core.surroundings.forget_context(file);
        }
        let next = progress.refuses_writing().map(|missing| missing.text);
        Ok([Some(told), next].into_iter().flatten().collect::<Vec<_>>().join("\nNext: "))
    }
}
