//! Calls that wait for a person.

use serde_json::json;

use crate::agents::lab::{Kind, Lab};
use crate::scripted::{call, script, shell};
use crate::world::{VOICE, id_of};

pub fn a_call_waits_and_runs_once(kind: &'static Kind) {
    // The network is closed, so nothing is pushed; whether the line was run, and how often, the file says.
    let line = "git push origin main; echo pushed >> count.txt; wc -c count.txt";
    let Some(lab) = Lab::new(kind, &script(vec![shell(line)])) else { return };
    let before = lab.repo.commits();
    let held = lab.run().exit(4);
    assert_eq!(lab.repo.read("count.txt"), "");
    let id = id_of(&held);
    lab.windlass(&[&["queue", "approve", &id, "--resume"][..], &VOICE].concat()).exit(0);
    lab.has_passed(before);
    assert_eq!(lab.repo.read("count.txt"), "pushed\n");
    assert!(lab.told().contains("7 count.txt"), "the agent was not told the result");
    let made: Vec<_> = lab.calls().into_iter().filter(|(tool, ..)| tool == "shell/run").collect();
    assert_eq!(made.len(), 1, "{made:?}");
}

pub fn a_question_is_answered(kind: &'static Kind) {
    let question = json!({ "question": "Which colour?" });
    let steps = vec![call("ask_person", question), shell("echo blue >> colour.txt")];
    let Some(lab) = Lab::new(kind, &script(steps)) else { return };
    let before = lab.repo.commits();
    let id = id_of(&lab.run().exit(4));
    let answer = ["queue", "answer", &id, "blue, as the sky is", "--by", "ada", "--resume"];
    lab.windlass(&answer).exit(0);
    lab.has_passed(before);
    assert_eq!(lab.repo.read("colour.txt"), "blue\n");
    assert!(lab.told().contains("blue, as the sky is"), "the agent was not told the answer");
}
