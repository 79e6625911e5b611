//! Mend 14: what is read from a file is bounded, and nothing is not a valid chain.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Outcome, Place, vectors};

#[test]
fn mend_14_a_file_without_entries_is_not_valid() {
    let place = Place::new();
    for blank in ["", "\n", " \r\n\n", "\t \n  "] {
        place.write("chain", blank);
        let found = place.run(&["verify", "--file", "chain"]).exit(5).quiet().json();
        assert_eq!(found["chain_valid"], false, "{blank:?}");
        assert_eq!(found["entry_count"], 0, "{blank:?}");
        assert_eq!(found["message"], "the file is empty, or has nothing but blank lines");
    }
}

#[test]
fn mend_14_blank_lines_cost_no_more_than_their_length() {
    let place = Place::new();
    let vectors = vectors("tga/state_transition_vectors.json");
    let chains = vectors["valid_chains"].as_array().unwrap();
    let chain = chains.iter().find(|chain| chain["name"] == "completed").unwrap();
    let lines: String =
        chain["entries"].as_array().unwrap().iter().map(|entry| format!("{entry}\n")).collect();
    // Twenty times as much as once took 14 seconds.
    let blank = "\n".repeat(4 << 20);
    place.write("chain", format!("{blank}{lines}{blank}"));
    let start = Instant::now();
    let found = place.run(&["verify", "--file", "chain"]).exit(0).json();
    assert_eq!(found["entry_count"], 4);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn mend_14_a_list_without_entries_is_not_valid() {
    let place = Place::new();
    for none in ["[]", " [ ] \n", "{\"entries\":[]}", "{\"entries\":[],\"artifacts\":[]}"] {
        place.write("chain", none);
        let found = place.run(&["verify", "--file", "chain"]).exit(5).quiet().json();
        assert_eq!((&found["chain_valid"], &found["entry_count"]), (&json!(false), &json!(0)));
        assert_eq!(found["message"], "the file has no entries", "{none:?}");
    }
}

/// Writes a file with a beginning, and a hole of 200 MB that takes no room.
fn hole(place: &Place, start: &[u8]) {
    let file = std::fs::File::create(place.work().join("chain")).unwrap();
    std::io::Write::write_all(&mut &file, start).unwrap();
    file.set_len(200 << 20).unwrap();
}

#[test]
fn mend_14_one_json_object_is_not_held_without_a_limit() {
    let place = Place::new();
    hole(&place, b"{\"entries\":[\n");
    place
        .run(&["verify", "--file", "chain"])
        .fails_with(2, "DOC_SIZE_EXCEEDED")
        .warns("one JSON object of more than 64 MiB")
        .warns("write one entry per line");
    // An element of a list is bounded, too.
    hole(&place, b"[\"");
    let found = in_little_memory(&place).exit(5).quiet().json();
    assert_eq!((&found["divergence_point"], &found["entry_count"]), (&json!(1), &json!(1)));
}

/// Verifies the file with at most 384 MiB of address space.
fn in_little_memory(place: &Place) -> Outcome {
    let mut command = std::process::Command::new("sh");
    let binary = place.command(&[]).get_program().to_owned();
    command.arg("-c").arg("ulimit -v 393216; exec \"$0\" verify --file chain").arg(binary);
    command.current_dir(place.work());
    Outcome::of("windlass verify --file chain".to_owned(), command.output().unwrap())
}

#[test]
fn mend_14_lists_take_the_memory_of_one_element() {
    let place = Place::new();
    // As values in memory these took 1.5 GB.
    let many = "{\"a\":1},".repeat(2 << 20);
    place.write("chain", format!("[{many}{{}}]"));
    let found = in_little_memory(&place).exit(5).quiet().json();
    assert_eq!(
        (&found["divergence_point"], &found["entry_count"]),
        (&json!(1), &json!((2 << 20) + 1))
    );
    place.write("chain", format!("{{\"entries\":[{many}{{}}],\"artifacts\":[{many}{{}}]}}"));
    in_little_memory(&place).exit(5).quiet();
}
