//! Unix sockets, also at paths that are longer than the address of a socket may be.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest path that fits into an address, with its end.
const ADDRESS_BYTES_MAX: usize = 107;
const CHUNK: usize = 64 * 1024;

/// Tells temporary names of one process apart.
static TEMPORARY: AtomicU64 = AtomicU64::new(0);

/// A short path to a name in a folder.
struct ShortPath {
    path: PathBuf,
    /// The path leads through it.
    _folder: Option<File>,
}

impl ShortPath {
    fn of(socket: &Path) -> io::Result<Self> {
        if socket.as_os_str().len() <= ADDRESS_BYTES_MAX {
            return Ok(Self { path: socket.to_owned(), _folder: None });
        }
        let (Some(folder), Some(name)) = (socket.parent(), socket.file_name()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path names no socket"));
        };
        let folder = File::open(folder)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        Ok(Self { path, _folder: Some(folder) })
    }
}

/// Connects to a socket.
///
/// # Errors
/// As the system says.
pub fn connect(socket: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(&ShortPath::of(socket)?.path)
}

/// Listens at a socket that only this user can connect to.
///
/// A socket at which nobody listens any more is replaced.
///
/// # Errors
/// [`io::ErrorKind::AddrInUse`] if somebody listens there, or something else has that name; others as
/// the system says.
pub fn listen(socket: &Path) -> io::Result<UnixListener> {
    let in_use = |what| Err(io::Error::new(io::ErrorKind::AddrInUse, what));
    match fs::symlink_metadata(socket) {
        Ok(found) if !found.file_type().is_socket() => return in_use("not a socket"),
        Ok(_) if !is_stale(socket)? => return in_use("somebody listens there"),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // Under its name, it exists only with its permissions.
    let number = TEMPORARY.fetch_add(1, Ordering::Relaxed);
    let own_name = format!(".{}-{number}.socket", std::process::id());
    let temporary = socket.with_file_name(own_name);
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(&ShortPath::of(&temporary)?.path)?;
    let placed = fs::set_permissions(&temporary, Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&temporary, socket));
    if let Err(error) = placed {
        // The first error says more.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    Ok(listener)
}

fn is_stale(socket: &Path) -> io::Result<bool> {
    match connect(socket) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
        Err(error) => Err(error),
    }
}

/// Connects the standard streams of this process with a socket, until the socket is closed or nobody
/// reads the output. The end of the input is passed on.
///
/// # Errors
/// If the socket cannot be reached, or the system refuses a thread.
pub fn relay(socket: &Path) -> io::Result<()> {
    let stream = connect(socket)?;
    // Without the buffers of the standard library: a message is passed on at once.
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    relay_between(stream, input, output)
}

fn relay_between(
    stream: UnixStream,
    mut input: impl Read + Send + 'static,
    mut output: impl Write,
) -> io::Result<()> {
    let mut to_server = stream.try_clone()?;
    let mut from_server = stream;
    std::thread::Builder::new().name("windlass-mcp-relay".to_owned()).spawn(move || {
        // Either way nothing more comes.
        let _ = copy(&mut input, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    })?;
    copy(&mut from_server, &mut output)
}

/// Copies until the reader ends. That nobody reads any more is an end, too.
fn copy(reader: &mut impl Read, writer: &mut impl Write) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = match reader.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error),
        };
        let written = writer.write_all(chunk.get(..count).unwrap_or_default());
        match written.and_then(|()| writer.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            result => result?,
        }
    }
}
