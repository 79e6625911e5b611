//! Whom one must trust to believe a bundle.

use windlass_kernel::Code;
use windlass_seal::{Replace, Rotation, Signer, Trust, Verdict};

use crate::world::{
    World, archive, at, check, key_file, member, members, reseal, signer, trusting,
};

fn signed_by(signer: &Signer, others: &[&Signer], rotations: Vec<Rotation>) -> Vec<u8> {
    let mut world = World::new();
    world.keys = others.iter().copied().chain([signer]).map(key_file).collect();
    world.rotations = rotations;
    world.write(signer, Replace::IfThere).unwrap();
    std::fs::read(world.path()).unwrap()
}

fn rotation(from: u8, to: u8) -> Rotation {
    Rotation::sign(&signer(from), &signer(to), at(50)).unwrap()
}

#[test]
fn a_bundle_of_an_unknown_signer_is_not_checked() {
    let bytes = signed_by(&signer(1), &[], Vec::new());
    for trust in [Trust::default(), trusting(&[&signer(0)])] {
        let report = check(&bytes, &trust);
        assert_eq!(report.faults, []);
        assert_eq!(report.verdict(), Verdict::Unchecked);
        assert_eq!(report.code(), Some(Code::BundleUntrusted));
        assert_eq!(report.signer, Some(signer(1).public().id()));
    }
    assert_eq!(check(&bytes, &trusting(&[&signer(0), &signer(1)])).verdict(), Verdict::Intact);
}

#[test]
fn a_bundle_that_another_key_has_signed_anew_is_not_checked() {
    let bytes = World::new().bytes();
    let mut all = members(&bytes);
    let mut world = World::new();
    world.keys = vec![key_file(&signer(1))];
    world.write(&signer(1), Replace::Never).unwrap();
    let forged = std::fs::read(world.path()).unwrap();
    assert_eq!(check(&forged, &trusting(&[&signer(0)])).verdict(), Verdict::Unchecked);
    // With the true signer's key beside its own, and even under the true signer's name.
    all.push((
        format!("keys/{}.pub", signer(1).public().id()),
        key_file(&signer(1)).to_text().into_bytes(),
    ));
    let resealed = reseal(&mut all, &signer(1));
    let report = check(&resealed, &trusting(&[&signer(0)]));
    assert_eq!(report.verdict(), Verdict::Damaged, "the heads are still the other's");
    let mut all = members(&resealed);
    let seal = member(&mut all, "signature.json");
    let (false_id, true_id) = (signer(1).public().id(), signer(0).public().id());
    let text = String::from_utf8(seal.clone()).unwrap();
    *seal = text.replace(false_id.as_str(), true_id.as_str()).into_bytes();
    let report = check(&archive(&all), &trusting(&[&signer(0)]));
    assert_eq!((report.verdict(), report.trusted), (Verdict::Damaged, false));
}

#[test]
fn trust_in_an_old_key_reaches_the_new_one() {
    let rotations = vec![rotation(0, 1), rotation(1, 2)];
    let bytes = signed_by(&signer(2), &[&signer(0), &signer(1)], rotations.clone());
    for trusted in 0..=2 {
        let report = check(&bytes, &trusting(&[&signer(trusted)]));
        assert_eq!(report.verdict(), Verdict::Intact, "key {trusted}");
    }
    assert_eq!(check(&bytes, &trusting(&[&signer(3)])).verdict(), Verdict::Unchecked);
    // Without the statements, only the signer's own key will do, or one who has kept them.
    let bare = signed_by(&signer(2), &[], Vec::new());
    assert_eq!(check(&bare, &trusting(&[&signer(0)])).verdict(), Verdict::Unchecked);
    let kept = trusting(&[&signer(0)]).with_rotations(rotations);
    assert_eq!(check(&bare, &kept).verdict(), Verdict::Intact);
}

#[test]
fn trust_in_a_new_key_reaches_bundles_of_the_old_one() {
    // Made before there was a new key.
    let old = signed_by(&signer(0), &[], Vec::new());
    assert_eq!(
        check(&old, &trusting(&[&signer(0)])).verdict(),
        Verdict::Intact,
        "the old key alone"
    );
    assert_eq!(check(&old, &trusting(&[&signer(2)])).verdict(), Verdict::Unchecked);
    let kept = trusting(&[&signer(2)]).with_rotations([rotation(1, 2), rotation(0, 1)]);
    assert_eq!(check(&old, &kept).verdict(), Verdict::Intact);
}

#[test]
fn nobody_can_vouch_for_himself() {
    // A stranger (9) claims to have come before, or after, the key that is trusted (0).
    for (from, to) in [(9, 0), (0, 9)] {
        let text = serde_json::to_value(rotation(from, to)).unwrap();
        let strangers =
            serde_json::to_value(Rotation::sign(&signer(from), &signer(to), at(50)).unwrap())
                .unwrap();
        assert_eq!(text, strangers);
        let mut forged = text;
        // He can sign for himself only.
        let field = if from == 0 { "signature_by_from" } else { "signature_by_to" };
        let own = if from == 0 { "signature_by_to" } else { "signature_by_from" };
        forged[field] = forged[own].clone();
        let forged: Rotation = serde_json::from_value(forged).unwrap();
        assert!(!forged.holds());
        let bytes = signed_by(&signer(9), &[], Vec::new());
        let trust = trusting(&[&signer(0)]).with_rotations([forged]);
        assert_eq!(check(&bytes, &trust).verdict(), Verdict::Unchecked);
    }
}

#[test]
fn rotations_that_lead_nowhere_end() {
    let circle: Vec<Rotation> =
        [(1, 2), (2, 3), (3, 1), (0, 0), (4, 4)].map(|(from, to)| rotation(from, to)).into();
    let trust = trusting(&[&signer(0), &signer(2)]).with_rotations(circle);
    assert!(trust.reaches(&signer(1).public(), &[]));
    assert!(!trust.reaches(&signer(4).public(), &[]));
    assert!(!Trust::default().reaches(&signer(0).public(), &[]));
}
