//! What people need to see to decide, and what they are told about what they decided.

use windlass_testkit::eventually;

use crate::harness::text_of;
use crate::served::{Served, own_token, person, project_of};
use crate::world::{ASKED, Repo, VOICE, answers, build, escalating, id_of, passing, review, sh};

/// A loop in which a program works, and then another one would.
const SLEEPY: &str = r#"---
id: sleepy
title: Two programs
type: workflow
category: test
version: "1"
on_restart: resume
phases:
  - { id: work, doer: { command: [sh, -c, "echo begun >> begun; sleep 3; echo '{\"summary\":\"done\"}'"] } }
  - { id: more, doer: { command: [sh, -c, "echo more >> more; echo '{\"summary\":\"done\"}'"] } }
---
"#;

/// A person who says yes or no.
const GATED: &str = r#"---
id: gated
title: Gated
type: loop
category: test
version: "1"
on_restart: hold
phases:
  - id: ask
    doer: { person: "Ship it?" }
    gate: { id: ask, verdicts: { approved: continue, rejected: block } }
---
"#;

/// The digest that a page's forms name.
fn shown_in(page: &str) -> &str {
    page.split("name=\"shown\" value=\"").nth(1).unwrap().split('"').next().unwrap()
}

#[test]
fn a_decision_is_told_as_recorded_even_if_the_run_does_not_go_on() {
    let repo = Repo::new();
    repo.windlass(&["people", "add", "ada"]).exit(0);
    let id = id_of(&repo.run(&escalating()).exit(4));
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let get = |path: &str| served.browse(&cookie, "GET", path, "").status(200).body;
    let hold = format!("/holds/{}/{id}", project_of(&repo.place));
    let page = get(&hold);
    assert!(!page.contains("Not as the run left it"), "{page}");
    for told in ["Done so far", "a plan", "1 line in 1 file changed", "started"] {
        assert!(page.contains(told), "no `{told}`\n{page}");
    }
    let before = repo.read("built.txt");
    repo.write("built.txt", format!("{before}by hand\n"));
    let page = get(&hold);
    assert!(page.contains("Not as the run left it") && page.contains("<code>built.txt</code>"));
    let seen = repo.windlass(&["queue", "show", &id, "--json"]).exit(0).json();
    assert_eq!(seen["changed_since"], serde_json::json!(["built.txt"]));
    assert_eq!(seen["must_be_unchanged"], true);
    let form = format!("reason=seen+it&shown={}&resume=yes", shown_in(&page));
    let told = served.browse(&cookie, "POST", &format!("{hold}/approve"), &form).status(409).body;
    for part in ["your decision is recorded", "REPO_DIRTY", "seen it", &format!("href=\"{hold}\"")]
    {
        assert!(told.contains(part), "no `{part}`\n{told}");
    }
    let page = get(&hold);
    assert!(page.contains("This has been answered") && !page.contains("Your role is"), "{page}");
    assert!(page.contains("/resume\""), "{page}");
    let inbox = get("/");
    assert!(inbox.contains("Let the run go on") && !inbox.contains("Look and decide"), "{inbox}");
    repo.write("built.txt", before);
    let run = format!("/runs/{}/{id}", project_of(&repo.place));
    served.browse(&cookie, "POST", &format!("{run}/resume"), "").status(303);
    eventually("the run passes", || repo.stands(&id)["outcome"] == "PASS");
    let page = get(&run);
    assert!(page.contains("Decisions") && page.contains("seen it"), "{page}");
    repo.is_whole();
}

