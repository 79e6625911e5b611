//! Short descriptions of the parts of a plan.

use windlass_kernel::run::plan::{
    CheckTiming, Concurrency, Doer, Effect, OnRestart, Phase, PhaseCondition, Plan, Requirement,
    Reviewer,
};
use windlass_text::printable;

/// The longest description in a drawing.
const WORDS_CHARS_MAX: usize = 60;

/// One printable line of at most `chars_max` characters; characters wider than one column are
/// replaced.
pub fn safe(text: &str, chars_max: usize) -> String {
    let text = printable(text, chars_max);
    text.chars().map(|character| if character > '\u{30ff}' { '□' } else { character }).collect()
}

/// Who does a phase or a check.
pub fn doer(doer: &Doer) -> String {
    let words = match doer {
        Doer::Agent { agent, .. } => format!("agent {agent}"),
        Doer::Builtin { name, .. } => format!("builtin {name}"),
        Doer::Command { argv, .. } => format!("$ {}", argv.join(" ")),
        Doer::Consensus { quorum, reviewers, question, .. } => {
            format!("{quorum} of {} agree: {question}", reviewers.len())
        }
        Doer::Person { approvals, question } => match approvals {
            1 => format!("person: {question}"),
            many => format!("{many} people: {question}"),
        },
    };
    safe(&words, WORDS_CHARS_MAX)
}

/// When a phase runs, if not always.
fn when(when: &PhaseCondition) -> Option<String> {
    match when {
        PhaseCondition::Always => None,
        PhaseCondition::Fact { fact, one_of } => {
            Some(safe(&format!("if {fact} is {}", one_of.join(" or ")), WORDS_CHARS_MAX))
        }
        PhaseCondition::Intervention => Some("only to intervene".to_owned()),
    }
}

/// The loop's name, with its variant.
pub fn name(plan: &Plan) -> String {
    let id = safe(&plan.id, 64);
    plan.variant.as_ref().map_or(id.clone(), |variant| format!("{id} ({})", safe(variant, 64)))
}

/// The effect of a verdict.
fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Block => "block".to_owned(),
        Effect::Continue => "continue".to_owned(),
        Effect::Hold { approvals, trigger } => match approvals {
            None => format!("hold for {}", trigger.as_str()),
            Some(1) => format!("hold for {}, 1 approval", trigger.as_str()),
            Some(many) => format!("hold for {}, {many} approvals", trigger.as_str()),
        },
        Effect::Intervene { phase, then } => {
            format!("intervene by {phase} once, then {}", self::effect(then))
        }
        Effect::Redo { max, phase, then } => {
            format!("redo {phase}, at most {max}, then {}", self::effect(then))
        }
        Effect::Stop { outcome, reason } => format!("stop as {}: {reason}", outcome.as_str()),
    }
}

/// Whether an effect can make the run wait for a person.
fn holds(effect: &Effect) -> bool {
    match effect {
        Effect::Hold { .. } => true,
        Effect::Intervene { then, .. } | Effect::Redo { then, .. } => holds(then),
        Effect::Block | Effect::Continue | Effect::Stop { .. } => false,
    }
}

/// Whether a run can wait for a person at this phase.
fn is_held(phase: &Phase) -> bool {
    let judged = phase.checks.iter().map(|check| &check.verdicts);
    let judged = judged.chain(phase.gate.iter().map(|gate| &gate.verdicts));
    let asks = match &phase.doer {
        Doer::Person { .. } => true,
        Doer::Consensus { reviewers, .. } => {
            reviewers.iter().any(|reviewer| matches!(reviewer, Reviewer::Person { .. }))
        }
        Doer::Agent { .. } | Doer::Builtin { .. } | Doer::Command { .. } => false,
    };
    asks || judged.flat_map(|map| map.values()).any(holds)
}

/// What a line about a phase is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    Name,
    Detail,
    /// A check or a gate.
    Judge,
    Hold,
}

/// The lines in a phase's box, not cut.
pub fn lines(phase: &Phase) -> Vec<(LineKind, String)> {
    let mut lines = vec![(LineKind::Name, phase.id.clone())];
    let mut details: Vec<String> = phase.title.iter().cloned().collect();
    details.push(doer(&phase.doer));
    details.extend(when(&phase.when));
    details.extend(phase.branch.then(|| "in a branch".to_owned()));
    lines.extend(details.into_iter().map(|detail| (LineKind::Detail, detail)));
    let checks = phase.checks.iter().map(|check| format!("✓ {}", check.id));
    let judges = checks.chain(phase.gate.iter().map(|gate| format!("◇ {}", gate.id)));
    lines.extend(judges.map(|judge| (LineKind::Judge, judge)));
    if is_held(phase) {
        lines.push((LineKind::Hold, "‖ may hold".to_owned()));
    }
    lines
}

/// The checks and the gate of a phase: a title, and the effect of each verdict.
pub fn judges(phase: &Phase) -> Vec<(String, Vec<(String, String)>)> {
    let lines = |map: &std::collections::BTreeMap<String, Effect>| {
        map.iter().map(|(name, then)| (safe(name, 64), safe(&effect(then), 400))).collect()
    };
    let mut judges = Vec::new();
    for check in &phase.checks {
        let at = match check.at {
            CheckTiming::After => "after".to_owned(),
            CheckTiming::Before => "before".to_owned(),
            CheckTiming::During { every, .. } => format!("every {every} calls during"),
        };
        let name = safe(&check.id, 64);
        let title = format!("✓ check {name} {at} it, by {}", doer(&check.doer));
        judges.push((title, lines(&check.verdicts)));
    }
    if let Some(gate) = &phase.gate {
        judges.push((format!("◇ gate {}", safe(&gate.id, 64)), lines(&gate.verdicts)));
    }
    judges
}

/// The settings of a whole loop, in one line.
pub fn settings(plan: &Plan) -> String {
    let mut words = vec![
        match plan.concurrency {
            Concurrency::Parallel => "parallel".to_owned(),
            Concurrency::Serial => "serial".to_owned(),
        },
        match plan.on_restart {
            OnRestart::Hold => "on restart hold".to_owned(),
            OnRestart::Resume => "on restart resume".to_owned(),
            OnRestart::Terminate => "on restart terminate".to_owned(),
        },
    ];
    if !plan.checkpoints {
        words.push("no checkpoints".to_owned());
    }
    words.extend(plan.require.iter().map(|requirement| match requirement {
        Requirement::CleanRepo => "clean repo".to_owned(),
        Requirement::Repo => "repo".to_owned(),
        Requirement::Single => "single".to_owned(),
    }));
    let budget = plan.budget;
    words.extend(budget.attempts.map(|max| format!("{max} attempts")));
    words.extend(budget.tokens.map(|max| format!("{max} tokens")));
    words.extend(
        budget
            .cost_micros
            .map(|max| format!("cost {}.{:02}", max / 1_000_000, max % 1_000_000 / 10_000)),
    );
    words.extend(budget.wall_ms.map(|max| format!("{} min", max.div_ceil(60_000))));
    words.extend(budget.changed_lines.map(|max| format!("{max} lines")));
    words.join(" · ")
}
