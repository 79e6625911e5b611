//! The stop switch, at every place where it is looked at.

use std::sync::{Arc, Barrier, Mutex};

use windlass_engine::StopRequest;
use windlass_kernel::Code;
use windlass_kernel::run::plan::{CheckTiming, Effect};

use crate::crash::Life;
use crate::phase_executor::{Piece, except};
use crate::plans::{builtin, check, diamond, spine};
use crate::world::{World, end, new_run, trace};

fn request() -> StopRequest {
    StopRequest { by: "ann".to_owned(), reason: "it is enough".to_owned(), cancel: false }
}

/// Throws the switch while a phase is at work.
fn stop_during(world: &World, name: &'static str, all: bool) -> windlass_kernel::run::Run {
    let during = {
        let world = world.clone();
        Arc::new(move |piece: &Piece| {
            if piece.0 == name && piece.1.is_none() {
                let run = windlass_kernel::run::RunName::of(world.runs()[0].0).to_string();
                let run = if all { None } else { Some(run.as_str()) };
                world.stop().request(run, &request()).unwrap();
            }
        })
    };
    let engine = world.fake_with(&Life::until(None), except(&[]), during);
    engine.start(new_run(spine())).unwrap()
}

#[test]
fn nothing_begins_after_the_switch_is_thrown() {
    for (name, all) in [("hydrate", true), ("design", false), ("build", true)] {
        let world = World::new();
        let run = stop_during(&world, name, all);
        assert_eq!(end(&run), ("BLOCKED", "kill_switch_active"));
        let detail = &run.ended.as_ref().unwrap().detail;
        assert!(detail.contains("ann") && detail.contains("it is enough"), "{detail}");
        // What was under way is on record; nothing came after it, not even a check.
        assert_eq!(world.deeds().last().unwrap(), &format!("{name} 1"));
        assert_eq!(
            world.kinds().iter().filter(|kind| **kind == "phase_done").count(),
            world.deeds().len()
        );
        world.verify();
    }
}

#[test]
fn the_switch_of_another_run_does_not_matter() {
    let world = World::new();
    world.stop().request(Some("run_20200101_000000_00000000"), &request()).unwrap();
    assert_eq!(end(&world.engine(&[]).start(new_run(spine())).unwrap()), ("PASS", "pass"));
}

#[test]
fn what_cannot_be_read_stops() {
    // A folder instead of a file, a file instead of the folder, too much, nothing, nonsense.
    let cases: [fn(&World); 5] = [
        |world| std::fs::create_dir_all(world.stop_folder().join("ALL")).unwrap(),
        |world| std::fs::write(world.stop_folder(), "a file").unwrap(),
        |world| {
            std::fs::create_dir_all(world.stop_folder()).unwrap();
            std::fs::write(world.stop_folder().join("ALL"), vec![b'x'; 100_000]).unwrap();
        },
        |world| {
            std::fs::create_dir_all(world.stop_folder()).unwrap();
            std::fs::write(world.stop_folder().join("ALL"), "").unwrap();
        },
        |world| {
            std::fs::create_dir_all(world.stop_folder()).unwrap();
            std::fs::write(world.stop_folder().join("ALL"), "{\"by\": 7}").unwrap();
        },
    ];
    for make in cases {
        let world = World::new();
        make(&world);
        let error = world.engine(&[]).start(new_run(spine())).unwrap_err();
        assert_eq!(error.code(), Code::RunStopped, "{error}");
        assert_eq!(world.runs(), Vec::new());
    }
}

#[test]
fn a_run_on_hold_is_not_taken_up_while_the_switch_is_on() {
    let world = World::new();
    let (engine, run) =
        crate::holds::on_hold(&world, windlass_kernel::run::plan::HoldRule::default());
    crate::holds::approve(&engine, &run, "ann");
    let before = world.only_events();
    let name = run.started.as_ref().unwrap().run_id.clone();
    for one in [None, Some(name.as_str())] {
        world.stop().request(one, &request()).unwrap();
        assert_eq!(engine.resume(trace(&run)).unwrap_err().code(), Code::RunStopped);
        assert!(world.stop().clear(one).unwrap());
    }
    assert_eq!(world.only_events(), before);
    assert_eq!(end(&engine.resume(trace(&run)).unwrap()), ("PASS", "pass"));
}

#[test]
fn side_by_side_nothing_new_begins_and_what_is_under_way_comes_to_its_end() {
    let world = World::new();
    let mut plan = diamond();
    // The left branch would go on with a check while the right one is still at work.
    plan.phases[1].checks =
        vec![check("after", CheckTiming::After, builtin(), &[("pass", Effect::Continue)])];
    let meet = Arc::new(Barrier::new(2));
    let stopped = Arc::new(Mutex::new(false));
    let during = {
        let (world, meet, stopped) = (world.clone(), Arc::clone(&meet), Arc::clone(&stopped));
        Arc::new(move |piece: &Piece| match piece.0.as_str() {
            "left" if piece.1.is_none() => {
                meet.wait();
                world.stop().request(None, &request()).unwrap();
                *stopped.lock().unwrap() = true;
            }
            "right" => {
                meet.wait();
                // Long enough for the left branch to be reported and for anything new to begin.
                while !world.kinds().contains(&"phase_done")
                    || world
                        .only_events()
                        .iter()
                        .filter(|event| event.kind() == "phase_done")
                        .count()
                        < 2
                {
                    std::thread::yield_now();
                }
                std::thread::sleep(std::time::Duration::from_millis(30));
            }
            _ => {}
        })
    };
    let engine = world.fake_with(&Life::until(None), except(&[]), during);
    let run = engine.start(new_run(plan)).unwrap();
    assert!(*stopped.lock().unwrap());
    assert_eq!(end(&run), ("BLOCKED", "kill_switch_active"));
    let mut deeds = world.deeds();
    deeds.sort();
    assert_eq!(deeds, ["first 1", "left 1", "right 1"]);
    world.verify();
}
