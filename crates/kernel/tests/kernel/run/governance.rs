//! The encoding of governance rules and their results.

use serde_json::{Value, json};
use windlass_kernel::canon;
use windlass_kernel::run::plan::{Compare, Evidence, Governance, OnFailure, Rule, RuleLevel};
use windlass_kernel::run::{ComplianceResult, Event, GateResult, GateStatus, GovernanceResult};

use crate::run::checkpoints::kept;
use crate::run::harness::{Lab, done};
use crate::run::plans::{agreed, consensus, phase, serial, with};

fn rule(evidence: Evidence) -> Rule {
    Rule {
        evidence,
        id: "coverage".into(),
        level: RuleLevel::Organisation,
        on_failure: OnFailure::Block,
        phases: vec!["a".into()],
        remediation: "write tests".into(),
    }
}

fn metric(threshold: Value) -> Evidence {
    Evidence::Metric {
        argv: vec!["cover".into()],
        compare: Compare::AtLeast,
        pinned: None,
        pointer: "/total".into(),
        threshold: serde_json::from_value(threshold).unwrap(),
        timeout_ms: 1000,
    }
}

#[test]
fn rules_are_written_and_read_byte_for_byte() {
    let validator = Evidence::Validator {
        bytes_max: Some(10),
        files: vec!["*.json".into()],
        forbid: None,
        json: true,
        require: Some("^\\{".into()),
    };
    let tool = |pinned| Evidence::Tool { argv: vec!["lint".into()], pinned, timeout_ms: 5 };
    let (default, none) = (tool(None), tool(Some(Vec::new())));
    let some = tool(Some(vec!["scripts".into()]));
    for evidence in [metric(json!(80)), metric(json!(0.5)), default, none, some, validator] {
        let governance = Governance { compliance: vec![rule(evidence.clone())], gates: vec![] };
        let bytes = canon::to_bytes(&governance).unwrap();
        let back: Governance = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(canon::to_bytes(&back).unwrap(), bytes);
        assert_eq!(back.compliance[0].evidence, evidence);
    }
}

#[test]
fn unknown_fields_and_variants_are_refused() {
    let good = serde_json::to_value(rule(metric(json!(1)))).unwrap();
    assert!(serde_json::from_value::<Rule>(good.clone()).is_ok());
    for (path, value) in [
        ("/level", json!("client")),
        ("/on_failure", json!("ignore")),
        ("/evidence/kind", json!("guess")),
        ("/evidence/compare", json!("about")),
        ("/evidence/threshold", json!("80")),
        ("/evidence/timeout_ms", json!(-1)),
        ("/phases", json!(null)),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = value;
        assert!(serde_json::from_value::<Rule>(bad).is_err(), "{path}");
    }
    for path in ["", "/evidence"] {
        let mut bad = good.clone();
        bad.pointer_mut(path).unwrap()["surplus"] = json!(1);
        assert!(serde_json::from_value::<Rule>(bad).is_err(), "surplus at `{path}`");
    }
}

#[test]
fn the_stricter_value_compares_greater() {
    let mut all = [GateStatus::Blocked, GateStatus::Passed, GateStatus::Warned];
    all.sort();
    assert_eq!(all, [GateStatus::Passed, GateStatus::Warned, GateStatus::Blocked]);
    assert!(OnFailure::Block > OnFailure::Warn);
    let mut levels =
        [RuleLevel::Loop, RuleLevel::Project, RuleLevel::Universal, RuleLevel::Organisation];
    levels.sort();
    assert_eq!(
        levels,
        [RuleLevel::Universal, RuleLevel::Organisation, RuleLevel::Project, RuleLevel::Loop]
    );
}

/// Governance results are stored with the phase result, shown to reviewers, and restored by a rollback.
#[test]
fn governance_results_stay_with_the_phase_result() {
    let governed = GovernanceResult {
        compliance_checks: vec![ComplianceResult {
            compliance_type: "licence".into(),
            passed: true,
            status: GateStatus::Passed,
            violations: vec![],
        }],
        passed: true,
        quality_gates: vec![GateResult {
            actual: json!(71.5),
            gate_id: "coverage".into(),
            message: "71.5 of 80".into(),
            remediation: "write tests".into(),
            status: GateStatus::Warned,
            threshold: json!(80),
        }],
    };
    let plan = kept(with(
        serial(vec![
            phase("a", &[]),
            with(phase("c", &["a"]), |phase| {
                phase.doer = consensus(1, &["bob"]);
                phase.gate = agreed(windlass_kernel::run::plan::Effect::Block);
            }),
        ]),
        |plan| plan.governance.gates = vec![rule(metric(json!(80)))],
    ));
    let mut lab = Lab::new(plan);
    lab.record(Event::Begun {});
    lab.record(Event::PhaseStarted { phase: "a".into(), attempt: 1 });
    let work = with(done(json!({})), |done| done.governance = Some(governed.clone()));
    lab.record(Event::PhaseDone { phase: "a".into(), attempt: 1, done: Box::new(work) });
    crate::run::harness::Script::new().walk(&mut lab);
    let held = &lab.run.hold.as_ref().unwrap().held;
    assert_eq!(held.evidence["phases"]["a"]["governance"], json!(governed));
    assert_eq!(lab.reread(), lab.run);
    let post = lab.checkpoint("POST_a_v1");
    lab.roll_back(&post, true);
    assert_eq!(lab.run.phases[0].done.as_ref().unwrap().governance, Some(governed));
}
