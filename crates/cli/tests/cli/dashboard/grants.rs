//! Grants: given, used and revoked from the dashboard, signed for whoever does it.

use serde_json::{Value, json};

use crate::served::{Served, own_token, person, project_of};
use crate::world::Repo;

#[test]
fn a_grant_is_given_used_and_revoked() {
    let repo = Repo::new();
    repo.windlass(&["people", "add", "ada"]).exit(0);
    let served = Served::start(&repo.place, &[]);
    let token = own_token(&repo.place);
    let project = project_of(&repo.place);
    let base = format!("/api/v1/projects/{project}/grants");
    let get = |path: &str| served.call(&token, "GET", path, &Value::Null).status(200).json();
    assert_eq!(get(&base), json!({ "grants": [], "next": null }));
    let wide = json!({ "tool": "shell/run", "reason": "all of it" });
    served.call(&token, "POST", &base, &wide).refused(409, "GRANT_TOO_WIDE");
    let unknown = json!({ "tool": "shell/run", "reason": "x", "what": 1 });
    served.call(&token, "POST", &base, &unknown).refused(422, "REQUEST_INVALID");
    let new = json!({ "tool": "shell/run", "path": "CLAUDE.md", "times": 2, "for": "2h", "reason": "the <notes>" });
    served.call(&token, "POST", &base, &new).status(200);
    let line = "echo x > CLAUDE.md";
    let call = repo.place.shell("shell/run", line, &["--key", "one", "--json"]).exit(0).json();
    let given = get(&base)["grants"][0].clone();
    let id = given["grant"].as_str().unwrap().to_owned();
    assert_eq!(
        (&given["status"], &given["used"], &given["times"]),
        (&json!("open"), &json!(1), &json!(2))
    );
    assert_eq!((&given["granted"]["by"], &given["path"]), (&json!("ada"), &json!("CLAUDE.md")));
    assert_eq!(get(&format!("{base}/{id}"))["uses"][0]["call"], call["trace_id"]);

    // A viewer sees it and can do nothing about it.
    let viewer = person(&repo.place, "vic", "viewer");
    served.call(&viewer, "GET", &base, &Value::Null).status(200);
    served.call(&viewer, "POST", &base, &new).refused(403, "REQUEST_INVALID");
    let revoke = format!("{base}/{id}/revoke");
    let why = json!({ "reason": "done" });
    served.call(&viewer, "POST", &revoke, &why).refused(403, "REQUEST_INVALID");

    let cookie = served.enter(&served.link);
    let browse = |path: &str| served.browse(&cookie, "GET", path, "").status(200).body;
    let page = browse("/grants");
    assert!(
        page.contains("in force") && page.contains("1 of 2") && page.contains("the &lt;notes&gt;"),
        "{page}"
    );
    let own = format!("/grants/{project}/{id}");
    assert!(page.contains(&own) && browse(&own).contains("Revoke it"));
    let reply = served.browse(&cookie, "POST", &format!("{own}/revoke"), "reason=done").status(303);
    assert_eq!(reply.header("location"), own);
    assert!(browse(&own).contains("revoked by"));
    assert!(browse("/grants").contains("No grant is in force."));
    assert!(browse("/grants?all=yes").contains("revoked"));
    served.call(&token, "POST", &revoke, &why).refused(409, "GRANT_ENDED");
    repo.place.shell("shell/run", line, &["--new-key"]).exit(4);
    let form = "tool=shell%2Frun&command=git+push+*&times=1&for=1h&reason=release";
    served.browse(&cookie, "POST", &format!("/grants/{project}"), form).status(303);
    assert!(browse("/grants").contains("git push *"));
    let wrong =
        served.browse(&cookie, "POST", &format!("/grants/{project}"), "tool=x&times=many&reason=x");
    assert_eq!(wrong.status, 422);
    for path in ["x", "01890a5d-ac96-774b-bcce-b302099a8057"] {
        served.call(&token, "GET", &format!("{base}/{path}"), &Value::Null).status(404);
    }
    repo.is_whole();
}

#[test]
fn a_grant_of_somebody_whose_key_was_revoked_is_void_everywhere() {
    let repo = Repo::new();
    repo.windlass(&["people", "add", "ada"]).exit(0);
    repo.windlass(&["people", "add", "bob"]).exit(0);
    let add = ["grant", "add", "shell/run", "--path", "CLAUDE.md", "--times", "5", "--by", "bob"];
    repo.windlass(&[&add[..], &["--reason", "notes"]].concat()).exit(0);
    let line = "echo x > CLAUDE.md";
    repo.place.shell("shell/run", line, &["--key", "one"]).exit(0);
    let served = Served::start(&repo.place, &[]);
    let (token, project) = (own_token(&repo.place), project_of(&repo.place));
    let base = format!("/api/v1/projects/{project}/grants");
    let get = |path: &str| served.call(&token, "GET", path, &Value::Null).status(200).json();
    let id = get(&base)["grants"][0]["grant"].as_str().unwrap().to_owned();
    repo.windlass(&["people", "revoke", "bob"]).exit(0);
    // The gateway lets no call through by it, and everybody says so.
    repo.place.shell("shell/run", line, &["--key", "two"]).exit(4);
    assert_eq!(get(&base)["grants"], json!([]));
    assert_eq!(get(&format!("{base}?all=yes"))["grants"][0]["status"], "void");
    assert_eq!(get(&format!("{base}/{id}"))["status"], "void");
    assert_eq!(repo.windlass(&["grant", "list", "--json"]).exit(0).json(), json!([]));
    assert_eq!(repo.windlass(&["grant", "list", "--ids"]).exit(0).text().trim(), "");
    let all = repo.windlass(&["grant", "list", "--all", "--json"]).exit(0).json();
    assert_eq!(all[0]["status"], "void", "{all}");
    repo.windlass(&["grant", "show", &id]).exit(0).says("void grant").warns("was revoked");
    let cookie = served.enter(&served.link);
    let browse = |path: &str| served.browse(&cookie, "GET", path, "").status(200).body;
    assert!(browse("/grants").contains("No grant is in force."));
    let page = browse(&format!("/grants/{project}/{id}"));
    assert!(page.contains("void") && !page.contains("in force"), "{page}");
    // It can still be ended for good.
    repo.windlass(&["grant", "revoke", &id, "--by", "ada", "--reason", "gone"]).exit(0);
    assert_eq!(get(&format!("{base}/{id}"))["status"], "revoked");
    repo.is_whole();
}

#[test]
fn a_call_that_waits_leads_to_a_grant_of_calls_like_it() {
    let repo = Repo::new();
    let args = "{\"line\":\"git push origin main\"}";
    let line = ["call", "run", "shell/run", "--key", "push-1", "--args", args, "--json"];
    let call = repo.windlass(&line).exit(4).json()["trace_id"].as_str().unwrap().to_owned();
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let project = project_of(&repo.place);
    repo.windlass(&["people", "add", "ada"]);
    let page = served.browse(&cookie, "GET", &format!("/calls/{project}/{call}"), "").status(200);
    let link = page.body.split("href=\"").find(|part| part.starts_with("/grants?")).unwrap();
    let link = link.split('"').next().unwrap().replace("&amp;", "&");
    let (path, _) = link.split_once('#').unwrap();
    let form = served.browse(&cookie, "GET", path, "").status(200).body;
    for part in ["value=\"shell/run\"", "value=\"git push origin main\""] {
        assert!(form.contains(part), "no `{part}` at {path}\n{form}");
    }
}
