//! Random plans that a loop file can say.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use serde_json::{Value, json};
use windlass_kernel::run::plan::{
    Budget, Check, CheckTiming, Compare, Concurrency, Doer, Effect, Evidence, Gate, Governance,
    HoldRule, OnFailure, OnRestart, Phase, PhaseCondition, Plan, Requirement, Reviewer, Rule,
    RuleLevel, RunOutcome, Trigger,
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

fn value() -> BoxedStrategy<Value> {
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
    .boxed()
}

fn names(names: &[&str]) -> impl Strategy<Value = String> + use<> {
    select(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
}

/// Who may do a phase: also those who only answer.
fn doer() -> BoxedStrategy<Doer> {
    prop_oneof![
        4 => judge(),
        1 => (1..=20u32, prose())
            .prop_map(|(approvals, question)| Doer::Person { approvals, question }),
        1 => consensus(),
    ]
    .boxed()
}

fn consensus() -> BoxedStrategy<Doer> {
    let people = btree_set("[A-Z][a-z]{1,8}( [A-Z])?", 0..3);
    let agents = subsequence(AGENTS.to_vec(), 0..=3);
    let some = (people, agents, vec(option::of(prose()), 3)).prop_filter_map(
        "nobody",
        |(people, agents, prompts)| {
            let agents = agents
                .into_iter()
                .zip(prompts)
                .map(|(agent, prompt)| Reviewer::Agent { agent: agent.to_owned(), prompt });
            let people = people.into_iter().map(|name| Reviewer::Person { name });
            let all: Vec<Reviewer> = people.chain(agents).collect();
            (!all.is_empty()).then_some(all)
        },
    );
    (some, any::<Index>(), prose(), vec(line(), 0..4))
        .prop_map(|(reviewers, quorum, question, checklist)| {
            let quorum = u32::try_from(quorum.index(reviewers.len()) + 1).unwrap();
            Doer::Consensus { checklist, question, quorum, reviewers }
        })
        .boxed()
}

/// Who may make a check.
fn judge() -> BoxedStrategy<Doer> {
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
    ]
    .boxed()
}

/// An effect whose phases are drawn later: their names are numbers into what may be redone.
fn effect() -> BoxedStrategy<Effect> {
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
    .boxed()
}

fn verdicts() -> BoxedStrategy<BTreeMap<String, Effect>> {
    (btree_map(word(), effect(), 0..4), word().prop_filter("a failure", |name| name != "failed"))
        .prop_map(|(mut verdicts, passing)| {
            verdicts.insert(passing, Effect::Continue);
            verdicts
        })
        .boxed()
}

/// Files that a program gets as they were.
fn pinned() -> BoxedStrategy<Option<Vec<String>>> {
    option::of(vec("[a-zA-Z_]{1,4}(/[a-z \\[\\]]{1,4}){0,2}", 0..3)).boxed()
}

fn check() -> BoxedStrategy<Check> {
    (select(vec![CheckTiming::Before, CheckTiming::After]), judge(), pinned(), verdicts())
        .prop_map(|(at, doer, pinned, verdicts)| {
            let pinned = pinned.filter(|_| matches!(doer, Doer::Command { .. }));
            Check { at, doer, id: String::new(), pinned, verdicts }
        })
        .boxed()
}

fn when() -> impl Strategy<Value = PhaseCondition> {
    let fact = (word(), vec(line(), 1..3))
        .prop_map(|(fact, one_of)| PhaseCondition::Fact { fact, one_of });
    prop_oneof![3 => Just(PhaseCondition::Always), 1 => fact]
}

type Draft = (Vec<Check>, Doer, Option<Gate>, Vec<Index>, PhaseCondition, bool, bool);

fn draft() -> BoxedStrategy<Draft> {
    let gate = (id(), verdicts()).prop_map(|(id, verdicts)| Gate { id, verdicts });
    (
        vec(check(), 0..3),
        doer(),
        option::of(gate),
        vec(any::<Index>(), 0..4),
        when(),
        any::<bool>(),
        any::<bool>(),
    )
        .boxed()
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
        let (mut checks, doer, mut gate, picks, when, intervenes, branch) = draft;
        let branch = branch && matches!(doer, Doer::Agent { .. } | Doer::Command { .. });
        if let Doer::Consensus { .. } = doer {
            let gate =
                gate.get_or_insert_with(|| Gate { id: "g".to_owned(), verdicts: BTreeMap::new() });
            for verdict in ["approved", "approved_with_conditions", "rejected"] {
                gate.verdicts.insert(verdict.to_owned(), Effect::Continue);
            }
        }
        let open: Vec<&Phase> =
            phases.iter().filter(|phase| phase.when != PhaseCondition::Intervention).collect();
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
                    title: None,
                    when: PhaseCondition::Intervention,
                });
            }
        }
        before.insert(id.clone(), back);
        let outputs = if id.len() > 6 { vec!["src/**".to_owned()] } else { Vec::new() };
        let title = (id.len() > 5).then(|| format!("the phase {id}"));
        phases.push(Phase { branch, checks, doer, gate, id, needs, outputs, title, when });
    }
    phases
}

