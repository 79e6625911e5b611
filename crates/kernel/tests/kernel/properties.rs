//! Random traces: appended entries are verified, every invariant holds after each step, and any change
//! of the entries is detected.

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use windlass_kernel::recovery::{RecoveryPlan, UncertainRule, plan};
use windlass_kernel::verify::{ChainReport, ChainVerifier};
use windlass_kernel::{
    ArtifactId, ArtifactType, Call, Code, Digest, Draft, Entry, ExecutionState, Head, PlanId,
    ReplayPoint, ReplayPointState, State, Timestamp, ToolCallId, TraceId, Transition, Uuid7, canon,
};

const CHAIN_CODES: [Code; 4] = [
    Code::StateSequenceGap,
    Code::StateChecksumMismatch,
    Code::StateInvalidTransition,
    Code::MissingToolCallId,
];

/// A draft before the state of its trace is known.
#[derive(Clone, Debug)]
struct Wish {
    /// Whether to pick a transition that the table allows.
    legal: bool,
    pick: Index,
    ms: i64,
    artifact: u8,
    /// 0: none; else which of two calls.
    call: u8,
    key: Option<String>,
}

fn id(ms: u64, number: u8) -> Uuid7 {
    Uuid7::from_parts(ms, [number; 10])
}

fn empty() -> Head {
    Head::empty(TraceId(id(1, 1)))
}

fn wish() -> impl Strategy<Value = Wish> {
    let key = proptest::option::of(prop_oneof![
        9 => "\\PC{1,20}",
        2 => any::<String>(),
        1 => Just("\u{1f511}".repeat(255)),
        1 => Just("k".repeat(256)),
    ]);
    let ms = 0_i64..4_102_444_800_000;
    (prop::bool::weighted(0.8), any::<Index>(), ms, any::<u8>(), 0_u8..3, key).prop_map(
        |(legal, pick, ms, artifact, call, key)| Wish { legal, pick, ms, artifact, call, key },
    )
}

static ALL_TRANSITIONS: LazyLock<Vec<Transition>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for &from in State::ALL {
        for &to in State::ALL {
            for &artifact in ArtifactType::ALL {
                all.push(Transition { from, to, artifact });
            }
        }
    }
    all
});

fn draft(wish: &Wish, head: &Head, last: Option<&Entry>) -> Draft {
    let allowed: Vec<Transition> = ALL_TRANSITIONS
        .iter()
        .filter(|transition| wish.legal && transition.is_allowed_from(head.state))
        .copied()
        .collect();
    let choices = if allowed.is_empty() { &*ALL_TRANSITIONS } else { &allowed };
    let transition = *wish.pick.get(choices);
    // An effect has the key of its call.
    let is_effect = transition.artifact == ArtifactType::ToolEffect;
    let call_key = last.filter(|_| is_effect).map(|call| call.idempotency_key.clone());
    Draft {
        ts: Timestamp::from_unix_ms(wish.ms).unwrap(),
        transition,
        artifact_id: ArtifactId(id(2, wish.artifact)),
        artifact_digest: Digest::of(&[wish.artifact]),
        tool_call_id: (wish.call > 0).then(|| ToolCallId(id(3, wish.call))),
        idempotency_key: call_key.unwrap_or_else(|| wish.key.clone()),
    }
}

/// Appends every wish that is allowed.
fn grow(wishes: &[Wish]) -> (Vec<Entry>, Head) {
    let (mut entries, mut head): (Vec<Entry>, Head) = (Vec::new(), empty());
    for wish in wishes {
        if let Ok((entry, next)) = head.append(draft(wish, &head, entries.last())) {
            entries.push(entry);
            head = next;
        }
    }
    (entries, head)
}

fn invariant_sequence_numbers_have_no_gaps(entries: &[Entry]) {
    let numbers: Vec<u64> = entries.iter().map(|entry| entry.sequence_number).collect();
    assert_eq!(numbers, (1..=entries.len() as u64).collect::<Vec<_>>());
}

fn invariant_each_entry_contains_the_previous_digest(entries: &[Entry]) {
    let mut previous = Digest::GENESIS;
    for entry in entries {
        assert_eq!(entry.prev_entry_digest, previous);
        previous = entry.entry_digest;
    }
}

