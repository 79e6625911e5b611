//! One call's life: killed, taken up, killed again, brought to its end, compared with the server's log.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::kill::project::{Ended, Project};

/// What becomes of a call whose process died, as its tool's registry entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Handed over again, to a server that honours keys.
    Retry,
    /// The server is asked first.
    Probe,
    /// Undone.
    Undo,
    /// Left to a person.
    Hold,
    /// Decided by a person before it is made.
    Ask,
    /// A read: made again, without a key.
    Read,
}

impl Rule {
    const fn tool(self) -> &'static str {
        match self {
            Self::Retry => "keyed/add",
            Self::Probe => "plain/add_probe",
            Self::Undo => "plain/add_undo",
            Self::Hold => "plain/add_hold",
            Self::Ask => "plain/add_ask",
            Self::Read => "keyed/get",
        }
    }
}

/// How a dead process's work is taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    Recover,
    SameCall,
}

/// What the person says when asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    Approve,
    Deny,
}

impl Word {
    /// The subcommand of `call` for it. Approving an interrupted call means that it did not run.
    pub const fn answer(self, is_interrupted: bool) -> &'static [&'static str] {
        match (self, is_interrupted) {
            (Self::Approve, false) => &["approve"],
            (Self::Deny, false) => &["deny"],
            (Self::Approve, true) => &["settle", "--not-run"],
            (Self::Deny, true) => &["settle", "--failed"],
        }
    }
}

/// What all scenes of a test came to.
#[derive(Debug, Default)]
pub struct Tally {
    kills: AtomicU32,
    doubled: AtomicU32,
    lost: AtomicU32,
    scenes: AtomicU32,
}

impl Tally {
    pub fn kill(&self) {
        self.kills.fetch_add(1, Ordering::Relaxed);
    }

    /// Prints the numbers, and fails if one of them is a failure.
    pub fn close(&self, name: &str) {
        let [kills, doubled, lost] =
            [&self.kills, &self.doubled, &self.lost].map(|count| count.load(Ordering::Relaxed));
        println!("{name}: {kills} kills, {doubled} doubled, {lost} lost");
        assert!(kills > 0 && doubled == 0 && lost == 0);
    }
}

/// One call and what was done to it.
pub struct Scene<'a> {
    project: &'a Project,
    tally: &'a Tally,
    rule: Rule,
    key: String,
    /// What was done, for when it fails.
    history: Vec<String>,
    /// Results that some process printed.
    printed: Vec<Value>,
    approvals: u32,
    denied: bool,
}

impl<'a> Scene<'a> {
    pub fn new(project: &'a Project, tally: &'a Tally, rule: Rule) -> Self {
        let number = tally.scenes.fetch_add(1, Ordering::Relaxed);
        let (history, printed) = (Vec::new(), Vec::new());
        let key = format!("key-{number}");
        Self { project, tally, rule, key, history, printed, approvals: 0, denied: false }
    }

    /// Makes the call, dying at a point if one is given.
    pub fn call(&mut self, at: Option<(&str, u32)>) -> Ended {
        let args = json!({ "text": self.key }).to_string();
        let key = self.key.clone();
        let mut words = vec!["call", "run", self.rule.tool()];
        if self.rule != Rule::Read {
            words.extend(["--args", &args, "--key", &key]);
        }
        let ended = self.run(&words, at);
        if !ended.killed {
            self.note(&ended.out);
        }
        ended
    }

    /// Recovers everything, dying at a point if one is given.
    pub fn recover(&mut self, at: Option<(&str, u32)>) -> Ended {
        let ended = self.run(&["recover"], at);
        if !ended.killed {
            for recovered in ended.out.as_array().unwrap() {
                assert!(recovered.get("error").is_none(), "{}: {recovered}", self.story());
                self.note(&recovered["report"]);
            }
        }
        ended
    }

    /// Takes the call up again.
    pub fn restart(&mut self, how: Restart, at: Option<(&str, u32)>) -> Ended {
        match how {
            Restart::Recover => self.recover(at),
            Restart::SameCall => self.call(at),
        }
    }

    /// Answers for a person.
    pub fn decide(&mut self, trace_id: &str, word: Word, at: Option<(&str, u32)>) -> Ended {
        match word {
            Word::Approve => self.approvals += 1,
            Word::Deny => self.denied = true,
        }
        let shown = self.project.run(&["call", "show", trace_id]);
        let voice = ["--by", "a person", "--reason", "a test"];
        let answer = word.answer(shown.out["hold"]["question"] == "did_it_run");
        let words = [&["call"][..], answer, &[trace_id], &voice].concat();
        let ended = self.run(&words, at);
        if !ended.killed {
            self.note(&ended.out);
        }
        ended
    }

