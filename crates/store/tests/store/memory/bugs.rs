//! The bugs, each with the checks that must find it.

macro_rules! bugs {
    ($($(#[$doc:meta])* $bug:ident => $($check:ident)*;)*) => {
        /// What is wrong with a store.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            /// Nothing.
            None,
            $($(#[$doc])* $bug,)*
        }

        /// Every bug, with checks that each find it.
        pub const BUGS: &[(Bug, &[&str])] = &[$((Bug::$bug, &[$(stringify!($check)),*]),)*];
    };
}

bugs! {
    /// Takes whatever lease comes for the one in force.
    SkipsFence => a_lost_lease_cannot_append the_fence_is_checked_before_all_else;
    /// Makes a trace anew that exists.
    MakesTracesTwice => a_new_trace_that_exists_is_fenced_and_writes_nothing
        of_many_creators_of_one_trace_one_wins;
    /// Corrects an entry's own digest instead of checking it.
    IgnoresOwnDigest => the_own_digest_is_checked_right_after_the_transition;
    /// Corrects an artifact's digest instead of checking it.
    IgnoresArtifactDigest => a_body_that_is_not_its_digests_is_refused
        several_entries_are_appended_all_or_none;
    /// Renumbers entries instead of checking their numbers.
    Renumbers => a_repeated_sequence_number_is_refused a_skipped_sequence_number_is_refused;
    /// Takes entries of any trace for its own.
    AdoptsEntries => an_entry_of_another_trace_is_refused
        the_trace_is_checked_right_after_the_sequence;
    /// Knows no table of transitions.
    AllowsAnyTransition => nothing_but_a_rollback_follows_a_terminal_state
        the_current_state_is_checked_right_after_the_previous_digest
        the_transition_is_checked_right_after_the_current_state;
    /// Looks for the key before all else.
    ChecksKeyFirst => the_own_digest_is_checked_right_after_the_transition
        the_fence_is_checked_before_all_else;
    /// Does not reserve.
    LosesReservations => a_reservation_is_kept_with_its_entry
        of_many_reservers_of_one_key_one_wins a_taken_key_is_taken_for_other_handles_too;
    /// Reserves before it looks at the entries.
    ReservesTooEarly => a_refused_append_reserves_nothing;
    /// Leaves the server out of the key.
    KeysWithoutServer => a_key_is_free_under_another_server_or_tool;
    /// Ends a key where a C string ends.
    CutsKeysAtNul => keys_that_look_alike_are_different_keys keys_and_bodies_of_any_text_read_back;
    /// Takes an open trace's last entry for its effect.
    EffectBeforeEnd => a_key_has_no_effect_while_its_trace_is_open
        the_end_of_one_trace_is_no_effect_of_anothers_key a_refused_end_is_no_effect;
    /// Takes an ended trace's first entry for its effect.
    EffectOfFirstEntry => the_end_of_a_trace_is_its_keys_effect
        an_effect_is_the_last_of_several_entries
        a_key_reserved_with_the_end_has_its_effect_at_once all_keys_of_a_trace_have_its_effect;
    /// Shows no effect with a taken key.
    TakenWithoutEffect => a_key_with_an_effect_stays_taken;
    /// Takes whatever entry is last for the end of the trace.
    EffectOfCutTrace => an_ended_trace_without_its_last_entry_shows_no_effect;
    /// Takes an append of nothing for done.
    AppendsNothing => an_append_without_entries_is_refused;
    /// Writes its own schema into each entry.
    CorrectsSchema => an_unknown_schema_id_is_refused;
    /// Lets anybody use a live lease.
    LendsLeases => a_lease_counts_only_in_the_hands_of_its_holder;
    /// Gives back whatever lease it holds instead of the one it is told.
    ReleasesLaterLeases => a_spent_lease_cannot_free_a_later_one_of_the_same_handle;
    /// Lists entries that belong to no trace.
    ListsOrphans => entries_without_a_trace_are_reported_by_a_scan_only;
    /// Scans traces by their entries.
    HidesEmptyTraces => a_trace_without_entries_is_reported_by_a_scan;
    /// Frees a trace whatever lease is given back.
    ReleasesForeignLeases => releasing_a_lost_lease_leaves_the_new_holders;
    /// Cleans up after a failed acquire by freeing the trace.
    LosersRelease => a_losers_failure_leaves_the_holder_its_lease
        a_live_holder_refuses_another_handle;
    /// Takes every holder for dead.
    RobsTheLiving => a_live_holder_refuses_another_handle a_live_holder_refuses_its_own_handle_too
        of_two_handles_one_acquires;
    /// Takes the killed for living.
    MournsNobody => a_killed_holders_traces_are_free_at_once
        is_held_tells_a_live_holder_from_a_dead_one;
    /// Grants each lease under the number of the last one.
    FenceStays => a_takeover_raises_the_fence a_released_trace_can_be_acquired_again;
    /// Keeps the lease that an append should release.
    ForgetsRelease => an_append_that_releases_frees_the_trace_with_its_entries
        a_new_trace_that_is_released_is_free;
    /// Releases with an append even when that is refused.
    ReleasesOnRefusal => a_refused_append_that_would_release_keeps_the_lease;
    /// Reports success without the last entry.
    LosesLastEntry => what_is_appended_reads_back_whole_through_another_handle
        appends_of_many_threads_all_land;
    /// Keeps entries without their bodies.
    ForgetsBodies => what_is_appended_survives_a_restart;
    /// Takes an empty body for none.
    EmptyBodyIsNone => an_empty_body_is_not_a_missing_one;
    /// Keeps bodies as text.
    BodiesAreText => bodies_of_any_bytes_read_back;
    /// Appends entry by entry.
    AppendsOneByOne => several_entries_are_appended_all_or_none
        a_new_trace_with_a_bad_entry_does_not_come_to_be;
    /// Does not keep the call's id with the head.
    ForgetsCallId => what_is_appended_reads_back_whole_through_another_handle;
    /// Loads the oldest replay point.
    OldestReplayPointWins => the_latest_replay_point_is_loaded
        a_later_replay_point_of_the_same_entry_wins;
    /// Keeps any replay point of the holder's.
    BelievesReplayPoints => a_replay_point_must_agree_with_the_head
        a_replay_point_must_name_its_traces_plan
        a_replay_point_with_a_wrong_digest_is_refused;
    /// Keeps anybody's replay point.
    UnfencedReplayPoints => a_lost_lease_cannot_write_a_replay_point
        a_replay_point_without_the_lease_is_refused;
    /// Keeps any redispatch of the holder's.
    UnnumberedRedispatches => a_redispatch_with_a_wrong_number_is_refused
        only_a_call_that_executes_is_redispatched;
    /// Keeps anybody's redispatch.
    UnfencedRedispatches => a_lost_lease_cannot_record_a_redispatch;
    /// Lists the newest redispatch first.
    ReversesRedispatches => redispatches_are_numbered_from_2_and_listed_in_order;
    /// Numbers redispatches across all traces.
    CountsAllRedispatches => redispatches_of_one_trace_do_not_count_for_another;
    /// Loads only replay points that are valid.
    HidesBadReplayPoints => a_changed_replay_point_is_loaded_as_it_is;
    /// Takes an unknown trace for an empty one.
    InventsTraces => an_unknown_trace_is_not_found a_new_trace_with_a_bad_entry_does_not_come_to_be;
    /// Lists the oldest traces first.
    OldestFirst => traces_are_listed_newest_first_whatever_the_filter
        paging_through_traces_shows_each_once;
    /// Lists the traces of all plans.
    ForgetsPlans => traces_are_listed_newest_first_whatever_the_filter;
    /// Lists the traces of every kind.
    ForgetsKinds => traces_are_listed_newest_first_whatever_the_filter;
    /// Leaves the oldest trace out that is wanted.
    LosesOldest => traces_are_listed_newest_first_whatever_the_filter;
    /// Takes what has once ended for ended.
    EndedForGood => a_run_that_has_ended_goes_on_and_ends_again
        a_run_that_goes_on_is_found_after_a_crash;
    /// Counts only what has not ended.
    CountsOpenOnly => what_is_counted_is_what_is_listed;
    /// Counts by what fits 63 bits.
    SignedPages => a_long_trace_is_listed_in_pages;
    /// Begins each page with the entry that the page before ended with.
    RepeatsAtPageEdges => a_long_trace_is_listed_in_pages;
    /// Scans the traces it knows of only.
    HidesOrphans => entries_without_a_trace_are_reported_by_a_scan_only;
    /// Shows the head that the entries fold to instead of the one kept apart.
    HeadFromEntries => a_missing_last_entry_shows a_changed_head_shows;
}