fn invariant_digests_agree_with_the_general_encoder(entries: &[Entry]) {
    for entry in entries {
        let mut value = serde_json::to_value(entry).unwrap();
        assert_eq!(&serde_json::from_value::<Entry>(value.clone()).unwrap(), entry);
        value.as_object_mut().unwrap().remove("entry_digest");
        assert_eq!(canon::digest(&value).unwrap(), entry.entry_digest);
    }
}

fn invariant_each_entry_starts_at_the_current_state(entries: &[Entry]) {
    for pair in entries.windows(2) {
        assert_eq!(pair[1].from_state, pair[0].to_state);
        // Only a rollback, or the merge of a run, follows an end, and a person who asks for a notification once more.
        let back = [
            (State::Terminal, State::Running),
            (State::Terminal, State::Terminal),
            (State::Settled, State::Due),
        ]
        .contains(&(pair[0].to_state, pair[1].to_state));
        assert!(!pair[0].to_state.is_terminal() || back, "nothing follows the end");
    }
}

fn invariant_a_trace_is_a_call_or_a_run(entries: &[Entry]) {
    for entry in entries {
        let machine = entries[0].from_state.machine();
        assert_eq!((entry.from_state.machine(), entry.to_state.machine()), (machine, machine));
        assert_eq!(entry.schema_id, machine.schema_id());
    }
}

fn invariant_a_call_is_dispatched_and_ended_once(entries: &[Entry]) {
    let count = |artifact| entries.iter().filter(|entry| entry.artifact_type == artifact).count();
    for artifact in [ArtifactType::ToolCall, ArtifactType::ToolEffect] {
        assert!(count(artifact) <= 1);
    }
    let ids: Vec<_> = entries
        .iter()
        .filter(|entry| {
            matches!(entry.artifact_type, ArtifactType::ToolCall | ArtifactType::ToolEffect)
        })
        .map(|entry| entry.tool_call_id.unwrap())
        .collect();
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1]));
}

/// The report of a chain that is compared with the recorded head: a chain alone does not show that its
/// tail is missing.
fn finish_against(chain: &ChainVerifier, recorded: &Head) -> ChainReport {
    let head = chain.head().copied().unwrap_or(Head::empty(recorded.trace_id));
    let error = chain.error().cloned().or_else(|| head.matches(recorded).err());
    ChainReport::new(&head, chain.finish().entry_count, error.as_ref())
}

fn invariant_replay_ends_at_the_head(entries: &[Entry], head: &Head) {
    let (mut typed, mut raw) = (ChainVerifier::new(), ChainVerifier::new());
    for entry in entries {
        typed.push(entry);
        raw.push_json(&serde_json::to_value(entry).unwrap());
    }
    assert_eq!(typed.head().copied().unwrap_or(empty()), *head);
    assert_eq!(typed.finish(), raw.finish());
    assert_eq!(finish_against(&typed, head), typed.finish());
    assert!(typed.finish().chain_valid);
}

fn invariant_a_replay_point_agrees_with_its_head(head: &Head) {
    let plan_id = PlanId(id(4, 4));
    let Some(state) = ReplayPointState::of(head, plan_id) else { return };
    let checkpoint = ReplayPoint::new(state, Timestamp::from_unix_ms(0).unwrap());
    let text = serde_json::to_string(&checkpoint).unwrap();
    let read: ReplayPoint = serde_json::from_str(&text).unwrap();
    assert_eq!(read.agrees_with(head), Ok(()));
    assert_eq!(Some(ExecutionState::of(head, plan_id).current_state), head.state);
}

fn invariant_only_a_call_without_effect_is_dispatched_again(head: &Head) {
    let mut call = Call::empty(head.trace_id);
    call.head = *head;
    for rule in
        [UncertainRule::Probe, UncertainRule::Retry, UncertainRule::Compensate, UncertainRule::Hold]
    {
        for (redispatches, retries_max) in [(0, 0), (0, 1), (1, 1), (5, u32::MAX)] {
            let plan = plan(&call, rule, redispatches, retries_max);
            let acts = matches!(
                plan,
                RecoveryPlan::Probe | RecoveryPlan::Redispatch | RecoveryPlan::Compensate
            );
            assert!(!acts || head.state == Some(State::Executing));
            assert!(plan != RecoveryPlan::Redispatch || redispatches < retries_max);
            assert!(!head.state.is_some_and(State::is_terminal) || plan == RecoveryPlan::Nothing);
        }
    }
}

