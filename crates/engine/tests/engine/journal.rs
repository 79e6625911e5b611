//! A journal without what may differ between a calm run and one that was interrupted.

use serde_json::{Value, json};
use windlass_kernel::run::plan::Trigger;
use windlass_kernel::run::{Event, NoteKind};

/// Leaves out what tells of restarts, and times, digests and numbers that follow from it.
pub fn without_restarts(events: Vec<Event>) -> Vec<Value> {
    let mut kept = Vec::new();
    let mut holds = 0;
    // Inside a hold that only a death brings about.
    let mut aside = false;
    for event in events {
        let only_after_death = matches!(&event, Event::Held(held)
            if matches!(held.trigger, Trigger::RestartRequested | Trigger::UncertainEffect));
        if only_after_death {
            aside = true;
            continue;
        }
        if aside {
            aside = !matches!(event, Event::Continued {} | Event::Ended { .. });
            if !matches!(event, Event::Ended { .. }) {
                continue;
            }
        }
        let kept_event = match event {
            Event::Restarted { .. }
            | Event::InvocationStarted { .. }
            | Event::InvocationEnded { .. }
            | Event::Noted { what: NoteKind::Refusal, .. } => continue,
            Event::Held(mut held) => {
                holds += 1;
                held.number = holds;
                held.expires_at = None;
                held.call = None;
                for name in ["asked_at", "shown"] {
                    held.evidence.as_object_mut().map(|evidence| evidence.remove(name));
                }
                json!(held)
            }
            Event::Voted(vote) => json!({"by": vote.by.name, "decision": vote.decision}),
            Event::Waiting { phase, attempt, .. } => json!({"waiting": phase, "attempt": attempt}),
            Event::PhaseDone { phase, attempt, mut done } => {
                done.duration_ms = 0;
                let calls: Vec<Value> = done
                    .calls
                    .iter()
                    .map(|call| json!({"tool": call.tool, "state": call.state}))
                    .collect();
                done.calls = Vec::new();
                json!({"phase": phase, "attempt": attempt, "done": done, "calls": calls})
            }
            // How long a call took differs each time.
            Event::Resumed { by, .. } => json!({"resumed": by}),
            // The fingerprint of a person's answer has its time in it.
            Event::SentBack { phase, source, verdict, to, count, .. } => json!({
                "phase": phase, "source": source, "verdict": verdict, "to": to, "count": count,
            }),
            Event::Started(mut started) => {
                started.run_id = String::new();
                json!(started)
            }
            other => json!(other),
        };
        kept.push(kept_event);
    }
    kept
}
