//! Lists of calls, and the entries of traces.

use serde_json::{Value, json};

use crate::served::{Served, own_token, person, project_of};
use crate::world::{Repo, id_of, passing};

#[test]
fn calls_are_listed_by_pages_with_what_was_decided_and_by_which_rule() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&passing()).exit(0));
    let done = repo.place.completed();
    let held = repo.place.held();
    repo.place.shell("shell/run", "sudo ls", &["--new-key"]).exit(3);
    let served = Served::start(&repo.place, &[]);
    let token = own_token(&repo.place);
    let get = |path: &str| served.call(&token, "GET", path, &Value::Null);
    let all = get("/api/v1/calls").status(200).json();
    let calls = all["calls"].as_array().unwrap();
    assert_eq!((calls.len(), &all["next"]), (4, &Value::Null), "{all}");
    let denied = &calls[0];
    assert_eq!((&denied["state"], &denied["decision"]), (&json!("denied"), &json!("deny")));
    assert_eq!((&denied["tool"], &denied["summary"]), (&json!("shell/run"), &json!("sudo ls")));
    assert!(!denied["rules"].as_array().unwrap().is_empty(), "{denied}");
    assert_eq!(
        (&calls[1]["call"], &calls[1]["decision"]),
        (&json!(held), &json!("needs_approval"))
    );
    assert_eq!((&calls[2]["call"], &calls[2]["state"]), (&json!(done), &json!("completed")));
    assert_eq!((&calls[3]["run"], &calls[3]["phase"]), (&json!(id), &json!("build")));

    let mut found = Vec::new();
    let mut path = "/api/v1/calls?limit=1".to_owned();
    for page in 0.. {
        assert!(page < 6, "the pages do not end");
        let page = get(&path).status(200).json();
        found.extend(page["calls"].as_array().unwrap().iter().map(|call| call["call"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/calls?limit=1&cursor={next}");
    }
    let listed: Vec<Value> = calls.iter().map(|call| call["call"].clone()).collect();
    assert_eq!(found, listed);

    let rule = denied["rules"][0].as_str().unwrap();
    for (query, count) in [
        ("tool=READ", 2),
        ("tool=none", 0),
        ("state=denied", 1),
        ("state=pending", 1),
        ("decision=approve", 2),
        ("decision=approve&tool=shell/run", 1),
        ("project=none", 0),
        (format!("rule={rule}").as_str(), 1),
    ] {
        let page = get(&format!("/api/v1/calls?{query}")).status(200).json();
        assert_eq!(page["calls"].as_array().unwrap().len(), count, "{query}: {page}");
    }
    for query in ["state=x", "decision=x", "cursor=x", "limit=0", "limit=201"] {
        get(&format!("/api/v1/calls?{query}")).refused(422, "REQUEST_INVALID");
    }
    let cookie = served.enter(&served.link);
    let page = served.browse(&cookie, "GET", "/calls?decision=deny", "").status(200).body;
    assert!(page.contains("sudo ls") && page.contains(rule) && !page.contains("echo one"));
    let empty = served.browse(&cookie, "GET", "/calls?tool=none", "").status(200).body;
    assert!(empty.contains("There are no such calls."));
}

#[test]
fn entries_are_read_by_pages_and_one_in_full_and_damage_is_shown() {
    let repo = Repo::new();
    let ran = repo.run(&passing()).exit(0);
    let (id, trace) = (id_of(&ran), ran.json()["trace_id"].as_str().unwrap().to_owned());
    let served = Served::start(&repo.place, &[]);
    let token = own_token(&repo.place);
    let project = project_of(&repo.place);
    let base = format!("/api/v1/projects/{project}");
    let get = |path: &str| served.call(&token, "GET", &format!("{base}{path}"), &Value::Null);
    let item = get(&format!("/traces/{id}")).status(200).json();
    assert_eq!((&item["trace"], &item["kind"]), (&json!(trace), &json!("run")));
    let count = item["entries"].as_u64().unwrap();
    let mut after = 0;
    let mut numbers = Vec::new();
    loop {
        let page = get(&format!("/runs/{id}/entries?limit=7&after={after}")).status(200).json();
        assert_eq!(page["intact"], true, "{page}");
        let entries = page["entries"].as_array().unwrap();
        numbers.extend(entries.iter().map(|entry| entry["number"].as_u64().unwrap()));
        let Some(next) = page["next"].as_u64() else { break };
        after = next;
    }
    assert_eq!(numbers, (1..=count).collect::<Vec<_>>());
    let first = get(&format!("/traces/{trace}/entries/1")).status(200).json();
    assert_eq!(first["artifact"]["event"]["kind"], "started");
    assert_eq!(first["entry"]["sequence_number"], 1);
    for number in ["0", "x", "-1", "99999"] {
        get(&format!("/traces/{trace}/entries/{number}")).status(404);
    }
    get("/traces/01890a5d-ac96-774b-bcce-b302099a8057").refused(404, "TRACE_NOT_FOUND");
    get(&format!("/runs/{id}/entries?after=x")).refused(422, "REQUEST_INVALID");
    get(&format!("/runs/{id}/entries?limit=501")).refused(422, "REQUEST_INVALID");
    let traces = get("/traces?limit=1").status(200).json();
    let next = traces["next"].as_str().unwrap();
    assert_eq!(traces["traces"][0]["kind"], "call");
    let traces = get(&format!("/traces?cursor={next}")).status(200).json();
    assert_eq!((&traces["traces"][0]["run"], &traces["next"]), (&json!(id), &Value::Null));
    let verify = format!("{base}/traces/{id}/verify");
    let verified = served.call(&token, "POST", &verify, &Value::Null).status(200).json();
    assert_eq!(verified["chain_valid"], true, "{verified}");

    let cookie = served.enter(&served.link);
    let own = format!("/runs/{project}/{id}/entries");
    let browse =
        |method: &str, path: &str| served.browse(&cookie, method, path, "").status(200).body;
    let page = browse("GET", &own);
    assert!(page.contains("are intact") && page.contains("phase started"), "{page}");
    assert!(browse("GET", &format!("{own}/1")).contains("Entry 2"));
    assert!(browse("POST", &format!("{own}/verify")).contains("<h2>Intact</h2>"));

    let change = "UPDATE entries SET ts = ts + 1 WHERE id = (SELECT max(id) FROM entries \
                  WHERE lower(hex(trace_id)) = ?1)";
    assert_eq!(repo.place.meddle(change, [trace.replace('-', "")]), 1);
    // The server reads what is there now.
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let page = served.browse(&cookie, "GET", &own, "").status(200).body;
    assert!(page.contains("are not intact") && page.contains("damaged"), "{page}");
    let verified = served.browse(&cookie, "POST", &format!("{own}/verify"), "").body;
    assert!(verified.contains("Not intact"), "{verified}");
}

#[test]
fn a_stored_content_is_sent_by_its_digest_and_never_shown_by_a_browser() {
    let repo = Repo::new();
    repo.run(&passing()).exit(0);
    let blobs = windlass_workspace::BlobStore::open(repo.place.state().join("blobs")).unwrap();
    let hostile = "<script>alert(1)</script>\n";
    let stored = blobs.put(&mut hostile.as_bytes(), 1 << 20).unwrap();
    let large = vec![b'x'; (8 << 20) + 1];
    let large = blobs.put(&mut large.as_slice(), 1 << 30).unwrap();
    let served = Served::start(&repo.place, &[]);
    let token = format!("Bearer {}", own_token(&repo.place));
    let base = format!("/api/v1/projects/{}/contents", project_of(&repo.place));
    let get = |path: &str, known: &str| {
        let head = [("authorization", token.as_str()), ("if-none-match", known)];
        served.send("GET", &format!("{base}/{path}"), &head, "")
    };
    let digest = stored.digest.to_string();
    let content = get(&digest, "\"x\"").status(200);
    assert_eq!(content.body, hostile);
    for (name, value) in [
        ("content-type", "application/octet-stream"),
        ("content-disposition", "attachment"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "private, max-age=31536000, immutable"),
        ("etag", &format!("\"{digest}\"")),
    ] {
        assert_eq!(content.header(name), value, "{content:?}");
    }
    assert_eq!(get(&digest, &format!("\"{digest}\"")).status(304).body, "");
    get(&"0".repeat(64), "\"x\"").refused(404, "BLOB_MISSING");
    // A tag does not make up for a content that is gone.
    get(&"0".repeat(64), "*").refused(404, "BLOB_MISSING");
    get(&large.digest.to_string(), "\"x\"").refused(413, "DOC_SIZE_EXCEEDED");
    for name in ["..%2f..%2ftrust.json", "x", &digest[..63], &format!("{digest}0")] {
        get(name, "\"x\"").refused(422, "REQUEST_INVALID");
    }
    served.send("GET", &format!("{base}/{digest}"), &[], "").refused(401, "PERSON_UNKNOWN");
    let viewer = format!("Bearer {}", person(&repo.place, "vic", "viewer"));
    served.send("GET", &format!("{base}/{digest}"), &[("authorization", &viewer)], "").status(200);
    // What was changed on the disk is not sent.
    let file = walk(&repo.place.state().join("blobs"), &digest);
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    let writable = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&file, writable).unwrap();
    std::fs::write(&file, bytes).unwrap();
    let damaged = get(&digest, "\"x\"");
    assert!(damaged.status >= 400 && !damaged.body.contains("<script>"), "{damaged:?}");
}

/// The file of a content: its folders and its name have the digits of the digest.
fn walk(folder: &std::path::Path, digest: &str) -> std::path::PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if name.len() >= 32 && digest.ends_with(name.split('.').next().unwrap()) {
                return entry.path();
            }
        }
    }
    panic!("no file of {digest}");
}

