//! The pages without scripts: whole, and enough to decide.

use windlass_testkit::eventually;

use crate::harness::Place;
use crate::served::{Served, project_of};
use crate::world::{Repo, VOICE, escalating, id_of, passing};

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
    assert!(page.contains("<div class=\"line add\">+built</div>"), "{page}");
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
