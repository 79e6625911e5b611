//! A plan as a Mermaid flowchart.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use windlass_kernel::run::plan::{Doer, Effect, Phase, PhaseCondition, Plan};

use crate::draw::describe::{self, LineKind};
use crate::draw::layout;

/// Draws a plan as a Mermaid flowchart.
#[must_use]
pub fn mermaid(plan: &Plan) -> String {
    let mut out = String::from("flowchart TD\n");
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, phase) in plan.phases.iter().enumerate() {
        names.insert(&phase.id, index);
        let (open, close) = match (&phase.doer, &phase.when) {
            (_, PhaseCondition::Intervention) => ("[/", "/]"),
            (Doer::Consensus { .. }, PhaseCondition::Always | PhaseCondition::Fact { .. }) => {
                ("{{", "}}")
            }
            (Doer::Person { .. }, PhaseCondition::Always | PhaseCondition::Fact { .. }) => {
                ("([", "])")
            }
            (
                Doer::Agent { .. } | Doer::Builtin { .. } | Doer::Command { .. },
                PhaseCondition::Always | PhaseCondition::Fact { .. },
            ) => ("[", "]"),
        };
        put(&mut out, format_args!("    p{index}{open}\"{}\"{close}\n", label(phase)));
    }
    for (index, needs) in layout::needs(plan).iter().enumerate() {
        for need in needs {
            put(&mut out, format_args!("    p{need} --> p{index}\n"));
        }
    }
    for (index, phase) in plan.phases.iter().enumerate() {
        for (verdict, effect, target) in back_references(phase) {
            if let Some(to) = names.get(target) {
                let label = escape(&format!("{verdict}: {effect}"));
                put(&mut out, format_args!("    p{index} -. \"{label}\" .-> p{to}\n"));
            }
        }
    }
    out
}

fn put(out: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(what);
}

fn label(phase: &Phase) -> String {
    let lines = describe::lines(phase).into_iter().map(|(kind, line)| {
        let text = escape(&line);
        if kind == LineKind::Name { format!("<b>{text}</b>") } else { text }
    });
    lines.collect::<Vec<_>>().join("<br/>")
}

/// Where verdicts send a run other than onwards: verdict, effect, target phase.
pub fn back_references(phase: &Phase) -> Vec<(&str, String, &str)> {
    let checks = phase.checks.iter().flat_map(|check| &check.verdicts);
    let gate = phase.gate.iter().flat_map(|gate| &gate.verdicts);
    let mut references = Vec::new();
    for (verdict, effect) in checks.chain(gate) {
        let mut next = Some(effect);
        while let Some(effect) = next {
            next = match effect {
                Effect::Intervene { phase, then } => {
                    references.push((verdict.as_str(), "intervene".to_owned(), phase.as_str()));
                    Some(then)
                }
                Effect::Redo { max, phase, then } => {
                    references.push((
                        verdict.as_str(),
                        format!("redo, at most {max}"),
                        phase.as_str(),
                    ));
                    Some(then)
                }
                Effect::Block | Effect::Continue | Effect::Hold { .. } | Effect::Stop { .. } => {
                    None
                }
            };
        }
    }
    references
}

/// Escapes everything that Mermaid could take for syntax.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for character in describe::safe(text, 200).chars() {
        let is_plain = character.is_alphanumeric() || " _-.,/:$*✓◇‖".contains(character);
        if is_plain {
            out.push(character);
        } else {
            put(&mut out, format_args!("#{};", u32::from(character)));
        }
    }
    out
}
