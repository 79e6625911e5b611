//! Who gets in, and what is refused.

use serde_json::{Value, json};

use crate::served::{Served, own_token, person, project_of};
use crate::world::{Repo, escalating, id_of};

#[test]
fn nothing_is_said_to_strangers() {
    let repo = Repo::new();
    let served = Served::start(&repo.place, &[]);
    for path in ["/api/v1/runs", "/api/v1/events", "/api/v1/openapi.json", "/api/v1/nothing"] {
        served.send("GET", path, &[], "").refused(401, "PERSON_UNKNOWN");
    }
    for path in ["/", "/runs", "/runs/a/b", "/nothing"] {
        let reply = served.send("GET", path, &[], "").status(401);
        assert!(reply.body.contains("windlass serve link"), "{reply:?}");
        assert!(!reply.body.contains("sums"), "{reply:?}");
    }
    // Whoever tries again and again has to wait.
    let statuses: Vec<u16> =
        (0..60).map(|_| served.send("GET", "/api/v1/runs", &[], "").status).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
    // Others are not hindered by that.
    let token = own_token(&repo.place);
    served.call(&token, "GET", "/api/v1/runs", &Value::Null).status(200);
}

#[test]
fn every_answer_is_locked_down() {
    let repo = Repo::new();
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    for path in [
        "/",
        "/runs",
        "/sessions",
        "/calls",
        "/policy",
        "/grants",
        "/backlog",
        "/spend",
        "/assets/live.js",
        "/api/v1/runs",
        "/nothing",
    ] {
        let reply = served.browse(&cookie, "GET", path, "");
        let policy = reply.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self'"),
            "{path}"
        );
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        assert_eq!(reply.header("referrer-policy"), "same-origin", "{path}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
        let kept = if path.starts_with("/assets/") { "public, no-cache" } else { "no-store" };
        assert_eq!(reply.header("cache-control"), kept, "{path}");
        for inline in [" style=\"", "<style", " onclick", "javascript:", "https://"] {
            assert!(path.ends_with(".js") || !reply.body.contains(inline), "{path}: {inline}");
        }
    }
}

#[test]
fn links_and_logins() {
    let repo = Repo::new();
    let served = Served::start(&repo.place, &[]);
    // A program that looks at the link does not use it up.
    let looked = served.send("GET", &served.link, &[], "").status(200);
    assert!(looked.body.contains("Log in"));
    let reply = served.send("GET", &served.link, &[("sec-fetch-mode", "navigate")], "").status(303);
    let set = reply.header("set-cookie").to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(set.contains(part), "{set}");
    }
    let cookie = set.split(';').next().unwrap();
    served.send("POST", &served.link, &[], "").status(403);
    served.send("GET", "/enter/none", &[("sec-fetch-mode", "navigate")], "").status(403);
    served.browse(cookie, "GET", "/", "").status(200);
    let more = repo.windlass(&["serve", "link", "--by", "ada", "--json"]).exit(0).json();
    let other = served.enter(more["path"].as_str().unwrap());
    served.browse(cookie, "POST", "/leave", "").status(200);
    served.browse(cookie, "GET", "/", "").status(401);
    served.browse(&other, "GET", "/", "").status(200);
    repo.windlass(&["serve", "people", "remove", "ada"]).exit(0);
    served.browse(&other, "GET", "/", "").status(401);
    repo.windlass(&["serve", "link", "--by", "ada"]).fails_with(3, "PERSON_UNKNOWN");
}

#[test]
fn a_link_on_another_site_is_followed_with_the_cookies_of_this_one() {
    let repo = Repo::new();
    let served = Served::start(&repo.place, &[]);
    let navigate = ("sec-fetch-mode", "navigate");
    // A browser neither sends cookies along nor, behind a redirect from another site, those that it gets.
    for site in ["cross-site", "same-site"] {
        let led = [navigate, ("sec-fetch-site", site)];
        let reply = served.send("GET", &served.link, &led, "").status(200);
        assert_eq!(reply.header("refresh"), format!("0; url={}?again", served.link));
        assert!(reply.body.contains("Log in"));
        // It comes again by this page; never in a circle.
        let again = format!("{}?again", served.link);
        let reply = served.send("GET", &again, &led, "").status(200);
        assert_eq!(reply.header("refresh"), "");
    }
    let again = format!("{}?again", served.link);
    let own = [navigate, ("sec-fetch-site", "same-origin")];
    let reply = served.send("GET", &again, &own, "").status(303);
    let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
    served.browse(&cookie, "GET", "/", "").status(200);
}

#[test]
fn other_sites_and_other_names_are_refused() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let path = format!("/runs/{}/{id}/cancel", project_of(&repo.place));
    let cookie = ("cookie", cookie.as_str());
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("referer", "https://evil.example/"),
    ] {
        served.send("POST", &path, &[cookie, (name, value)], "reason=x").status(403);
    }
    served.send("GET", "/", &[("host", "evil.example"), cookie], "").status(421);
    assert_eq!(repo.stands(&id)["outcome"], Value::Null, "the run goes on");
}

