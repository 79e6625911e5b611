//! A model that is asked directly, over each service.

use serde_json::{Value, json};

use crate::runners::lab::{APIS, Api, KEY, Lab};
use crate::scripted::{call, calls, script, shell};
use crate::world::{VOICE, id_of};

/// The same with every service, at once: most of the time they wait.
fn with_each(act: impl Fn(Api) -> Lab + Sync) -> Vec<Lab> {
    let act = &act;
    std::thread::scope(|scope| {
        let started = APIS.map(|api| scope.spawn(move || act(api)));
        started.map(|thread| thread.join().expect("a lab")).into()
    })
}

/// A run whose builder takes these steps passes with every service.
fn passes(build: &[Value]) -> Vec<Lab> {
    with_each(|api| {
        let lab = Lab::new(api, &script(build.to_vec()), "");
        let before = lab.repo.commits();
        lab.run().exit(0);
        lab.has_passed(before);
        lab
    })
}

/// A run whose builder takes these steps fails with this class, with every service.
fn fails(build: &[Value], more: &str, class: &str) -> Vec<Lab> {
    with_each(|api| {
        let lab = Lab::new(api, &script(build.to_vec()), more);
        let outcome = lab.run();
        assert_ne!(outcome.code, Some(0), "{outcome}");
        let failure = lab.failure();
        assert!(failure.starts_with(&format!("{class}: m: ")), "{api:?}: {failure}");
        assert!(!failure.contains(KEY), "{failure}");
        lab
    })
}

#[test]
fn a_run_goes_to_a_commit() {
    let write = json!({ "path": "hello.txt", "content": "hello\n" });
    let mut seen = shell("cat hello.txt");
    seen["usage"] = json!({ "input": 1000, "output": 20, "cached": 400 });
    for lab in passes(&[call("fs_write", write.clone()), seen]) {
        assert_eq!(lab.repo.git(&["show", "HEAD:hello.txt"]), "hello");
        let expected =
            [("fs/write", write.clone()), ("shell/run", json!({ "line": "cat hello.txt" }))]
                .map(|(tool, args)| (tool.to_owned(), args, "COMPLETED".to_owned()));
        assert_eq!(calls(&lab.repo), expected);
        for request in lab.model.requests() {
            assert!(request.credentials && request.stream && request.model == "a-model");
            let names: Vec<String> = request.tools.iter().map(ToString::to_string).collect();
            assert!(names.iter().any(|name| name == "finish"), "{names:?}");
            assert!(request.not_offered.is_empty(), "{:?}", request.not_offered);
        }
    }
}

#[test]
fn calls_at_once_are_answered_in_their_order() {
    // Each call waits for the other: one after the other they would not end.
    let wait = |own: &str, other: &str| {
        format!(
            "touch {own}; timeout 60 sh -c 'until [ -f {other} ]; do sleep 0.05; done'; echo {own}-done"
        )
    };
    let both = json!({ "calls": [
        { "name": "shell_run", "input": { "line": wait("a", "b") } },
        { "name": "shell_run", "input": { "line": wait("b", "a") } },
    ] });
    for lab in passes(&[both, shell("rm a b; echo x > x.txt")]) {
        let requests = lab.model.requests();
        let results = requests.iter().find(|request| request.results.len() == 2).expect("results");
        let texts: Vec<&str> = results.results.iter().map(|result| result.text.trim()).collect();
        assert_eq!(texts, ["a-done", "b-done"]);
    }
}

#[test]
fn a_bad_call_gets_an_error_and_the_work_goes_on() {
    let unknown = json!({ "calls": [{ "name": "=delete_all", "input": {} }] });
    let unparsed = json!({ "calls": [{ "name": "=fs_read", "input": "{\"path\": " }] });
    for lab in passes(&[unknown, unparsed, shell("echo x > x.txt")]) {
        let told = serde_json::to_string(&lab.model.requests()).expect("JSON");
        assert!(told.contains("there is no tool `delete_all`"), "{told}");
        assert_eq!(calls(&lab.repo).len(), 1);
    }
}

#[test]
fn troubles_that_pass_are_waited_for() {
    let busy = json!({ "error": { "status": 529 } });
    let limited = json!({ "error": { "status": 429, "headers": { "retry-after": "1" } } });
    let broken = json!({ "text": "x", "drop": "mid" });
    passes(&[busy, shell("echo x > x.txt"), limited, broken]);
}

