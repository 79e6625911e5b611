//! The conformance suite: tests whether a store keeps the contract.
//!
//! A backend's test file implements [`Harness`] and calls [`conformance_tests!`]; then each rule is a
//! test with its own data. [`history`] applies one random history to two backends and compares their
//! answers; [`fixture`] creates the traces.
//!
//! [`conformance_tests!`]: crate::conformance_tests
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a check reports what it finds by panicking"
)]

mod append;
mod effects;
pub mod fixture;
pub mod history;
mod keys;
mod leases;
mod listing;
mod losses;
pub mod memory;
mod order;
mod payloads;
mod races;
mod redispatches;
mod reopened;
mod replay;
mod replay_points;
mod tampering;
mod watch;

use windlass_kernel::{Entry, Head, ReplayPoint, TraceId};

use crate::store::Store;
use crate::types::NewEntry;

/// A backend under test: one database, empty at first, and processes that use it.
pub trait Harness {
    /// Opens the handle of another process. To drop it is the orderly end of that process.
    fn open(&self) -> Box<dyn Store>;

    /// Kills the process of a handle: its leases are free at once.
    fn kill(&self, store: Box<dyn Store>);

    /// Changes the data without the store; `None` if the backend cannot do that. Called only while no
    /// handle is open.
    fn tamper(&self, what: &Tamper) -> Option<()>;
}

/// A change of the data that bypasses the store.
#[derive(Clone, Debug)]
pub enum Tamper {
    /// Deletes the last entry of a trace, but does not change its head.
    DeleteLastEntry(TraceId),
    /// Deletes the entry with this number.
    DeleteEntry(TraceId, u64),
    /// Replaces the entry with the same trace and number.
    ChangeEntry(Box<Entry>),
    /// Inserts an entry.
    InsertEntry(Box<NewEntry>),
    /// Makes the entry with this number unreadable.
    GarbleEntry(TraceId, u64),
    /// Replaces the artifact of an entry.
    ChangeBody(TraceId, u64, Vec<u8>),
    /// Deletes the artifact of an entry.
    DeleteBody(TraceId, u64),
    /// Replaces the head of a trace.
    ChangeHead(Box<Head>),
    /// Replaces the newest replay point of a trace.
    ChangeReplayPoint(TraceId, Box<ReplayPoint>),
    /// Deletes the state of a trace, but not its entries.
    DeleteTraceRow(TraceId),
}

/// A rule of the contract; it panics if the store breaks it.
pub type Check = fn(&dyn Harness);

/// Runs one check by its name.
///
/// # Panics
/// If the store breaks the rule, or there is no such check.
pub fn run(name: &str, harness: &dyn Harness) {
    let (_, check) = CHECKS.iter().find(|(known, _)| *known == name).expect("a check of this name");
    check(harness);
}

/// Turns the list of checks into data and into tests.
macro_rules! checks {
    ($d:tt $($module:ident { $($name:ident,)* })*) => {
        /// Every rule of the contract with its name.
        pub const CHECKS: &[(&str, Check)] = &[$($((stringify!($name), $module::$name),)*)*];

        /// Makes a `#[test]` of every check; the argument makes a fresh [`Harness`] for each.
        ///
        /// [`Harness`]: crate::conformance::Harness
        #[macro_export]
        macro_rules! conformance_tests {
            ($d make:expr) => {
                $($(#[test]
                fn $name() {
                    $crate::conformance::run(stringify!($name), &$d make);
                })*)*
            };
        }
    };
}

