//! What runs have used.

use serde_json::{Value, json};
use windlass_testkit::eventually;

use crate::served::{Served, own_token};
use crate::world::{Repo, escalating, id_of, passing};

#[test]
fn usage_is_counted_by_day_run_agent_and_model_and_goes_on_with_a_run() {
    let repo = Repo::new();
    let passed = id_of(&repo.run(&passing()).exit(0));
    let served = Served::start(&repo.place, &[]);
    let token = own_token(&repo.place);
    let get =
        |query: &str| served.call(&token, "GET", &format!("/api/v1/spend{query}"), &Value::Null);
    let report = || get("").status(200).json();
    let counted = |calls: u64, tokens: u64| {
        eventually("all is counted", || {
            let report = report();
            let total = &report["total"];
            total["calls"] == calls && total["tokens"] == tokens && report["counted_at"].is_string()
        })
    };
    counted(1, 110);
    let found = report();
    let used = json!({ "tokens": 110, "cost_micros": 5, "calls": 1, "invocations": 3 });
    assert_eq!(found["total"], used, "{found}");
    let days = found["days"].as_array().unwrap();
    assert_eq!(days.len(), 30);
    assert_eq!(days[29]["tokens"], 110);
    assert_eq!(
        (&found["runs"][0]["name"], &found["runs"][0]["calls"]),
        (&json!(passed), &json!(1))
    );
    let agents = found["agents"].as_array().unwrap();
    assert_eq!((agents.len(), &agents[0]["tokens"]), (3, &json!(110)), "{found}");
    assert_eq!((&agents[0]["name"], &agents[1]["name"]), (&json!("builder"), &json!("designer")));

    // A run that is open is counted as far as it is, and once.
    let held = id_of(&repo.run(&escalating()).exit(4));
    counted(2, 220);
    repo.approve(&held).exit(0);
    repo.place.completed();
    counted(3, 220);
    assert_eq!(report()["runs"].as_array().unwrap().len(), 2);

    assert_eq!(get("?days=1").status(200).json()["days"].as_array().unwrap().len(), 1);
    assert_eq!(get("?project=none").status(200).json()["total"]["tokens"], 0);
    for query in ["?days=x", "?days=2", "?days=-1"] {
        get(query).refused(422, "REQUEST_INVALID");
    }
    let cookie = served.enter(&served.link);
    let page = served.browse(&cookie, "GET", "/spend?days=7", "").status(200).body;
    assert!(
        page.contains(&passed) && page.contains("$0.00001") && page.contains("<rect"),
        "{page}"
    );
    assert!(!page.contains("style="), "the policy of the page forbids it");
}