#[test]
fn what_never_changes_has_a_tag_and_is_not_sent_twice() {
    let repo = Repo::new();
    let ran = repo.run(&passing()).exit(0);
    let trace = ran.json()["trace_id"].as_str().unwrap().to_owned();
    let served = Served::start(&repo.place, &[]);
    let token = format!("Bearer {}", own_token(&repo.place));
    let entry = format!("/api/v1/projects/{}/traces/{trace}/entries/1", project_of(&repo.place));
    for (path, cache) in
        [(entry.as_str(), "private, no-cache"), ("/assets/style.css", "public, no-cache")]
    {
        let auth = ("authorization", token.as_str());
        let first = served.send("GET", path, &[auth], "").status(200);
        let tag = first.header("etag").to_owned();
        assert!(tag.starts_with('"') && tag.len() == 66, "{tag}");
        assert_eq!(first.header("cache-control"), cache);
        for known in [tag.clone(), format!("\"x\", {tag}"), format!("W/{tag}"), "*".to_owned()] {
            let again = served.send("GET", path, &[auth, ("if-none-match", &known)], "");
            assert_eq!((again.status, again.body.as_str()), (304, ""), "{known}");
            assert_eq!(again.header("etag"), tag);
        }
        let other = served.send("GET", path, &[auth, ("if-none-match", "\"x\"")], "").status(200);
        assert_eq!(other.body, first.body);
    }
    // A checkpoint, by its name.
    let run = ran.json()["run_id"].as_str().unwrap().to_owned();
    let base = format!("/api/v1/projects/{}", project_of(&repo.place));
    let auth = ("authorization", token.as_str());
    let path = format!("{base}/runs/{run}/checkpoints/POST_build_v1");
    let document = served.send("GET", &path, &[auth], "").status(200);
    let printed = format!("{run}/POST_build_v1");
    let printed = repo.windlass(&["checkpoint", "show", &printed, "--json"]).exit(0).json();
    assert_eq!(document.json(), printed);
    let tag = document.header("etag").to_owned();
    let digest = windlass_kernel::Digest::of(document.body.as_bytes());
    assert_eq!(tag, format!("\"{digest}\""));
    served.send("GET", &path, &[auth, ("if-none-match", &tag)], "").status(304);
    let missing = format!("{base}/runs/{run}/checkpoints/POST_build_v9");
    served.send("GET", &missing, &[auth], "").refused(409, "CHECKPOINT_UNAVAILABLE");
    // A tag lets nobody in.
    let stranger = served.send("GET", &entry, &[("if-none-match", "*")], "");
    stranger.refused(401, "PERSON_UNKNOWN");
    // What changes is kept by nobody.
    let runs = served.send("GET", "/api/v1/runs", &[("authorization", &token)], "").status(200);
    assert_eq!((runs.header("etag"), runs.header("cache-control")), ("", "no-store"));
}