#[test]
fn what_became_of_an_interrupted_call_is_asked_and_said() {
    for (effect, built) in [("ran", ""), ("not_run", "built\n")] {
        let repo = Repo::new();
        repo.windlass(&["people", "add", "ada"]).exit(0);
        let script = answers(&[build(&[sh("echo built > built.txt")])], &[review("approved")]);
        let path = repo.answers(&script);
        let words = ["run", "raise the price", "--json", "--answers", &path];
        let killed = repo.place.run_with("WINDLASS_CRASH_AT", "dispatch.before:1", &words);
        assert_eq!(killed.code, None, "{killed}");
        let runs = repo.windlass(&["status", "--json"]).exit(0).json();
        let id = runs[0]["run_id"].as_str().unwrap().to_owned();
        let _ = repo.windlass(&["recover"]);
        let _ = repo.windlass(&["resume", &id]);
        let served = Served::start(&repo.place, &[]);
        let cookie = served.enter(&served.link);
        let hold = format!("/holds/{}/{id}", project_of(&repo.place));
        let mut asked = false;
        for _ in 0..3 {
            let page = served.browse(&cookie, "GET", &hold, "").status(200).body;
            if page.contains("does not wait any more") {
                break;
            }
            let mut form = format!("reason=looked&shown={}", shown_in(&page));
            if page.contains("name=\"effect\" value=\"ran\" required") {
                asked = true;
                // Without an answer nothing is decided: neither here, nor with several at once.
                served.browse(&cookie, "POST", &format!("{hold}/approve"), &form).status(422);
                let choice = format!("{}+{id}+{}", project_of(&repo.place), shown_in(&page));
                let several = format!("hold={choice}&way=approve&reason=all");
                let told = served.browse(&cookie, "POST", "/inbox", &several).status(200).body;
                assert!(told.contains("0 of 1 decided"), "{told}");
                form.push_str(&format!("&effect={effect}"));
            }
            served.browse(&cookie, "POST", &format!("{hold}/approve"), &form).status(303);
            let _ = repo.windlass(&["resume", &id]);
        }
        assert!(asked, "the page asks what became of the call");
        assert_eq!(repo.stands(&id)["outcome"], "PASS");
        assert_eq!(repo.read("built.txt"), built, "{effect}");
        repo.is_whole();
    }
}

/// The digest of what a page asks about.
fn shown_on(page: &str) -> &str {
    let value = page.split("name=\"shown\" value=\"").nth(1).expect("a digest");
    value.split('"').next().unwrap()
}

#[test]
fn an_interrupted_call_of_a_run_that_has_ended_is_settled_on_its_own_page() {
    let repo = Repo::new();
    repo.windlass(&["people", "add", "ada"]).exit(0);
    let script = answers(&[build(&[sh("echo built > built.txt")])], &[review("approved")]);
    let path = repo.answers(&script);
    let words = ["run", "raise the price", "--json", "--answers", &path];
    let killed = repo.place.run_with("WINDLASS_CRASH_AT", "dispatch.before:1", &words);
    assert_eq!(killed.code, None, "{killed}");
    let id = text_of(&repo.windlass(&["status", "--json"]).exit(0).json()[0], "run_id");
    repo.windlass(&["cancel", &id, "--by", "ada", "--reason", "enough"]).exit(0);
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let inbox = served.browse(&cookie, "GET", "/", "").status(200).body;
    let address = inbox.split("href=\"/calls/").nth(1).expect("the call").split('"').next();
    let address = format!("/calls/{}", address.unwrap());
    let page = served.browse(&cookie, "GET", &address, "").status(200).body;
    assert!(page.contains("name=\"effect\"") && !page.contains("through its run"), "{page}");
    // It cannot be made any more.
    assert!(!page.contains("value=\"not_run\""), "{page}");
    let form = format!("reason=nobody+knows&effect=failed&shown={}", shown_on(&page));
    served.browse(&cookie, "POST", &format!("{address}/approve"), &form).status(303);
    let inbox = served.browse(&cookie, "GET", "/", "").status(200).body;
    assert!(inbox.contains("Nothing waits for you."), "{inbox}");
    assert!(!repo.root().join("built.txt").exists());
}

