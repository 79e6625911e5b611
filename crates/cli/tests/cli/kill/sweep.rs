//! Killed at every point that a call passes, and killed again while that is taken up.

use std::sync::Mutex;

use windlass_store::fault::POINTS;
use windlass_testkit::soak::chosen;

use crate::kill::check::is_whole;
use crate::kill::project::{Project, Transport};
use crate::kill::scene::{Restart, Rule, Scene, Tally, Word};

/// A generous bound on how often a command can pass a point.
const PASSES_MAX: u32 = 40;

/// Runs `act` for every point and count, until it is no longer killed there; tells how often each
/// point was passed.
fn at_every_point(mut act: impl FnMut(&'static str, u32) -> Killed) -> Vec<u32> {
    let passes = POINTS.iter().map(|point| {
        let end = (1..PASSES_MAX).find(|count| act(point, *count) == Killed::No);
        end.unwrap_or_else(|| panic!("{point} is passed without end")) - 1
    });
    passes.collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Killed {
    Yes,
    No,
}

impl Killed {
    const fn of(killed: bool) -> Self {
        if killed { Self::Yes } else { Self::No }
    }
}

/// Kills the call at every point, and takes it up in every way.
fn singles(project: &Project, tally: &Tally, rule: Rule) {
    let mut words = [Word::Approve, Word::Deny].into_iter().cycle();
    for restart in [Restart::Recover, Restart::SameCall] {
        let passes = at_every_point(|point, count| {
            let mut scene = Scene::new(project, tally, rule);
            let killed = scene.call(Some((point, count))).killed;
            scene.restart(restart, None);
            scene.finish(words.next().unwrap());
            Killed::of(killed)
        });
        // A call commits twice, around one hand-over; a question is recorded, with a checkpoint.
        // Each is filed once: with the checkpoint, or when the process ends.
        let expected = if rule == Rule::Ask { [3, 3, 3, 0, 0, 1] } else { [2, 2, 2, 1, 1, 1] };
        assert_eq!(passes, expected, "{rule:?}");
    }
}

/// Kills the call, then what takes it up at every point. Of the call's own points those are enough
/// that leave the most to do: the others leave the same behind, or nothing.
fn pairs(project: &Project, tally: &Tally, rule: Rule, restart: Restart) {
    let firsts: &[_] = match rule {
        Rule::Ask => &[("append.after", 1)],
        Rule::Retry | Rule::Probe | Rule::Undo | Rule::Hold | Rule::Read => {
            &[("dispatch.before", 1), ("dispatch.after", 1)]
        }
    };
    let mut words = [Word::Approve, Word::Deny].into_iter().cycle();
    for first in firsts {
        let passes = at_every_point(|point, count| {
            let mut scene = Scene::new(project, tally, rule);
            assert!(scene.call(Some(*first)).killed, "{}", scene.story());
            let killed = scene.restart(restart, Some((point, count))).killed;
            scene.finish(words.next().unwrap());
            Killed::of(killed)
        });
        assert!(passes[0] > 0, "{rule:?} after {first:?}: {passes:?}");
    }
}

/// Kills a person's answer to a call that waits at every point.
fn decisions(project: &Project, tally: &Tally, rule: Rule) {
    // A call that is asked about beforehand waits by itself; one that was handed over is killed.
    let firsts: &[_] = match rule {
        Rule::Ask => &[None],
        Rule::Retry | Rule::Probe | Rule::Undo | Rule::Hold | Rule::Read => {
            &[Some(("dispatch.before", 1)), Some(("dispatch.after", 1))]
        }
    };
    for first in firsts {
        for word in [Word::Approve, Word::Deny] {
            at_every_point(|point, count| {
                let mut scene = Scene::new(project, tally, rule);
                assert_eq!(scene.call(*first).killed, first.is_some(), "{}", scene.story());
                let held = scene.held();
                assert_eq!(held.len(), 1, "{}", scene.story());
                let killed = scene.decide(&held[0], word, Some((point, count))).killed;
                scene.finish(word);
                Killed::of(killed)
            });
        }
    }
}

/// What one thread does in one project. Each rule is taken up in both ways, over both transports: in turn from check to check,
/// and all in a soak.
type Work = (Transport, Rule, Restart);

const WORK: &[Work] = &[
    (Transport::Stdio, Rule::Undo, Restart::Recover),
    (Transport::Http, Rule::Undo, Restart::SameCall),
    (Transport::Stdio, Rule::Probe, Restart::Recover),
    (Transport::Http, Rule::Probe, Restart::SameCall),
    (Transport::Stdio, Rule::Retry, Restart::SameCall),
    (Transport::Http, Rule::Retry, Restart::Recover),
    (Transport::Stdio, Rule::Hold, Restart::SameCall),
    (Transport::Http, Rule::Hold, Restart::Recover),
    (Transport::Stdio, Rule::Ask, Restart::Recover),
    (Transport::Http, Rule::Ask, Restart::SameCall),
    (Transport::Stdio, Rule::Read, Restart::SameCall),
    (Transport::Http, Rule::Read, Restart::Recover),
];

fn work(tally: &Tally, (transport, rule, restart): Work) {
    let project = Project::new(transport);
    singles(&project, tally, rule);
    pairs(&project, tally, rule, restart);
    if matches!(rule, Rule::Hold | Rule::Ask) {
        decisions(&project, tally, rule);
    }
    is_whole(&project);
}

#[test]
fn a_call_survives_every_pair_of_kills() {
    let tally = Tally::default();
    let both = WORK.chunks(2).zip(0..);
    let chosen: Vec<Work> = both.flat_map(|(both, rule)| chosen(both, 1, rule)).collect();
    let queue = Mutex::new(chosen.iter());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(next) = { queue.lock().unwrap().next() } {
                    work(&tally, *next);
                }
            });
        }
    });
    tally.close("kill test");
}

#[test]
fn a_read_recorded_with_its_effect_survives_every_kill() {
    let (project, tally) = (Project::new(Transport::Stdio), Tally::default());
    let config = "journal.reads = \"with-effect\"\n";
    project.configure("config.toml", config);
    let passes = at_every_point(|point, count| {
        let mut scene = Scene::new(&project, &tally, Rule::Read);
        let killed = scene.call(Some((point, count))).killed;
        scene.finish(Word::Deny);
        Killed::of(killed)
    });
    assert_eq!(passes, [1, 1, 1, 1, 1, 1]);
    is_whole(&project);
    tally.close("kills of reads");
}
