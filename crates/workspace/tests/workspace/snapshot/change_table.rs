//! The rules of a change as a table: what is expected, wanted and found at a path that git tracks, does not track or ignores.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use windlass_workspace::SnapshotError;

use crate::snapshot::world::{Kind, Thing, Things, World, changing};

/// What lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lies {
    Absent,
    File(&'static str),
    Link,
    Folder,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    expected: Lies,
    wanted: Lies,
    found: Lies,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Tracked,
    Untracked,
    Ignored,
}

const LIES: [Lies; 4] = [Lies::Absent, Lies::File("two\n"), Lies::Link, Lies::Folder];

impl Lies {
    /// The files and links, below the place of the case.
    fn leaves(self) -> BTreeMap<&'static str, Thing> {
        let file = |text: &str| Thing::File { bytes: text.as_bytes().to_vec(), executable: false };
        match self {
            Self::Absent => BTreeMap::new(),
            Self::File(text) => BTreeMap::from([("it", file(text))]),
            Self::Link => BTreeMap::from([("it", Thing::Link(PathBuf::from("elsewhere")))]),
            Self::Folder => BTreeMap::from([("it/inner", file("inner\n"))]),
        }
    }
}

impl Case {
    fn all() -> Vec<Self> {
        let finds = LIES.into_iter().chain([Lies::File("mine\n")]);
        let pairs = LIES.into_iter().flat_map(|expected| LIES.map(|wanted| (expected, wanted)));
        let differing = pairs.filter(|(expected, wanted)| expected != wanted);
        finds
            .flat_map(|found| {
                differing.clone().map(move |(expected, wanted)| Self { expected, wanted, found })
            })
            .collect()
    }

    /// The files after the change; `None` if it has to be refused.
    fn end(self) -> Option<BTreeMap<&'static str, Thing>> {
        let [expected, wanted, mut found] =
            [self.expected, self.wanted, self.found].map(Lies::leaves);
        let paths = ["it", "it/inner"].into_iter();
        let paths = paths.filter(|path| expected.get(path) != wanted.get(path));
        for path in paths.clone() {
            let now = found.get(path);
            if now != expected.get(path) && now != wanted.get(path) {
                return None;
            }
        }
        for path in paths {
            match wanted.get(path) {
                Some(thing) => found.insert(path, thing.clone()),
                None => found.remove(path),
            };
        }
        // A file cannot be where a folder is.
        (found.len() < 2).then_some(found)
    }
}

fn lay(world: &World, place: &str, lies: Lies) {
    let name = format!("{place}/it");
    if world.path().join(&name).symlink_metadata().is_ok() {
        world.remove(&name);
    }
    match lies {
        Lies::Absent => {}
        Lies::File(text) => world.write(name, text),
        Lies::Link => {
            std::fs::create_dir_all(world.path().join(place)).unwrap();
            world.link(&name, "elsewhere");
        }
        Lies::Folder => world.write(format!("{name}/inner"), "inner\n"),
    }
}

fn place(number: usize) -> String {
    format!("case{number}")
}

fn check(known: Known, cases: &[Case]) {
    let world = World::new(Kind::Repository);
    let lay_all = |which: &dyn Fn(&Case) -> Lies| {
        for (number, case) in cases.iter().enumerate() {
            lay(&world, &place(number), which(case));
        }
    };
    lay_all(&|case| case.expected);
    let expected = world.capture("expected");
    if known == Known::Tracked {
        world.git(&["add", "-A"]);
        world.git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "all"]);
    }
    lay_all(&|case| case.wanted);
    let wanted = world.capture("wanted");
    if known == Known::Ignored {
        std::fs::write(world.project().join(".git/info/exclude"), "it\n.windlass\n").unwrap();
        world.forget_last_capture();
    }
    lay_all(&|case| case.found);
    let before = world.things();
    let outcome = world.open().change(&world.path(), &changing(&expected, &wanted));
    let refuses = cases.iter().any(|case| case.end().is_none());
    match outcome {
        Ok(_) => {
            assert!(!refuses, "{known:?}");
            let mut right = Things::new();
            for (number, case) in cases.iter().enumerate() {
                let end = case.end().unwrap().into_iter();
                right
                    .extend(end.map(|(path, thing)| (Path::new(&place(number)).join(path), thing)));
            }
            assert_eq!(world.things(), right, "{known:?}");
        }
        Err(SnapshotError::Changed { changed, in_the_way }) => {
            assert_eq!(world.things(), before, "{known:?}");
            let first = |path: &PathBuf| path.iter().next().unwrap().to_str().unwrap().to_owned();
            let named: BTreeSet<String> = changed.iter().chain(&in_the_way).map(first).collect();
            for (number, case) in cases.iter().enumerate() {
                let is_named = named.contains(&place(number));
                assert_eq!(
                    is_named,
                    case.end().is_none(),
                    "{known:?} {case:?}: {changed:?} {in_the_way:?}"
                );
            }
        }
        Err(error) => panic!("{known:?}: {error}"),
    }
}

#[test]
fn a_path_becomes_as_wanted_or_refuses_the_whole() {
    let cases = Case::all();
    let possible: Vec<Case> = cases.iter().copied().filter(|case| case.end().is_some()).collect();
    assert!(possible.len() > 20 && cases.len() - possible.len() > 20, "{}", possible.len());
    for known in [Known::Tracked, Known::Untracked, Known::Ignored] {
        check(known, &possible);
        check(known, &cases);
    }
}
