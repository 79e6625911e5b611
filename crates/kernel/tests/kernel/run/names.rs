//! The names of runs.

use proptest::prelude::*;
use windlass_kernel::run::RunName;
use windlass_kernel::{TraceId, Uuid7};

/// The last millisecond that has a date.
const DATE_MS_MAX: u64 = 253_402_300_799_999;

fn trace(ms: u64, random: [u8; 10]) -> TraceId {
    TraceId(Uuid7::from_parts(ms, random))
}

#[test]
fn a_name_contains_the_time_and_part_of_the_id() {
    let name = RunName::of(trace(1_770_033_600_999, [0, 0, 0, 0, 0, 0, 0x1a, 0x2b, 0x3c, 0x4d]));
    assert_eq!(name.to_string(), "run_20260202_120000_1a2b3c4d");
    assert_eq!("run_20260202_120000_1a2b3c4d".parse(), Ok(name));
}

proptest! {
    #[test]
    fn names_are_read_back_and_bounded(ms in 0..1_u64 << 48, random: [u8; 10], other: [u8; 10]) {
        let trace_id = trace(ms, random);
        let name = RunName::of(trace_id);
        prop_assert_eq!(name.to_string().parse::<RunName>(), Ok(name));
        prop_assert!(name.names(trace_id));
        prop_assert!(name.lower_bound() <= trace_id && trace_id <= name.upper_bound());
        let near = trace(ms - ms % 1000 + u64::from(other[0]) % 1000, other);
        prop_assert_eq!(name.names(near), other[6..] == random[6..] || near == trace_id);
        if ms <= DATE_MS_MAX {
            prop_assert!(!name.names(trace(ms + 1000, random)) || ms + 1000 > DATE_MS_MAX);
            prop_assert!(trace_id < name.upper_bound());
        }
    }

    #[test]
    fn arbitrary_text_is_refused_or_read_unchanged(text in "\\PC{0,40}|run_[0-9a-f_]{0,30}") {
        if let Ok(name) = text.parse::<RunName>() {
            prop_assert_eq!(name.to_string(), text);
        }
    }
}

#[test]
fn text_that_resembles_a_name_is_refused() {
    for text in [
        "",
        "run_",
        "run_20260202_120000_1a2b3c4",
        "run_20260202_120000_1a2b3c4d5",
        "run_20260202_120000_1A2B3C4D",
        "run_20260202_120000_1a2b3c4g",
        "run_20260202_120000_+a2b3c4d",
        "run_20260202_120000_1a2b3c4d\n",
        " run_20260202_120000_1a2b3c4d",
        "RUN_20260202_120000_1a2b3c4d",
        "run-20260202-120000-1a2b3c4d",
        "run_20260230_120000_1a2b3c4d",
        "run_20260202_240000_1a2b3c4d",
        "run_20260202_126000_1a2b3c4d",
        "run_20260202_120060_1a2b3c4d",
        "run_20261302_120000_1a2b3c4d",
        "run_19691231_235959_1a2b3c4d",
        "run_00000000_000000_00000000",
        "run_٢٠٢٦٠٢٠٢_120000_1a2b3c4d",
        "run_20260202_120000_1a2b3c4d/../x",
    ] {
        assert!(text.parse::<RunName>().is_err(), "{text}");
    }
}
