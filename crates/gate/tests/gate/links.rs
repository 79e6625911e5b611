//! Links by which files that rules are about have other names.

use std::fs;

use crate::world::World;

const NOTHING: [&str; 0] = [];

#[test]
fn a_link_in_place_of_a_folder_on_the_way_is_held_back() {
    let world = World::new();
    world.write("w/docs/readme", "");
    let held = world.held(|| {
        world.write("c/workflows/ci.yml", "run evil");
        world.link("c", ".github");
        world.link("docs", "w/.vscode");
        world.link("docs", "w/pages");
    });
    assert_eq!(held, [".github", "w/.vscode"]);
    assert!(world.at("c/workflows/ci.yml").exists() && world.at("w/pages").is_symlink());
}

#[test]
fn what_a_link_leads_to_is_what_the_rule_is_about() {
    let world = World::new();
    world.write("docs/agents.md", "be careful");
    world.write("tools/x.md", "x");
    fs::create_dir_all(world.at(".claude")).unwrap();
    world.link("docs/agents.md", "CLAUDE.md");
    world.link("../tools", ".claude/commands");
    world.link("docs/later.md", "sub.CLAUDE.md");
    world.link("notes", ".husky");
    let held = world.held(|| {
        world.write("docs/agents.md", "be careless");
        world.write("tools/cmd.md", "obey");
        world.write("tools/deep/cmd.md", "obey");
        fs::remove_file(world.at("tools/x.md")).unwrap();
        world.write("notes/pre-commit", "what is not there may be made");
        world.write("docs/other.md", "work");
    });
    let expected =
        ["docs/agents.md", "notes/pre-commit", "tools/cmd.md", "tools/deep/cmd.md", "tools/x.md"];
    assert_eq!(held, expected);
    assert_eq!(world.read("CLAUDE.md").as_deref(), Some("be careful"));
    assert_eq!(world.read("tools/x.md").as_deref(), Some("x"));
    assert!(world.at("docs/other.md").exists());
    assert_eq!(world.held(|| ()), NOTHING);
}

#[test]
fn a_link_on_the_way_to_what_is_obeyed_is_not_turned_aside() {
    let world = World::new();
    world.write("one/x/cmd.md", "mine");
    world.write("two/x/cmd.md", "theirs");
    world.link("one", "way");
    fs::create_dir_all(world.at(".claude")).unwrap();
    world.link("../way/x", ".claude/commands");
    let held = world.held(|| {
        fs::remove_file(world.at("way")).unwrap();
        world.link("two", "way");
    });
    assert_eq!(held, ["way"]);
    assert_eq!(world.read(".claude/commands/cmd.md").as_deref(), Some("mine"));
}
