//! Finds rules that have no effect.

use windlass_text::Glob;

use super::{Limits, Rule};

/// The first rule without effect and the rule that makes it so, by index.
///
/// A rule has no effect if another one certainly matches whenever it does and is stricter, or if an
/// earlier one has the same limits.
pub(crate) fn unreachable(rules: &[Rule]) -> Option<(usize, usize)> {
    for (at, rule) in rules.iter().enumerate() {
        for (other_at, other) in rules.iter().enumerate() {
            if at == other_at {
                continue;
            }
            let same = other_at < at && rule.limits == other.limits;
            if same || other.verdict > rule.verdict && covers(&other.limits, &rule.limits) {
                return Some((at, other_at));
            }
        }
    }
    None
}

/// Whether everything that `inner` matches is certainly matched by `outer` too.
pub(crate) fn covers(outer: &Limits, inner: &Limits) -> bool {
    let access = outer.access.is_none() || inner.access == outer.access;
    let whole = outer.except_command.is_empty() && outer.except_path.is_empty();
    access
        && whole
        && all_covered(&outer.tool, &inner.tool)
        && all_covered(&outer.command, &inner.command)
        && all_covered(&outer.path, &inner.path)
        && all_covered(&outer.phase, &inner.phase)
        && all_covered(&outer.agent, &inner.agent)
        && (outer.class.is_empty()
            || !inner.class.is_empty()
                && inner.class.iter().all(|class| outer.class.contains(class)))
        && outer.args.iter().all(|(pointer, globs)| {
            inner.args.iter().any(|(other, inner)| other == pointer && all_covered(globs, inner))
        })
}

fn all_covered(outer: &[Glob], inner: &[Glob]) -> bool {
    outer.is_empty()
        || !inner.is_empty()
            && inner.iter().all(|inner| outer.iter().any(|outer| outer.covers(inner)))
}
