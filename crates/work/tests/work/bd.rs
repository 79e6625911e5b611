//! `bd` as a script that prints what the real program prints, and worse.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use windlass_work::{Bd, Change, Kind, LinkKind, NewItem, Status, Tracker, WorkError};

use crate::{PATIENT, ids};

struct FakeBd {
    folder: tempfile::TempDir,
    bd: Bd,
}

/// A `bd` whose body is a shell script; it writes its arguments to a file, one line for each command.
fn fake(body: &str) -> FakeBd {
    fake_with(body, PATIENT)
}

fn fake_with(body: &str, deadline: Duration) -> FakeBd {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("bd");
    let script = format!("#!/bin/sh\n{{ printf '<%s>' \"$@\"; echo; }} >> \"$0.log\"\n{body}\n");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let bd = Bd::find(folder.path().as_os_str(), folder.path(), deadline).unwrap();
    FakeBd { folder, bd }
}

impl FakeBd {
    fn commands(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.folder.path().join("bd.log")).unwrap();
        log.lines().map(str::to_owned).collect()
    }
}

/// As `bd list --json` prints it: bare dependencies, nanoseconds, an offset.
const LIST: &str = r#"
echo 'warning: daemon is old' >&2
cat <<'JSON'
Checking for updates...
[
  {"id":"bd-3","title":"third","status":"open","priority":2,"issue_type":"task",
   "created_at":"2025-10-16T10:00:00.5+02:00","updated_at":"2025-10-16T10:00:00Z",
   "dependencies":[{"issue_id":"bd-3","depends_on_id":"bd-1","type":"blocks","created_at":"x"},
                   {"issue_id":"bd-3","depends_on_id":"bd-0","type":"blocks"}],
   "dependency_count":2,"dependent_count":0,"comment_count":0},
  {"id":"bd-1","title":"first","status":"in_progress","priority":0,"issue_type":"bug",
   "assignee":"ann","created_at":"2025-10-16T09:00:00Z","updated_at":"2025-10-17T10:00:00Z"},
  {"id":"bd-0","title":"done","status":"closed","priority":0,"issue_type":"task",
   "created_at":"2025-10-16T09:00:00Z","updated_at":"2025-10-16T12:00:00Z",
   "closed_at":"2025-10-16T12:00:00Z","close_reason":"done"}
]
JSON
"#;

#[test]
fn lists_are_read_sorted_and_cut() {
    let fake = fake(LIST);
    let open = fake.bd.open(9).unwrap();
    assert_eq!(ids(&open), ["bd-1", "bd-3"]);
    assert_eq!(open[1].blockers, ["bd-1"]);
    assert_eq!(open[1].links, ["blocked-by:bd-0"]);
    assert_eq!(open[1].created_at, "2025-10-16T08:00:00.500Z");
    assert_eq!(ids(&fake.bd.open(1).unwrap()), ["bd-1"]);
    assert_eq!(ids(&fake.bd.assigned("ann", 9).unwrap()), ["bd-1"]);
    assert_eq!(ids(&fake.bd.recent(2).unwrap()), ["bd-1", "bd-0"]);
    let list = "<list><--limit=0><--json>";
    assert_eq!(fake.commands(), [list, list, list, "<list><--all><--limit=0><--json>"]);
    assert_eq!(fake.bd.name(), "bd");
}

#[test]
fn blocked_items_come_with_their_blockers() {
    let fake = fake(
        r#"echo '{"schema_version":1,"data":[{"id":"bd-3","title":"t","status":"open","priority":2,
            "blocked_by_count":1,"blocked_by":["bd-1"]}]}'"#,
    );
    let blocked = fake.bd.blocked(9).unwrap();
    assert_eq!(
        (ids(&blocked), blocked[0].blockers.as_slice()),
        (vec!["bd-3"], &["bd-1".to_owned()][..])
    );
    assert_eq!(fake.commands(), ["<blocked><--json>"]);
}

/// Answers as `bd` does, with one item that is closed once `close` was called.
const ONE: &str = r#"
state="$0.closed"
case "$1" in
  close) touch "$state" ;;
