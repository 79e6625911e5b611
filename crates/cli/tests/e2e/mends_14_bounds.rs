//! Mend 14: what is read from a file is bounded, and nothing is not a valid chain.

use std::time::{Duration, Instant};

use crate::harness::{Place, vectors};

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
fn mend_14_one_json_text_is_not_held_without_a_limit() {
    let place = Place::new();
    let file = std::fs::File::create(place.work().join("chain")).unwrap();
    std::io::Write::write_all(&mut &file, b"[\n").unwrap();
    // A hole: 200 MB that take no room.
    file.set_len(200 << 20).unwrap();
    place
        .run(&["verify", "--file", "chain"])
        .fails_with(2, "DOC_SIZE_EXCEEDED")
        .warns("one JSON text of more than 64 MiB")
        .warns("write one entry per line");
}
