//! Packets on disk: shown, checked, never believed.

use crate::world::{Repo, VOICE, escalating, id_of};

/// A run on hold that was approved, and its packet's path.
fn approved() -> (Repo, String, String) {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
    let path = format!(".windlass/artifacts/checkpoints/CP_{id}_4.yaml");
    (repo, id, path)
}

#[test]
fn a_missing_packet_is_refused_and_nothing_changes() {
    let (repo, id, path) = approved();
    let packet = repo.read(&path);
    std::fs::remove_file(repo.root().join(&path)).unwrap();
    let entries = repo.stands(&id)["entries"].clone();
    repo.windlass(&["resume", &id]).fails_with(1, "PACKET_INVALID");
    assert_eq!(repo.stands(&id)["entries"], entries);
    repo.write(&path, packet);
    repo.windlass(&["resume", &id]).exit(0);
}

#[test]
fn an_edited_packet_is_refused_and_nothing_changes() {
    let (repo, id, path) = approved();
    let packet = repo.read(&path);
    let entries = repo.stands(&id)["entries"].clone();
    for (from, to) in [
        ("resolution_decision: APPROVED", "resolution_decision: REJECTED"),
        ("resolved_by: ada", "resolved_by: eve"),
        ("step_index: 4", "step_index: 5"),
        ("raise the price", "raise the roof"),
    ] {
        assert!(packet.contains(from), "{from}: {packet}");
        repo.write(&path, packet.replace(from, to));
        repo.windlass(&["resume", &id]).fails_with(1, "PACKET_EDITED");
        assert_eq!(repo.stands(&id)["entries"], entries);
    }
    repo.write(&path, packet);
    repo.windlass(&["resume", &id]).exit(0);
}

#[test]
fn an_edited_packet_resolves_nothing() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let path = format!(".windlass/artifacts/checkpoints/CP_{id}_4.yaml");
    let packet = repo.read(&path);
    let forged = packet
        .replace("resolved: false", "resolved: true")
        .replace("resolution_decision: null", "resolution_decision: APPROVED");
    repo.write(&path, &forged);
    repo.windlass(&["resume", &id]).fails_with(1, "PACKET_EDITED");
    assert_eq!(repo.stands(&id)["state"], "CHECKPOINT");
    // Not even in the seed's own form, without any digest.
    let seed: String = forged
        .lines()
        .filter(|line| !line.starts_with("packet_hash"))
        .collect::<Vec<_>>()
        .join("\n");
    repo.write(&path, seed);
    repo.windlass(&["resume", &id]).exit(1);
    assert_eq!(repo.stands(&id)["state"], "CHECKPOINT");
}

#[test]
fn a_packet_of_another_run_is_refused() {
    let (repo, id, path) = approved();
    let (other, _, other_path) = approved();
    repo.write(&path, other.read(&other_path));
    repo.windlass(&["resume", &id]).fails_with(1, "PACKET_EDITED");
}

#[test]
fn every_bad_packet_is_refused_with_its_code() {
    let (repo, id, path) = approved();
    let entries = repo.stands(&id)["entries"].clone();
    let expected = crate::harness::vectors("packets/bad/expected.json");
    let folder = crate::harness::repository("vectors/packets/bad");
    let mut count = 0;
    for name in expected.as_object().unwrap().keys().filter(|name| name.starts_with("CP_")) {
        repo.write(&path, std::fs::read(folder.join(name)).unwrap());
        let refused = repo.windlass(&["resume", &id]).exit(1);
        assert!(refused.stdout.is_empty() && refused.stderr.contains("hint:"), "{name}: {refused}");
        let coded = ["[PACKET_INVALID]", "[PACKET_EDITED]"];
        assert!(coded.iter().any(|code| refused.stderr.contains(code)), "{name}: {refused}");
        count += 1;
    }
    assert!(count > 50, "{count}");
    assert_eq!(repo.stands(&id)["entries"], entries, "nothing was recorded");
}
