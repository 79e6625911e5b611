//! HTTP/1 heads, read strictly: what two programs could read in two ways is refused.

use windlass_kernel::Authority;

use crate::event::Refusal;

const HEADERS_MAX: usize = 128;
const METHOD_BYTES_MAX: usize = 32;

/// Whether these bytes are a token, as header names are.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(plain)
}

/// Whether a header concerns one connection only, or the length of the body, and is not passed on.
pub(crate) fn is_of_connection(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "content-length"
            | "expect"
            | "http2-settings"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// Headers that servers could take for those that say where a message ends and whom it is for.
fn is_lookalike(name: &str) -> bool {
    name.contains('_')
        && matches!(name.replace('_', "-").as_str(), "content-length" | "transfer-encoding")
}

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Http10,
    Http11,
}

impl Version {
    fn parse(text: &[u8]) -> Option<Self> {
        match text {
            b"HTTP/1.0" => Some(Self::Http10),
            b"HTTP/1.1" => Some(Self::Http11),
            _ => None,
        }
    }
}

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    None,
    Length(u64),
    Chunked,
    UntilClose,
}

/// Headers in their order; names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers(Vec<(String, Vec<u8>)>);

impl Headers {
    fn parse<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let mut headers = Vec::new();
        for line in lines {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = (line.get(..colon)?, line.get(colon + 1..)?.trim_ascii());
            let text = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
            if !is_token(name) || !value.iter().all(text) || headers.len() == HEADERS_MAX {
                return None;
            }
            let name = String::from_utf8(name.to_ascii_lowercase()).ok()?;
            if is_lookalike(&name) {
                return None;
            }
            headers.push((name, value.to_vec()));
        }
        Some(Self(headers))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |(found, _)| *found == name).map(|(_, value)| value)
    }

    /// The value of a header that may be there once; an error if it is there more often.
    fn once<'a>(&'a self, name: &'a str) -> Result<Option<&'a [u8]>, ()> {
        let mut values = self.all(name);
        let first = values.next();
        if values.next().is_some() { Err(()) } else { Ok(first) }
    }

    /// The names that the `Connection` headers list, in lower case.
    fn connection_options(&self) -> Vec<String> {
        let values = self.all("connection").chain(self.all("proxy-connection"));
        values
            .flat_map(|value| value.split(|byte| *byte == b','))
            .map(|option| String::from_utf8_lossy(option.trim_ascii()).to_ascii_lowercase())
            .filter(|option| !option.is_empty())
            .collect()
    }

    /// The headers that are passed on.
    pub(crate) fn end_to_end(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let options = self.connection_options();
        self.iter().filter(move |(name, _)| {
            !is_of_connection(name) && !options.iter().any(|option| option == name)
        })
    }

    fn framing(&self, version: Version) -> Result<Framing, Refusal> {
        let length = self.once("content-length").map_err(|()| Refusal::Length)?;
        let encoding = self.once("transfer-encoding").map_err(|()| Refusal::TransferEncoding)?;
        match (length, encoding) {
            (None, None) => Ok(Framing::None),
            (Some(length), None) => parse_length(length).map(Framing::Length),
            (None, Some(encoding))
                if encoding.eq_ignore_ascii_case(b"chunked") && version == Version::Http11 =>
            {
                Ok(Framing::Chunked)
            }
            (None | Some(_), Some(_)) => Err(Refusal::TransferEncoding),
        }
    }
}

fn parse_length(text: &[u8]) -> Result<u64, Refusal> {
    let plain = text.iter().all(u8::is_ascii_digit) && (text == b"0" || !text.starts_with(b"0"));
    let text = std::str::from_utf8(text).ok().filter(|_| plain).ok_or(Refusal::Length)?;
    text.parse().map_err(|_| Refusal::Length)
}

/// Splits a head, which ends with an empty line, into its lines. `None` if a line ends otherwise
/// than with CR LF.
fn lines(head: &[u8]) -> Option<Vec<&[u8]>> {
    let text = head.strip_suffix(b"\r\n\r\n")?;
    let mut lines = Vec::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if number > 0 {
            let ended: &mut &[u8] = lines.last_mut()?;
            *ended = ended.strip_suffix(b"\r")?;
        }
        lines.push(line);
    }
    lines.iter().all(|line| !line.contains(&b'\r')).then_some(lines)
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A tunnel to a host.
    Tunnel(Authority),
    /// A path of a host, over plain HTTP.
    Plain(Authority, String),
    /// A path of the broker itself.
    Own(String),
}

/// The first line of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestLine {
    method: String,
    target: Target,
    version: Version,
}

impl RequestLine {
    /// Reads the line, without its end.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, Refusal> {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let [method, target, version] = words.as_slice() else { return Err(Refusal::NotHttp) };
        let version = Version::parse(version).ok_or(Refusal::NotHttp)?;
        let letters = |byte: &u8| byte.is_ascii_uppercase() || *byte == b'-';
        if method.is_empty() || method.len() > METHOD_BYTES_MAX || !method.iter().all(letters) {
            return Err(Refusal::Method);
        }
        let method = String::from_utf8_lossy(method).into_owned();
        if !target.iter().all(u8::is_ascii_graphic) {
            return Err(Refusal::PathInvalid);
        }
        let target = std::str::from_utf8(target).map_err(|_| Refusal::PathInvalid)?;
        let target = parse_target(&method, target)?;
        Ok(Self { method, target, version })
    }
}

