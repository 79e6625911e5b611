//! Random plans and random answers, both generated from bytes. After the last byte everything succeeds,
//! so failing cases shrink well and every run must end.

use std::collections::BTreeSet;

use windlass_kernel::run::plan::{
    Budget, CheckTiming, Concurrency, Doer, Effect, HoldRule, Phase, PhaseCondition, Plan,
    RunOutcome, Trigger,
};

use crate::run::plans::{
    agent, builtin, check, command, consensus, person, phase, serial, verdicts,
};

/// Choices made from bytes; always 0 after the last byte.
#[derive(Clone)]
pub struct Choices {
    bytes: Vec<u8>,
    at: usize,
}

impl Choices {
    pub fn new(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), at: 0 }
    }

    /// A number below `below`; 0 is the choice of success.
    pub fn pick(&mut self, below: usize) -> usize {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(byte) % below
    }

    pub fn chance(&mut self, of: usize) -> bool {
        self.pick(of) == of - 1
    }

    pub fn is_spent(&self) -> bool {
        self.at >= self.bytes.len()
    }
}

/// The verdicts of a check or gate; the first one always continues.
const VERDICTS: [&str; 4] = ["approved", "v1", "v2", "rejected"];

struct Made {
    phases: Vec<Phase>,
    /// For each phase, itself and all phases that it depends on.
    upstream: Vec<BTreeSet<usize>>,
}

pub fn random_plan(bytes: &[u8]) -> Plan {
    let mut choices = Choices::new(bytes);
    let choices = &mut choices;
    let count = 1 + choices.pick(12);
    let mut made = Made { phases: Vec::new(), upstream: Vec::new() };
    for at in 0..count {
        let mut upstream = BTreeSet::from([at]);
        let mut needs = Vec::new();
        for (need, above) in made.upstream.iter().enumerate() {
            // With no bytes left: a chain.
            let wanted = if need + 1 == at { !choices.chance(3) } else { choices.chance(5) };
            if wanted {
                needs.push(format!("p{need}"));
                upstream.extend(above);
            }
        }
        let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
        let mut one = phase(&format!("p{at}"), &needs);
        one.doer = doer(choices);
        one.when = match choices.pick(8) {
            6 => PhaseCondition::Intervention,
            7 => PhaseCondition::Fact { fact: "f".into(), one_of: vec!["1".into()] },
            _ => PhaseCondition::Always,
        };
        made.phases.push(one);
        made.upstream.push(upstream);
    }
    for at in 0..count {
        for number in 0..choices.pick(3) {
            let when = if choices.chance(2) { CheckTiming::Before } else { CheckTiming::After };
            let mut one = check(&format!("c{number}"), when, &[]);
            one.verdicts = verdicts_of(choices, &made, at, false);
            one.doer = match choices.pick(3) {
                0 => builtin(),
                repeatable => command(repeatable == 1),
            };
            made.phases[at].checks.push(one);
        }
        let agree = matches!(made.phases[at].doer, Doer::Consensus { .. });
        if choices.chance(2) || agree {
            let id = if choices.chance(4) { "c0" } else { "gate" };
            let mut verdicts = verdicts_of(choices, &made, at, true);
            if agree {
                let either = effect(choices, &made, at, 2);
                verdicts.insert("approved_with_conditions".into(), Effect::Continue);
                verdicts.entry("rejected".into()).or_insert(either);
            }
            made.phases[at].gate =
                Some(windlass_kernel::run::plan::Gate { id: id.into(), verdicts });
        }
    }
    let concurrency = if choices.chance(2) { Concurrency::Parallel } else { Concurrency::Serial };
    let mut plan = Plan { concurrency, ..serial(made.phases) };
    plan.budget = budget(choices);
    plan.checkpoints = choices.chance(2);
    for phase in plan.phases.iter_mut().filter(|_| plan.checkpoints) {
        let writes = matches!(phase.doer, Doer::Agent { .. } | Doer::Command { .. });
        phase.branch = writes && choices.chance(3);
    }
    plan.hold = HoldRule {
        approvals: 1 + u32::from(choices.chance(3)),
        expires_ms: None,
        retries: 3,
        starter_counts: choices.chance(2),
    };
    plan
}

fn doer(choices: &mut Choices) -> Doer {
    match choices.pick(7) {
        0 | 1 => agent(),
        2 => builtin(),
        3 => command(true),
        4 => command(false),
        5 => person(1 + u32::from(choices.chance(2))),
        _ => reviewers(choices),
    }
}

fn reviewers(choices: &mut Choices) -> Doer {
    let count = 1 + choices.pick(5);
    let names: Vec<String> = (0..count)
        .map(|at| if choices.chance(2) { format!("person {at}") } else { format!("a{at}") })
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    consensus(1 + u32::try_from(choices.pick(count)).unwrap(), &names)
}

