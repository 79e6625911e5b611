//! The policy: rules with what they decided lately, and explanations.

use serde_json::{Value, json};

use crate::served::{Served, own_token, project_of};
use crate::world::Repo;

#[test]
fn rules_show_what_they_decided_lately_and_a_call_is_explained() {
    let repo = Repo::new();
    let served = Served::start(&repo.place, &[]);
    let token = own_token(&repo.place);
    let project = project_of(&repo.place);
    let held = repo.place.held();
    let deny = || repo.place.shell("shell/run", "sudo ls", &["--new-key", "--json"]).exit(3).json();
    let (_, denied) = (deny(), deny());
    let denied = denied["trace_id"].as_str().unwrap();
    let base = format!("/api/v1/projects/{project}/policy");
    let get = |path: &str| served.call(&token, "GET", path, &Value::Null);
    let policy = get(&base).status(200).json();
    assert_eq!((&policy["calls_looked_at"], &policy["calls_asked"]), (&json!(3), &json!(1)));
    let rules = policy["rules"].as_array().unwrap();
    let checked = repo.windlass(&["policy", "check", "--json"]).exit(0).json();
    let ids = |rules: &[Value]| rules.iter().map(|rule| rule["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(rules), ids(checked["rules"].as_array().unwrap()), "in their order");
    let denying = rules.iter().find(|rule| rule["verdict"] == "deny" && rule["calls"] == 2);
    let denying = denying.unwrap_or_else(|| panic!("{policy}"));
    assert_eq!(denying["decisions"], json!({ "deny": 2 }));
    assert_eq!(denying["newest"].as_array().unwrap().len(), 2);
    assert!(denying["line"].as_u64().unwrap() > 0 && denying["file"].is_string());

    let explain = |query: &str| get(&format!("{base}/explain?{query}"));
    let asked = explain("tool=shell/run&args=%7B%22line%22%3A%22git+push%22%7D").status(200).json();
    assert_eq!(asked["judgement"]["verdict"], "ask", "{asked}");
    assert!(asked["judgement"]["rules"][0]["id"].is_string(), "{asked}");
    let of_call = explain(&format!("call={held}")).status(200).json();
    assert_eq!(
        (&of_call["recorded"], &of_call["judgement"]["verdict"]),
        (&Value::Null, &json!("ask"))
    );
    assert_eq!(of_call["args"], json!({ "line": "env" }));
    let of_denied = explain(&format!("call={denied}")).status(200).json();
    assert_eq!(of_denied["recorded"]["decision"], "deny");
    assert_eq!(of_denied["recorded"]["same_policy"], true);
    explain("").refused(422, "REQUEST_INVALID");
    explain("tool=shell/run&args=@/etc/passwd").refused(422, "REQUEST_INVALID");
    explain("call=x").refused(404, "TRACE_NOT_FOUND");
    explain("call=01890a5d-ac96-774b-bcce-b302099a8057").refused(404, "TRACE_NOT_FOUND");

    let cookie = served.enter(&served.link);
    let browse = |path: &str| served.browse(&cookie, "GET", path, "");
    let page = browse("/policy").status(200).body;
    let rule = denying["id"].as_str().unwrap();
    assert!(page.contains(&format!("/calls?rule={rule}")) && page.contains("2 calls"), "{page}");
    let page = browse("/policy/explain?tool=shell%2Frun&args=%7B%22line%22%3A%22sudo+ls%22%7D");
    let page = page.status(200).body;
    assert!(page.contains("It does not run.") && page.contains(rule), "{page}");
    let page = browse(&format!("/policy/explain?call={held}")).status(200).body;
    assert!(page.contains("A person is asked"), "{page}");
    let page = browse(&format!("/policy/explain?call={denied}")).status(200).body;
    assert!(page.contains("the one of today"), "{page}");
    let wrong = browse("/policy/explain?tool=%3Cb%3E").status(422).body;
    assert!(!wrong.contains("<b>"), "{wrong}");
    browse("/policy?project=none").status(404);
}