    fn run(&mut self, words: &[&str], at: Option<(&str, u32)>) -> Ended {
        let ended = match at {
            Some((point, count)) => self.project.run_to(words, point, count),
            None => self.project.run(words),
        };
        if ended.killed {
            self.tally.kill();
        }
        self.history.push(format!("{words:?} at {at:?}: {ended:?}"));
        ended
    }

    fn note(&mut self, report: &Value) {
        let mine = report["idempotency_key"] == self.key.as_str() || self.rule == Rule::Read;
        if mine && report["state"] == "COMPLETED" {
            self.printed.push(report.clone());
        }
    }

    pub fn story(&self) -> String {
        format!("{:?} {}:\n{}", self.rule, self.key, self.history.join("\n"))
    }

    /// The traces of this call that wait for a person.
    pub fn held(&self) -> Vec<String> {
        let held = self.project.run(&["call", "list", "--held"]);
        let ids = held.out.as_array().unwrap().iter();
        ids.map(|trace| trace["trace_id"].as_str().unwrap().to_owned()).collect()
    }

    /// How often its key was executed by a tool.
    pub fn count(&self, tool: &str) -> u32 {
        let of = |wanted: &Value| wanted["key"] == self.key.as_str();
        let executed = self.project.executed();
        let mine = executed.iter().filter(|one| {
            one.tool == tool && (one.key.as_deref() == Some(self.key.as_str()) || of(&one.args))
        });
        u32::try_from(mine.count()).unwrap()
    }

    /// Brings the call to its end without another kill, and compares it with what was executed.
    pub fn finish(mut self, word: Word) {
        let recovered = self.recover(None);
        let story = self.story();
        let waits = recovered.exit == Some(4);
        assert!(recovered.exit == Some(0) || waits, "{story}");
        if waits {
            assert!(matches!(self.rule, Rule::Hold | Rule::Ask), "{story}");
            let before = self.count("add");
            // The same question may have been asked twice; it is answered once.
            let words = std::iter::once(word).chain(std::iter::repeat(Word::Deny));
            for (trace, word) in self.held().iter().zip(words) {
                let decided = self.decide(trace, word, None);
                assert_eq!(decided.exit, Some(0), "{}", self.story());
            }
            let made = self.count("add") - before;
            assert_eq!(made, u32::from(word == Word::Approve), "{}", self.story());
        }
        if self.rule == Rule::Read {
            return self.check_printed(None);
        }
        let last = self.call(None);
        let story = self.story();
        if self.rule == Rule::Ask && last.exit == Some(4) {
            // Nothing was recorded under the key: the person has still to be asked, or said no.
            assert_eq!(self.count("add"), 0, "{story}");
            for trace in self.held() {
                assert_eq!(self.decide(&trace, Word::Deny, None).exit, Some(0), "{story}");
            }
            return;
        }
        self.check_end(&last);
        self.check_printed(Some(&last.out));
    }

    fn check_end(&self, last: &Ended) {
        let (story, state) = (self.story(), last.text("/state"));
        let (added, removed) = (self.count("add"), self.count("remove"));
        match self.rule {
            Rule::Retry | Rule::Probe => {
                assert_eq!((last.exit, state), (Some(0), "COMPLETED"), "{story}");
                assert_eq!(added, 1, "{story}");
            }
            Rule::Undo if state == "COMPLETED" => assert_eq!((added, removed), (1, 0), "{story}"),
            Rule::Undo => {
                assert_eq!((state, last.text("/error/code")), ("FAILED", "TOOL_COMPENSATED"));
                assert!(added <= 1 && removed == 1, "added {added}, removed {removed}: {story}");
            }
            Rule::Hold | Rule::Ask => {
                let end = if self.denied && state != "COMPLETED" { "FAILED" } else { "COMPLETED" };
                assert_eq!(state, end, "{story}");
                assert!(added <= 1 + self.approvals, "added {added}: {story}");
                assert!(end == "FAILED" || added >= 1, "added {added}: {story}");
            }
            Rule::Read => {}
        }
        if !matches!(self.rule, Rule::Hold | Rule::Ask) && added > 1 {
            self.tally.doubled.fetch_add(added - 1, Ordering::Relaxed);
        }
    }

    /// Whatever a process printed as a result is what is recorded.
    fn check_printed(&self, last: Option<&Value>) {
        for report in &self.printed {
            let recorded = match last {
                Some(last) => last.clone(),
                None => self.project.run(&["call", "show", trace_of(report)]).out,
            };
            let same = |name: &str| recorded[name] == report[name];
            if !["trace_id", "state", "result", "latest_entry_digest"].into_iter().all(same) {
                self.tally.lost.fetch_add(1, Ordering::Relaxed);
                panic!("printed {report}, recorded {recorded}: {}", self.story());
            }
        }
    }
}

/// The trace of a report.
pub fn trace_of(report: &Value) -> &str {
    report["trace_id"].as_str().unwrap()
}
