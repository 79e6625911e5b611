//! The pages without scripts: whole, and enough to decide.

use windlass_testkit::eventually;

use crate::harness::Place;
use crate::served::{Served, person, project_of};
use crate::world::{ASKED, Repo, VOICE, answers, build, escalating, id_of, passing, sh};

#[test]
fn a_hold_is_decided_on_the_page_without_scripts() {
    let repo = Repo::new();
    repo.windlass(&["people", "add", "ada"]).exit(0);
    let id = id_of(&repo.run(&escalating()).exit(4));
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let project = project_of(&repo.place);
    let get = |path: &str| served.browse(&cookie, "GET", path, "").status(200).body;
    let hold = format!("/holds/{project}/{id}");
    assert!(get("/").contains(&hold));
    let page = get(&hold);
    assert!(
        page.contains("<span class=\"no\">1</span><span class=\"text\">+built</span>"),
        "{page}"
    );
    let shown = page.split("name=\"shown\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let form = format!("reason=seen+it&shown={shown}&resume=yes");
    let reply = served.browse(&cookie, "POST", &format!("{hold}/approve"), &form).status(303);
    let run = format!("/runs/{project}/{id}");
    assert_eq!(reply.header("location"), run);
    eventually("the run passes", || repo.stands(&id)["outcome"] == "PASS");
    assert!(get(&run).contains("passed"));
    assert!(get("/").contains("Nothing waits for you."));
    assert!(get(&hold).contains("does not wait any more"));
    let again = served.browse(&cookie, "POST", &format!("{hold}/approve"), &form).status(409);
    assert!(again.body.contains("RUN_ENDED"), "{}", again.body);
    repo.is_whole();
}

#[test]
fn what_comes_from_outside_is_escaped() {
    let repo = Repo::new();
    let answers = repo.answers(&passing());
    let task = "<script>alert(1)</script> & \"co\"";
    let id = id_of(&repo.windlass(&["run", task, "--answers", &answers, "--json"]).exit(0));
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    for path in ["/runs".to_owned(), format!("/runs/{}/{id}", project_of(&repo.place))] {
        let page = served.browse(&cookie, "GET", &path, "").status(200).body;
        assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
        assert!(!page.contains("<script>alert"), "{page}");
    }
    let missing = served.browse(&cookie, "GET", "/runs/%3Cb%3E/x", "").status(404).body;
    assert!(missing.contains("&lt;b&gt;") && !missing.contains("<b>"), "{missing}");
}

#[test]
fn a_damaged_run_is_shown_as_such_and_hides_nothing() {
    let repo = Repo::new();
    let first = repo.run(&passing()).exit(0);
    let trace = first.json()["trace_id"].as_str().unwrap().replace('-', "");
    let broken = id_of(&first);
    let whole = id_of(&repo.run(&passing()).exit(0));
    let change = "UPDATE entries SET ts = ts + 1 WHERE id = (SELECT max(id) FROM entries \
                  WHERE lower(hex(trace_id)) = ?1)";
    assert_eq!(repo.place.meddle(change, [trace]), 1);
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let page = served.browse(&cookie, "GET", "/runs", "").status(200).body;
    assert!(page.contains(&broken) && page.contains(&whole) && page.contains("damaged"), "{page}");
}

#[test]
fn serve_work_takes_up_what_was_answered() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let served = Served::start(&repo.place, &["--work"]);
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
    eventually("the run passes", || repo.stands(&id)["outcome"] == "PASS");
    assert_eq!(repo.read("built.txt"), "built\n");
    // SIGTERM ends the server in order.
    let killed = std::process::Command::new("kill").arg(served.pid().to_string()).status();
    assert!(killed.unwrap().success());
    assert_eq!(served.wait(), Some(0));
}