#[test]
fn a_call_outside_of_runs_that_was_interrupted_is_settled_on_its_page() {
    let repo = Repo::new();
    repo.windlass(&["people", "add", "ada"]).exit(0);
    let call = repo.place.interrupted("shell/run", "{\"line\":\"echo x >> once.txt\"}");
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let address = format!("/calls/{}/{call}", project_of(&repo.place));
    let page = served.browse(&cookie, "GET", &address, "").status(200).body;
    assert!(page.contains("name=\"effect\"") && !page.contains("it runs now"), "{page}");
    let approve = format!("{address}/approve");
    served.browse(&cookie, "POST", &approve, "reason=x&effect=maybe").status(422);
    let deny = format!("{address}/deny");
    served.browse(&cookie, "POST", &deny, "reason=x&effect=ran").status(422);
    let settle = |shown: &str| {
        let form = format!("reason=I+saw+the+file&effect=ran&shown={shown}");
        served.browse(&cookie, "POST", &approve, &form)
    };
    // About something else.
    settle(&"0".repeat(64)).status(409);
    settle(shown_on(&page)).status(303);
    let shown = repo.windlass(&["call", "show", &call, "--json"]).exit(0).json();
    assert_eq!(shown["state"], "COMPLETED", "{shown}");
    assert_eq!(repo.read("once.txt"), "x\n");
    repo.is_whole();
}

#[test]
fn a_call_of_a_run_is_in_the_inbox_once_and_an_edited_one_is_told_as_such() {
    let repo = Repo::new();
    repo.windlass(&["people", "add", "ada"]).exit(0);
    let script = answers(&[build(&[sh("eval 'echo bad > built.txt'")])], &[review("approved")]);
    let id = id_of(&repo.run(&script).exit(4));
    let held = repo.stands(&id);
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let project = project_of(&repo.place);
    let get = |path: &str| served.browse(&cookie, "GET", path, "").status(200).body;
    let inbox = get("/");
    assert_eq!(inbox.matches("<li class=\"card\"").count(), 1, "{inbox}");
    let hold = format!("/holds/{project}/{id}");
    let page = get(&hold);
    // Where, what, and why it is asked about.
    for part in ["<dt>folder</dt>", "<dt>runs</dt>", "<dt>rules</dt>", "name=\"asked\""] {
        assert!(page.contains(part), "no `{part}`\n{page}");
    }
    let api = format!("/api/v1/projects/{project}/runs/{id}");
    let call = served.call(&own_token(&repo.place), "GET", &api, &serde_json::Value::Null);
    let call = text_of(&call.status(200).json()["hold"], "call");
    let of_call = get(&format!("/calls/{project}/{call}"));
    assert!(of_call.contains("answered through its run") && of_call.contains(&hold), "{of_call}");
    assert!(!of_call.contains("it runs now"), "{of_call}");
    let edited = "%7B%22line%22%3A%22echo+built+%3E+built.txt%22%7D";
    let form = format!(
        "reason=better&arguments={edited}&asked=%7B%7D&shown={}&resume=yes",
        shown_in(&page)
    );
    served.browse(&cookie, "POST", &format!("{hold}/approve"), &form).status(303);
    eventually("the run passes", || repo.stands(&id)["outcome"] == "PASS");
    assert_eq!(repo.read("built.txt"), "built\n", "{held}");
    let of_call = get(&format!("/calls/{project}/{call}"));
    assert!(of_call.contains("approved with these arguments instead"), "{of_call}");
    assert!(of_call.contains("by ada"), "{of_call}");
    let calls = get(&format!("/calls?run={id}"));
    assert!(calls.contains("approved with other arguments"), "{calls}");
    served.browse(&cookie, "GET", "/calls?run=run_20200101_000000_00000000", "").status(404);
    repo.is_whole();
}

