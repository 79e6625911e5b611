use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_unix_ms(1_800_000_000_000 + ms).unwrap()
}

fn hold() -> Scope {
    Scope::Hold { project: "p".into(), run: "r".into(), shown: Digest::of(b"shown") }
}

#[test]
fn a_link_is_used_once_and_not_after_it_expired() {
    let folder = tempfile::tempdir().unwrap();
    let access = Access::open(&folder.path().join("a")).unwrap();
    access.add("ada", Role::Operator, at(0)).unwrap();
    let link = access.link("ada", Scope::All, at(0), 1000).unwrap();
    assert!(access.is_usable(link.text(), at(999)).unwrap());
    assert!(!access.is_usable(link.text(), at(1000)).unwrap());
    assert!(access.enter(link.text(), &[], at(1000)).unwrap().is_none());

    let link = access.link("ada", Scope::All, at(0), 1000).unwrap();
    let cookie = access.enter(link.text(), &[], at(1)).unwrap().unwrap().cookie;
    assert!(access.enter(link.text(), &[], at(2)).unwrap().is_none(), "used twice");
    let visitor = access.by_cookies(&[cookie.text()], at(3)).unwrap().pop().unwrap();
    assert_eq!((visitor.name.as_str(), visitor.role), ("ada", Role::Operator));
    assert!(
        access.by_cookies(&[cookie.text()], at(LOGIN_MS + 1)).unwrap().pop().is_none(),
        "expired"
    );
    assert!(access.by_cookies(&[""], at(3)).unwrap().pop().is_none());
    access.leave(cookie.text()).unwrap();
    assert!(access.by_cookies(&[cookie.text()], at(3)).unwrap().pop().is_none(), "left");
}

#[test]
fn a_link_to_a_hold_ends_with_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let access = Access::open(folder.path()).unwrap();
    access.add("ada", Role::Approver, at(0)).unwrap();
    let link = access.link("ada", hold(), at(0), 1000).unwrap();
    let Entered { cookie, scope, until } = access.enter(link.text(), &[], at(1)).unwrap().unwrap();
    assert_eq!((scope, until), (hold(), at(1000)));
    let visitor = access.by_cookies(&[cookie.text()], at(999)).unwrap().pop().unwrap();
    assert!(visitor.covers("p", "r") && !visitor.covers("p", "other"));
    assert!(access.by_cookies(&[cookie.text()], at(1000)).unwrap().pop().is_none());
}

#[test]
fn a_browser_has_one_cookie_for_all_holds() {
    let folder = tempfile::tempdir().unwrap();
    let access = Access::open(folder.path()).unwrap();
    access.add("ada", Role::Approver, at(0)).unwrap();
    let of_run = |run: usize| Scope::Hold {
        project: "p".into(),
        run: run.to_string(),
        shown: Digest::of(b"shown"),
    };
    let runs = |cookie: &Secret, now: i64| {
        let visitors = access.by_cookies(&[cookie.text()], at(now)).unwrap();
        visitors.iter().filter(|visitor| visitor.scope != Scope::All).count()
    };
    let mut cookie: Option<Secret> = None;
    for run in 0..50 {
        let valid = if run == 7 { 90_000 } else { 1000 };
        let link = access.link("ada", of_run(run), at(0), valid).unwrap();
        let sent: Vec<&str> = cookie.iter().map(Secret::text).collect();
        let entered = access.enter(link.text(), &sent, at(1)).unwrap().unwrap();
        assert_eq!(entered.until, at(if run < 7 { 1000 } else { 90_000 }));
        // Whoever knew the old one, and may have put it there, has nothing of the new.
        let old = cookie.replace(entered.cookie);
        assert!(old.is_none_or(|old| runs(&old, 2) == 0));
    }
    let cookie = cookie.unwrap();
    assert_eq!((runs(&cookie, 2), runs(&cookie, 1000)), (50, 1), "each ends with its own time");
    // The same hold once more takes its place; a login is another cookie and changes nothing of this one.
    let again = access.link("ada", of_run(7), at(0), 1000).unwrap();
    let again = access.enter(again.text(), &[cookie.text()], at(3)).unwrap().unwrap();
    assert_eq!((runs(&again.cookie, 3), again.until), (50, at(1000)));
    let login = access.link("ada", Scope::All, at(0), 1000).unwrap();
    let login = access.enter(login.text(), &[again.cookie.text()], at(3)).unwrap().unwrap();
    assert_eq!((runs(&again.cookie, 4), runs(&login.cookie, 4)), (50, 0));
    let second = access.link("ada", Scope::All, at(0), 1000).unwrap();
    access.enter(second.text(), &[login.cookie.text()], at(4)).unwrap().unwrap();
    assert!(access.by_cookies(&[login.cookie.text()], at(5)).unwrap().is_empty());
    access.leave(again.cookie.text()).unwrap();
    assert_eq!(runs(&again.cookie, 5), 0);
}

#[test]
fn who_is_removed_is_out_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let access = Access::open(folder.path()).unwrap();
    let token = access.add("ada", Role::Viewer, at(0)).unwrap();
    assert!(matches!(access.add("Ada", Role::Viewer, at(0)), Err(AccessError::Exists { .. })));
    assert!(matches!(access.add("", Role::Viewer, at(0)), Err(AccessError::Name { .. })));
    let link = access.link("ada", Scope::All, at(0), 1000).unwrap();
    let cookie = access.enter(link.text(), &[], at(1)).unwrap().unwrap().cookie;
    let unused = access.link("ada", Scope::All, at(0), 1000).unwrap();
    assert!(access.by_token(token.text()).unwrap().is_some());
    access.remove("ada").unwrap();
    assert!(access.by_token(token.text()).unwrap().is_none());
    assert!(access.by_cookies(&[cookie.text()], at(2)).unwrap().pop().is_none());
    assert!(access.enter(unused.text(), &[], at(2)).unwrap().is_none());
    assert!(matches!(access.remove("ada"), Err(AccessError::Unknown { .. })));
}

#[test]
fn the_file_has_no_secret_and_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let access = Access::open(folder.path()).unwrap();
    let token = access.add("ada", Role::Viewer, at(0)).unwrap();
    let link = access.link("ada", Scope::All, at(0), 1000).unwrap();
    let path = folder.path().join(ACCESS);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains(token.text()) && !text.contains(link.text()));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::write(&path, "{").unwrap();
    assert!(matches!(access.by_token(token.text()), Err(AccessError::Content { .. })));
}

#[test]
fn a_link_that_many_use_at_once_lets_one_in() {
    let folder = tempfile::tempdir().unwrap();
    let access = Access::open(folder.path()).unwrap();
    access.add("ada", Role::Viewer, at(0)).unwrap();
    let link = access.link("ada", Scope::All, at(0), 1000).unwrap();
    let entered = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..16)
            .map(|_| scope.spawn(|| access.enter(link.text(), &[], at(1)).unwrap()))
            .collect();
        tries.into_iter().filter_map(|one| one.join().unwrap()).count()
    });
    assert_eq!(entered, 1);
}