fn check_invariants(entries: &[Entry], head: &Head) {
    invariant_sequence_numbers_have_no_gaps(entries);
    invariant_each_entry_contains_the_previous_digest(entries);
    invariant_digests_agree_with_the_general_encoder(entries);
    invariant_each_entry_starts_at_the_current_state(entries);
    invariant_a_trace_is_a_call_or_a_run(entries);
    invariant_a_call_is_dispatched_and_ended_once(entries);
    invariant_replay_ends_at_the_head(entries, head);
    invariant_a_replay_point_agrees_with_its_head(head);
    invariant_only_a_call_without_effect_is_dispatched_again(head);
}

/// A manipulation of a stored trace. Positions are picked once its length is known.
#[derive(Clone, Debug)]
enum Tamper {
    Field(Index, Index),
    Swap(Index, Index),
    Drop(Index),
    Duplicate(Index, Index),
}

fn tamper() -> impl Strategy<Value = Tamper> {
    let places = || (any::<Index>(), any::<Index>());
    prop_oneof![
        4 => places().prop_map(|(at, change)| Tamper::Field(at, change)),
        1 => places().prop_map(|(one, other)| Tamper::Swap(one, other)),
        1 => any::<Index>().prop_map(Tamper::Drop),
        1 => places().prop_map(|(from, to)| Tamper::Duplicate(from, to)),
    ]
}

/// Other values for each field: well-formed ones first, then some that are not.
fn changes() -> Vec<(&'static str, Value)> {
    let other_id = json!(id(9, 9));
    let other_digest = json!(Digest::of(b"another"));
    let mut changes = vec![
        ("schema_id", json!("another")),
        ("schema_version", json!("v2")),
        ("sequence_number", json!(99)),
        ("sequence_number", json!(0)),
        ("sequence_number", json!(u64::MAX)),
        ("ts", json!("2001-02-03T04:05:06.007Z")),
        ("ts", json!("2001-02-03")),
        ("surplus", json!(1)),
    ];
    for field in ["trace_id", "artifact_id", "tool_call_id"] {
        changes.push((field, other_id.clone()));
        changes.push((field, json!("01890a5d-ac96-474b-bcce-b302099a8057")));
    }
    for field in ["prev_entry_digest", "artifact_digest", "entry_digest"] {
        changes.push((field, other_digest.clone()));
        changes.push((field, json!("A".repeat(64))));
    }
    for field in ["from_state", "to_state"] {
        changes.extend(State::ALL.iter().map(|state| (field, json!(state))));
    }
    changes.extend(ArtifactType::ALL.iter().map(|artifact| ("artifact_type", json!(artifact))));
    for key in [Value::Null, json!("another"), json!(""), json!("k".repeat(256)), json!(7)] {
        changes.push(("idempotency_key", key));
    }
    changes.push(("tool_call_id", Value::Null));
    changes
}

/// Corrupts `rows` and returns the position of the expected error; `None`: only the head shows it.
fn spoil(rows: &mut Vec<Value>, tamper: &Tamper) -> Option<u64> {
    let length = rows.len();
    let place = match tamper {
        Tamper::Field(at, change) => {
            let at = at.index(length);
            let mut changes = changes();
            changes.retain(|(field, value)| rows[at].get(*field) != Some(value));
            let (field, value) = change.get(&changes);
            rows[at].as_object_mut().unwrap().insert((*field).to_owned(), value.clone());
            at
        }
        Tamper::Swap(one, other) if length > 1 => {
            let one = one.index(length);
            let other = (one + 1 + other.index(length - 1)) % length;
            rows.swap(one, other);
            one.min(other)
        }
        Tamper::Drop(at) | Tamper::Swap(at, _) => {
            let at = at.index(length);
            rows.remove(at);
            if at == length - 1 {
                return None;
            }
            at
        }
        Tamper::Duplicate(from, to) => {
            let (from, to) = (from.index(length), to.index(length + 1));
            let copy = rows[from].clone();
            rows.insert(to, copy);
            if from == to { to + 1 } else { to }
        }
    };
    Some(place as u64 + 1)
}

