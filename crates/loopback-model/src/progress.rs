//! Which step answers a request.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::script::{Order, Script, Step};
use crate::transcript::{Transcript, Turn};

/// The text after the last step.
pub const AFTER_LAST: &str = "done";

/// What answered a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnsweredBy {
    /// A step of the script.
    Step {
        /// The number of the conversation, from 0; `None` for `otherwise`.
        conversation: Option<usize>,
        /// The number of the step in it, from 0.
        step: usize,
    },
    /// The text `done`: all steps have been answered.
    AfterLast {
        /// The number of the conversation, from 0; `None` for `otherwise`.
        conversation: Option<usize>,
    },
    /// The text `side`: the request offers no tools, so it is not part of the work.
    Side,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Next {
    /// How many answers of the script the request shows.
    pub turns: u64,
    pub answered_by: AnsweredBy,
    pub step: Step,
}

/// How far a script got.
#[derive(Debug, Default)]
pub struct Progress {
    /// How often each step was used, by conversation and step.
    uses: BTreeMap<(Option<usize>, usize), u64>,
}

impl Progress {
    /// The answer to a request that offers tools.
    pub fn next(&mut self, script: &Script, transcript: &Transcript) -> Next {
        let mut conversations = script.conversations.iter().enumerate();
        let found = conversations.find(|(_, known)| transcript.opens_with(&known.when));
        let (conversation, steps) = match found {
            Some((index, known)) => (Some(index), &known.steps),
            None => (None, &script.otherwise),
        };
        let turns = answered(steps, &transcript.turns);
        let chosen = match script.order {
            Order::Turns => self.by_turns(conversation, steps, turns),
            Order::Requests => self.by_requests(conversation, steps),
        };
        let Some((number, step)) = chosen else {
            let answered_by = AnsweredBy::AfterLast { conversation };
            return Next { turns, answered_by, step: Step::say(AFTER_LAST) };
        };
        *self.uses.entry((conversation, number)).or_default() += 1;
        Next { turns, answered_by: AnsweredBy::Step { conversation, step: number }, step }
    }

    fn uses(&self, conversation: Option<usize>, step: usize) -> u64 {
        self.uses.get(&(conversation, step)).copied().unwrap_or_default()
    }

    fn by_requests(&self, conversation: Option<usize>, steps: &[Step]) -> Option<(usize, Step)> {
        let mut numbered = steps.iter().enumerate();
        let next = numbered.find(|(index, step)| self.uses(conversation, *index) < times(step));
        next.map(|(index, step)| (index, step.clone()))
    }

    fn by_turns(
        &self,
        conversation: Option<usize>,
        steps: &[Step],
        mut turns: u64,
    ) -> Option<(usize, Step)> {
        for (index, step) in steps.iter().enumerate() {
            let fails = step.is_fault() && self.uses(conversation, index) < times(step);
            // INVARIANT: a client shows a step's answer or asks again, so whatever fails is not given for
            // ever: it fails `repeat` times, then comes its answer, or else the next step.
            let taken = match (step.is_answer(), step.is_fault()) {
                (true, false) => times(step),
                (true, true) => 1,
                (false, _) => 0,
            };
            if turns == 0 && fails {
                return Some((index, step.clone()));
            }
            if turns < taken {
                return Some((index, step.answer_only()));
            }
            turns -= taken;
        }
        None
    }
}

/// How many answers of the steps a client shows.
///
/// Clients repeat, lose and invent answers when they resume a conversation: Gemini shows calls twice and
/// drops a call that it has no result of, but keeps its text; Claude adds a text of its own. So calls
/// are counted by their ids, and a text counts only if a step without calls says it.
fn answered(steps: &[Step], turns: &[Turn]) -> u64 {
    let says = |text: &str| {
        let mut plain = steps.iter().filter(|step| step.calls.is_empty());
        text == AFTER_LAST || plain.any(|step| step.spoken().map(str::trim) == Some(text))
    };
    let mut known = BTreeSet::new();
    let mut answered = 0;
    for turn in turns {
        let numbers = turn.calls.iter().filter_map(|id| turn_of_call(id));
        let number = numbers.max();
        let new = turn.calls.iter().filter(|id| known.insert(id.as_str())).count();
        match number {
            Some(number) => answered = answered.max(number.saturating_add(1)),
            None if new > 0 => answered += 1,
            None if turn.calls.is_empty() && says(turn.text.trim()) => answered += 1,
            None => {}
        }
    }
    answered
}

/// The end of a call's id: its turn, and its number in it.
pub fn call_id_end(turns: u64, index: usize) -> String {
    format!("t{turns}_{index}")
}

/// The turn of a call, if its id is one of ours.
fn turn_of_call(id: &str) -> Option<u64> {
    let (rest, _) = id.rsplit_once('_')?;
    let (_, turn) = rest.rsplit_once("_t")?;
    turn.parse().ok()
}