fn verdicts_of(
    choices: &mut Choices,
    made: &Made,
    at: usize,
    gate: bool,
) -> std::collections::BTreeMap<String, Effect> {
    let mut all = verdicts(&[(VERDICTS[0], Effect::Continue)]);
    for verdict in &VERDICTS[1..] {
        if choices.chance(2) {
            all.insert((*verdict).into(), effect(choices, made, at, 2));
        }
    }
    if gate && choices.chance(2) {
        all.insert("failed".into(), effect(choices, made, at, 2));
    }
    all
}

fn effect(choices: &mut Choices, made: &Made, at: usize, depth: usize) -> Effect {
    let ordinary: Vec<usize> = made.upstream[at]
        .iter()
        .copied()
        .filter(|place| made.phases[*place].when != PhaseCondition::Intervention)
        .collect();
    let interventions: Vec<usize> = (0..made.phases.len())
        .filter(|place| made.phases[*place].when == PhaseCondition::Intervention)
        .filter(|place| !made.upstream[*place].contains(&at))
        .collect();
    let name = |place: usize| made.phases[place].id.clone();
    match choices.pick(6) {
        1 if depth > 0 && !ordinary.is_empty() => Effect::Redo {
            max: 1 + u32::try_from(choices.pick(2)).unwrap(),
            phase: name(ordinary[choices.pick(ordinary.len())]),
            then: Box::new(effect(choices, made, at, depth - 1)),
        },
        2 if depth > 0 && !interventions.is_empty() => Effect::Intervene {
            phase: name(interventions[choices.pick(interventions.len())]),
            then: Box::new(effect(choices, made, at, depth - 1)),
        },
        3 => Effect::Hold {
            approvals: choices.chance(2).then_some(2),
            trigger: [Trigger::EscalationRequested, Trigger::WaiverRequested][choices.pick(2)],
        },
        4 => Effect::Block,
        5 => Effect::Stop { outcome: RunOutcome::EscalationRequested, reason: "stop".into() },
        _ => Effect::Continue,
    }
}

fn budget(choices: &mut Choices) -> Budget {
    let mut limit = |of: u64| choices.chance(3).then_some(of);
    Budget {
        attempts: limit(2),
        changed_lines: limit(20),
        cost_micros: limit(50),
        tokens: limit(50),
        wall_ms: limit(3000),
    }
}

/// The maximum number of times that a plan can send a run back.
pub fn back_max(plan: &Plan) -> usize {
    fn of(effect: &Effect) -> usize {
        match effect {
            Effect::Redo { max, then, .. } => usize::try_from(*max).unwrap() + of(then),
            Effect::Intervene { then, .. } => 1 + of(then),
            Effect::Block | Effect::Continue | Effect::Hold { .. } | Effect::Stop { .. } => 0,
        }
    }
    let gates = plan.phases.iter().flat_map(|phase| phase.gate.iter().map(|gate| &gate.verdicts));
    let checks = plan.phases.iter().flat_map(|phase| phase.checks.iter().map(|one| &one.verdicts));
    gates.chain(checks).flat_map(|all| all.values()).map(of).sum()
}

/// The maximum number of times that one check or gate can send the run back to one phase.
pub fn max_to(effects: &std::collections::BTreeMap<String, Effect>, to: &str) -> u32 {
    fn of(effect: &Effect, to: &str) -> u32 {
        match effect {
            Effect::Redo { max, phase, then } => {
                of(then, to).max(if phase == to { *max } else { 0 })
            }
            Effect::Intervene { phase, then } => of(then, to).max(u32::from(phase == to)),
            Effect::Block | Effect::Continue | Effect::Hold { .. } | Effect::Stop { .. } => 0,
        }
    }
    effects.values().map(|effect| of(effect, to)).max().unwrap_or_default()
}

/// Whether phases of a plan can wait for each other in a circle: each waits for the phases that it needs,
/// and for the interventions that its checks and gate can cause.
pub fn can_lock(plan: &Plan) -> bool {
    fn asked<'a>(effect: &'a Effect, all: &mut BTreeSet<&'a str>) {
        match effect {
            Effect::Intervene { phase, then } => {
                all.insert(phase);
                asked(then, all);
            }
            Effect::Redo { then, .. } => asked(then, all),
            Effect::Block | Effect::Continue | Effect::Hold { .. } | Effect::Stop { .. } => {}
        }
    }
    let waits = |phase: &Phase, free: &BTreeSet<&str>| {
        let mut all: BTreeSet<&str> = phase.needs.iter().map(String::as_str).collect();
        let checks = phase.checks.iter().map(|one| &one.verdicts);
        let verdicts = checks.chain(phase.gate.iter().map(|gate| &gate.verdicts));
        verdicts.flat_map(|all| all.values()).for_each(|effect| asked(effect, &mut all));
        all.iter().any(|name| !free.contains(name))
    };
    let mut free = BTreeSet::new();
    loop {
        let more = plan.phases.iter().filter(|phase| !free.contains(phase.id.as_str()));
        let more: Vec<&str> =
            more.filter(|phase| !waits(phase, &free)).map(|phase| phase.id.as_str()).collect();
        if more.is_empty() {
            return free.len() < plan.phases.len();
        }
        free.extend(more);
    }
}