esac
if [ -e "$state" ]; then status=closed; else status=open; fi
case "$1" in
  create) echo '{"id":"bd-7","title":"made","status":"open","priority":1,"issue_type":"feature","schema_version":1}' ;;
  dep) echo '{"status":"added","issue_id":"a","depends_on_id":"b","type":"blocks"}' ;;
  show) [ "$2" = bd-7 ] || { echo '{"error":"no issue found matching \"'"$2"'\""}'; exit 1; }
        echo '[{"id":"bd-7","title":"made","status":"'$status'","priority":1,"issue_type":"feature"}]' ;;
  update) [ "$2" = bd-7 ] || { echo "Issue $2 not found" >&2; exit 0; }
        echo '[{"id":"bd-7","title":"made","status":"open","priority":1}]' ;;
  close) echo '[{"id":"bd-7","title":"made","status":"closed","priority":1}]' ;;
  *) echo "Error: unknown command \"$1\" for \"bd\"" >&2; exit 1 ;;
esac
"#;

#[test]
fn changes_pass_values_that_cannot_be_options() {
    let fake = fake(ONE);
    let new = NewItem {
        title: "--help; $(touch x) 'q' \"d\"".to_owned(),
        kind: Kind::Feature,
        assignee: Some("ann".to_owned()),
        priority: 1,
        description: "two\nlines".to_owned(),
        labels: vec!["b".to_owned(), "a".to_owned()],
    };
    let created = fake.bd.create(&new).unwrap();
    assert_eq!((created.id.as_str(), created.kind), ("bd-7", Kind::Feature));
    assert_eq!(created.labels, ["a", "b"]);
    let change = Change {
        status: Some(Status::InProgress),
        assignee: Some(String::new()),
        labels_added: vec!["x".to_owned()],
        ..Change::default()
    };
    assert_eq!(fake.bd.update("bd-7", &change).unwrap().id, "bd-7");
    let closed = fake.bd.close("bd-7", "all done").unwrap();
    assert_eq!(closed.status, Status::Closed);
    fake.bd.link("bd-1", "bd-2", LinkKind::Blocks).unwrap();
    fake.bd.link("bd-1", "bd-2", LinkKind::Parent).unwrap();
    fake.bd.link("bd-1", "bd-2", LinkKind::Related).unwrap();
    assert_eq!(
        fake.commands().join("\n"),
        "<create><--title=--help; $(touch x) 'q' \"d\"><--type=feature><--priority=1>\
         <--description=two\nlines><--assignee=ann><--labels=b,a><--json>\n\
         <update><bd-7><--status=in_progress><--assignee=><--add-label=x><--json>\n\
         <show><bd-7><--json>\n\
         <close><bd-7><--reason=all done><--json>\n\
         <show><bd-7><--json>\n\
         <dep><add><bd-2><bd-1><--type=blocks><--json>\n\
         <dep><add><bd-2><bd-1><--type=parent-child><--json>\n\
         <dep><add><bd-1><bd-2><--type=related><--json>"
    );
    assert!(!fake.folder.path().join("x").exists());
}

#[test]
fn what_is_not_there_is_not_found() {
    let fake = fake(ONE);
    let missing = |id: &str| WorkError::NotFound { id: id.to_owned() };
    assert_eq!(fake.bd.show("bd-9"), Err(missing("bd-9")));
    let change = Change { priority: Some(1), ..Change::default() };
    assert_eq!(fake.bd.update("bd-9", &change), Err(missing("bd-9")));
    for id in ["--all", "-h", "a b", ""] {
        assert!(matches!(fake.bd.show(id), Err(WorkError::Invalid { .. })), "{id}");
    }
    assert_eq!(fake.commands().iter().filter(|line| line.contains("--all")).count(), 0);
}

