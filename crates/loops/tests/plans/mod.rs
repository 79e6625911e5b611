//! Random plans that a loop file can say.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use serde_json::{Value, json};
use windlass_kernel::run::plan::{
    At, Budget, Check, Concurrency, Doer, Effect, Gate, HoldRule, OnRestart, Phase, Plan,
    Requirement, RunOutcome, Trigger, When,
};

pub const AGENTS: [&str; 3] = ["builder", "designer", "reviewer"];
pub const BUILTINS: [&str; 3] = ["driver/verify", "hydrate", "policy"];

const SAFE_MAX: u64 = (1 << 53) - 1;

/// One line with everything that YAML gives a meaning to.
pub fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec![
            "yes", "null", "~", "1", "007", "a: b", "# x", "- x", "{", "*a", "!t", "<<", "'"
        ])
        .prop_map(str::to_owned),
        "[ -~äß→]{1,30}".prop_filter("blank", |text| !text.trim().is_empty()),
    ]
}

fn prose() -> impl Strategy<Value = String> {
    vec(line(), 1..4).prop_map(|lines| lines.join("\n\t"))
}

fn id() -> impl Strategy<Value = String> {
    "[a-z0-9_-]{1,12}"
}

fn word() -> impl Strategy<Value = String> {
    "[A-Za-z0-9_.-]{1,12}"
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1i64 << 53) + 1..1 << 53).prop_map(Value::from),
        (-9999i32..9999).prop_map(|number| json!(f64::from(number) / 8.0)),
        prose().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(prose(), inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

fn doer() -> impl Strategy<Value = Doer> {
    let names =
        |names: &[&str]| select(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    prop_oneof![
        (names(&AGENTS), option::of(prose()))
            .prop_map(|(agent, prompt)| Doer::Agent { agent, prompt }),
        (names(&BUILTINS), btree_map(word(), value(), 0..3))
            .prop_map(|(name, with)| Doer::Builtin { name, with }),
        (
            line(),
            vec(prop_oneof![prose(), Just(String::new())], 0..3),
            any::<bool>(),
            1..=86_400_000u64
        )
            .prop_map(|(program, mut argv, repeatable, timeout_ms)| {
                argv.insert(0, program);
                Doer::Command { argv, repeatable, timeout_ms }
            }),
        (1..=20u32, prose()).prop_map(|(approvals, question)| Doer::Person { approvals, question }),
    ]
}

/// An effect whose phases are drawn later: their names are numbers into what may be redone.
fn effect() -> impl Strategy<Value = Effect> {
    let leaf = prop_oneof![
        Just(Effect::Block),
        Just(Effect::Continue),
        (
            option::of(1..=20u32),
            select(vec![Trigger::EscalationRequested, Trigger::WaiverRequested])
        )
            .prop_map(|(approvals, trigger)| Effect::Hold { approvals, trigger }),
        (
            select(vec![
                RunOutcome::Blocked,
                RunOutcome::EscalationRequested,
                RunOutcome::WaiverRequested
            ]),
            line()
        )
            .prop_map(|(outcome, reason)| Effect::Stop { outcome, reason }),
    ];
    leaf.prop_recursive(4, 4, 1, |inner| {
        (any::<u16>(), 1..=1000u32, inner.clone()).prop_map(|(phase, max, then)| Effect::Redo {
            max,
            phase: phase.to_string(),
            then: Box::new(then),
        })
    })
}

fn verdicts() -> impl Strategy<Value = BTreeMap<String, Effect>> {
    (btree_map(word(), effect(), 0..4), word().prop_filter("a failure", |name| name != "failed"))
        .prop_map(|(mut verdicts, passing)| {
            verdicts.insert(passing, Effect::Continue);
            verdicts
        })
}

fn check() -> impl Strategy<Value = Check> {
    (select(vec![At::Before, At::After]), doer(), verdicts())
        .prop_map(|(at, doer, verdicts)| Check { at, doer, id: String::new(), verdicts })
}

fn when() -> impl Strategy<Value = When> {
    let fact = (word(), vec(line(), 1..3)).prop_map(|(fact, one_of)| When::Fact { fact, one_of });
    prop_oneof![3 => Just(When::Always), 1 => fact]
}

type Draft = (Vec<Check>, Doer, Option<Gate>, Vec<Index>, When, bool);

fn draft() -> impl Strategy<Value = Draft> {
    let gate = (id(), verdicts()).prop_map(|(id, verdicts)| Gate { id, verdicts });
    (vec(check(), 0..3), doer(), option::of(gate), vec(any::<Index>(), 0..4), when(), any::<bool>())
}

/// Gives an effect's numbers the names of phases that may be redone.
fn name(effect: &mut Effect, back: &[String]) {
    if let Effect::Redo { phase, then, .. } = effect {
        let number: usize = phase.parse().unwrap();
        *phase = back[number % back.len()].clone();
        name(then, back);
    }
}

/// Puts the drafts together: each phase needs and redoes only what is before it.
fn phases(names: Vec<String>, drafts: Vec<Draft>) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    let mut before: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (id, draft) in names.into_iter().zip(drafts) {
        let (mut checks, doer, mut gate, picks, when, intervenes) = draft;
        let open: Vec<&Phase> =
            phases.iter().filter(|phase| phase.when != When::Intervention).collect();
        let mut needs: Vec<String> = Vec::new();
        for pick in picks {
            if !open.is_empty() {
                let need = pick.get(&open).id.clone();
                if !needs.contains(&need) {
                    needs.push(need);
                }
            }
        }
        let mut back: Vec<String> = needs.iter().flat_map(|need| before[need].clone()).collect();
        back.push(id.clone());
        for (at, check) in checks.iter_mut().enumerate() {
            check.id = format!("check-{at}");
            check.verdicts.values_mut().for_each(|effect| name(effect, &back));
        }
        if let Some(gate) = &mut gate {
            gate.verdicts.values_mut().for_each(|effect| name(effect, &back));
            if intervenes {
                let helper = format!("i-{id}");
                let then = Box::new(Effect::Block);
                let effect = Effect::Intervene { phase: helper.clone(), then };
                gate.verdicts.insert("INTERVENE".to_owned(), effect);
                phases.push(Phase {
                    branch: false,
                    checks: Vec::new(),
                    doer: Doer::Builtin { name: BUILTINS[0].to_owned(), with: BTreeMap::new() },
                    gate: None,
                    id: helper,
                    needs: needs.clone(),
                    outputs: Vec::new(),
                    when: When::Intervention,
                });
            }
        }
        before.insert(id.clone(), back);
        let outputs = if id.len() > 6 { vec!["src/**".to_owned()] } else { Vec::new() };
        phases.push(Phase { branch: false, checks, doer, gate, id, needs, outputs, when });
    }
    phases
}

fn budget() -> impl Strategy<Value = Budget> {
    let number = || option::of(1..=SAFE_MAX);
    // A minute has three decimals: the file can say every 60 ms.
    (number(), number(), number(), number(), option::of(1..=SAFE_MAX / 60)).prop_map(
        |(attempts, changed_lines, cost_micros, tokens, wall)| Budget {
            attempts,
            changed_lines,
            cost_micros,
            tokens,
            wall_ms: wall.map(|wall| wall * 60),
        },
    )
}

/// A plan that a loop file can say, its phases in the order that reading gives them.
pub fn plan() -> impl Strategy<Value = Plan> {
    let ids = btree_set("[a-h][a-z0-9_-]{0,11}", 1..10);
    let names = ids.prop_map(|ids| ids.into_iter().collect::<Vec<_>>()).prop_shuffle();
    let all = vec![Requirement::CleanRepo, Requirement::Repo, Requirement::Single];
    let hold = (1..=20u32, option::of(1..=SAFE_MAX / 3600))
        .prop_map(|(approvals, units)| HoldRule { approvals, expires_ms: units.map(|u| u * 3600) });
    (
        budget(),
        select(vec![Concurrency::Parallel, Concurrency::Serial]),
        hold,
        (id(), line(), word()),
        select(vec![OnRestart::Hold, OnRestart::Resume, OnRestart::Terminate]),
        (names, vec(draft(), 10)).prop_map(|(names, drafts)| phases(names, drafts)),
        subsequence(all, 0..=3),
    )
        .prop_map(
            |(budget, concurrency, hold, (id, title, version), on_restart, phases, require)| Plan {
                budget,
                checkpoints: false,
                concurrency,
                governance: Governance::default(),
                hold,
                id,
                on_restart,
                phases,
                require,
                title,
                variant: None,
                version,
            },
        )
}