fn parse_target(method: &str, target: &str) -> Result<Target, Refusal> {
    let authority = |text: &str, port| {
        Authority::parse(text, port).map_err(|error| Refusal::of_name(error.problem))
    };
    if method == "CONNECT" {
        return authority(target, None).map(Target::Tunnel);
    }
    if target.starts_with('/') {
        return own_path(target).map(Target::Own);
    }
    let Some((scheme, rest)) = target.split_once("://") else { return Err(Refusal::TargetForm) };
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(Refusal::Scheme);
    }
    let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let authority = authority(host, Some(80))?;
    if path.contains('#') {
        return Err(Refusal::PathInvalid);
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok(Target::Plain(authority, format!("{slash}{path}")))
}

/// A path of a route. It may not climb out of the upstream's base path, in any encoding.
fn own_path(target: &str) -> Result<String, Refusal> {
    let path = target.split('?').next().unwrap_or_default();
    let lower = path.to_ascii_lowercase();
    // Some servers drop what follows a semicolon in a part before they resolve it.
    let climbs = lower.split('/').any(|part| {
        let part = part.replace("%2e", ".").replace("%3b", ";");
        matches!(part.split(';').next(), Some("." | ".."))
    });
    // A percent sign that is encoded itself could hide the others.
    let hidden =
        ["%2f", "%5c", "%00", "%25", "\\", "#"].iter().any(|hidden| lower.contains(hidden));
    if climbs || hidden { Err(Refusal::PathInvalid) } else { Ok(target.to_owned()) }
}

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: Target,
    pub(crate) version: Version,
    pub(crate) headers: Headers,
    pub(crate) framing: Framing,
}

impl Request {
    /// Reads a head, which ends with an empty line.
    pub(crate) fn parse(head: &[u8]) -> Result<Self, Refusal> {
        let lines = lines(head).ok_or(Refusal::HeaderInvalid)?;
        let mut lines = lines.into_iter();
        let line = RequestLine::parse(lines.next().unwrap_or_default())?;
        let RequestLine { method, target, version } = line;
        let headers = Headers::parse(lines).ok_or(Refusal::HeaderInvalid)?;
        let framing = headers.framing(version)?;
        check_host(&target, version, &headers)?;
        let options = headers.connection_options();
        if options.iter().any(|option| matches!(option.as_str(), "host" | "content-length")) {
            return Err(Refusal::HeaderInvalid);
        }
        let body = !matches!(framing, Framing::None | Framing::Length(0));
        if matches!(target, Target::Tunnel(_)) && body {
            return Err(Refusal::ConnectBody);
        }
        let request = Self { method, target, version, headers, framing };
        if request.headers.all("expect").any(|value| !value.eq_ignore_ascii_case(b"100-continue")) {
            return Err(Refusal::Expectation);
        }
        Ok(request)
    }

    pub(crate) fn expects_continue(&self) -> bool {
        self.version == Version::Http11
            && self.framing != Framing::None
            && self.headers.all("expect").next().is_some()
    }

    /// Whether the client may send another request on the same connection.
    pub(crate) fn keeps_alive(&self) -> bool {
        let closes = self.headers.connection_options().iter().any(|option| option == "close");
        self.version == Version::Http11 && !closes
    }
}

fn check_host(target: &Target, version: Version, headers: &Headers) -> Result<(), Refusal> {
    let value = headers.once("host").map_err(|()| Refusal::HostRepeated)?;
    let Some(value) = value else {
        return if version == Version::Http10 { Ok(()) } else { Err(Refusal::HostMissing) };
    };
    let default = match target {
        Target::Tunnel(authority) => authority.port,
        Target::Plain(..) | Target::Own(_) => 80,
    };
    let value = std::str::from_utf8(value).map_err(|_| Refusal::HostDiffers)?;
    let named = Authority::parse(value, Some(default)).map_err(|_| Refusal::HostDiffers)?;
    let same = match target {
        Target::Tunnel(authority) | Target::Plain(authority, _) => named == *authority,
        Target::Own(_) => {
            matches!(named.host.to_string().as_str(), "localhost" | "127.0.0.1" | "[::1]")
        }
    };
    if same { Ok(()) } else { Err(Refusal::HostDiffers) }
}

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) phrase: Vec<u8>,
    pub(crate) headers: Headers,
    pub(crate) framing: Framing,
}

impl Response {
    /// Reads the head of the response to a request with this method; `None` if it is malformed.
    pub(crate) fn parse(head: &[u8], method: &str) -> Option<Self> {
        let mut lines = lines(head)?.into_iter();
        let line = lines.next()?;
        let version = Version::parse(line.get(..8)?)?;
        let digits = line.get(9..12)?;
        let status: u16 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        let blanks = line.get(8) == Some(&b' ') && line.get(12).is_none_or(|byte| *byte == b' ');
        if !blanks || !(100..1000).contains(&status) || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let phrase = line.get(13..).unwrap_or_default().to_vec();
        let text = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
        let headers = Headers::parse(lines).filter(|_| phrase.iter().all(text))?;
        let framing = match headers.framing(version).ok()? {
            _ if method == "HEAD" || matches!(status, 100..200 | 204 | 304) => Framing::None,
            Framing::None => Framing::UntilClose,
            framing @ (Framing::Length(_) | Framing::Chunked | Framing::UntilClose) => framing,
        };
        Some(Self { status, phrase, headers, framing })
    }
}

#[cfg(test)]
mod tests;
