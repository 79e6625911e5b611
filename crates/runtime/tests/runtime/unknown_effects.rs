//! Failures of a server while Windlass lives: the registered rule of the tool applies, as after a crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use windlass_connect::{Certainty, Connect, Job, Reply, Target};
use windlass_kernel::artifact::FileChange;
use windlass_kernel::{Code, State};
use windlass_runtime::{CallReport, Clock, Gateway, HoldQuestion, ReadDurability, Settings};
use windlass_store::Store as _;
use windlass_testkit::gateway::{TestSupervisor, ToolWorld, World, call};

/// How a server fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    NotStarted,
    DiedBeforeSend,
    DiedAfterSend { acted: bool },
    TimedOut { acted: bool },
    Garbled { acted: bool },
    WrongArguments,
}

impl Fault {
    const ALL: [Self; 9] = [
        Self::NotStarted,
        Self::DiedBeforeSend,
        Self::DiedAfterSend { acted: false },
        Self::DiedAfterSend { acted: true },
        Self::TimedOut { acted: false },
        Self::TimedOut { acted: true },
        Self::Garbled { acted: false },
        Self::Garbled { acted: true },
        Self::WrongArguments,
    ];

    const fn reply(self) -> (Code, Certainty) {
        match self {
            Self::NotStarted | Self::DiedBeforeSend => {
                (Code::ToolServerUnavailable, Certainty::DidNotRun)
            }
            Self::DiedAfterSend { .. } => (Code::ToolServerUnavailable, Certainty::Unknown),
            Self::TimedOut { .. } => (Code::ToolTimeout, Certainty::Unknown),
            Self::Garbled { .. } => (Code::ToolProtocolError, Certainty::Unknown),
            Self::WrongArguments => (Code::ToolFailed, Certainty::Ran),
        }
    }

    const fn acted(self) -> bool {
        match self {
            Self::DiedAfterSend { acted } | Self::TimedOut { acted } | Self::Garbled { acted } => {
                acted
            }
            Self::NotStarted | Self::DiedBeforeSend | Self::WrongArguments => false,
        }
    }

    fn is_unknown(self) -> bool {
        self.reply().1 == Certainty::Unknown
    }
}

/// Tools of which one fails the first few times.
struct Faulty {
    tools: Arc<ToolWorld>,
    tool: &'static str,
    fault: Fault,
    times: AtomicU32,
}

impl Connect for Faulty {
    fn perform(&self, job: &Job<'_>) -> Reply {
        let again = |times: u32| times.checked_sub(1);
        let fails = job.tool == self.tool
            && self.times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, again).is_ok();
        if fails && !self.fault.acted() {
            return self.failure();
        }
        let reply = self.tools.perform(job);
        if fails { self.failure() } else { reply }
    }

    fn foresee(&self, _: &Target, _: &str, _: &Value) -> Option<FileChange> {
        None
    }
}

impl Faulty {
    fn failure(&self) -> Reply {
        let (code, certainty) = self.fault.reply();
        Reply::Failure { code, message: "the server is odd".to_owned(), result: None, certainty }
    }
}

fn faulty(world: &World, tool: &'static str, fault: Fault, times: u32) -> Gateway {
    let tools = Arc::clone(&world.tools);
    let connect = Faulty { tools, tool, fault, times: AtomicU32::new(times) };
    let settings =
        Settings { reads: ReadDurability::WriteAhead, key_wait: std::time::Duration::ZERO };
    let clock = Arc::clone(&world.clock) as Arc<dyn Clock>;
    let supervisor = Arc::new(TestSupervisor::default());
    Gateway::new(Arc::new(world.store()), supervisor, Arc::new(connect), clock, settings, ".")
}

/// How often the effect of the call is there.
fn effects(world: &World, tool: &str) -> u32 {
    let run = world.tools.lock().runs.get(&(tool.to_owned(), "key-1".to_owned())).cloned();
    run.map_or(0, |run| run.executed - run.undone)
}

fn asks_whether_it_ran(report: &CallReport) -> bool {
    report.hold.as_ref().is_some_and(|hold| hold.question == HoldQuestion::DidItRun)
}

#[test]
fn the_registered_rule_applies_to_every_failure_whose_effect_is_unknown() {
    // The tools' rules: retry, hold, probe, compensate.
    for tool in ["add", "burn", "post", "book"] {
        for fault in Fault::ALL {
            let context = format!("{tool}: {fault:?}");
            let world = World::default();
            let gateway = faulty(&world, tool, fault, 1);
            let report = gateway.call(call(tool, Some("key-1"), 1)).unwrap();
            let acted = u32::from(fault.acted());
            if !fault.is_unknown() {
                let error = report.error.as_ref().unwrap();
                assert_eq!(report.state, State::Failed, "{context}");
                assert_eq!(error.may_have_run, fault == Fault::WrongArguments, "{context}");
                assert_eq!(effects(&world, tool), 0, "{context}");
                // What certainly did not run does not use up its key.
                let again = gateway.call(call(tool, Some("key-1"), 1)).unwrap();
                assert_eq!(again.replayed, error.may_have_run, "{context}");
            } else {
                let expected = match tool {
                    "add" | "post" => (State::Completed, 1),
                    "burn" => (State::Executing, acted),
                    _ => (State::Failed, 0),
                };
                assert_eq!((report.state, effects(&world, tool)), expected, "{context}");
                assert_eq!(asks_whether_it_ran(&report), tool == "burn", "{context}");
                let again = gateway.call(call(tool, Some("key-1"), 1)).unwrap();
                assert_eq!((again.state, effects(&world, tool)), expected, "{context}: again");
            }
            let is_compensated =
                report.error.as_ref().is_some_and(|error| error.code == Code::ToolCompensated);
            assert_eq!(is_compensated, tool == "book" && fault.is_unknown(), "{context}");
            // Nothing is held any more.
            assert!(world.store().acquire(report.trace_id).is_ok(), "{context}");
        }
    }
}

#[test]
fn a_server_that_always_fails_is_asked_as_often_as_declared() {
    let world = World::default();
    let fault = Fault::DiedAfterSend { acted: true };
    let gateway = faulty(&world, "tire", fault, u32::MAX);
    let report = gateway.call(call("tire", Some("key-1"), 1)).unwrap();
    assert!(asks_whether_it_ran(&report));
    assert_eq!((report.state, report.redispatches.len()), (State::Executing, 1));
    let hold = report.hold.unwrap();
    assert!(hold.reason.contains("the server is odd"), "{}", hold.reason);
    assert!(hold.reason.contains("2 times"), "{}", hold.reason);
}
