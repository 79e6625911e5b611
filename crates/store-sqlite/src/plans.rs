//! How SQLite performs each query of this crate: by which index, and what it reads in full.
//!
//! The queries are those of the sources; one that is not listed here fails.

use std::path::Path;

use rusqlite::Connection;
use windlass_kernel::{Machine, PlanId, State, TraceId, Uuid7};
use windlass_store::TraceFilter;

use crate::listing::{indexes, search};
use crate::trace_rows::COLUMNS;

/// A query, and its plan.
type Query = (&'static str, &'static str);

/// Queries that search: of single rows, of rows that lie together, of the ends of tables.
const SEARCHES: &[Query] = &[
    (
        "SELECT {COLUMNS} FROM traces WHERE trace_id = ?1",
        "SEARCH traces USING PRIMARY KEY (trace_id=?)",
    ),
    ("SELECT trace_number FROM keys WHERE hash = ?1", "SEARCH keys USING PRIMARY KEY (hash=?)"),
    (
        "SELECT EXISTS (SELECT 1 FROM keys WHERE hash = ?1 AND trace_number = ?2)",
        "SCAN CONSTANT ROW; SCALAR SUBQUERY 1; \
         SEARCH keys USING PRIMARY KEY (hash=? AND trace_number=?)",
    ),
    (
        "SELECT document FROM redispatches WHERE trace_id = ?1 ORDER BY attempt",
        "SEARCH redispatches USING PRIMARY KEY (trace_id=?)",
    ),
    (
        "SELECT document FROM replay_points WHERE trace_id = ?1
            ORDER BY sequence_number DESC LIMIT 1",
        "SEARCH replay_points USING PRIMARY KEY (trace_id=?)",
    ),
    (
        "SELECT id, entries FROM entry_batches WHERE id >= ?1 AND id < ?2 ORDER BY id",
        "MERGE (UNION ALL); \
         LEFT; SEARCH first_batches USING INTEGER PRIMARY KEY (rowid>? AND rowid<?); \
         RIGHT; SEARCH later_batches USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    ),
    (
        "SELECT max(
            ifnull((SELECT max(id) FROM first_batches WHERE id BETWEEN ?1 AND ?2), ?1),
            ifnull((SELECT max(id) FROM later_batches WHERE id BETWEEN ?1 AND ?2), ?1))",
        "SCAN CONSTANT ROW; \
         SCALAR SUBQUERY 1; SEARCH first_batches USING INTEGER PRIMARY KEY (rowid>? AND rowid<?); \
         SCALAR SUBQUERY 2; SEARCH later_batches USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    ),
    (
        "SELECT max(ifnull((SELECT max(id) FROM first_batches), 0),
            ifnull((SELECT max(id) FROM later_batches), 0))",
        "SCAN CONSTANT ROW; SCALAR SUBQUERY 1; SEARCH first_batches; \
         SCALAR SUBQUERY 2; SEARCH later_batches",
    ),
    // Of unindexed traces, whose number is limited.
    (
        "SELECT (SELECT count(*) FROM first_batches WHERE id >= ?1)
            + (SELECT count(*) FROM later_batches WHERE id >= ?1)",
        "SCAN CONSTANT ROW; \
         SCALAR SUBQUERY 1; SEARCH first_batches USING INTEGER PRIMARY KEY (rowid>?); \
         SCALAR SUBQUERY 2; SEARCH later_batches USING INTEGER PRIMARY KEY (rowid>?)",
    ),
];

/// Queries that read all of a table or index.
const SCANS: &[Query] = &[
    // It has one row.
    ("SELECT upto, writes, store, checksum FROM indexed", "SCAN indexed"),
    // It has one row for each state.
    (
        "SELECT state, traces, entries FROM trace_counts WHERE traces <> 0 OR entries <> 0",
        "SCAN trace_counts",
    ),
    // The index has only traces that somebody holds.
    (
        "SELECT {COLUMNS} FROM traces WHERE holder IS NOT NULL",
        "SCAN traces USING INDEX traces_held",
    ),
    // The schema is short.
    ("SELECT count(*) FROM sqlite_schema", "SCAN sqlite_master"),
    (
        "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = ?1)",
        "SCAN CONSTANT ROW; SCALAR SUBQUERY 1; SCAN sqlite_schema",
    ),
    (
        "SELECT type, name, tbl_name || ifnull(sql, '') FROM main.sqlite_schema",
        "SCAN main.sqlite_schema",
    ),
    // The beginning of a list, which is read from the end of the table until there are as many as are wanted.
    ("SELECT {COLUMNS} FROM traces", "SCAN traces"),
    // Verification reads everything.
    (
        "SELECT state, count(*), sum(last_sequence_number) FROM traces GROUP BY state",
        "SCAN traces USING INDEX traces_in_state",
    ),
    ("SELECT {COLUMNS} FROM traces ORDER BY trace_id", "SCAN traces"),
    ("SELECT count(*) FROM traces NOT INDEXED", "SCAN traces"),
    ("SELECT trace_id FROM traces WHERE redispatches IS NOT NULL", "SCAN traces"),
    ("SELECT count(*) FROM keys", "SCAN keys"),
    ("SELECT hash, trace_number FROM keys", "SCAN keys"),
    ("SELECT DISTINCT trace_id FROM redispatches", "SCAN redispatches"),
    (
        "SELECT trace_id, sequence_number, document, checksum FROM replay_points",
        "SCAN replay_points",
    ),
    // Only for a trace that verification found damaged.
    ("SELECT {COLUMNS} FROM traces WHERE trace_number = ?1", "SCAN traces"),
    ("SELECT trace_id FROM traces WHERE trace_number = ?1", "SCAN traces"),
];

