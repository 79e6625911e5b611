//! One way to meet each code of keys, bundles and anchors by the binary alone.

use windlass_kernel::Code;

use crate::e2e::scenarios::Scenario;
use crate::harness::{Outcome, Place};
use crate::world::{Repo, id_of, passing};

/// Checks the bundle of a run with its project's own keys, after something was done to either.
fn bundle(act: fn(&Repo)) -> Outcome {
    let repo = Repo::new();
    let id = id_of(&repo.run(&passing()).exit(0));
    repo.windlass(&["export", &id, "--bundle", "../run.bundle"]).exit(0);
    act(&repo);
    repo.windlass(&["verify", "../run.bundle"])
}

/// How each code of what is signed is met.
pub const SEAL_SCENARIOS: &[(Code, Scenario)] = &[
    (Code::KeyMissing, || Place::with_project().run(&["keys", "show"])),
    (Code::KeyInvalid, || {
        let place = Place::with_project();
        place.run(&["anchor", "../x.anchor"]).exit(0);
        place.run(&["verify", "--anchor", "../x.anchor", "--key", ".windlass/config.toml"])
    }),
    (Code::BundleInvalid, || {
        bundle(|repo| {
            let path = repo.place.base().join("run.bundle");
            let mut bytes = std::fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        })
    }),
    (Code::BundleUntrusted, || {
        bundle(|repo| std::fs::remove_dir_all(repo.place.state().join("keys")).unwrap())
    }),
    (Code::AnchorInvalid, || {
        let place = Place::with_project();
        place.completed();
        place.run(&["anchor", "../x.anchor"]).exit(0);
        place.tamper().execute_batch("DELETE FROM entries; DELETE FROM traces").unwrap();
        place.run(&["verify", "--anchor", "../x.anchor"])
    }),
];
