//! The session state and the insights.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use windlass_formats::core::{
    CriticVerdict, DocumentError, INSIGHTS_ITEMS_MAX, INSIGHTS_TEXT_CHARS_MAX, Insights, Recorded,
    SessionOutcome, SessionState, SubagentState, Trends, insights_path, session_state_path,
    short_session_id,
};
use windlass_formats::{FieldError, Moment};
use windlass_kernel::{Code, Digest};

fn moment() -> Moment {
    "2026-01-13T10:00:00Z".parse().unwrap()
}

fn recorded() -> Recorded {
    Recorded {
        acceptance_criteria_count: 3,
        critic_verdict: Some(CriticVerdict::Proceed),
        custodiet_blocks: 1,
        date: "2026-01-13".parse().unwrap(),
        project: "academicOps".to_owned(),
        session_id: "a1b2c3d4".to_owned(),
        stop_reason: Some("end_turn".to_owned()),
        subagents: BTreeMap::from([("critic".to_owned(), 2), ("prompt-hydrator".to_owned(), 1)]),
        workflows_used: vec!["tdd-cycle".to_owned()],
    }
}

/// All keys of the schema.
fn full() -> Value {
    json!({
        "session_id": "a1b2c3d4", "date": "2026-01-13", "project": "academicOps",
        "summary": "One sentence", "outcome": "success",
        "accomplishments": ["item1", "item2"], "friction_points": ["issue1"],
        "proposed_changes": ["change1"],
        "workflows_used": ["tdd"], "subagents_invoked": ["prompt-hydrator", "critic"],
        "subagent_count": 2, "custodiet_blocks": 0, "stop_reason": "end_turn",
        "critic_verdict": "PROCEED", "acceptance_criteria_count": 3,
        "learning_observations": [{ "category": "user_correction" }],
        "skill_compliance": { "suggested": ["a"], "rate": 0.5 }, "context_gaps": ["gap"],
        "user_mood": 0.5, "conversation_flow": [["10:00", "user", "hello"]],
        "user_prompts": [["10:00", "user", "hello"]],
        "token_metrics": { "input": 10 }, "framework_reflections": [{ "outcome": "success" }],
        "workflow_improvements": ["shorter"], "timeline_events": [{ "at": "10:00" }],
    })
}

#[test]
fn a_new_session_has_exactly_the_keys_of_the_structure() {
    let mut state = SessionState::new("abc123", "2026-01-13".parse().unwrap(), moment());
    state.subagents.insert(
        "critic".to_owned(),
        SubagentState {
            acceptance_criteria: Some(vec!["criterion 1".to_owned()]),
            last_invoked: moment(),
            result: None,
            verdict: Some("PROCEED".to_owned()),
        },
    );
    state.subagents.insert(
        "custodiet".to_owned(),
        SubagentState {
            acceptance_criteria: None,
            last_invoked: moment(),
            result: Some("OK".to_owned()),
            verdict: None,
        },
    );
    let bytes = state.to_bytes().unwrap();
    let expected = json!({
        "session_id": "abc123", "date": "2026-01-13", "started_at": "2026-01-13T10:00:00Z",
        "ended_at": null,
        "state": {
            "custodiet_blocked": false, "custodiet_block_reason": null, "current_workflow": null,
            "hydration_pending": false, "last_compliance_ts": null,
            "tool_calls_since_compliance": 0, "last_drift_warning": null, "error_flag": null,
            "last_hydration_ts": null, "active_skill": null, "gates_bypassed": false,
        },
        "hydration": {
            "original_prompt": null, "hydrated_intent": null, "acceptance_criteria": [],
            "critic_verdict": null,
        },
        "main_agent": { "current_task": null, "todos_completed": 0, "todos_total": 0 },
        "subagents": {
            "critic": { "last_invoked": "2026-01-13T10:00:00Z", "verdict": "PROCEED",
                        "acceptance_criteria": ["criterion 1"] },
            "custodiet": { "last_invoked": "2026-01-13T10:00:00Z", "result": "OK" },
        },
        "insights": null,
    });
    assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), expected);
    let mut pretty = serde_json::to_vec_pretty(&expected).unwrap();
    pretty.push(b'\n');
    assert_eq!(bytes, pretty, "sorted keys");
    assert_eq!(SessionState::read(&bytes).unwrap(), state);
    state.insights = Some(Insights::from_value(&full()).unwrap());
    assert_eq!(SessionState::read(&state.to_bytes().unwrap()).unwrap(), state);
}