/// How often a step is used.
fn times(step: &Step) -> u64 {
    step.repeat.map_or(1, |times| u64::try_from(times).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn script(json: &serde_json::Value) -> Script {
        Script::from_json(&json.to_string()).unwrap()
    }

    /// A request that shows so many answers.
    fn shown(user: &str, turns: u64) -> Transcript {
        let turn = |number| Turn {
            text: String::new(),
            calls: vec![format!("call_x_0_{}", call_id_end(number, 0))],
        };
        let turns = (0..turns).map(turn).collect();
        Transcript { user: vec![user.to_owned()], opening: 1, turns, ..Transcript::default() }
    }

    /// The step that answers a request with so many turns, and its text.
    fn ask(progress: &mut Progress, script: &Script, turns: u64) -> (usize, String) {
        let next = progress.next(script, &shown("", turns));
        let step = match next.answered_by {
            AnsweredBy::Step { step, .. } => step,
            AnsweredBy::AfterLast { .. } => 99,
            AnsweredBy::Side => panic!("a request with tools is no side request"),
        };
        (step, next.step.text.unwrap_or_default())
    }

    #[test]
    fn a_list_is_answered_request_by_request() {
        let list =
            script(&json!([{ "text": "a", "repeat": 2 }, { "drop": "start" }, { "text": "b" }]));
        let mut progress = Progress::default();
        let steps: Vec<usize> = (0..5).map(|_| ask(&mut progress, &list, 0).0).collect();
        assert_eq!(steps, [0, 0, 1, 2, 99]);
    }

    #[test]
    fn a_conversation_goes_on_from_what_it_shows() {
        let rules = script(&json!({ "otherwise": [{ "text": "a" }, { "text": "b", "repeat": 2 },
            { "text": "c" }] }));
        let mut progress = Progress::default();
        for (turns, step) in [(0, 0), (1, 1), (0, 0), (3, 2), (2, 1), (4, 99), (0, 0)] {
            assert_eq!(ask(&mut progress, &rules, turns).0, step, "{turns}");
        }
    }

    #[test]
    fn failures_take_no_turn_and_end() {
        let rules = script(&json!({ "otherwise": [
            { "error": { "status": 500 }, "repeat": 2 },
            { "text": "a" },
            { "drop": "start" },
            { "text": "b", "drop": "late" },
            { "hang": 1 },
            { "text": "c" },
        ]}));
        let mut progress = Progress::default();
        let mut steps = Vec::new();
        for turns in [0, 0, 0, 1, 1, 1, 2, 2, 3, 4] {
            steps.push(ask(&mut progress, &rules, turns));
        }
        let texts: Vec<(usize, &str)> = steps.iter().map(|(step, text)| (*step, &**text)).collect();
        let expected = [
            (0, ""),
            (0, ""),
            (1, "a"),
            (2, ""),
            (3, "b"),
            (3, "b"),
            (4, ""),
            (4, "late"),
            (5, "c"),
            (99, "done"),
        ];
        assert_eq!(texts, expected);
        let for_ever = script(&json!({ "otherwise": [{ "garbage": "x", "repeat": -1 }] }));
        for _ in 0..5 {
            assert_eq!(ask(&mut progress, &for_ever, 0).0, 0);
        }
    }

    #[test]
    fn a_step_whose_failure_was_not_repeated_is_given_in_full() {
        let rules = script(&json!({ "otherwise": [{ "text": "a", "drop": "late" }] }));
        let mut progress = Progress::default();
        let transcript = shown("", 0);
        assert!(progress.next(&rules, &transcript).step.drop.is_some());
        assert_eq!(progress.next(&rules, &transcript).step, Step::say("a"));
    }

    #[test]
    fn conversations_are_told_apart_by_how_they_begin() {
        let rules = script(&json!({
            "conversations": [
                { "when": "plan", "steps": [{ "text": "p" }] },
                { "when": "build", "steps": [{ "text": "b" }] },
            ],
            "otherwise": [{ "text": "o" }],
        }));
        for (user, conversation, text) in
            [("build it", Some(1), "b"), ("plan the build", Some(0), "p"), ("", None, "o")]
        {
            let next = Progress::default().next(&rules, &shown(user, 0));
            assert_eq!(next.answered_by, AnsweredBy::Step { conversation, step: 0 });
            assert_eq!(next.step, Step::say(text));
        }
        let next = Progress::default().next(&rules, &shown("plan", 1));
        assert_eq!(next.answered_by, AnsweredBy::AfterLast { conversation: Some(0) });
    }

    #[test]
    fn answers_are_counted_by_what_the_script_gave() {
        let steps = [
            Step { text: Some("with a call".to_owned()), ..Step::call("a", json!({})) },
            Step::say("plain"),
            Step { hang: Some(1.0), ..Step::default() },
        ];
        let turn = |text: &str, calls: &[&str]| Turn {
            text: text.to_owned(),
            calls: calls.iter().map(|call| (*call).to_owned()).collect(),
        };
        for (turns, expected) in [
            (vec![turn("", &["call_5_0_t0_0", "call_5_0_t0_1"])], 1),
            // Repeated, lost and invented answers.
            (vec![turn("", &["call_5_0_t0_0"]), turn("", &["call_5_0_t0_0"])], 1),
            (vec![turn("", &["call_5_9_t4_0"])], 5),
            (vec![turn("", &["call_5_0_t0_0"]), turn("No response requested.", &[])], 1),
            (vec![turn("with a call", &[])], 0),
            (vec![turn("", &["call_5_0_t0_0"]), turn("plain\n", &[])], 2),
            (vec![turn("late", &[]), turn("done", &[])], 2),
            // Ids of the script.
            (vec![turn("", &["mine"]), turn("", &["yours"]), turn("", &["mine"])], 2),
        ] {
            assert_eq!(answered(&steps, &turns), expected, "{turns:?}");
        }
    }
}
