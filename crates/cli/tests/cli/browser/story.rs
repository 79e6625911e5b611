//! What people do, from the start of a run to its end.

use windlass_testkit::eventually;

use crate::browser::driver::{Browser, PHONE};
use crate::served::{Served, person, project_of};
use crate::world::{Repo, escalating, id_of};

/// Work by a program, a person, and a commit.
pub const LOOP: &str = r#"---
id: asked
title: Asked
type: loop
category: test
version: "1"
on_restart: resume
require: [repo]
phases:
  - id: build
    doer: { command: [sh, -c, "echo work >> work.txt; sleep 1; echo '{\"summary\":\"a line more\",\"commit_message\":\"work: a line\"}'"] }
  - id: approve
    needs: [build]
    doer: { person: "Is it good?" }
  - id: save
    needs: [approve]
    doer: { builtin: commit }
---
"#;

/// A repository with that loop, in which ada can decide.
pub fn repo() -> Repo {
    let repo = Repo::with_loop("asked", LOOP);
    repo.windlass(&["people", "add", "ada"]).exit(0);
    repo
}

/// Logs in by a link.
pub fn log_in(browser: &Browser, served: &Served, link: &str) {
    browser.go(&format!("http://{}{link}", served.address));
    browser.find("main");
}

fn link(repo: &Repo, more: &[&str]) -> String {
    let made = repo.windlass(&[&["serve", "link", "--json"][..], more].concat()).exit(0);
    made.json()["path"].as_str().expect("a link").to_owned()
}

#[test]
fn a_run_is_started_watched_and_approved_in_the_browser() {
    let Some(browser) = Browser::open() else { return };
    let repo = repo();
    let served = Served::start(&repo.place, &["--work"]);
    log_in(&browser, &served, &served.link);
    browser.until("main", "Nothing waits for you.");
    browser.click("nav a[href='/new']");
    browser.enter("textarea[name=task]", "one line more");
    browser.enter("select[name=loop]", "asked");
    browser.click("main form button.primary");
    // It leads to the run; the list has it, too.
    browser.until("main", "one line more");
    browser.click("nav a[href='/runs']");
    browser.until("#runs", "one line more");
    browser.click("#runs tbody a");
    // The page follows the run by itself.
    browser.until("#summary", "Is it good?");
    browser.until("#graph", "waits for you");
    browser.click("#summary a.primary");
    browser.until(".diff .add", "work");
    browser.enter("#decide form[action$='/approve'] textarea[name=reason]", "it is what I wanted");
    browser.click("#decide form[action$='/approve'] input[name=resume]");
    browser.click("#decide form[action$='/approve'] button.good");
    // `--work` takes the run up; the page shows its end.
    browser.until("#summary", "passed");
    assert_eq!(repo.read("work.txt"), "work\n");
    assert!(repo.git(&["log", "--format=%s", "-1"]).contains("work: a line"));
    assert_eq!(browser.complaints(), Vec::<serde_json::Value>::new());
    repo.is_whole();
}

#[test]
fn a_comment_on_a_line_leads_to_a_redo() {
    let Some(browser) = Browser::open() else { return };
    let repo = repo();
    let id = id_of(&repo.windlass(&["run", "one line more", "--loop", "asked", "--json"]).exit(4));
    let served = Served::start(&repo.place, &["--work"]);
    log_in(&browser, &served, &served.link);
    let hold = format!("http://{}/holds/{}/{id}", served.address, project_of(&repo.place));
    browser.go(&hold);
    browser.until("#diff", "Choose the number of a line");
    browser.click("#diff .line.add .no");
    browser.enter("#diff .comment textarea", "say\nmore here");
    let findings = "return document.getElementById('findings').value";
    assert_eq!(browser.script(findings), "work.txt:1: say more here");
    // A decision would lose the comment, and asks before.
    browser.enter("#decide form[action$='/approve'] textarea[name=reason]", "fine");
    browser.click("#decide form[action$='/approve'] button.good");
    browser.dismiss();
    assert_eq!(browser.address(), hold);
    let form = "#decide form[action$='/send-back']";
    browser.enter(&format!("{form} textarea[name=reason]"), "too short\nby far");
    browser.click(&format!("{form} input[name=resume]"));
    browser.click(&format!("{form} button.primary"));
    // `--work` takes it up; the builder is asked again, and the person too.
    eventually("it is built again", || repo.read("work.txt") == "work\nwork\n");
    eventually("it waits again", || {
        let hold = &repo.stands(&id)["hold"];
        hold["phase"] == "approve" && hold["resolution"].is_null()
    });
    browser.go(&hold);
    browser.until("#since h2", "Since your last look");
    browser.until("#since .diff", "+work");
    browser.enter("#decide form[action$='/approve'] textarea[name=reason]", "now it is");
    browser.click("#decide form[action$='/approve'] button.good");
    browser.until("#summary", "passed");
    browser.until("#timeline", "build (2)");
    assert_eq!(browser.complaints(), Vec::<serde_json::Value>::new());
    repo.is_whole();
}

