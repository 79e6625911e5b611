//! Signatures by an SSH agent, on hardware or not.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use windlass_kernel::{PublicKey, SecurityKey, Signature};

const PLAIN: &str = "ssh-ed25519";
const HARDWARE: &str = "sk-ssh-ed25519@openssh.com";
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;
const REPLY_BYTES_MAX: u32 = 64 << 10;
/// A person may have to touch the key or to confirm.
const TIMEOUT: Duration = Duration::from_secs(60);

/// An Ed25519 key that an SSH agent has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshPublicKey {
    /// The key.
    pub key: PublicKey,
    /// The application of a hardware key.
    pub application: Option<String>,
}

impl SshPublicKey {
    /// Reads a line of a `.pub` file.
    ///
    /// # Errors
    /// A message if it is not an Ed25519 key.
    pub fn parse(line: &str) -> Result<Self, &'static str> {
        let mut words = line.split_whitespace();
        let (Some(kind), Some(blob)) = (words.next(), words.next()) else {
            return Err("it is not a public key of SSH");
        };
        if kind != PLAIN && kind != HARDWARE {
            return Err(
                "only Ed25519 keys can sign decisions (`ssh-keygen -t ed25519` or `-t ed25519-sk`)",
            );
        }
        let blob = STANDARD.decode(blob).map_err(|_| "it is not base64")?;
        let mut fields = Fields(&blob);
        let broken = "it is not a public key of SSH";
        if fields.next() != Some(kind.as_bytes()) {
            return Err(broken);
        }
        let key: [u8; 32] = fields.next().and_then(|key| key.try_into().ok()).ok_or(broken)?;
        let application = match kind {
            HARDWARE => {
                let text = fields.next().and_then(|text| std::str::from_utf8(text).ok());
                Some(text.ok_or(broken)?.to_owned())
            }
            _ => None,
        };
        Ok(Self { key: PublicKey::from_bytes(&key)?, application })
    }

    /// The key as SSH writes it.
    fn to_blob(&self) -> Vec<u8> {
        let mut blob = Vec::new();
        let kind = if self.application.is_some() { HARDWARE } else { PLAIN };
        put(&mut blob, kind.as_bytes());
        put(&mut blob, &self.key.to_bytes());
        if let Some(application) = &self.application {
            put(&mut blob, application.as_bytes());
        }
        blob
    }
}

/// Has the agent sign bytes.
pub(super) fn sign(
    socket: &Path,
    key: &SshPublicKey,
    bytes: &[u8],
) -> Result<(Signature, Option<SecurityKey>), String> {
    let mut request = vec![SIGN_REQUEST];
    put(&mut request, &key.to_blob());
    put(&mut request, bytes);
    request.extend(0_u32.to_be_bytes());
    let reply = ask(socket, &request).map_err(|error| {
        format!("the SSH agent at `{}` did not answer: {error}", socket.display())
    })?;
    let Some((&SIGN_RESPONSE, rest)) = reply.split_first() else {
        return Err("the SSH agent does not have the key, or refused to use it".to_owned());
    };
    read_signature(rest, key).ok_or_else(|| "the SSH agent sent no valid signature".to_owned())
}

fn read_signature(rest: &[u8], key: &SshPublicKey) -> Option<(Signature, Option<SecurityKey>)> {
    let mut fields = Fields(Fields(rest).next()?);
    let kind = if key.application.is_some() { HARDWARE } else { PLAIN };
    if fields.next()? != kind.as_bytes() {
        return None;
    }
    let signature = Signature::from_bytes(fields.next()?.try_into().ok()?);
    let Some(application) = &key.application else { return Some((signature, None)) };
    let (&flags, counter) = fields.0.split_first()?;
    let counter = u32::from_be_bytes(counter.try_into().ok()?);
    Some((signature, Some(SecurityKey { application: application.clone(), counter, flags })))
}

fn ask(socket: &Path, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut message = Vec::new();
    put(&mut message, request);
    stream.write_all(&message)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > REPLY_BYTES_MAX {
        return Err(std::io::Error::other("the reply is too long"));
    }
    let mut reply = vec![0; usize::try_from(length).unwrap_or_default()];
    stream.read_exact(&mut reply)?;
    Ok(reply)
}

/// Writes a field with its length.
fn put(out: &mut Vec<u8>, field: &[u8]) {
    out.extend(u32::try_from(field.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend(field);
}

/// Reads fields with their lengths.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (field, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(field)
    }
}
