//! The bytes behind a CONNECT. A TLS greeting must name the host that CONNECT named.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;
use windlass_kernel::{Authority, Host};

use crate::body::{CopyError, Direction, Encoding, Extensions, Meter, Pipe, send, watched};
use crate::event::{End, Refusal};
use crate::hello::{self, RecordKind};
use crate::http::Framing;
use crate::rules::BrokerRules;
use crate::serve::Client;

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
const HANDSHAKE: u8 = 22;

type Reader = BufReader<OwnedReadHalf>;

/// Copies both ways until both sides are done, and says why it ended.
pub(crate) async fn run(
    client: &mut Client,
    upstream: TcpStream,
    authority: &Authority,
    rules: &BrokerRules,
) -> End {
    let (reader, writer) = upstream.into_split();
    let mut host = HostSide { reader: BufReader::new(reader), writer };
    let meter = Arc::clone(&client.meter);
    let work = async {
        send(&mut client.writer, ESTABLISHED).await.map_err(|_| End::Broken)?;
        inspect(client, &mut host, authority, rules).await?;
        let up = one_way(&mut client.reader, &mut host.writer, &meter, Direction::Up);
        let down = one_way(&mut host.reader, &mut client.writer, &meter, Direction::Down);
        tokio::try_join!(up, down).map(|_| ())
    };
    let end = match watched(&meter, rules.limits.idle_timeout, work).await {
        Ok(Ok(())) => End::Done,
        Ok(Err(end)) => end,
        Err(_) => End::Idle,
    };
    if let End::Refused(_) = end {
        // The client may be gone or not read; it is told if that costs nothing.
        let _ = client.writer.try_write(&hello::ACCESS_DENIED);
    }
    end
}

struct HostSide {
    reader: Reader,
    writer: OwnedWriteHalf,
}

async fn one_way(
    reader: &mut Reader,
    writer: &mut OwnedWriteHalf,
    meter: &Meter,
    direction: Direction,
) -> Result<(), End> {
    let pipe = Pipe {
        reader,
        writer,
        meter,
        direction,
        encoding: Encoding::Raw,
        extensions: Extensions::Refused,
        scrubber: None,
        inspection: None,
    };
    pipe.copy(Framing::UntilClose).await.map_err(end_of)?;
    writer.shutdown().await.map_err(|_| End::Broken)
}

const fn end_of(error: CopyError) -> End {
    match error {
        CopyError::Limit(refusal) => End::Refused(refusal),
        CopyError::Read | CopyError::Write | CopyError::Malformed => End::Broken,
    }
}

/// Lets the beginning of a TLS connection through if it names the host. What does not begin as TLS
/// is refused on the ports for TLS, and let through elsewhere.
async fn inspect(
    client: &mut Client,
    host: &mut HostSide,
    authority: &Authority,
    rules: &BrokerRules,
) -> Result<(), End> {
    let limits = &rules.limits;
    if rules.tls_ports.contains(&authority.port) {
        let first = timeout(limits.head_timeout, client.reader.fill_buf()).await;
        let first = first.map_err(|_| End::Refused(Refusal::HelloTimeout))?;
        match first.map_err(|_| End::Broken)?.first() {
            None => return Err(End::Done),
            Some(&HANDSHAKE) => {}
            Some(_) => return Err(End::Refused(Refusal::NotTls)),
        }
    } else {
        let greets = tokio::select! {
            first = client.reader.fill_buf() => {
                first.map_err(|_| End::Broken)?.first() == Some(&HANDSHAKE)
            }
            // In some protocols the host speaks first; TLS is none of them.
            first = host.reader.fill_buf() => {
                first.map_err(|_| End::Broken)?;
                false
            }
        };
        if !greets {
            return Ok(());
        }
    }
    let meter = Arc::clone(&client.meter);
    let late = |_| End::Refused(Refusal::HelloTimeout);
    let first = read_hello(&mut client.reader, &authority.host);
    let greeting = timeout(limits.head_timeout, first).await.map_err(late)??;
    forward(&mut host.writer, &meter, Direction::Up, &greeting).await?;

    // The host may ask for a second greeting. It must name the same host.
    let Some(answer) = read_record(&mut host.reader).await.map_err(|_| End::Broken)? else {
        return Err(End::Done);
    };
    let again = match answer.kind {
        Some(RecordKind::Handshake) => hello::asks_again(answer.payload()).map_err(End::Refused)?,
        Some(RecordKind::Alert | RecordKind::ChangeCipherSpec | RecordKind::Data) | None => false,
    };
    forward(&mut client.writer, &meter, Direction::Down, &answer.bytes).await?;
    if again {
        let second = second_hello(client, host, &authority.host);
        timeout(limits.head_timeout, second).await.map_err(late)??;
    }
    Ok(())
}