#[test]
fn a_change_that_was_not_made_is_no_success() {
    let show =
        r#"if [ "$1" = show ]; then echo '[{"id":"bd-7","title":"t","status":"open"}]'; exit; fi"#;
    let silent = fake(&format!("{show}\necho 'Error updating bd-7: database is locked' >&2"));
    let change = Change { priority: Some(1), ..Change::default() };
    let reason = "Error updating bd-7: database is locked".to_owned();
    let locked = WorkError::Unavailable { reason };
    assert_eq!(silent.bd.update("bd-7", &change), Err(locked.clone()));
    assert_eq!(silent.bd.close("bd-7", "done"), Err(locked));
    let blocked =
        fake(&format!("{show}\necho 'cannot close bd-7: blocked by open issues' >&2; exit 1"));
    let error = blocked.bd.close("bd-7", "done").unwrap_err();
    assert!(matches!(error, WorkError::Invalid { .. }), "{error:?}");
}

#[test]
fn sync_uses_what_the_version_has() {
    let old = fake("echo 'Exporting...'; echo; echo '✓ Sync complete'");
    assert_eq!(old.bd.sync().unwrap(), "✓ Sync complete");
    assert_eq!(old.commands(), ["<sync>"]);
    let new = fake(
        r#"case "$1" in
             dolt) echo "No remote is configured: $2" ;;
             *) echo "Error: unknown command \"$1\" for \"bd\"" >&2; exit 1 ;;
           esac"#,
    );
    assert_eq!(new.bd.sync().unwrap(), "No remote is configured: push");
    assert_eq!(new.commands(), ["<sync>", "<dolt><pull>", "<dolt><push>"]);
    let failing = fake("echo 'Error: push rejected' >&2; exit 1");
    assert_eq!(
        failing.bd.sync(),
        Err(WorkError::Unavailable { reason: "push rejected".to_owned() })
    );
}

#[test]
fn failures_are_told_apart() {
    let cycle = fake("echo '{\"error\":\"adding dependency: would create a cycle\"}'; exit 1");
    let error = cycle.bd.link("bd-1", "bd-2", LinkKind::Blocks).unwrap_err();
    let reason = "`bd` refused: adding dependency: would create a cycle".to_owned();
    assert_eq!(error, WorkError::Invalid { reason });
    for body in [
        "echo 'Error: no beads database found' >&2; exit 1",
        "echo '{\"error\":\"database is locked\"}' >&2; exit 1",
        "echo '{\"schema_version\":1,\"data\":{\"error\":\"database is locked\"}}'; exit 1",
        "exit 3",
        "kill -9 $$",
        "echo 'no json at all'",
        "echo '{\"other\":true}'",
        "echo '[1,2,3]'",
        "echo '[] were found'; echo '{}, said the log'",
        "head -c 100000 /dev/urandom",
        "printf '['; printf '[%.0s' $(seq 5000)",
        "true",
    ] {
        let error = fake(body).bd.open(9).unwrap_err();
        let WorkError::Unavailable { reason } = &error else { panic!("{body}: {error:?}") };
        assert!(!reason.is_empty() && !reason.contains('\n') && error.may_retry(), "{reason}");
    }
}

#[test]
fn a_hanging_bd_is_killed_with_its_children() {
    let fake = fake_with(
        "sleep 300 & echo $! > \"$0.pid\"; trap '' TERM; sleep 300; sleep 300",
        Duration::from_millis(300),
    );
    let started = Instant::now();
    let error = fake.bd.open(9).unwrap_err();
    assert_eq!(error, WorkError::DeadlinePassed { limit: Duration::from_millis(300) });
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    let pid = std::fs::read_to_string(fake.folder.path().join("bd.pid")).unwrap();
    let process = Path::new("/proc").join(pid.trim());
    let gone = || {
        let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    };
    while !gone() {
        assert!(started.elapsed() < Duration::from_secs(60), "the child is alive");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_hundred_megabytes_are_not_read() {
    for body in ["head -c 100000000 /dev/zero", "head -c 100000000 /dev/zero >&2"] {
        let error = fake(body).bd.open(9).unwrap_err();
        let WorkError::Unavailable { reason } = error else { panic!("{error:?}") };
        assert!(reason.contains("more than"), "{reason}");
    }
}

#[test]
fn a_program_that_is_gone_is_unavailable() {
    let fake = fake(LIST);
    assert!(fake.bd.is_there());
    std::fs::remove_file(fake.folder.path().join("bd")).unwrap();
    assert!(!fake.bd.is_there());
    assert!(matches!(fake.bd.open(9), Err(WorkError::Unavailable { .. })));
}