fn database() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    crate::open::create(&connection).unwrap();
    connection
}

fn plan_of(connection: &Connection, sql: &str) -> String {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let rows = statement.raw_query().mapped(|row| row.get::<_, String>(3));
    rows.map(Result::unwrap).collect::<Vec<_>>().join("; ")
}

/// A query in one line, without what Rust adds.
fn one_line(sql: &str) -> String {
    let sql = sql.replace("{COLUMNS}", COLUMNS).replace('\\', " ");
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The queries in the sources of this crate, without those of tests.
fn queries() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut queries = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() || path.ends_with("plans.rs") {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for begun in code.split("\"SELECT ").skip(1) {
            let rest = begun.split('"').next().unwrap();
            queries.push(one_line(&format!("SELECT {rest}")));
        }
    }
    queries.sort();
    queries.dedup();
    queries
}

#[test]
fn every_query_has_its_plan() {
    let connection = database();
    let listed = SEARCHES.iter().chain(SCANS);
    let mut known: Vec<String> = listed.clone().map(|(sql, _)| one_line(sql)).collect();
    known.sort();
    let found = queries();
    assert_eq!(found, known);
    for (sql, plan) in listed {
        assert_eq!(plan_of(&connection, &one_line(sql)), *plan, "{sql}");
        assert!(!plan.contains("TEMP B-TREE"), "{sql}");
    }
    for (sql, plan) in SEARCHES {
        assert!(!plan.replace("SCAN CONSTANT ROW", "").contains("SCAN"), "{sql}");
    }
}

/// A list is one search for each state, or one for all, in the order of the list, whatever else is asked for.
#[test]
fn every_list_is_read_from_an_index_in_its_order() {
    let connection = database();
    let id = Uuid7::from_parts(1, [0; 10]);
    let all = TraceFilter::all(9);
    let plan_id = Some(PlanId(id));
    let runs = TraceFilter { machine: Some(Machine::Run), ..all };
    let denied = TraceFilter { state: Some(State::Denied), ..all };
    let pending = TraceFilter { state: Some(State::Pending), ..all };
    let table = ("traces USING PRIMARY KEY", "");
    let open = ("traces USING INDEX traces_open", "");
    let state = ("traces USING INDEX traces_in_state", "state=?");
    let plan = ("traces USING INDEX traces_of_plan", "plan_id=?");
    for (filter, searches, (index, equal)) in [
        (all, 1, table),
        (TraceFilter::open(9), 1, open),
        (denied, 1, state),
        (pending, 1, state),
        (TraceFilter { open_only: true, ..pending }, 1, state),
        (TraceFilter { open_only: true, ..denied }, 0, state),
        (runs, 5, state),
        (TraceFilter { open_only: true, ..runs }, 4, state),
        (TraceFilter { plan_id, ..all }, 1, plan),
        (TraceFilter { plan_id, ..runs }, 1, plan),
        (TraceFilter { plan_id, ..denied }, 1, plan),
        // Few traces are open, however many a plan has.
        (TraceFilter { plan_id, ..pending }, 1, state),
        (TraceFilter { plan_id, ..TraceFilter::open(9) }, 1, open),
    ] {
        for (before, not_before, range) in [
            (None, None, ""),
            (Some(TraceId(id)), None, "trace_id<?"),
            (None, Some(TraceId(id)), "trace_id>?"),
            (Some(TraceId(id)), Some(TraceId(id)), "trace_id>? AND trace_id<?"),
        ] {
            let filter = TraceFilter { before, not_before, ..filter };
            let conditions = [equal, range].map(str::to_owned).into_iter();
            let conditions: Vec<_> = conditions.filter(|one| !one.is_empty()).collect();
            let expected = match conditions.as_slice() {
                // From the end, until there are as many as are wanted.
                [] if equal.is_empty() && index == table.0 => "SCAN traces".to_owned(),
                [] => format!("SCAN {index}"),
                conditions => format!("SEARCH {index} ({})", conditions.join(" AND ")),
            };
            let plans: Vec<String> = indexes(&filter)
                .into_iter()
                .map(|index| plan_of(&connection, &search(index, &filter).0))
                .collect();
            assert_eq!(plans, vec![expected; searches], "{filter:?}");
        }
    }
}