fn read(rows: &[Value]) -> ChainVerifier {
    let mut chain = ChainVerifier::new();
    rows.iter().for_each(|row| chain.push_json(row));
    chain
}

proptest! {
    #[test]
    fn appended_entries_are_verified_and_satisfy_all_invariants(
        wishes in proptest::collection::vec(wish(), 0..24),
    ) {
        let (mut entries, mut head): (Vec<Entry>, Head) = (Vec::new(), empty());
        for wish in &wishes {
            let draft = draft(wish, &head, entries.last());
            match head.append(draft.clone()) {
                Ok((entry, next)) => {
                    prop_assert_eq!(head.admit(&entry, &mut Vec::new()), Ok(next));
                    prop_assert_eq!(entry.transition(), draft.transition);
                    entries.push(entry);
                    head = next;
                }
                Err(error) => prop_assert!(CHAIN_CODES.contains(&error.code()), "{}", error),
            }
            check_invariants(&entries, &head);
        }
    }

    #[test]
    fn any_change_is_detected_at_its_position(
        wishes in proptest::collection::vec(wish(), 1..24), tamper in tamper(),
    ) {
        let (entries, head) = grow(&wishes);
        prop_assume!(!entries.is_empty());
        let mut rows: Vec<Value> =
            entries.iter().map(|entry| serde_json::to_value(entry).unwrap()).collect();
        let place = spoil(&mut rows, &tamper);
        let chain = read(&rows);
        let finding = finish_against(&chain, &head);
        prop_assert!(!finding.chain_valid);
        prop_assert!(CHAIN_CODES.contains(&finding.error_code.unwrap()));
        prop_assert_eq!(finding.entry_count, rows.len() as u64);
        match place {
            Some(place) => {
                prop_assert_eq!(finding.divergence_point, Some(place));
                prop_assert_eq!(chain.finish(), finding, "found without the head");
            }
            None => {
                prop_assert!(chain.finish().chain_valid);
                prop_assert_eq!(finding.error_code, Some(Code::StateSequenceGap));
                prop_assert_eq!(finding.divergence_point, Some(entries.len() as u64));
            }
        }
    }

    #[test]
    fn truncation_is_detected_by_the_recorded_head(
        wishes in proptest::collection::vec(wish(), 1..24), length: Index,
    ) {
        let (entries, head) = grow(&wishes);
        prop_assume!(!entries.is_empty());
        let kept = &entries[..length.index(entries.len())];
        let mut chain = ChainVerifier::new();
        kept.iter().for_each(|entry| chain.push(entry));
        prop_assert!(chain.finish().chain_valid);
        let error = chain.head().copied().unwrap_or(empty()).matches(&head).unwrap_err();
        prop_assert_eq!(error.code(), Code::StateSequenceGap);
        let finding = finish_against(&chain, &head);
        prop_assert_eq!(finding.divergence_point, Some(kept.len() as u64 + 1));
    }

    #[test]
    fn a_rewritten_tail_is_detected_by_the_recorded_head(
        wishes in proptest::collection::vec(wish(), 1..24),
    ) {
        let (mut entries, head) = grow(&wishes);
        let Some(last) = entries.last_mut() else { return Ok(()) };
        last.artifact_digest = Digest::of(b"another body");
        last.entry_digest = last.compute_digest(&mut Vec::new());
        let mut chain = ChainVerifier::new();
        entries.iter().for_each(|entry| chain.push(entry));
        prop_assert!(chain.finish().chain_valid);
        let finding = finish_against(&chain, &head);
        prop_assert_eq!(finding.error_code, Some(Code::StateChecksumMismatch));
        prop_assert_eq!(finding.divergence_point, Some(entries.len() as u64));
    }
}

/// The random traces above are useful only if they reach the final states.
#[test]
fn random_traces_reach_every_state() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut missing: Vec<State> = State::ALL.to_vec();
    for _ in 0..300 {
        let wishes = proptest::collection::vec(wish(), 24).new_tree(&mut runner).unwrap().current();
        let (entries, _) = grow(&wishes);
        missing.retain(|state| entries.iter().all(|entry| entry.to_state != *state));
    }
    assert_eq!(missing, Vec::<State>::new());
}
