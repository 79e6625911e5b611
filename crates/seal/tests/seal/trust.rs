//! Which trusted keys make a bundle trusted.

use windlass_kernel::Code;
use windlass_seal::{BundleVerdict, IfExists, Rotation, Signer, Trust};

use crate::world::{
    World, archive, at, check, key_file, member, members, resign, signer, trusting,
};

fn signed_by(signer: &Signer, others: &[&Signer], rotations: Vec<Rotation>) -> Vec<u8> {
    let mut world = World::new();
    world.keys = others.iter().copied().chain([signer]).map(key_file).collect();
    world.rotations = rotations;
    world.write(signer, IfExists::Replace).unwrap();
    std::fs::read(world.path()).unwrap()
}

fn rotation(from: u8, to: u8) -> Rotation {
    Rotation::sign(&signer(from), &signer(to), at(50)).unwrap()
}

#[test]
fn a_bundle_of_an_untrusted_signer_is_unchecked() {
    let bytes = signed_by(&signer(1), &[], Vec::new());
    for trust in [Trust::default(), trusting(&[&signer(0)])] {
        let report = check(&bytes, &trust);
        assert_eq!(report.faults, []);
        assert_eq!(report.verdict(), BundleVerdict::Unchecked);
        assert_eq!(report.code(), Some(Code::BundleUntrusted));
        assert_eq!(report.signer, Some(signer(1).public().id()));
    }
    assert_eq!(
        check(&bytes, &trusting(&[&signer(0), &signer(1)])).verdict(),
        BundleVerdict::Intact
    );
}

#[test]
fn a_bundle_that_another_key_signed_again_is_unchecked() {
    let bytes = World::new().bytes();
    let mut all = members(&bytes);
    let mut world = World::new();
    world.keys = vec![key_file(&signer(1))];
    world.write(&signer(1), IfExists::Fail).unwrap();
    let forged = std::fs::read(world.path()).unwrap();
    assert_eq!(check(&forged, &trusting(&[&signer(0)])).verdict(), BundleVerdict::Unchecked);
    // With the original signer's key in the bundle, and then also with its key id.
    all.push((
        format!("keys/{}.pub", signer(1).public().id()),
        key_file(&signer(1)).to_text().into_bytes(),
    ));
    let resigned = resign(&mut all, &signer(1));
    let report = check(&resigned, &trusting(&[&signer(0)]));
    assert_eq!(
        report.verdict(),
        BundleVerdict::Damaged,
        "the heads still have the original signatures"
    );
    let mut all = members(&resigned);
    let signature = member(&mut all, "signature.json");
    let (false_id, true_id) = (signer(1).public().id(), signer(0).public().id());
    let text = String::from_utf8(signature.clone()).unwrap();
    *signature = text.replace(false_id.as_str(), true_id.as_str()).into_bytes();
    let report = check(&archive(&all), &trusting(&[&signer(0)]));
    assert_eq!((report.verdict(), report.trusted), (BundleVerdict::Damaged, false));
}

#[test]
fn trust_in_an_old_key_extends_to_the_new_key() {
    let rotations = vec![rotation(0, 1), rotation(1, 2)];
    let bytes = signed_by(&signer(2), &[&signer(0), &signer(1)], rotations.clone());
    for trusted in 0..=2 {
        let report = check(&bytes, &trusting(&[&signer(trusted)]));
        assert_eq!(report.verdict(), BundleVerdict::Intact, "key {trusted}");
    }
    assert_eq!(check(&bytes, &trusting(&[&signer(3)])).verdict(), BundleVerdict::Unchecked);
    // Without the rotations, only trust in the signer's own key or stored rotations suffice.
    let bare = signed_by(&signer(2), &[], Vec::new());
    assert_eq!(check(&bare, &trusting(&[&signer(0)])).verdict(), BundleVerdict::Unchecked);
    let extended = trusting(&[&signer(0)]).with_rotations(rotations);
    assert_eq!(check(&bare, &extended).verdict(), BundleVerdict::Intact);
}

#[test]
fn trust_in_a_new_key_extends_to_bundles_of_the_old_key() {
    // Written before the rotation.
    let old = signed_by(&signer(0), &[], Vec::new());
    assert_eq!(
        check(&old, &trusting(&[&signer(0)])).verdict(),
        BundleVerdict::Intact,
        "the old key alone"
    );
    assert_eq!(check(&old, &trusting(&[&signer(2)])).verdict(), BundleVerdict::Unchecked);
    let extended = trusting(&[&signer(2)]).with_rotations([rotation(1, 2), rotation(0, 1)]);
    assert_eq!(check(&old, &extended).verdict(), BundleVerdict::Intact);
}

#[test]
fn a_key_cannot_extend_trust_to_itself() {
    // An untrusted key (9) claims to precede or follow the trusted key (0).
    for (from, to) in [(9, 0), (0, 9)] {
        let text = serde_json::to_value(rotation(from, to)).unwrap();
        let strangers =
            serde_json::to_value(Rotation::sign(&signer(from), &signer(to), at(50)).unwrap())
                .unwrap();
        assert_eq!(text, strangers);
        let mut forged = text;
        // Its owner can sign only with that key.
        let field = if from == 0 { "signature_by_from" } else { "signature_by_to" };
        let own = if from == 0 { "signature_by_to" } else { "signature_by_from" };
        forged[field] = forged[own].clone();
        let forged: Rotation = serde_json::from_value(forged).unwrap();
        assert!(!forged.is_valid());
        let bytes = signed_by(&signer(9), &[], Vec::new());
        let trust = trusting(&[&signer(0)]).with_rotations([forged]);
        assert_eq!(check(&bytes, &trust).verdict(), BundleVerdict::Unchecked);
    }
}

#[test]
fn cyclic_rotations_terminate() {
    let circle: Vec<Rotation> =
        [(1, 2), (2, 3), (3, 1), (0, 0), (4, 4)].map(|(from, to)| rotation(from, to)).into();
    let trust = trusting(&[&signer(0), &signer(2)]).with_rotations(circle);
    assert!(trust.trusts(&signer(1).public(), &[]));
    assert!(!trust.trusts(&signer(4).public(), &[]));
    assert!(!Trust::default().trusts(&signer(0).public(), &[]));
}
