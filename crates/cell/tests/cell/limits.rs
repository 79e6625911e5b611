//! Each limit ends the cell with its own report.

use windlass_cell::{CellLimits, LimitKind};

use super::common::World;

fn reached(limits: CellLimits, line: &str) -> Option<LimitKind> {
    let [own, other] = World::by_all().map(|mut world| {
        world.cell.limits = limits;
        let done = world.run(line);
        assert!(done.failure.is_none(), "{done:?}");
        done.limit
    });
    assert_eq!(own, other);
    own
}

#[test]
fn processes_are_limited() {
    let limits = CellLimits { processes: 20, ..CellLimits::default() };
    let bomb = "i=0; while [ $i -lt 200 ]; do sleep 60 & i=$((i+1)); done; wait";
    assert_eq!(reached(limits, bomb), Some(LimitKind::Processes));
}

#[test]
fn memory_is_limited() {
    let limits = CellLimits { memory_bytes: 64 << 20, ..CellLimits::default() };
    let line = "/usr/bin/env perl -e '$x = \"y\" x (200 << 20); sleep 60'";
    assert_eq!(reached(limits, line), Some(LimitKind::Memory));
    assert_eq!(reached(limits, "true"), None);
}

#[test]
fn the_size_of_a_file_is_limited() {
    let limits = CellLimits { file_bytes: 1 << 20, ..CellLimits::default() };
    assert_eq!(reached(limits, "head -c 3000000 /dev/zero > big"), Some(LimitKind::FileSize));
}

#[test]
fn open_files_are_limited() {
    let limits = CellLimits { open_files: 64, ..CellLimits::default() };
    let line = "/usr/bin/env perl -e 'my @f; while (open(my $f, \"<\", \"/dev/null\")) { push @f, $f } sleep 60'";
    assert_eq!(reached(limits, line), Some(LimitKind::OpenFiles));
}