#[test]
fn arguments_that_were_not_edited_are_no_edit() {
    let repo = Repo::new();
    repo.windlass(&["people", "add", "ada"]).exit(0);
    let call = repo.place.held();
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let address = format!("/calls/{}/{call}", project_of(&repo.place));
    let page = served.browse(&cookie, "GET", &address, "").status(200).body;
    // As the page has them: over several lines, beside those that were asked.
    let form = format!(
        "reason=fine&arguments=%7B%0A++%22line%22%3A+%22env%22%0A%7D&asked=%7B%22line%22%3A%22env%22%7D&shown={}",
        shown_in(&page)
    );
    served.browse(&cookie, "POST", &format!("{address}/approve"), &form).status(303);
    let shown = repo.windlass(&["call", "show", &call, "--json"]).exit(0).json();
    assert_eq!((&shown["state"], &shown["edited_args"]), (&"COMPLETED".into(), &().into()));
}

#[test]
fn a_run_is_started_once_however_often_the_form_is_sent() {
    let repo = Repo::with_loop("asked", ASKED);
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let project = project_of(&repo.place);
    let page = served.browse(&cookie, "GET", "/new", "").status(200).body;
    assert!(page.contains("<option value=\"asked\">") && page.contains("spine"), "{page}");
    let once = page.split("name=\"once\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let start = |more: &str| {
        let form = format!("task=twice&loop=asked&worktree=yes&once={once}{more}");
        served.browse(&cookie, "POST", &format!("/new/{project}"), &form)
    };
    // What failed can be tried again with the same form, and what was typed is not lost.
    let form = format!("task=twice&loop=nowhere&once={once}");
    let failed = served.browse(&cookie, "POST", &format!("/new/{project}"), &form).status(404);
    assert!(failed.body.contains("What you had written"), "{}", failed.body);
    let run = start("").status(303).header("location").to_owned();
    assert!(run.starts_with(&format!("/runs/{project}/run_")), "{run}");
    served.browse(&cookie, "GET", &run, "").status(200);
    assert_eq!(start("").status(303).header("location"), run, "the one that was started");
    eventually("it waits", || {
        let runs = repo.windlass(&["status", "--json"]).exit(0).json();
        runs[0]["hold"]["phase"] == "approve"
    });
    assert_eq!(repo.windlass(&["status", "--json"]).exit(0).json().as_array().unwrap().len(), 1);
}

#[test]
fn a_run_at_work_is_stopped_with_a_reason() {
    let repo = Repo::with_loop("sleepy", SLEEPY);
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let project = project_of(&repo.place);
    let form = "task=sleep&loop=sleepy";
    served.browse(&cookie, "POST", &format!("/new/{project}"), form).status(303);
    eventually("it works", || repo.root().join("begun").exists());
    let id = text_of(&repo.windlass(&["status", "--json"]).exit(0).json()[0], "run_id");
    let run = format!("/runs/{project}/{id}");
    let page = served.browse(&cookie, "GET", &run, "").status(200).body;
    assert!(page.contains("Stop this run") && !page.contains("Lift the stop"), "{page}");
    assert!(!page.contains("Pause"), "{page}");
    served.browse(&cookie, "POST", &format!("{run}/stop"), "reason=enough+of+it").status(303);
    eventually("it ends", || repo.stands(&id)["outcome"] == "BLOCKED");
    let page = served.browse(&cookie, "GET", &run, "").status(200).body;
    assert!(page.contains("kill_switch_active") && page.contains("enough of it"), "{page}");
    assert!(!repo.root().join("more").exists());
    repo.is_whole();
}

#[test]
fn a_link_for_one_hold_shows_nothing_that_came_after_it() {
    let repo = Repo::with_loop("asked", ASKED);
    let id = id_of(&repo.windlass(&["run", "one line", "--loop", "asked", "--json"]).exit(4));
    person(&repo.place, "bob", "approver");
    let served = Served::start(&repo.place, &[]);
    let link = || {
        let made = repo.windlass(&["serve", "link", "--by", "bob", "--run", &id, "--json"]).exit(0);
        made.json()["path"].as_str().unwrap().to_owned()
    };
    let (used, unused) = (served.enter(&link()), link());
    let hold = format!("/holds/{}/{id}", project_of(&repo.place));
    served.browse(&used, "GET", &hold, "").status(200);
    let back = ["queue", "send-back", &id, "--to", "build", "--finding", "again", "--resume"];
    repo.windlass(&[&back[..], &VOICE].concat()).exit(4);
    for cookie in [used, served.enter(&unused)] {
        let page = served.browse(&cookie, "GET", &hold, "").status(403).body;
        assert!(page.contains("ask for a new link") && !page.contains("work.txt"), "{page}");
    }
    // Everybody else sees who sent it back, and why.
    let cookie = served.enter(&served.link);
    let page = served.browse(&cookie, "GET", &hold, "").status(200).body;
    let before = page.split("id=\"decided\"").nth(1).expect("what was decided before");
    assert!(before.contains("sent back") && before.contains("<li>again</li>"), "{before}");
}