#[test]
fn troubles_that_stay_have_their_class() {
    let error = |status: u16| json!({ "error": { "status": status }, "repeat": -1 });
    fails(&[error(529)], "", "overloaded");
    fails(&[error(500)], "", "overloaded");
    fails(&[error(401)], "", "authentication");
    let limited = json!({ "error": { "status": 429, "headers": { "retry-after": "7200" } } });
    for lab in fails(&[limited], "", "rate_limited") {
        assert!(lab.failure().contains("seconds more"), "{}", lab.failure());
    }
    fails(&[json!({ "garbage": "<html>no</html>", "repeat": -1 })], "", "silence");
    fails(&[json!({ "endless": 1 << 25 })], "", "model_unavailable");
    fails(&[json!({ "text": "I am done.", "repeat": -1 })], "", "no_answer");
    let bad = json!({ "calls": [{ "name": "finish", "input": { "summary": 1 } }], "repeat": -1 });
    fails(&[bad], "", "validation_error");
    fails(&[json!({ "hang": 600 })], "silence_seconds = 1", "silence");
}

#[test]
fn a_full_context_is_trimmed_once() {
    let full = json!({ "error": { "status": 413 } });
    let long = shell("seq 2000");
    let steps = [long.clone(), long.clone(), shell("echo x > x.txt"), full.clone()];
    for lab in passes(&steps) {
        let requests = lab.model.requests();
        let removed = requests.iter().filter(|request| {
            request.results.iter().any(|result| result.text.contains("was removed to make room"))
        });
        assert!(removed.count() > 0);
    }
    let full = json!({ "error": { "status": 413 }, "repeat": -1 });
    fails(&[full], "", "context_full");
}

#[test]
fn a_call_waits_for_a_person_and_runs_once() {
    let line = "git push origin main; echo pushed >> count.txt; wc -c count.txt";
    let lab = Lab::new(APIS[0], &script(vec![shell(line)]), "");
    let before = lab.repo.commits();
    let id = id_of(&lab.run().exit(4));
    assert_eq!(lab.repo.read("count.txt"), "");
    lab.windlass(&[&["queue", "approve", &id, "--resume"][..], &VOICE].concat()).exit(0);
    lab.has_passed(before);
    assert_eq!(lab.repo.read("count.txt"), "pushed\n");
    assert_eq!(calls(&lab.repo).iter().filter(|(tool, ..)| tool == "shell/run").count(), 1);
}

#[test]
fn the_next_runner_does_what_the_first_cannot() {
    let script = script(vec![shell("echo x > x.txt")]);
    let lab = Lab::new(
        APIS[1],
        &script,
        "[agents.gone]\nkind = \"model\"\napi = \"anthropic\"\nmodel = \"x\"\nendpoint = \"http://192.0.2.1\"",
    );
    let before = lab.repo.commits();
    let line = ["run", "leave a greeting", "--json", "--agent", "gone,m", "--by=ada"];
    lab.windlass(&line).exit(0);
    lab.has_passed(before);
}

#[test]
fn the_credential_of_the_model_is_taken_out_of_what_it_reads() {
    let read = call("fs_read", json!({ "path": "notes.txt" }));
    let lab = Lab::new(APIS[0], &script(vec![read]), "");
    lab.repo.write("notes.txt", format!("the key is {KEY}\n"));
    lab.repo.commit("with a key");
    lab.run().exit(0);
    let told = serde_json::to_string(&lab.model.requests()).expect("JSON");
    assert!(told.contains("the key is ") && !told.contains(KEY), "{told}");
    assert!(!lab.repo.place.stores(KEY), "the credential is stored");
}

#[test]
fn a_key_of_the_environment_is_not_sent_to_another_address() {
    for lab in with_each(|api| Lab::with_credential(api, &script(vec![shell("ls")]), "")) {
        let outcome = lab.run().exit(0);
        assert!(
            outcome.stderr.contains("write `credential = \"KEY\"` below [agents.m]"),
            "{outcome}"
        );
        let requests = lab.model.requests();
        assert!(!requests.is_empty() && requests.iter().all(|request| !request.credentials));
        lab.windlass(&["agents"]).exit(0).warns("_API_KEY is not sent to `http://127.0.0.1");
    }
}
