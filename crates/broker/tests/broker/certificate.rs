//! A certificate that signs itself, made for one test.

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};

/// A certificate and its key, both in DER.
pub struct Identity {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

const SEQUENCE: u8 = 0x30;
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 17];

/// One value of DER, with the parts of its content.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    let header = match (high, low) {
        (0, 0..128) => vec![tag, low],
        (0, _) => vec![tag, 0x81, low],
        (_, _) => vec![tag, 0x82, high, low],
    };
    [header, content].concat()
}

fn object(id: &[u8]) -> Vec<u8> {
    der(6, &[id])
}

fn bits(bytes: &[u8]) -> Vec<u8> {
    der(3, &[&[0], bytes])
}

/// An identity for these names, valid until 2049.
pub fn identity(names: &[&str]) -> Identity {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
    let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap();

    let signature = der(SEQUENCE, &[&object(ECDSA_WITH_SHA256)]);
    let validity =
        der(SEQUENCE, &[&der(0x17, &[b"200101000000Z"]), &der(0x17, &[b"491231235959Z"])]);
    let curve = der(SEQUENCE, &[&object(EC_PUBLIC_KEY), &object(P256)]);
    let public = der(SEQUENCE, &[&curve, &bits(pair.public_key().as_ref())]);
    let names: Vec<u8> = names.iter().flat_map(|name| der(0x82, &[name.as_bytes()])).collect();
    let names = der(4, &[&der(SEQUENCE, &[&names])]);
    let extension = der(SEQUENCE, &[&object(SUBJECT_ALT_NAME), &names]);
    let extensions = der(0xa3, &[&der(SEQUENCE, &[&extension])]);
    let nobody = der(SEQUENCE, &[]);
    let version = der(0xa0, &[&[2, 1, 2]]);
    let serial = [2, 1, 1];
    let parts: [&[u8]; 8] =
        [&version, &serial, &signature, &nobody, &validity, &nobody, &public, &extensions];
    let signed = der(SEQUENCE, &parts);

    let value = pair.sign(&random, &signed).unwrap();
    let certificate = der(SEQUENCE, &[&signed, &signature, &bits(value.as_ref())]);
    Identity { certificate, key: key.as_ref().to_vec() }
}