#[test]
fn a_project_that_is_made_later_is_shown_too() {
    let repo = Repo::new();
    let served = Served::start(&repo.place, &["--all"]);
    let cookie = served.enter(&served.link);
    let other = repo.place.base().join("later");
    std::fs::create_dir_all(&other).unwrap();
    let path = other.to_str().unwrap();
    repo.windlass(&["-C", path, "init"]).exit(0);
    eventually("it is listed", || {
        // Whoever asks all the time is told to wait.
        std::thread::sleep(std::time::Duration::from_millis(200));
        served.browse(&cookie, "GET", "/journal", "").status(200).body.contains("<h2>later</h2>")
    });
}

#[test]
fn holds_have_pages() {
    let repo = Repo::new();
    let ids: Vec<String> =
        (0..3).map(|_| id_of(&repo.run_with(&escalating(), &["--worktree"]).exit(4))).collect();
    id_of(&repo.run(&passing()).exit(0));
    let served = Served::start(&repo.place, &[]);
    let token = own_token(&repo.place);
    let get = |path: &str| served.call(&token, "GET", path, &serde_json::Value::Null);
    let mut found = Vec::new();
    let mut path = "/api/v1/holds?limit=1".to_owned();
    for _ in 0..ids.len() {
        let page = get(&path).status(200).json();
        found.extend(page["holds"].as_array().unwrap().iter().map(|one| text_of(one, "run")));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/holds?limit=1&cursor={next}");
    }
    assert_eq!(found, ids, "those that wait longest first, each once");
    assert!(get(&path).status(200).json()["next"].is_null());
    get("/api/v1/holds?limit=0").refused(422, "REQUEST_INVALID");
}

#[test]
fn reasons_of_several_lines_are_taken_as_browsers_send_them() {
    let repo = Repo::new();
    repo.windlass(&["people", "add", "ada"]).exit(0);
    let id = id_of(&repo.run(&escalating()).exit(4));
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let hold = format!("/holds/{}/{id}", project_of(&repo.place));
    let page = served.browse(&cookie, "GET", &hold, "").status(200).body;
    let form = format!("reason=first%0D%0Asecond&shown={}", shown_in(&page));
    served.browse(&cookie, "POST", &format!("{hold}/reject"), &form).status(303);
    let timeline = served.browse(
        &cookie,
        "GET",
        &format!("/api/v1/projects/{}/runs/{id}/timeline", project_of(&repo.place)),
        "",
    );
    assert_eq!(timeline.status(200).json()["decisions"][0]["reason"], "first\nsecond");
    repo.is_whole();
}

#[test]
fn work_that_is_too_long_to_be_shown_is_named_before_the_decision() {
    let repo = Repo::new();
    repo.windlass(&["people", "add", "ada"]).exit(0);
    let long =
        sh("head -c 400000 /dev/zero | tr '\\0' x > 'a long file'; echo evil >> src/price.txt");
    let script = answers(&[build(&[long])], &[review("escalate")]);
    let id = id_of(&repo.run(&script).exit(4));
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let hold = format!("/holds/{}/{id}", project_of(&repo.place));
    let page = served.browse(&cookie, "GET", &hold, "").status(200).body;
    assert!(page.contains("+evil"), "a long file hides no other");
    let warning = page.split("id=\"not-shown\"").nth(1).expect("it warns");
    let (warning, forms) = warning.split_once("<form").expect("above the forms");
    assert!(warning.contains("a long file") && !warning.contains("price.txt"), "{warning}");
    assert!(forms.contains("/approve\""));
    let seen = repo.windlass(&["queue", "show", &id, "--json"]).exit(0).json();
    assert_eq!(seen["not_shown_in_full"], serde_json::json!(["a long file"]));
    repo.windlass(&["queue", "show", &id])
        .exit(0)
        .warns("too long to be shown in full: a long file");
}