fn budget() -> BoxedStrategy<Budget> {
    let number = || option::of(1..=SAFE_MAX);
    // A minute has three decimals: the file can say every 60 ms.
    (number(), number(), number(), number(), option::of(1..=SAFE_MAX / 60))
        .prop_map(|(attempts, changed_lines, cost_micros, tokens, wall)| Budget {
            attempts,
            changed_lines,
            cost_micros,
            tokens,
            wall_ms: wall.map(|wall| wall * 60),
        })
        .boxed()
}

fn argv() -> impl Strategy<Value = Vec<String>> {
    (line(), vec(prop_oneof![prose(), Just(String::new())], 0..3)).prop_map(
        |(program, mut argv)| {
            argv.insert(0, program);
            argv
        },
    )
}

fn evidence() -> BoxedStrategy<Evidence> {
    let compare = select(vec![Compare::AtLeast, Compare::AtMost, Compare::Equal]);
    let threshold = prop_oneof![
        (-(1i64 << 53) + 1..1 << 53).prop_map(serde_json::Number::from),
        // Never a whole one: those are recorded without decimals.
        (-999i32..999)
            .prop_map(|n| serde_json::Number::from_f64(f64::from(n * 8 + 1) / 8.0).unwrap()),
    ];
    let timeout = || 1..=86_400_000u64;
    let pattern =
        || select(vec!["^# .", "a|b", "x{3}", "\\d+: 'q'", "[[:alpha:]]"]).prop_map(str::to_owned);
    let files = btree_set(names(&["src/**", "*.{a,b}", "a b/?[!x].json", "**"]), 1..4);
    let validator = (
        option::of(1..=SAFE_MAX),
        files,
        option::of(pattern()),
        any::<bool>(),
        option::of(pattern()),
    )
        .prop_filter_map("says nothing", |(bytes_max, files, forbid, json, require)| {
            let says = bytes_max.is_some() || forbid.is_some() || json || require.is_some();
            let files = files.into_iter().collect();
            says.then_some(Evidence::Validator { bytes_max, files, forbid, json, require })
        });
    prop_oneof![
        (argv(), compare, pinned(), "(/[a-z0-9 ]{0,3}(~[01])?){0,3}", threshold, timeout())
            .prop_map(|(argv, compare, pinned, pointer, threshold, timeout_ms)| {
                Evidence::Metric { argv, compare, pinned, pointer, threshold, timeout_ms }
            }),
        (argv(), pinned(), timeout()).prop_map(|(argv, pinned, timeout_ms)| Evidence::Tool {
            argv,
            pinned,
            timeout_ms
        }),
        validator,
    ]
    .boxed()
}

/// Rules whose phases are drawn later.
fn rules() -> BoxedStrategy<Vec<(Rule, Vec<Index>)>> {
    let on_failure = select(vec![OnFailure::Block, OnFailure::Warn]);
    let rule = (evidence(), on_failure, line(), vec(any::<Index>(), 0..3)).prop_map(
        |(evidence, on_failure, remediation, phases)| {
            let (id, level) = (String::new(), RuleLevel::Loop);
            (Rule { evidence, id, level, on_failure, phases: Vec::new(), remediation }, phases)
        },
    );
    vec(rule, 0..3).boxed()
}

/// Gives rules names, and the phases that they are about.
fn about(rules: Vec<(Rule, Vec<Index>)>, phases: &[Phase]) -> Vec<Rule> {
    let named = |(at, (mut rule, picks)): (usize, (Rule, Vec<Index>))| {
        rule.id = format!("rule-{at}");
        for pick in picks {
            let phase = pick.get(phases).id.clone();
            if !rule.phases.contains(&phase) {
                rule.phases.push(phase);
            }
        }
        rule
    };
    rules.into_iter().enumerate().map(named).collect()
}

/// A plan that a loop file can say, its phases in the order that reading gives them.
pub fn plan() -> impl Strategy<Value = Plan> {
    let ids = btree_set("[a-h][a-z0-9_-]{0,11}", 1..10);
    let names = ids.prop_map(|ids| ids.into_iter().collect::<Vec<_>>()).prop_shuffle();
    let all = vec![Requirement::CleanRepo, Requirement::Repo, Requirement::Single];
    let hold = (1..=20u32, option::of(1..=SAFE_MAX / 3600), 0..=1000u32, any::<bool>()).prop_map(
        |(approvals, units, retries, starter_counts)| HoldRule {
            approvals,
            expires_ms: units.map(|u| u * 3600),
            retries,
            starter_counts,
        },
    );
    (
        budget(),
        select(vec![Concurrency::Parallel, Concurrency::Serial]),
        hold,
        (id(), line(), word()),
        select(vec![OnRestart::Hold, OnRestart::Resume, OnRestart::Terminate]),
        (names, vec(draft(), 10)).prop_map(|(names, drafts)| phases(names, drafts)),
        subsequence(all, 0..=3),
        (any::<bool>(), rules(), rules()),
    )
        .prop_map(
            |(budget, concurrency, hold, named, on_restart, mut phases, require, more)| {
                let ((id, title, version), (checkpoints, gates, compliance)) = (named, more);
                phases.iter_mut().for_each(|phase| phase.branch &= checkpoints);
                let governance = Governance {
                    compliance: about(compliance, &phases),
                    gates: about(gates, &phases),
                };
                Plan {
                    budget,
                    checkpoints,
                    concurrency,
                    governance,
                    hold,
                    id,
                    on_restart,
                    phases,
                    require,
                    title,
                    variant: None,
                    version,
                }
            },
        )
}