#[test]
fn a_call_that_waits_is_in_the_inbox_and_runs_once_it_is_approved() {
    let repo = Repo::new();
    repo.windlass(&["people", "add", "ada"]).exit(0);
    let (one, other) = (repo.place.held(), repo.place.held());
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let project = project_of(&repo.place);
    let get = |path: &str| served.browse(&cookie, "GET", path, "").status(200).body;
    let inbox = get("/");
    let address = |call: &str| format!("/calls/{project}/{call}");
    assert!(inbox.contains(&address(&one)) && inbox.contains(&address(&other)), "{inbox}");
    let page = get(&address(&one));
    let shown = page.split("name=\"shown\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let decide = |call: &str, word: &str, shown: &str| {
        let form = format!("reason=seen&shown={shown}");
        served.browse(&cookie, "POST", &format!("{}/{word}", address(call)), &form)
    };
    decide(&one, "approve", &"0".repeat(64)).status(409);
    let reply = decide(&one, "approve", shown).status(303);
    assert_eq!(reply.header("location"), address(&one));
    assert!(get(&address(&one)).contains("PATH="), "it ran");
    let page = get(&address(&other));
    let shown = page.split("name=\"shown\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    decide(&other, "deny", shown).status(303);
    assert!(get(&address(&other)).contains("denied"));
    assert!(get("/").contains("Nothing waits for you."));
    repo.is_whole();
}

#[test]
fn the_demonstration_is_decided_on_its_page() {
    let place = Place::new();
    let served = Served::of(place.command(&["demo", "show", "--serve", "--json"]));
    let cookie = served.enter(&served.link);
    let inbox = served.browse(&cookie, "GET", "/", "").status(200).body;
    let hold = inbox.split("href=\"/holds/").nth(1).unwrap().split('"').next().unwrap();
    let page = served.browse(&cookie, "GET", &format!("/holds/{hold}"), "").status(200).body;
    let shown = page.split("name=\"shown\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let form = format!("reason=seen&shown={shown}");
    served.browse(&cookie, "POST", &format!("/holds/{hold}/approve"), &form).status(303);
    eventually("the run goes on by itself", || {
        served.browse(&cookie, "GET", &format!("/runs/{hold}"), "").body.contains("passed")
    });
}

/// The digest that a page's forms name.
fn shown_in(page: &str) -> String {
    let value = page.split("name=\"shown\" value=\"").nth(1).unwrap();
    value.split('"').next().unwrap().to_owned()
}

#[test]
fn comments_on_lines_send_a_run_back_and_the_next_look_shows_what_is_new() {
    let repo = Repo::with_loop("asked", ASKED);
    repo.windlass(&["people", "add", "ada"]).exit(0);
    let id = id_of(&repo.windlass(&["run", "one line", "--loop", "asked", "--json"]).exit(4));
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let hold = format!("/holds/{}/{id}", project_of(&repo.place));
    let get = |path: &str| served.browse(&cookie, "GET", path, "").status(200).body;
    let page = get(&hold);
    assert!(page.contains("data-at=\"work.txt:1\""), "{page}");
    assert!(!page.contains("Since your last look"), "{page}");
    let shown = shown_in(&page);
    let form = format!(
        "reason=more&findings=work.txt%3A1%3A+say+more%0D%0A%0D%0Aand+shorter&to=build&shown={shown}&resume=yes"
    );
    served.browse(&cookie, "POST", &format!("{hold}/send-back"), &form).status(303);
    eventually("it is built again", || repo.read("work.txt") == "work\nwork\n");
    eventually("it waits again", || {
        let hold = &repo.stands(&id)["hold"];
        hold["phase"] == "approve" && hold["resolution"].is_null()
    });
    let input: serde_json::Value = serde_json::from_str(&repo.read("input.json")).unwrap();
    assert_eq!(
        input["findings"],
        serde_json::json!(["ada: more", "work.txt:1: say more", "and shorter"])
    );
    for _ in 0..2 {
        let page = get(&hold);
        let since = page.split("id=\"since\"").nth(1).expect("what is new");
        let since = since.split("id=\"diff\"").next().unwrap();
        assert!(since.contains("+work</span>") && since.contains(" work</span>"), "{since}");
    }
    // The old digest is of no use any more.
    served.browse(&cookie, "POST", &format!("{hold}/send-back"), &form).status(409);
    repo.is_whole();
}

#[test]
fn several_are_decided_at_once_each_for_what_was_shown() {
    let repo = Repo::new();
    repo.windlass(&["people", "add", "ada"]).exit(0);
    let ids: Vec<String> =
        (0..3).map(|_| id_of(&repo.run_with(&escalating(), &["--worktree"]).exit(4))).collect();
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let inbox = served.browse(&cookie, "GET", "/", "").status(200).body;
    let choices: Vec<String> = inbox
        .split("name=\"hold\" value=\"")
        .skip(1)
        .map(|part| part.split('"').next().unwrap().to_owned())
        .collect();
    assert_eq!(choices.len(), 3, "{inbox}");
    let (known, digest) = choices[2].rsplit_once(' ').unwrap();
    let stale = format!("{known} {}", digest.chars().rev().collect::<String>());
    let holds = [choices[0].as_str(), &choices[1], &stale];
    let holds: Vec<String> = holds
        .iter()
        .map(|hold| format!("hold={}", hold.replace(' ', "+").replace(':', "%3A")))
        .collect();
    let form = format!("{}&way=approve&reason=all+fine", holds.join("&"));
    let told = served.browse(&cookie, "POST", "/inbox", &form).status(200).body;
    assert!(told.contains("2 of 3 decided"), "{told}");
    let resolutions: Vec<_> =
        ids.iter().map(|id| repo.stands(id)["hold"]["resolution"].clone()).collect();
    let count = resolutions.iter().filter(|one| **one == "APPROVED").count();
    assert_eq!(count, 2, "{resolutions:?}");
    // Where all went well it leads back, so that a page that is loaded again sends nothing again.
    let form = format!("hold={}&way=approve&reason=it+too", choices[2].replace(' ', "+"));
    let led = served.browse(&cookie, "POST", "/inbox", &form).status(303);
    assert_eq!(led.header("location"), "/?decided=1");
    for wrong in ["way=approve&reason=x", "hold=a&way=approve&reason=x", "hold=a+b+c&way=maybe"] {
        served.browse(&cookie, "POST", "/inbox", wrong).status(422);
    }
    repo.is_whole();
}

#[test]
fn a_run_shows_when_it_worked_and_waited_who_did_it_and_what_was_said() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
    repo.windlass(&["resume", &id]).exit(0);
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let project = project_of(&repo.place);
    let get = |path: &str| served.browse(&cookie, "GET", path, "").status(200);
    let timeline = get(&format!("/api/v1/projects/{project}/runs/{id}/timeline")).json();
    let spans = timeline["spans"].as_array().unwrap();
    let kinds = |phase: &str| -> Vec<&str> {
        let of = spans.iter().filter(|span| span["phase"] == phase);
        of.map(|span| span["kind"].as_str().unwrap()).collect()
    };
    assert_eq!(kinds("build"), ["work"], "{timeline}");
    assert_eq!(kinds("review"), ["work", "wait"], "{timeline}");
    assert!(spans.iter().all(|span| span["to"].is_string()), "{timeline}");
    let invocations = timeline["invocations"].as_array().unwrap();
    let build = invocations.iter().find(|one| one["phase"] == "build").expect("the builder");
    assert_eq!((&build["input_tokens"], &build["output_tokens"]), (&100.into(), &10.into()));
    assert_eq!(build["result"], "success");
    let page = get(&format!("/runs/{project}/{id}")).body;
    for part in ["Working and waiting", "waits, ", "Agents and programs", "100, 10", "Decisions"] {
        assert!(page.contains(part), "no `{part}`\n{page}");
    }
    // Recorded answers are nobody's words.
    assert!(!page.contains("What was said"), "{page}");
    get(&format!("/runs/{project}/{id}/transcripts/build"));
    let missing = format!("/runs/{project}/{id}/transcripts/nowhere");
    served.browse(&cookie, "GET", &missing, "").status(422);
}

#[test]
fn who_has_no_key_is_told_before_they_decide_and_a_passphrase_is_asked_for_if_there_is_one() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let served = Served::start(&repo.place, &[]);
    let token = format!("Bearer {}", person(&repo.place, "vera", "approver"));
    let head = [("authorization", token.as_str())];
    let hold = format!("/holds/{}/{id}", project_of(&repo.place));
    let get = || served.send("GET", &hold, &head, "").status(200).body;
    let page = get();
    assert!(page.contains("windlass people add vera") && !page.contains("<textarea"), "{page}");
    let phrase = repo.place.base().join("phrase");
    std::fs::write(&phrase, "a long phrase\n").unwrap();
    let add = ["people", "add", "vera", "--passphrase-file", phrase.to_str().unwrap()];
    repo.windlass(&add).exit(0);
    let page = get();
    assert!(page.contains("name=\"passphrase\"") && !page.contains("people add"), "{page}");
    let form = |phrase: &str| format!("reason=seen&passphrase={phrase}&shown={}", shown_in(&page));
    let approve = format!("{hold}/approve");
    served.send("POST", &approve, &head, &form("wrong")).status(403);
    served.send("POST", &approve, &head, &form("a+long+phrase")).status(303);
    assert_eq!(repo.stands(&id)["hold"]["resolution"], "APPROVED");
}