async fn forward(
    writer: &mut OwnedWriteHalf,
    meter: &Meter,
    direction: Direction,
    bytes: &[u8],
) -> Result<(), End> {
    meter.add(direction, bytes.len()).map_err(End::Refused)?;
    send(writer, bytes).await.map_err(end_of)
}

/// A record of TLS, or the first bytes of something else.
struct Record {
    kind: Option<RecordKind>,
    bytes: Vec<u8>,
}

impl Record {
    fn payload(&self) -> &[u8] {
        self.bytes.get(hello::RECORD_HEADER_BYTES..).unwrap_or_default()
    }
}

/// Reads a record; `None` at the end.
async fn read_record(reader: &mut Reader) -> io::Result<Option<Record>> {
    if reader.fill_buf().await?.is_empty() {
        return Ok(None);
    }
    let mut header = [0; hello::RECORD_HEADER_BYTES];
    reader.read_exact(&mut header).await?;
    let mut bytes = header.to_vec();
    let Some((kind, length)) = hello::record(header) else {
        return Ok(Some(Record { kind: None, bytes }));
    };
    bytes.resize(hello::RECORD_HEADER_BYTES + length, 0);
    reader.read_exact(bytes.get_mut(hello::RECORD_HEADER_BYTES..).unwrap_or_default()).await?;
    Ok(Some(Record { kind: Some(kind), bytes }))
}

/// Reads a greeting, which may be spread over several records, and checks its server name.
async fn read_hello(reader: &mut Reader, host: &Host) -> Result<Vec<u8>, End> {
    let (mut bytes, mut message) = (Vec::new(), Vec::new());
    for _ in 0..hello::HELLO_RECORDS_MAX {
        let record = read_record(reader).await.map_err(|_| End::Refused(Refusal::HelloInvalid))?;
        let record = record.filter(|record| record.kind == Some(RecordKind::Handshake));
        let record = record.ok_or(End::Refused(Refusal::HelloInvalid))?;
        message.extend_from_slice(record.payload());
        bytes.extend(record.bytes);
        if let Some(name) = hello::complete(&message).map_err(End::Refused)? {
            check_name(host, name.as_deref()).map_err(End::Refused)?;
            return Ok(bytes);
        }
    }
    Err(End::Refused(Refusal::HelloTooLarge))
}

fn check_name(host: &Host, name: Option<&str>) -> Result<(), Refusal> {
    match (host, name) {
        (Host::Name(host), Some(name)) if host == name => Ok(()),
        // An address cannot be a server name (RFC 6066).
        (Host::Address(_), None) => Ok(()),
        (Host::Name(_), None) => Err(Refusal::ServerNameMissing),
        (Host::Name(_) | Host::Address(_), Some(_)) => Err(Refusal::ServerNameDiffers),
    }
}

/// Lets through what a client sends before its second greeting, and the greeting.
async fn second_hello(client: &mut Client, host: &mut HostSide, name: &Host) -> Result<(), End> {
    let meter = Arc::clone(&client.meter);
    for _ in 0..hello::HELLO_RECORDS_MAX {
        let first = client.reader.fill_buf().await.map_err(|_| End::Broken)?.first().copied();
        let bytes = match first {
            None => return Err(End::Done),
            Some(HANDSHAKE) => read_hello(&mut client.reader, name).await?,
            Some(_) => {
                let record = read_record(&mut client.reader).await.map_err(|_| End::Broken)?;
                let record = record.filter(|record| record.kind.is_some());
                record.ok_or(End::Refused(Refusal::HelloInvalid))?.bytes
            }
        };
        forward(&mut host.writer, &meter, Direction::Up, &bytes).await?;
        if first == Some(HANDSHAKE) {
            return Ok(());
        }
    }
    Err(End::Refused(Refusal::HelloTooLarge))
}
