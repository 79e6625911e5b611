//! Notifications and the server: who is told by it, links that decide, the page and the API.

use serde_json::{Value, json};
use windlass_testkit::eventually;

use crate::dashboard::receiver::{Receiver, settings, told};
use crate::served::{Served, own_token, person, project_of};
use crate::world::{Repo, escalating, id_of, passing};

#[test]
fn a_link_in_a_message_decides_its_hold_once_and_nothing_else() {
    let receiver = Receiver::new();
    let repo = Repo::new();
    repo.windlass(&["people", "add", "ada"]).exit(0);
    person(&repo.place, "ada", "approver");
    let served = Served::start(&repo.place, &[]);
    let url = format!("url = \"http://{}/\"\nsecret = \"KEY\"", receiver.address);
    let address = format!("[serve]\naddress = \"http://{}/\"", served.address);
    settings(&repo, &format!("[notify.phone]\n{url}\nperson = \"ada\"\n{address}"));
    let id = id_of(&repo.run(&escalating()).exit(4));
    eventually("the hold is told", || receiver.asked().len() == 1);
    let body = receiver.asked()[0].json();
    let project = project_of(&repo.place);
    let hold = format!("/holds/{project}/{id}");
    assert_eq!(body["address"], format!("http://{}{hold}", served.address));
    let link = body["link"].as_str().unwrap();
    let path = link.strip_prefix(&format!("http://{}", served.address)).unwrap();
    let secret = path.strip_prefix("/enter/").unwrap();
    assert!(!repo.place.stores(secret), "the link is stored");
    let kept = std::fs::read_to_string(repo.place.state_root().join(".dashboard/access.json"));
    assert!(!kept.unwrap().contains(secret), "the link is stored");

    let cookie = served.enter(path);
    served.send("POST", path, &[], "").status(403);
    let page = served.browse(&cookie, "GET", &hold, "").status(200).body;
    let shown = page.split("name=\"shown\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(body["shown"], shown);
    for other in ["/", "/runs", "/notifications", &format!("/runs/{project}/{id}")] {
        let reply = served.browse(&cookie, "GET", other, "");
        assert_eq!(reply.status, 403, "{other}: {reply:?}");
    }
    let form = format!("reason=seen&shown={shown}");
    served.browse(&cookie, "POST", &format!("{hold}/approve"), &form).status(303);
    assert_eq!(repo.stands(&id)["hold"]["resolution"], "APPROVED");
    repo.is_whole();
}

#[test]
fn the_server_tells_what_nobody_else_would() {
    let receiver = Receiver::new();
    let repo = told(&receiver, "on = [\"hold_opened\"]");
    let call = repo.place.held();
    let served = [Served::start(&repo.place, &[]), Served::start(&repo.place, &[])];
    eventually("the call is told", || !receiver.asked().is_empty());
    let body = receiver.asked()[0].json();
    assert_eq!((&body["kind"], &body["run"]), (&json!("hold_opened"), &Value::Null));
    assert!(body["text"].as_str().unwrap().contains(&call), "{body}");
    eventually("it is settled", || {
        let listed = repo.windlass(&["notify", "list", "--json"]).exit(0).json();
        listed["notifications"][0]["state"] == "delivered"
    });
    assert_eq!(receiver.asked().len(), 1, "two servers tell it once");
    drop(served);
    repo.is_whole();
}

#[test]
fn the_page_and_the_api_show_deliveries_and_send_again() {
    let receiver = Receiver::new();
    receiver.answers(&["410 Gone"]);
    let repo = told(&receiver, "on = [\"run_ended\"]");
    let served = Served::start(&repo.place, &[]);
    let cookie = served.enter(&served.link);
    let (token, project) = (own_token(&repo.place), project_of(&repo.place));
    let page = || served.browse(&cookie, "GET", "/notifications", "").status(200).body;
    assert!(page().contains("Nothing was told yet."));
    assert!(page().contains("aria-current=\"page\">Notifications"), "{}", page());
    let id = id_of(&repo.run(&passing()).exit(0));
    eventually("it is given up", || page().contains("given up"));
    let shown = page();
    assert!(shown.contains(&id) && shown.contains("the answer is HTTP 410"), "{shown}");

    let api = format!("/api/v1/projects/{project}");
    let list = served.call(&token, "GET", &format!("{api}/notifications"), &Value::Null);
    let list = list.status(200).json();
    assert_eq!(list["receivers"][0]["name"], "phone");
    let one = &list["notifications"][0];
    assert_eq!((&one["state"], &one["run"]), (&json!("given_up"), &json!(id)));
    let notification = one["id"].as_str().unwrap();
    let again = format!("/notifications/{project}/{notification}/again");
    let reply = served.browse(&cookie, "POST", &again, "").status(303);
    assert_eq!(reply.header("location"), "/notifications");
    assert!(page().contains("delivered"), "{}", page());
    assert_eq!(receiver.asked().len(), 2);

    let test = format!("{api}/receivers/phone/test");
    let sent = served.call(&token, "POST", &test, &Value::Null).status(200).json();
    assert_eq!(sent["state"], "delivered", "{sent}");
    let nobody = format!("{api}/receivers/nobody/test");
    served.call(&token, "POST", &nobody, &Value::Null).refused(422, "REQUEST_INVALID");
    let unknown = format!("{api}/notifications/{}/again", notification.replace('0', "1"));
    let unknown = served.call(&token, "POST", &unknown, &Value::Null);
    assert!((400..500).contains(&unknown.status), "{unknown:?}");
    let viewer = person(&repo.place, "eve", "viewer");
    served.call(&viewer, "GET", &format!("{api}/notifications"), &Value::Null).status(200);
    served.call(&viewer, "POST", &test, &Value::Null).status(403);
    assert_eq!(receiver.kinds(), ["run_ended", "run_ended", "test"]);
}