#[test]
fn a_session_state_with_other_keys_or_values_is_refused() {
    let state = SessionState::new("abc123", "2026-01-13".parse().unwrap(), moment());
    let text = String::from_utf8(state.to_bytes().unwrap()).unwrap();
    for (from, to) in [
        ("\"session_id\"", "\"session\""),
        ("\"state\": {", "\"state\": { \"mode\": 1,"),
        ("\"custodiet_blocked\": false", "\"custodiet_blocked\": \"false\""),
        ("\"custodiet_blocked\": false,", ""),
        ("\"todos_total\": 0", "\"todos_total\": -1"),
        ("2026-01-13T10:00:00Z", "yesterday"),
        ("\"insights\": null", "\"insights\": {}"),
        ("\"critic_verdict\": null", "\"critic_verdict\": \"proceed\""),
        ("\"date\":", "\"date\": \"2026-01-14\", \"date\":"),
    ] {
        assert!(text.contains(from), "{from}");
        assert!(SessionState::read(text.replacen(from, to, 1).as_bytes()).is_err(), "{to}");
    }
    let half = SessionState::read(&text.as_bytes()[..100]).unwrap_err();
    assert_eq!(half.code(), Code::JsonInvalid);
}

#[test]
fn the_file_of_a_session_is_named_by_project_day_and_id() {
    let path = |project: &str, id: &str| {
        let date = "2026-01-13".parse().unwrap();
        session_state_path(Path::new("/home/alice"), project, date, id).display().to_string()
    };
    assert_eq!(
        path("/home/alice/src/my.app", "3f2a9c1e-aaaa-bbbb"),
        "/home/alice/.claude/projects/-home-alice-src-my_app/20260113-3f2a9c1e/session-state.json"
    );
    let hashed = |id: &str| Digest::of(id.as_bytes()).to_string()[..8].to_owned();
    assert_eq!(short_session_id("abcdefgh"), "abcdefgh");
    for id in ["", "abc123", "ab-cdefgh", "../../../etc", "äbcdefgh", "session one"] {
        assert_eq!(short_session_id(id), hashed(id), "{id}");
    }
    let hostile = path("/../..//x", "../../..");
    assert!(hostile.starts_with("/home/alice/.claude/projects/-__-__--x/20260113-"), "{hostile}");
    let long = "/a.long.name.ä".repeat(100);
    let name = path(&long, "abcdefgh");
    let folder = name.split('/').nth(5).unwrap().to_owned();
    assert!(folder.len() <= 200 && folder.ends_with(&hashed(&long)), "{folder}");
}

#[test]
fn the_file_of_insights_is_named_by_day_and_id() {
    let path = |id: &str| {
        let date = "2026-01-13".parse().unwrap();
        insights_path(Path::new("/data"), date, id).display().to_string()
    };
    assert_eq!(path("a1b2c3d4"), "/data/sessions/insights/2026-01-13-a1b2c3d4.json");
    for id in ["", "../x", "a b", "a.b", &"a".repeat(129)] {
        let digest = Digest::of(id.as_bytes());
        assert_eq!(path(id), format!("/data/sessions/insights/2026-01-13-{digest}.json"));
    }
}

#[test]
fn insights_have_every_key_of_the_schema_and_round_trip() {
    let insights = Insights::from_value(&full()).unwrap();
    let bytes = insights.to_bytes().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), full());
    assert_eq!(Insights::read(&bytes).unwrap(), insights);
    let mut pretty = serde_json::to_vec_pretty(&full()).unwrap();
    pretty.push(b'\n');
    assert_eq!(bytes, pretty, "sorted keys");
    let required = ["session_id", "date", "project", "summary", "outcome", "accomplishments"];
    for key in full().as_object().unwrap().keys() {
        let mut without = full();
        without.as_object_mut().unwrap().remove(key);
        let result = Insights::from_value(&without);
        if required.contains(&key.as_str()) {
            assert_eq!(result, Err(FieldError::Missing { field: key.clone() }));
        } else {
            assert_eq!(serde_json::to_value(result.unwrap()).unwrap(), without);
        }
    }
}

#[test]
fn the_first_wrong_field_is_named_by_its_path() {
    let long = "a".repeat(INSIGHTS_TEXT_CHARS_MAX + 1);
    for (key, value, field) in [
        ("summary", json!(""), "summary"),
        ("summary", json!(1), "summary"),
        ("summary", json!(long), "summary"),
        ("date", json!("13.01.2026"), "date"),
        ("outcome", json!("Success"), "outcome"),
        ("accomplishments", json!(null), "accomplishments"),
        ("accomplishments", json!(["a", 1]), "accomplishments[1]"),
        ("accomplishments", json!(["a", long]), "accomplishments[1]"),
        ("friction_points", json!(vec!["a"; INSIGHTS_ITEMS_MAX + 1]), "friction_points"),
        ("subagent_count", json!(-1), "subagent_count"),
        ("custodiet_blocks", json!(1.5), "custodiet_blocks"),
        ("critic_verdict", json!("OK"), "critic_verdict"),
        ("user_mood", json!(1.01), "user_mood"),
        ("user_mood", json!(-2), "user_mood"),
        ("user_mood", json!("good"), "user_mood"),
        ("skill_compliance", json!([]), "skill_compliance"),
        ("skill_compliance", json!({ "a": [long] }), "skill_compliance.a[0]"),
        ("learning_observations", json!([1]), "learning_observations[0]"),
        ("framework_reflections", json!([{}, "text"]), "framework_reflections[1]"),
        ("timeline_events", json!({}), "timeline_events"),
        ("mood", json!(1), "mood"),
    ] {
        let mut value_with = full();
        value_with.as_object_mut().unwrap().insert(key.to_owned(), value);
        let bytes = value_with.to_string();
        let Err(DocumentError::Field { source, .. }) = Insights::read(bytes.as_bytes()) else {
            unreachable!("{key} is refused");
        };
        let named = match source {
            FieldError::NotObject { .. } => String::new(),
            FieldError::Unknown { field, .. }
            | FieldError::Missing { field }
            | FieldError::Type { field, .. }
            | FieldError::Value { field, .. } => field,
        };
        assert_eq!(named, field);
    }
    for mood in [json!(-1), json!(1), json!(0.0)] {
        let mut value = full();
        value["user_mood"] = mood;
        Insights::from_value(&value).unwrap();
    }
    let twice = full().to_string().replacen('{', "{\"summary\":\"a\",", 1);
    assert_eq!(Insights::read(twice.as_bytes()).unwrap_err().code(), Code::JsonDuplicateKey);
    let mut large = Insights::from_value(&full()).unwrap();
    large.accomplishments = vec!["a".repeat(40_000); 30];
    assert_eq!(large.to_bytes().unwrap_err().code(), Code::DocSizeExceeded);
    large.accomplishments = vec![long];
    assert_eq!(large.to_bytes().unwrap_err().code(), Code::RequestInvalid);
}

