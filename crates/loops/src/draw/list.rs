//! A plan as an indented list, and the effects of its verdicts.

use windlass_kernel::run::plan::Plan;

use crate::draw::Colours;
use crate::draw::canvas::{Style, styled};
use crate::draw::describe::{self, LineKind};
use crate::draw::layout::{levels, needs};
use crate::draw::text::WIDTH;

/// Deeper rows are not indented further.
const INDENT_MAX: usize = 8;

/// Every phase in its order, indented by its row.
pub fn phases(plan: &Plan, colours: Colours) -> Vec<String> {
    let mut lines = Vec::new();
    let digits = plan.phases.len().to_string().len();
    for (index, (phase, level)) in plan.phases.iter().zip(levels(&needs(plan))).enumerate() {
        let number = format!("{:>digits$} ", index + 1);
        let indent = "  ".repeat(level.min(INDENT_MAX));
        let name = describe::safe(&phase.id, 64);
        let (mut words, mut judges) = (Vec::new(), Vec::new());
        for (kind, line) in describe::lines(phase) {
            let line = describe::safe(&line, 66);
            match kind {
                LineKind::Name => {}
                LineKind::Detail => words.push(line),
                LineKind::Judge | LineKind::Hold => judges.push(line),
            }
        }
        if !phase.needs.is_empty() {
            words.push(format!("after {}", describe::safe(&phase.needs.join(", "), 200)));
        }
        words.append(&mut judges);
        lines.push(format!("{number}{indent}{}", styled(&name, Style::Name, colours)));
        let margin = number.chars().count() + indent.len() + 2;
        lines.extend(wrap(&words.join(" · "), margin));
    }
    lines
}

/// The effect of every verdict, phase by phase.
pub fn judges(plan: &Plan, colours: Colours) -> Vec<String> {
    let mut lines = Vec::new();
    for phase in &plan.phases {
        for (title, verdicts) in describe::judges(phase) {
            lines.push(String::new());
            let name = describe::safe(&phase.id, 64);
            for (index, line) in wrap(&format!("{name} {title}"), 0).into_iter().enumerate() {
                let style = if index == 0 { Style::Gate } else { Style::Plain };
                lines.push(styled(&line, style, colours));
            }
            let longest = verdicts.iter().map(|(name, _)| name.chars().count()).max();
            let longest = longest.unwrap_or_default().min(30);
            for (verdict, then) in verdicts {
                let margin = longest + 4;
                let wrapped = wrap(&then, margin);
                let fits = verdict.chars().count() <= longest;
                if !fits {
                    lines.push(format!("  {verdict}"));
                }
                for (index, line) in wrapped.into_iter().enumerate() {
                    let first = index == 0 && fits;
                    let head =
                        if first { format!("  {verdict:<longest$}  ") } else { " ".repeat(margin) };
                    lines.push(format!("{head}{}", line.trim_start()));
                }
            }
        }
    }
    lines
}

/// Wraps text at 80 columns, each line after `margin` spaces; a longer word is split.
pub fn wrap(text: &str, margin: usize) -> Vec<String> {
    let room = WIDTH.saturating_sub(margin).max(20);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let mut word = word;
        loop {
            let length = word.chars().count();
            if used > 0 && used + 1 + length > room {
                lines.push(String::new());
                used = 0;
            }
            let Some(line) = lines.last_mut() else { break };
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            let end = word.char_indices().nth(room).map_or(word.len(), |(index, _)| index);
            let (now, rest) = word.split_at(end);
            line.push_str(now);
            used += now.chars().count();
            if rest.is_empty() {
                break;
            }
            word = rest;
        }
    }
    lines.into_iter().map(|line| format!("{}{line}", " ".repeat(margin))).collect()
}