#[test]
fn a_page_says_that_the_server_is_gone_and_comes_back_by_itself() {
    let Some(browser) = Browser::open() else { return };
    let repo = repo();
    let served = Served::start(&repo.place, &[]);
    let address = served.address.clone();
    log_in(&browser, &served, &served.link);
    browser.until("main", "Nothing waits for you.");
    assert_eq!(browser.script("return document.getElementById('connection').hidden"), true);
    drop(served);
    browser.until("#connection", "does not answer");
    let id = id_of(&repo.run(&escalating()).exit(4));
    let again = Served::start_at(&repo.place, &address, &[]);
    browser.until("#inbox", &id);
    assert_eq!(browser.script("return document.getElementById('connection').hidden"), true);
    drop(again);
}

/// A browser has six connections to a server, for all of its tabs.
#[test]
fn many_tabs_load_and_the_one_that_is_seen_is_up_to_date() {
    let Some(browser) = Browser::open() else { return };
    let repo = repo();
    let served = Served::start(&repo.place, &[]);
    log_in(&browser, &served, &served.link);
    let first = browser.tab();
    for _ in 0..8 {
        browser.new_tab();
        browser.go(&format!("http://{}/", served.address));
        browser.until("main", "Nothing waits for you.");
    }
    let id = id_of(&repo.run(&escalating()).exit(4));
    browser.until("#inbox", &id);
    // One that was hidden meanwhile has missed nothing when it is looked at again.
    let last = browser.tab();
    browser.go_on_in(&first);
    browser.until("#inbox", &id);
    browser.go(&format!("http://{}/holds/{}/{id}", served.address, project_of(&repo.place)));
    browser.find("#decide");
    browser.go_on_in(&last);
    repo.windlass(&["cancel", &id, "--by", "ada", "--reason", "not needed"]).exit(0);
    browser.until("main", "Nothing waits for you.");
    browser.go_on_in(&first);
    browser.until("#moved", "Something has happened");
}

#[test]
fn without_scripts_everything_can_be_read_and_decided() {
    let Some(browser) = Browser::open() else { return };
    let repo = repo();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let served = Served::start(&repo.place, &[]);
    browser.without_scripts();
    log_in(&browser, &served, &served.link);
    browser.click("#inbox a.primary");
    browser.enter("#decide form[action$='/reject'] textarea[name=reason]", "not like this");
    browser.click("#decide form[action$='/reject'] button.bad");
    browser.find("#summary");
    eventually("the rejection is taken up", || {
        repo.stands(&id)["outcome"] != serde_json::Value::Null
    });
    repo.is_whole();
}

#[test]
fn two_people_see_what_their_roles_allow() {
    let Some(browser) = Browser::open() else { return };
    let repo = repo();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let hold = format!("/holds/{}/{id}", project_of(&repo.place));
    person(&repo.place, "vera", "viewer");
    person(&repo.place, "alan", "approver");
    repo.windlass(&["people", "add", "alan"]).exit(0);
    let served = Served::start(&repo.place, &[]);
    let page = format!("http://{}{hold}", served.address);
    log_in(&browser, &served, &link(&repo, &["--by", "vera"]));
    browser.go(&page);
    browser.until("main", "you can look, but not decide");
    assert_eq!(browser.script("return document.querySelectorAll('#decide form').length"), 0);
    browser.click(".who button");
    browser.until("main", "Logged out");
    browser.look(PHONE);
    log_in(&browser, &served, &link(&repo, &["--by", "alan", "--run", &id]));
    // The link leads to the hold, and to nothing else.
    assert_eq!(browser.address(), page);
    browser.enter("#decide form[action$='/approve'] textarea[name=reason]", "from the train");
    browser.click("#decide form[action$='/approve'] button.good");
    browser.until("main", "answered");
    assert_eq!(repo.stands(&id)["hold"]["resolution"], "APPROVED");
    repo.is_whole();
}

#[test]
fn checkpoints_are_compared_and_a_run_is_rolled_back() {
    let Some(browser) = Browser::open() else { return };
    let repo = repo();
    let held = repo.windlass(&["run", "one line more", "--loop", "asked", "--json"]).exit(4);
    let id = id_of(&held);
    let served = Served::start(&repo.place, &["--work"]);
    log_in(&browser, &served, &served.link);
    browser.go(&format!("http://{}/runs/{}/{id}", served.address, project_of(&repo.place)));
    browser.click("#record a.button");
    browser.until("main", "POST_build_v1");
    browser.enter("select[name=from]", "PRE_build_v1");
    browser.enter("select[name=to]", "POST_build_v1");
    browser.click("form.filters button");
    browser.until(".diff .add", "work");
    browser.until("main", "work.txt");
    browser.click(".crumbs a:last-of-type");
    browser.click("a[href$='checkpoint=PRE_build_v1']");
    browser.until("main", "What it would do");
    browser.until("main .card", "work.txt");
    assert_eq!(repo.read("work.txt"), "work\n", "looking changes nothing");
    browser.enter("input[name=reason]", "the wrong line");
    browser.click("button.bad");
    browser.find("#summary");
    assert_eq!(repo.read("work.txt"), "", "the file is as it was");
    browser.click("nav summary");
    browser.click("nav a[href='/journal']");
    browser.click("main button.primary");
    browser.until("main", "Intact");
    repo.is_whole();
}
