//! `windlass doctor`.

use serde_json::{Value, json};

use crate::e2e::snapshot::check;
use crate::harness::{Place, text_of};

#[test]
fn a_healthy_project_is_good() {
    let place = Place::with_project();
    place.completed();
    let outcome = place.run(&["doctor"]).exit(0).quiet();
    check("doctor", &place, &[outcome]);
    let json = place.run(&["doctor", "--json"]).exit(0).quiet().json();
    for finding in json.as_array().unwrap() {
        assert_eq!(finding["verdict"], "good", "{finding}");
    }
}

/// Makes something wrong.
type Spoil = fn(&Place);

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let mut outcomes = vec![Place::new().run(&["doctor"]).exit(1).says("[PROJECT_MISSING]")];
    let spoilt: [(&str, Spoil); 6] = [
        ("CONFIG_INVALID", |place| place.append(".windlass/config.toml", "colour = 1")),
        ("POLICY_INVALID", |place| place.append(".windlass/policy/default.toml", "[[rule]]")),
        ("STORE_TOO_NEW", |place| {
            place.tamper().execute_batch("PRAGMA user_version = 99").unwrap();
        }),
        ("STORE_CORRUPT", |place| {
            std::fs::write(place.database(), "this is not a database, but a text".repeat(9))
                .unwrap();
        }),
        ("STORE_UNAVAILABLE", |place| std::fs::remove_file(place.database()).unwrap()),
        ("STORE_CORRUPT", |place| {
            drop(place.tamper().execute_batch("PRAGMA application_id = 7"));
        }),
    ];
    let mut last = Place::new();
    for (code, spoil) in spoilt {
        let place = Place::with_project();
        spoil(&place);
        let outcome = place.run(&["doctor"]).exit(1).quiet().says("bad").says(&format!("[{code}]"));
        let json = place.run(&["doctor", "--json"]).exit(1).json();
        assert!(json.as_array().unwrap().iter().any(|finding| {
            finding["verdict"] == "bad" && text_of(finding, "message").contains(code)
        }));
        let mut outcome = outcome;
        outcome.stdout = crate::e2e::snapshot::filter(&place, outcome.text()).into_bytes();
        outcomes.push(outcome);
        last = place;
    }
    check("doctor_bad", &last, &outcomes);
}

#[test]
fn open_calls_are_counted() {
    let place = Place::with_server();
    place.held();
    place.run(&["doctor"]).exit(0).says("warn").says("1 waiting for a person");
    place.interrupted("count/again", "{}");
    place.run(&["doctor"]).exit(0).says("warn").says("1 interrupted").says("windlass recover");
}

#[test]
fn servers_are_reached_and_compared() {
    let place = Place::with_server();
    place.replace(".windlass/tools.toml", "[server.broken]", "[server.count2]");
    place.replace(".windlass/tools.toml", "[server.broken.tool", "[server.count2.tool");
    place.replace(".windlass/tools.toml", "/nonexistent/server\"", "unused\"");
    let tools = place.read(".windlass/tools.toml");
    let server = windlass_testkit::example_binary("counting_server").display().to_string();
    let good = tools.replace("[\"unused\"]", &format!("[\"{server}\"]\nsandbox = false"));
    place.write(".windlass/tools.toml", &good);
    place.run(&["doctor"]).exit(0).says("not checked; use `--servers`");
    let outcome = place.run(&["doctor", "--servers"]).exit(0);
    outcome.says("windlass-test-server 1.2.3").says("14 tools");
    assert_eq!(place.executed(), 0);

    let liar = format!("{good}\n[server.count.tool.liar]\nclass = \"read\"\n");
    place.write(".windlass/tools.toml", liar);
    place.run(&["doctor", "--servers"]).exit(1).says("`liar` is registered as a read");
    let absent = format!("{good}\n[server.count.tool.absent]\nclass = \"read\"\n");
    place.write(".windlass/tools.toml", absent);
    place.run(&["doctor", "--servers"]).exit(1).says("the server has no tool `absent`");
    place.write(".windlass/tools.toml", &tools);
    let outcome = place.run(&["doctor", "--servers"]).exit(1);
    outcome.says("`unused`").says("[TOOL_SERVER_UNAVAILABLE]");
}

#[test]
fn clients_that_are_not_installed_are_said_and_missed_if_named() {
    let place = Place::new();
    let nothing = place.base().display().to_string();
    let outcome = place.run_with("PATH", &nothing, &["doctor", "--agents"]).exit(0).quiet();
    for client in ["claude", "codex", "gemini", "opencode"] {
        let outcome = place.run_with("PATH", &nothing, &["doctor", "--agents", client]).exit(1);
        outcome.says(&format!("{client}: not installed"));
    }
    let said = "not installed: `opencode` is not on your PATH";
    assert_eq!(outcome.says(said).text().lines().filter(|line| !line.is_empty()).count(), 4);
    let all = place.run_with("PATH", &nothing, &["doctor", "--agents", "--json"]).exit(0).json();
    for report in all.as_array().unwrap() {
        assert_eq!((&report["level"], &report["cases"]), (&Value::Null, &json!([])), "{report}");
    }
    place.run(&["doctor", "--agents", "vim"]).exit(2);
    place.run(&["doctor", "--agents", "--case", "vanish"]).exit(2);
    place.run(&["doctor", "--case", "vanishes"]).exit(2);
    // A case that is not tried is not passed.
    let none = ["doctor", "--agents", "claude", "--case", "option-pure"];
    place.run(&none).fails_with(2, "REQUEST_INVALID").warns("with none of these clients");
}