#[test]
fn a_link_to_a_hold_is_for_that_decision_only() {
    let repo = Repo::new();
    let other = id_of(&repo.run_with(&escalating(), &["--worktree"]).exit(4));
    let id = id_of(&repo.run(&escalating()).exit(4));
    let project = project_of(&repo.place);
    person(&repo.place, "bob", "approver");
    repo.windlass(&["people", "add", "bob"]).exit(0);
    let served = Served::start(&repo.place, &[]);
    let link = repo.windlass(&["serve", "link", "--by", "bob", "--run", &id, "--json"]).exit(0);
    let cookie = served.enter(link.json()["path"].as_str().unwrap());
    let get = |path: &str| served.browse(&cookie, "GET", path, "").status;
    assert_eq!(get(&format!("/holds/{project}/{id}")), 200);
    for path in [
        "/".to_owned(),
        "/runs".to_owned(),
        format!("/runs/{project}/{id}"),
        format!("/holds/{project}/{other}"),
    ] {
        assert_eq!(get(&path), 403, "{path}");
    }
    // The empty tree stands for all files: whoever has a link is not shown what changed since any tree.
    let hold = format!("/api/v1/projects/{project}/holds/{id}");
    assert_eq!(get(&hold), 200);
    for path in [
        "/api/v1/runs".to_owned(),
        "/api/v1/events".to_owned(),
        "/api/v1/holds".to_owned(),
        format!("/api/v1/projects/{project}/runs/{id}"),
        format!("{hold}?since=4b825dc642cb6eb9a060e54bf8d69288fbee4904"),
    ] {
        assert_eq!(get(&path), 403, "{path}");
    }
    let decide = |run: &str, shown: &str| {
        let form = format!("reason=seen&shown={shown}");
        served.browse(&cookie, "POST", &format!("/holds/{project}/{run}/approve"), &form)
    };
    let shown = |run: &str| {
        repo.windlass(&["queue", "show", run, "--json"]).exit(0).json()["shown"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(decide(&other, &shown(&other)).status, 403);
    assert_eq!(decide(&id, &"0".repeat(64)).status, 403);
    assert_eq!(decide(&id, &shown(&id)).status, 303);
    assert_eq!(repo.stands(&id)["hold"]["resolution"], "APPROVED");
    assert_eq!(get(&format!("/holds/{project}/{id}")), 200);
    repo.is_whole();
}

#[test]
fn bodies_and_kinds_are_limited() {
    let repo = Repo::new();
    let served = Served::start(&repo.place, &[]);
    let token = own_token(&repo.place);
    let path = format!("/api/v1/projects/{}/runs", project_of(&repo.place));
    let long = json!({ "task": "x".repeat(300 << 10) });
    served.call(&token, "POST", &path, &long).refused(413, "REQUEST_INVALID");
    let bearer = format!("Bearer {token}");
    let auth = ("authorization", bearer.as_str());
    let form = ("content-type", "application/x-www-form-urlencoded");
    served.send("POST", &path, &[auth, form], "task=x").refused(415, "REQUEST_INVALID");
    let json = ("content-type", "application/json");
    served.send("POST", &path, &[auth, json], "{").refused(400, "REQUEST_INVALID");
    served.send("DELETE", "/api/v1/runs", &[auth], "").refused(405, "REQUEST_INVALID");
    served.send("DELETE", "/api/v1/runs", &[], "").refused(401, "PERSON_UNKNOWN");
}

#[test]
fn hostile_names_and_texts_are_refused_in_words() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let served = Served::start(&repo.place, &[]);
    let token = own_token(&repo.place);
    let base = format!("/api/v1/projects/{}", project_of(&repo.place));
    for (path, status) in [
        ("/runs/..%2f..%2fetc%2fpasswd", 404),
        ("/runs/%ff%fe", 404),
        ("/runs/%00", 404),
        ("/runs/--help", 404),
        ("/holds/--help", 404),
        ("/holds/%00", 422),
        ("/calls/--json", 422),
        ("/calls?before=%27%3B--", 422),
        ("/runs/last/compare?from=-x&to=--help", 409),
        ("/runs/last/compare?from=..%2fx&to=y", 422),
    ] {
        let reply = served.call(&token, "GET", &format!("{base}{path}"), &Value::Null);
        let code = reply.json()["code"].as_str().unwrap().to_owned();
        reply.refused(status, &code);
    }
    let hold = format!("{base}/holds/{id}");
    for body in [
        json!({ "shown": "x", "reason": "a\u{0}b" }),
        json!({ "shown": "--help", "reason": "x" }),
        json!({ "shown": "x", "reason": "x", "arguments": "@/etc/passwd" }),
    ] {
        let reply = served.call(&token, "POST", &format!("{hold}/approve"), &body);
        reply.refused(422, "REQUEST_INVALID");
    }
    let start = |body: Value, status: u16, code: &str| {
        served.refuses(&token, &format!("{base}/runs"), &body, status, code)
    };
    start(json!({ "task": "a\u{0}b" }), 422, "TASK_INVALID");
    start(json!({ "task": "x", "loop": "../../x" }), 404, "LOOP_NOT_FOUND");
    assert_eq!(repo.stands(&id)["hold"]["resolution"], Value::Null);
}

#[test]
fn beyond_this_machine_only_with_encryption() {
    let repo = Repo::new();
    let refused = repo.windlass(&["serve", "--listen", "0.0.0.0:0"]);
    refused.fails_with(2, "REQUEST_INVALID");
    let missing = ["serve", "--listen", "127.0.0.1:0", "--certificate", "a", "--private-key", "b"];
    repo.windlass(&missing).fails_with(1, "FILE_UNREADABLE");
    repo.write("a", "no certificate");
    repo.write("b", "no key");
    repo.windlass(&missing).fails_with(2, "REQUEST_INVALID");
}

#[test]
fn a_link_to_a_hold_ends_neither_a_login_nor_another_link() {
    let repo = Repo::new();
    let ids = [(); 2].map(|()| id_of(&repo.run_with(&escalating(), &["--worktree"]).exit(4)));
    repo.windlass(&["people", "add", "bob"]).exit(0);
    person(&repo.place, "bob", "approver");
    let served = Served::start(&repo.place, &[]);
    let project = project_of(&repo.place);
    let link = |by: &str, id: &str| {
        let made = repo.windlass(&["serve", "link", "--by", by, "--run", id, "--json"]).exit(0);
        made.json()["path"].as_str().unwrap().to_owned()
    };
    let hold = |id: &str| format!("/holds/{project}/{id}");
    let status = |cookies: &str, path: &str| served.browse(cookies, "GET", path, "").status;
    // What a browser has that has followed all of them: cookies of one name replace each other.
    let browser = |links: &[String]| {
        let mut cookies = std::collections::BTreeMap::new();
        for link in links {
            let pairs = |(name, value): (&String, &String)| format!("{name}={value}");
            let sent = cookies.iter().map(pairs).collect::<Vec<_>>().join("; ");
            let cookie = served.enter_with(link, &sent);
            let (name, value) = cookie.split_once('=').unwrap();
            cookies.insert(name.to_owned(), value.to_owned());
        }
        let all: Vec<String> =
            cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        all.join("; ")
    };
    // Two links.
    let two = browser(&[link("bob", &ids[0]), link("bob", &ids[1])]);
    assert_eq!(ids.each_ref().map(|id| status(&two, &hold(id))), [200, 200]);
    assert_eq!(status(&two, "/runs"), 403);
    // A login, and a link for the same person and for another one.
    let all = browser(&[served.link.clone(), link("ada", &ids[0]), link("bob", &ids[1])]);
    assert_eq!(["/runs", "/"].map(|path| status(&all, path)), [200, 200]);
    assert_eq!(ids.each_ref().map(|id| status(&all, &hold(id))), [200, 200]);
    // A hold is decided by whom its link is for.
    let shown = repo.stands(&ids[1])["hold"]["shown"].as_str().unwrap().to_owned();
    let form = format!("reason=seen&shown={shown}");
    served.browse(&all, "POST", &format!("{}/approve", hold(&ids[1])), &form).status(303);
    let trace = repo.stands(&ids[1])["trace_id"].as_str().unwrap().to_owned();
    let events = repo.events(&trace);
    let vote = events.iter().find(|event| event["kind"] == "voted").unwrap().to_string();
    assert!(vote.contains("bob"), "{vote}");
    assert_eq!(status(&all, "/runs"), 200);
    // Going out ends all of them.
    served.browse(&all, "POST", "/leave", "").status(200);
    assert_eq!(["/runs".to_owned(), hold(&ids[0])].map(|path| status(&all, &path)), [401, 401]);
}

#[test]
fn a_page_that_is_fetched_ahead_does_not_use_a_link_up() {
    let repo = Repo::new();
    let served = Served::start(&repo.place, &[]);
    let navigates = ("sec-fetch-mode", "navigate");
    for ahead in [
        ("sec-purpose", "prefetch"),
        ("sec-purpose", "prefetch;prerender"),
        ("purpose", "prefetch"),
        ("x-moz", "prefetch"),
    ] {
        let looked = served.send("GET", &served.link, &[navigates, ahead], "").status(200);
        assert_eq!(looked.header("set-cookie"), "", "{ahead:?}");
    }
    served.send("HEAD", &served.link, &[navigates], "").status(200);
    served.send("GET", &served.link, &[navigates], "").status(303);
}

#[test]
fn whoever_guesses_links_has_to_wait_and_changes_nothing() {
    let repo = Repo::new();
    let served = Served::start(&repo.place, &[]);
    let file = repo.place.state_root().join(".dashboard/access.json");
    let stamp = || {
        let found = std::fs::metadata(&file).unwrap();
        (std::os::unix::fs::MetadataExt::ino(&found), found.modified().unwrap())
    };
    let before = stamp();
    let statuses: Vec<u16> =
        (0..60).map(|_| served.send("POST", "/enter/AAAA", &[], "").status).collect();
    assert!(statuses[0] == 403 && statuses.contains(&429), "{statuses:?}");
    assert_eq!(stamp(), before, "a wrong link is not written down");
    // A right one is let in all the same.
    served.enter(&served.link);
}
