//! How often runs of the core loop are audited.

use windlass_kernel::Digest;
use windlass_kernel::run::plan::{CheckTiming, Plan};

use crate::config::Core;

/// The loop that the settings are about.
const LOOP: &str = "core";

/// Puts the audits of the settings in place of those of the loop file, as far as they are set.
pub fn set(settings: &Core, name: &str, plan: &mut Plan) {
    if name != LOOP {
        return;
    }
    for check in plan.phases.iter_mut().flat_map(|phase| phase.checks.iter_mut()) {
        if let CheckTiming::During { chance_percent, every, seed } = &mut check.at {
            // Zero is never: no attempt makes so many calls.
            let set = settings.audit_every.map(|set| if set == 0 { u32::MAX } else { set });
            *every = set.unwrap_or(*every);
            *chance_percent = settings.audit_chance_percent.unwrap_or(*chance_percent);
            let text = settings.audit_seed.as_bytes();
            *seed = (!text.is_empty()).then(|| Digest::of(text));
        }
    }
}
