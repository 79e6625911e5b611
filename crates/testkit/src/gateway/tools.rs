//! The tools' side of the world: what they were told, what they did, what they remember.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use windlass_connect::{Certainty, Connect, Job, Reply, Target};
use windlass_kernel::artifact::FileChange;
use windlass_kernel::{Code, State, ToolCallId, TraceId};
use windlass_store::Shared;

/// One dispatch as it reached the tools.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// The tool.
    pub tool: String,
    /// The key that came with it.
    pub key: Option<String>,
    /// The call that it said it was.
    pub tool_call_id: ToolCallId,
    /// Its arguments.
    pub args: Value,
    /// What the journal said of that call at this moment.
    pub standing: Standing,
}

/// What the journal says of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Unrecorded,
    /// It is handed over, and has not ended.
    Executing {
        /// Its trace.
        trace_id: TraceId,
    },
    /// It has ended.
    Ended {
        /// Its trace.
        trace_id: TraceId,
    },
}

/// What a tool did under one key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// How often it did it.
    pub executed: u32,
    /// How often it was undone.
    pub undone: u32,
}

/// What the tools have been told and done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tools {
    /// All that reached them, in order.
    pub dispatches: Vec<Dispatch>,
    /// What they did, by tool and key.
    pub runs: BTreeMap<(String, String), Run>,
    /// What they answer instead of their own words, by tool.
    pub scripted: BTreeMap<String, Reply>,
}

/// The tools of a world; what they do is told by their names, see [`super::TOOLS`].
pub struct ToolWorld {
    shared: Shared,
    tools: Mutex<Tools>,
}

impl ToolWorld {
    /// Tools that can look into the journal of `shared` when they are called.
    #[must_use]
    pub fn new(shared: Shared, tools: Tools) -> Self {
        Self { shared, tools: Mutex::new(tools) }
    }

    /// What the tools have been told and done.
    pub fn lock(&self) -> MutexGuard<'_, Tools> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn standing(&self, id: ToolCallId) -> Standing {
        let mut standing = Standing::Unrecorded;
        // Only to look: the tables are not copied.
        self.shared.tamper(|tables| {
            for (&trace_id, records) in &tables.entries {
                let told = |state: fn(State) -> bool| {
                    records.iter().any(|record| {
                        record.entry.tool_call_id == Some(id) && state(record.entry.to_state)
                    })
                };
                if told(State::is_terminal) {
                    standing = Standing::Ended { trace_id };
                } else if told(|state| state == State::Executing) {
                    standing = Standing::Executing { trace_id };
                }
            }
        });
        standing
    }
}

impl Tools {
    fn run(&mut self, tool: &str, key: &str) -> &mut Run {
        self.runs.entry((tool.to_owned(), key.to_owned())).or_default()
    }

    fn act(&mut self, tool: &str, key: &str, args: &Value) -> Reply {
        if let Some(reply) = self.scripted.get(tool).cloned() {
            self.run(tool, key).executed += 1;
            return reply;
        }
        let about = args.get("key").and_then(Value::as_str).unwrap_or_default().to_owned();
        match tool {
            "look" => Reply::Success { result: json!({ "seen": args }) },
            "find" => {
                let run = self.runs.get(&("post".to_owned(), about));
                let found = run.is_some_and(|run| run.executed > run.undone);
                let result = json!({ "found": found, "result": { "wrote": args.get("args") } });
                Reply::Success { result }
            }
            "cancel" => {
                // It honours its own key, and there may be nothing to undo.
                let first = self.run(tool, key).executed == 0;
                self.run(tool, key).executed = 1;
                let run = self.run("book", &about);
                if first && run.executed > run.undone {
                    run.undone += 1;
                }
                Reply::Success { result: json!({ "cancelled": about }) }
            }
            "fail" => {
                self.run(tool, key).executed = 1;
                Reply::Failure {
                    code: Code::ToolFailed,
                    message: "it says no".to_owned(),
                    result: Some(json!({ "tried": args })),
                    certainty: Certainty::Ran,
                }
            }
            // These honour keys: what was done under one is only told again.
            "add" | "ask" | "deny" | "tire" => {
                self.run(tool, key).executed = 1;
                Reply::Success { result: json!({ "wrote": args }) }
            }
            _ => {
                self.run(tool, key).executed += 1;
                Reply::Success { result: json!({ "wrote": args }) }
            }
        }
    }
}

impl Connect for ToolWorld {
    fn perform(&self, job: &Job<'_>) -> Reply {
        let standing = self.standing(job.tool_call_id);
        let mut tools = self.lock();
        tools.dispatches.push(Dispatch {
            tool: job.tool.to_owned(),
            key: job.idempotency_key.map(str::to_owned),
            tool_call_id: job.tool_call_id,
            args: job.args.clone(),
            standing,
        });
        tools.act(job.tool, job.idempotency_key.unwrap_or_default(), job.args)
    }

    fn foresee(&self, _: &Target, _: &str, _: &Value) -> Option<FileChange> {
        None
    }
}
