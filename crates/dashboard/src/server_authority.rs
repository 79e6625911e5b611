//! Whoever may not use a route is told so, whatever they send: the whole table of routes, every role, every kind of body.

use axum::http::Request as HttpRequest;
use hyper::service::Service as _;

use super::*;
use crate::access::{Access, Hosts, Scope, cookie_name};
use crate::events::Hub;
use crate::keys::{Key, Keys};
use crate::looks::Looks;
use crate::once::Once;
use crate::spend::Ledger;

const HOST: &str = "127.0.0.1:7000";

struct NoKeys;

impl Keys for NoKeys {
    fn key_of(&self, _: &str) -> Key {
        Key::Missing
    }

    fn knows(&self, _: &windlass_kernel::Signed) -> bool {
        false
    }
}

/// How somebody shows who they are.
struct Sender {
    name: &'static str,
    header: Option<(header::HeaderName, String)>,
    role: Option<Role>,
    is_by_link: bool,
}

/// Bodies that no route takes, with their types.
const BODIES: [(&str, &str); 6] = [
    ("", "application/json"),
    ("{", "application/json"),
    ("[1]", "application/json"),
    ("{\"what\": 1, \"reason\": 2}", "application/json"),
    ("\u{0}\u{1}=%ff&&=", "application/x-www-form-urlencoded"),
    ("<a/>", "text/xml"),
];

fn senders(access: &Access) -> Vec<Sender> {
    let mut all = vec![
        Sender { name: "nobody", header: None, role: None, is_by_link: false },
        Sender {
            name: "a wrong token",
            header: Some((header::AUTHORIZATION, "Bearer x".to_owned())),
            role: None,
            is_by_link: false,
        },
    ];
    for (name, role) in
        [("viewer", Role::Viewer), ("approver", Role::Approver), ("operator", Role::Operator)]
    {
        let token = access.add(name, role, now()).unwrap();
        let token = format!("Bearer {}", token.text());
        let header = Some((header::AUTHORIZATION, token));
        all.push(Sender { name, header, role: Some(role), is_by_link: false });
        let shown = windlass_kernel::Digest::of(b"shown");
        let scope = Scope::Hold { project: "p".to_owned(), run: "r".to_owned(), shown };
        let link = access.link(name, scope, now(), 600_000).unwrap();
        let entered = access.enter(link.text(), &[], now()).unwrap().unwrap();
        let cookie = format!("{}={}", cookie_name(access, &entered.scope), entered.cookie.text());
        let header = Some((header::COOKIE, cookie));
        all.push(Sender { name, header, role: Some(role), is_by_link: true });
    }
    all
}

async fn status(
    router: &Router,
    sender: &Sender,
    method: Method,
    path: &str,
    kind: &str,
    body: Vec<u8>,
) -> u16 {
    let method = if method == Method::Get { "GET" } else { "POST" };
    let mut request = HttpRequest::builder().method(method).uri(path);
    request = request.header(header::HOST, HOST).header(header::CONTENT_TYPE, kind);
    request = request.header(header::ORIGIN, format!("http://{HOST}"));
    if let Some((name, value)) = &sender.header {
        request = request.header(name, value);
    }
    let request = request.body(Body::from(body)).unwrap();
    let peer = SocketAddr::from(([127, 0, 0, 1], 9));
    let service = router.clone().layer(axum::Extension(ConnectInfo(peer)));
    TowerToHyperService::new(service).call(request).await.unwrap().status().as_u16()
}

#[test]
fn authority_is_asked_before_the_body_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let access = Access::open(folder.path()).unwrap();
    let senders = senders(&access);
    let dashboard = Dashboard {
        projects: Arc::default(),
        hosts: Hosts::new(HOST.parse().unwrap(), &[], false),
        hub: Hub::start(Arc::default(), "b".to_owned()).unwrap(),
        looks: Looks::open(folder.path()),
        keys: Box::new(NoKeys),
        spend: Ledger::start(&[]),
        once: Once::open(folder.path()),
        access,
    };
    let shared = Arc::new(Shared {
        dashboard,
        strangers: Rate::new(1_000_000, 1),
        visitors: Rate::new(1_000_000, 1),
        at_work: Semaphore::new(AT_WORK_MAX),
    });
    let router = router(shared);
    let mut routes: Vec<(Method, &str, Role)> =
        api::routes().map(|route| (route.method, route.path, route.role)).collect();
    routes.extend(pages::routes().map(|page| (page.method, page.path, page.role)));
    routes.push((Method::Get, api::EVENTS, Role::Viewer));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut refused = 0;
    for (method, path, role) in routes {
        let ours = path.replace("{project}", "p").replace("{run}", "r");
        let other = path.replace("{project}", "p").replace("{run}", "s");
        for (place, is_own) in [(ours, true), (other, false)] {
            let place = place.replace(['{', '}'], "");
            let is_of_hold = is_own && path.contains("/holds/{");
            for sender in &senders {
                let expected = match sender.role {
                    None => Some(401),
                    Some(has) if has < role => Some(403),
                    Some(_) if sender.is_by_link && !is_of_hold => Some(403),
                    Some(_) => None,
                };
                let mut bodies: Vec<(Vec<u8>, &str)> =
                    BODIES.iter().map(|(body, kind)| (body.as_bytes().to_vec(), *kind)).collect();
                if method == Method::Get {
                    bodies.truncate(1);
                } else {
                    bodies.push((vec![b'x'; BODY_BYTES_MAX + 1], "application/json"));
                }
                for (body, kind) in bodies {
                    let garbage = body.get(..body.len().min(20)).unwrap().to_vec();
                    let found =
                        runtime.block_on(status(&router, sender, method, &place, kind, body));
                    let story = format!(
                        "{} ({}) {method:?} {place} {kind} {garbage:?}",
                        sender.name, sender.is_by_link
                    );
                    match expected {
                        Some(expected) => {
                            assert_eq!(found, expected, "{story}");
                            refused += 1;
                        }
                        None => assert!(![401, 403, 500].contains(&found), "{found}: {story}"),
                    }
                }
            }
        }
    }
    assert!(refused > 1_000, "{refused}");
}
