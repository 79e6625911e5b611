//! What was held back: listed, compared, dropped.

use windlass_gate::HeldBack;

use crate::world::World;

#[test]
fn what_was_held_back_is_listed_until_it_is_dropped() {
    let world = World::new();
    world.write(".claude/settings.json", "{}");
    world.held(|| world.write(".claude/settings.json", "{\"hooks\": 1}"));
    world.held(|| world.write("sub/CLAUDE.md", "obey"));
    let all = HeldBack::all(&world.state()).unwrap();
    let paths: Vec<String> =
        all.iter().flat_map(|one| one.items.iter().map(|item| item.path.to_string())).collect();
    assert_eq!(paths, [".claude/settings.json", "sub/CLAUDE.md"]);
    assert!(all.iter().all(|one| one.workspace == world.at("") && !one.is_taken()));
    let first = &all[0];
    let (kept, now) = first.contents(&first.items[0]).unwrap();
    assert_eq!((kept.as_slice(), now.as_deref()), (&b"{\"hooks\": 1}"[..], Some(&b"{}"[..])));
    // As a person takes it over.
    world.write(".claude/settings.json", "{\"hooks\": 1}");
    assert!(first.is_taken() && !all[1].is_taken());
    first.remove().unwrap();
    let names: Vec<String> =
        HeldBack::all(&world.state()).unwrap().into_iter().map(|one| one.name).collect();
    assert_eq!(names, [all[1].name.clone()]);
}

#[test]
fn names_that_are_no_text_are_listed() {
    use std::os::unix::ffi::OsStrExt as _;
    let world = World::new();
    let name = std::ffi::OsStr::from_bytes(b".vscode/\xff.json");
    world.held(|| {
        std::fs::create_dir(world.at(".vscode")).unwrap();
        std::fs::write(world.at("").join(name), "{}").unwrap();
    });
    let all = HeldBack::all(&world.state()).unwrap();
    let (kept, _) = all[0].contents(&all[0].items[0]).unwrap();
    assert_eq!(kept, b"{}");
}
