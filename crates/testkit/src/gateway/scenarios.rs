//! The scenarios that are swept.

#![expect(clippy::panic, reason = "a test names scenarios that there are")]

use windlass_kernel::{Code, State};
use windlass_runtime::{Answer, ReadDurability};

use super::scenario::{Scenario, Step, call};

fn of(name: &'static str, crashes: usize, steps: Vec<Step>) -> Scenario {
    Scenario { name, steps, reads: ReadDurability::WriteAhead, also: None, crashes }
}

fn write(tool: &str) -> Step {
    Step::Call(Box::new(call(tool, Some("key-1"), 1)))
}

const fn person(of: usize, answer: Answer) -> Step {
    Step::Person { of, answer }
}

/// Every scenario of the sweep.
#[must_use]
pub fn scenarios() -> Vec<Scenario> {
    let look = || Step::Call(Box::new(call("look", None, 1)));
    let compensated = Some((State::Failed, Code::ToolCompensated));
    let given_up = Some((State::Failed, Code::ToolOutcomeUnknown));
    let other = |tool, value| Step::Call(Box::new(call(tool, Some("key-1"), value)));
    let hold = |name, answer| of(name, 3, vec![write("burn"), person(0, answer)]);
    let asked = |name, tool, answer| of(name, 3, vec![write(tool), person(0, answer)]);
    vec![
        of("retry", 4, vec![write("add")]),
        of("probe", 3, vec![write("post")]),
        Scenario { also: compensated, ..of("compensate", 3, vec![write("book")]) },
        hold("hold, then approved", Answer::Approve),
        Scenario { also: given_up, ..hold("hold, then denied", Answer::Deny) },
        of("read, write-ahead", 3, vec![look()]),
        Scenario {
            reads: ReadDurability::WithEffect,
            ..of("read, with its effect", 4, vec![look()])
        },
        asked("asked, then approved", "ask", Answer::Approve),
        asked("asked, then denied", "ask", Answer::Deny),
        asked("asked, approved, uncertain", "ask_burn", Answer::Approve),
        of(
            "decided twice",
            2,
            vec![write("ask"), person(0, Answer::Deny), person(0, Answer::Deny)],
        ),
        of("parked, then approved", 3, vec![write("tire"), person(0, Answer::Approve)]),
        of("denied", 4, vec![write("deny")]),
        of("failing", 4, vec![write("fail")]),
        of("conflict", 3, vec![write("add"), other("add", 2)]),
        of("repeated", 3, vec![write("add"), write("add")]),
        of("repeated, probed", 2, vec![write("post"), write("post")]),
        Scenario {
            also: compensated,
            ..of("repeated, compensated", 2, vec![write("book"), write("book")])
        },
        of("repeated failure", 3, vec![write("fail"), write("fail")]),
        of("batch", 3, vec![write("add"), look(), write("post")]),
        Scenario {
            also: compensated,
            reads: ReadDurability::WithEffect,
            ..of(
                "long batch",
                2,
                vec![
                    write("book"),
                    write("ask"),
                    look(),
                    write("deny"),
                    person(1, Answer::Approve),
                    write("add"),
                ],
            )
        },
    ]
}

/// The scenario of this name.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn scenario(name: &str) -> Scenario {
    let mut all = scenarios().into_iter();
    all.find(|one| one.name == name).unwrap_or_else(|| panic!("no scenario `{name}`"))
}