#[test]
fn automatic_insights_say_only_what_was_recorded() {
    let automatic = Insights::automatic(recorded());
    let expected = json!({
        "session_id": "a1b2c3d4", "date": "2026-01-13", "project": "academicOps",
        "summary": "Session completed", "outcome": "partial", "accomplishments": [],
        "workflows_used": ["tdd-cycle"], "subagents_invoked": ["critic", "prompt-hydrator"],
        "subagent_count": 3, "custodiet_blocks": 1, "stop_reason": "end_turn",
        "critic_verdict": "PROCEED", "acceptance_criteria_count": 3,
    });
    assert_eq!(serde_json::to_value(&automatic).unwrap(), expected);
    automatic.to_bytes().unwrap();
}

#[test]
fn rich_insights_replace_automatic_ones_except_for_what_was_recorded() {
    let mut automatic = Insights::automatic(recorded());
    automatic.token_metrics = Some(serde_json::Map::new());
    let mut rich = full();
    rich.as_object_mut().unwrap().remove("token_metrics");
    let merged = Insights::from_value(&rich).unwrap().merge(&automatic).unwrap();
    let mut expected = full();
    expected["token_metrics"] = json!({});
    for key in ["workflows_used", "subagents_invoked", "subagent_count", "custodiet_blocks"] {
        expected[key] = serde_json::to_value(&automatic).unwrap()[key].clone();
    }
    assert_eq!(serde_json::to_value(merged).unwrap(), expected);
    for key in ["session_id", "date", "project"] {
        let mut other = full();
        other[key] = json!("2026-01-14");
        let error = Insights::from_value(&other).unwrap().merge(&automatic).unwrap_err();
        assert!(error.to_string().contains(key), "{error}");
    }
}

#[test]
fn trends_count_sessions_in_all_and_by_week() {
    let session = |date: &str, outcome: &str, blocks: u32, friction: &[&str]| {
        let mut value = full();
        value["date"] = json!(date);
        value["outcome"] = json!(outcome);
        value["custodiet_blocks"] = json!(blocks);
        value["friction_points"] = json!(friction);
        value["workflows_used"] = json!(["tdd", "tdd"]);
        Insights::from_value(&value).unwrap()
    };
    let trends = Trends::of(&[
        session("2026-01-13", "success", 0, &["slow tests", "no network"]),
        session("2026-01-14", "failure", 2, &["Slow  tests", "slow tests", ""]),
        session("2026-01-20", "success", 1, &["a flaky hook"]),
    ]);
    let total = &trends.total;
    assert_eq!((total.sessions, total.custodiet_blocks, total.blocked_sessions), (3, 3, 2));
    assert_eq!(
        total.outcomes,
        BTreeMap::from([(SessionOutcome::Success, 2), (SessionOutcome::Failure, 1)])
    );
    assert_eq!(total.critic_verdicts, BTreeMap::from([(CriticVerdict::Proceed, 3)]));
    assert_eq!(total.workflows, BTreeMap::from([("tdd".to_owned(), 3)]));
    assert_eq!(total.subagents["critic"], 3);
    let friction = [("slow tests", 2), ("a flaky hook", 1), ("no network", 1)];
    assert_eq!(total.friction_points, friction.map(|(text, count)| (text.to_owned(), count)));
    let weeks: Vec<_> =
        trends.weeks.iter().map(|(week, counts)| (week.as_str(), counts.sessions)).collect();
    assert_eq!(weeks, [("2026-W03", 2), ("2026-W04", 1)]);
    assert_eq!(trends.weeks["2026-W04"].custodiet_blocks, 1);
    assert_eq!(serde_json::to_value(&trends).unwrap()["total"]["outcomes"]["success"], 2);
    assert_eq!(Trends::of(&[]), Trends::default());
}
