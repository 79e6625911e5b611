use super::common::World;

#[test]
fn the_root_has_only_what_is_mounted() {
    let world = World::new();
    let listed = world.output("ls -A /");
    let mut names: Vec<&str> = listed.lines().collect();
    names.retain(|name| !["lib64", "sbin"].contains(name));
    assert_eq!(names, [".empty", "bin", "dev", "lib", "proc", "tmp", "usr"]);
}