checks! { $
    append {
        what_is_appended_reads_back_whole_through_another_handle,
        what_is_appended_survives_a_restart,
        an_unknown_trace_is_not_found,
        a_new_trace_that_exists_is_fenced_and_writes_nothing,
        a_lease_on_a_trace_that_does_not_exist_is_fenced,
        a_new_trace_with_a_bad_entry_does_not_come_to_be,
        several_entries_are_appended_all_or_none,
        a_repeated_sequence_number_is_refused,
        a_skipped_sequence_number_is_refused,
        an_entry_of_another_trace_is_refused,
        nothing_but_a_rollback_follows_a_terminal_state,
        a_call_must_keep_its_id_from_hand_over_to_end,
        a_body_that_is_not_its_digests_is_refused,
        an_unknown_schema_version_is_refused,
        an_unknown_schema_id_is_refused,
        an_append_without_entries_is_refused,
        an_idempotency_key_has_1_to_255_characters,
    }
    order {
        the_fence_is_checked_before_all_else,
        the_sequence_is_checked_right_after_the_fence,
        the_trace_is_checked_right_after_the_sequence,
        the_previous_digest_is_checked_right_after_the_trace,
        the_current_state_is_checked_right_after_the_previous_digest,
        the_transition_is_checked_right_after_the_current_state,
        the_own_digest_is_checked_right_after_the_transition,
        the_artifact_is_checked_right_after_the_own_digest,
        the_key_is_checked_last,
        an_earlier_entry_is_judged_whole_before_a_later_one,
    }
    keys {
        a_reservation_is_kept_with_its_entry,
        an_unknown_key_has_no_record,
        a_taken_key_returns_its_record_and_writes_nothing,
        a_key_whose_call_did_not_run_can_be_taken_again,
        a_taken_key_is_taken_for_other_handles_too,
        a_taken_key_is_taken_for_its_own_trace_too,
        a_taken_key_keeps_a_new_trace_from_being,
        a_key_is_free_under_another_server_or_tool,
        a_refused_append_reserves_nothing,
        keys_that_look_alike_are_different_keys,
    }
    effects {
        a_key_has_no_effect_while_its_trace_is_open,
        the_end_of_a_trace_is_its_keys_effect,
        an_effect_is_the_last_of_several_entries,
        a_key_reserved_with_the_end_has_its_effect_at_once,
        a_key_with_an_effect_stays_taken,
        the_end_of_one_trace_is_no_effect_of_anothers_key,
        all_keys_of_a_trace_have_its_effect,
        a_refused_end_is_no_effect,
    }
    leases {
        a_free_trace_can_be_acquired,
        acquiring_an_unknown_trace_is_not_found,
        a_live_holder_refuses_another_handle,
        a_live_holder_refuses_its_own_handle_too,
        a_losers_failure_leaves_the_holder_its_lease,
        a_losers_end_leaves_the_holder_its_lease,
        a_released_trace_can_be_acquired_again,
        a_released_lease_is_worth_nothing,
        a_new_trace_that_is_kept_is_held,
        a_new_trace_that_is_released_is_free,
        an_append_that_releases_frees_the_trace_with_its_entries,
        an_append_that_keeps_leaves_the_lease_as_it_is,
        a_refused_append_that_would_release_keeps_the_lease,
        a_spent_lease_cannot_free_a_later_one_of_the_same_handle,
        a_refused_creation_leaves_the_holder_its_lease,
        a_lease_counts_only_in_the_hands_of_its_holder,
        a_handle_that_ends_in_order_frees_its_traces,
        is_held_tells_a_live_holder_from_a_dead_one,
    }
    losses {
        a_killed_holders_traces_are_free_at_once,
        a_takeover_raises_the_fence,
        a_lost_lease_cannot_append,
        a_lost_lease_cannot_write_a_replay_point,
        a_lost_lease_cannot_record_a_redispatch,
        releasing_a_lost_lease_leaves_the_new_holders,
        a_killed_process_loses_nothing_it_was_told_is_durable,
        the_death_of_one_holder_leaves_the_others_their_leases,
    }
    replay_points {
        a_trace_without_replay_points_has_none,
        the_latest_replay_point_is_loaded,
        a_later_replay_point_of_the_same_entry_wins,
        replay_points_of_one_trace_are_not_anothers,
        a_replay_point_must_agree_with_the_head,
        a_replay_point_must_name_its_traces_plan,
        a_replay_point_with_a_wrong_digest_is_refused,
        a_replay_point_without_the_lease_is_refused,
        replay_points_survive_a_restart,
    }
    redispatches {
        redispatches_are_numbered_from_2_and_listed_in_order,
        a_redispatch_with_a_wrong_number_is_refused,
        redispatches_of_one_trace_do_not_count_for_another,
        a_redispatch_without_the_lease_is_refused,
        only_a_call_that_executes_is_redispatched,
    }
    listing {
        traces_are_listed_newest_first_whatever_the_filter,
        paging_through_traces_shows_each_once,
        an_empty_store_lists_nothing,
        what_is_counted_is_what_is_listed,
        a_long_trace_is_listed_in_pages,
        an_unknown_trace_has_no_entries,
        a_scan_shows_every_trace_with_its_entries_in_order,
    }
    reopened {
        a_run_that_has_ended_goes_on_and_ends_again,
        a_run_that_goes_on_is_found_after_a_crash,
        an_end_and_what_follows_it_are_one_append,
        a_run_that_goes_on_takes_its_end_back_from_its_key,
    }
    tampering {
        a_missing_last_entry_shows,
        a_missing_entry_shows,
        a_changed_entry_shows,
        an_inserted_entry_shows,
        an_unreadable_entry_is_reported_and_spoils_no_other_trace,
        a_changed_body_shows,
        a_missing_body_shows_and_the_chain_still_holds,
        a_changed_head_shows,
        a_changed_replay_point_is_loaded_as_it_is,
        entries_without_a_trace_are_reported_by_a_scan_only,
        a_trace_without_entries_is_reported_by_a_scan,
        an_ended_trace_without_its_last_entry_shows_no_effect,
    }
    payloads {
        bodies_of_any_bytes_read_back,
        an_empty_body_is_not_a_missing_one,
        a_body_of_a_megabyte_reads_back,
        keys_and_bodies_of_any_text_read_back,
    }
    races {
        appends_of_many_threads_all_land,
        of_many_creators_of_one_trace_one_wins,
        of_many_reservers_of_one_key_one_wins,
        of_two_handles_one_acquires,
        two_handles_never_hold_one_trace_at_once,
        of_two_handles_one_takes_over_from_the_dead,
    }
}