#[test]
fn a_call_with_hidden_characters_is_approved_as_it_is() {
    let repo = Repo::new();
    repo.windlass(&["people", "add", "ada"]).exit(0);
    let args = "{\"line\":\"git push origin caf\u{200c}\u{ad}e\"}";
    let line = ["call", "run", "shell/run", "--key", "push-1", "--args", args, "--json"];
    let call = repo.windlass(&line).exit(4).json()["trace_id"].as_str().unwrap().to_owned();
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let path = format!("/calls/{}/{call}", project_of(&repo.place));
    let page = served.browse(&cookie, "GET", &path, "").status(200).body;
    let field = |start: &str, end: &str| {
        let text = page.split(start).nth(1).unwrap_or_else(|| panic!("no {start}: {page}"));
        text.split(end).next().unwrap().replace("&quot;", "\"")
    };
    let (asked, edited) =
        (field("name=\"asked\" value=\"", "\">"), field("name=\"arguments\"", "</textarea>"));
    let edited = edited.split_once('>').unwrap().1;
    assert!(asked.contains("caf\\u200c\\u00ade"), "{asked}");
    let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let form = format!(
        "reason=x&shown={}&asked={}&arguments={}",
        shown_in(&page),
        encode(&asked),
        encode(edited)
    );
    served.browse(&cookie, "POST", &format!("{path}/approve"), &form).status(303);
    let shown = repo.windlass(&["call", "show", &call, "--json"]).exit(0).json();
    assert_eq!(shown["decision"]["decision"], "APPROVE", "{shown}");
    assert!(shown["edited_args"].is_null(), "it was not edited: {shown}");
}

#[test]
fn a_question_with_a_gate_is_approved_or_rejected_and_not_answered() {
    let repo = Repo::with_loop("gated", GATED);
    repo.windlass(&["people", "add", "ada"]).exit(0);
    let id = id_of(&repo.windlass(&["run", "x", "--loop", "gated", "--json"]).exit(4));
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let hold = format!("/holds/{}/{id}", project_of(&repo.place));
    let page = served.browse(&cookie, "GET", &hold, "").status(200).body;
    assert!(page.contains("/approve\"") && !page.contains("/answer\""), "{page}");
    // It says who has stopped it, and that a changed policy ends it.
    for told in ["has stopped this run", "The policy has changed"] {
        assert!(!page.contains(told), "{told}: {page}");
    }
    repo.windlass(&["stop", &id, "--by", "ada", "--reason", "wait for bob"]).exit(0);
    let page = served.browse(&cookie, "GET", &hold, "").status(200).body;
    assert!(
        page.contains("has stopped this run: wait for bob") && page.contains("/clear-stop\""),
        "{page}"
    );
    repo.windlass(&["stop", &id, "--clear"]).exit(0);
    repo.place.append(".windlass/policy/default.toml", "\n# another policy\n");
    let configured = repo.windlass(&["trust", "--show", "--json"]).exit(0).json();
    repo.windlass(&["trust", "--yes", configured["digest"].as_str().unwrap()]).exit(0);
    let page = served.browse(&cookie, "GET", &hold, "").status(200).body;
    assert!(page.contains("The policy has changed"), "{page}");
    let seen = repo.windlass(&["queue", "show", &id, "--json"]).exit(0).json();
    assert_eq!(seen["policy_changed"], true);
}