#[test]
fn a_project_that_cannot_be_used_does_not_take_the_others_away() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let other = repo.place.base().join("other");
    std::fs::create_dir_all(&other).unwrap();
    let path = other.to_str().unwrap();
    repo.windlass(&["-C", path, "init"]).exit(0);
    let served = Served::start(&repo.place, &["--all"]);
    let cookie = served.enter(&served.link);
    let pages = ["/", "/runs", "/calls", "/grants", "/notifications", "/sessions", "/spend"];
    let routes = ["/api/v1/holds", "/api/v1/runs"];
    let whole = |what: &str| {
        for page in pages.iter().chain(&routes) {
            let reply = served.browse(&cookie, "GET", page, "");
            assert_eq!(reply.status, 200, "{what}: {page}: {}", reply.body);
        }
        let inbox = served.browse(&cookie, "GET", "/", "").body;
        assert!(inbox.contains(&id), "{what}: {inbox}");
        inbox
    };
    assert!(!whole("before").contains("cannot be used"));
    let settings = other.join(".windlass/config.toml");
    let before = std::fs::read(&settings).unwrap_or_default();
    std::fs::write(&settings, "[[[").unwrap();
    assert!(whole("broken settings").contains("cannot be used"));
    std::fs::write(&settings, before).unwrap();
    std::fs::rename(&other, other.with_extension("gone")).unwrap();
    let inbox = whole("the folder is gone");
    assert!(inbox.contains("PROJECT_MISSING"), "{inbox}");
    std::fs::rename(other.with_extension("gone"), &other).unwrap();
    assert!(!whole("after").contains("cannot be used"));
}

#[test]
fn nothing_turns_around_what_is_shown() {
    let repo = Repo::new();
    let turned = sh("eval 'echo a \u{202e}evil\u{2066} > x'");
    let held = repo.run(&answers(&[build(&[turned])], &[])).exit(4);
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let path = format!("/holds/{}/{}", project_of(&repo.place), id_of(&held));
    let page = served.browse(&cookie, "GET", &path, "").status(200).body;
    assert!(!page.contains(['\u{202e}', '\u{2066}']) && page.contains("\\u{202e}"), "{page}");
}
