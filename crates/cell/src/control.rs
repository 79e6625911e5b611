//! The socket between Windlass and a cell: the request one way, reports the other.
//!
//! It is the standard input of the launcher, so no other descriptor is ever inherited. When either end is
//! closed the other sees it: a cell ends when Windlass does, however that ends.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::spec::{Report, Request};

/// The maximum size of one message.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Asks the cell to send `SIGTERM` to its program.
const TERMINATE: u8 = b'T';
const LENGTH_BYTES: usize = 4;
const CHUNK_BYTES: usize = 64 * 1024;

/// Makes the two ends of the socket.
///
/// # Errors
/// The system's error.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// Sends one message, with a descriptor if there is one.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    message: &impl Serialize,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let body = serde_json::to_vec(message).map_err(io::Error::other)?;
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= MESSAGE_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::other("the message is too long"))?;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend(body);
    let mut rest = bytes.as_slice();
    let mut descriptor = descriptor;
    while !rest.is_empty() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors;
        if let Some(descriptor) = descriptor.take() {
            descriptors = [descriptor];
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        match sendmsg(socket, &[io::IoSlice::new(rest)], &mut ancillary, SendFlags::NOSIGNAL) {
            Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Asks the cell to terminate its program.
pub(crate) fn send_terminate(socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut ancillary = SendAncillaryBuffer::default();
    sendmsg(socket, &[io::IoSlice::new(&[TERMINATE])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// What has been read from the socket and not yet been taken.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
    /// Whether the other end is closed.
    pub ended: bool,
}

impl Inbox {
    /// Reads once. Returns whether anything came.
    pub fn read(&mut self, socket: BorrowedFd<'_>, flags: RecvFlags) -> io::Result<bool> {
        self.read_at_most(socket, flags, CHUNK_BYTES)
    }

    fn read_at_most(
        &mut self,
        socket: BorrowedFd<'_>,
        flags: RecvFlags,
        most: usize,
    ) -> io::Result<bool> {
        let mut chunk = [0; CHUNK_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        let received = loop {
            let mut buffers = [io::IoSliceMut::new(chunk.get_mut(..most).unwrap_or_default())];
            match recvmsg(socket, &mut buffers, &mut ancillary, flags) {
                Ok(received) => break received,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(false),
                // The other process died with unread data.
                Err(rustix::io::Errno::CONNRESET) => {
                    self.ended = true;
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        self.ended = received.bytes == 0;
        self.bytes.extend_from_slice(chunk.get(..received.bytes).unwrap_or_default());
        Ok(received.bytes > 0)
    }

    /// Takes the first message, if all of it has come.
    pub fn take<M: DeserializeOwned>(&mut self) -> io::Result<Option<M>> {
        let Some(length) = self.bytes.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > MESSAGE_BYTES_MAX {
            return Err(io::Error::other("a message is too long"));
        }
        let Some(body) = self.bytes.get(LENGTH_BYTES..LENGTH_BYTES + length) else {
            return Ok(None);
        };
        let message = serde_json::from_slice(body).map_err(io::Error::other)?;
        self.bytes.drain(..LENGTH_BYTES + length);
        Ok(Some(message))
    }

    /// How many bytes the first message still lacks, as far as is known.
    fn missing(&self) -> usize {
        let whole = match self.bytes.first_chunk::<LENGTH_BYTES>() {
            Some(length) => usize::try_from(u32::from_le_bytes(*length))
                .unwrap_or(usize::MAX)
                .saturating_add(LENGTH_BYTES),
            None => LENGTH_BYTES,
        };
        whole.saturating_sub(self.bytes.len())
    }

    /// Takes the first descriptor that came.
    pub fn take_descriptor(&mut self) -> Option<OwnedFd> {
        if self.descriptors.is_empty() { None } else { Some(self.descriptors.remove(0)) }
    }

    /// Whether the other side asked for the program to be terminated; forgets it.
    pub fn take_terminate(&mut self) -> bool {
        let asked = self.bytes.contains(&TERMINATE);
        self.bytes.clear();
        asked
    }
}

/// Reads the request, and the descriptor of the program's standard input.
pub(crate) fn receive_request(socket: BorrowedFd<'_>) -> io::Result<(Request, Option<OwnedFd>)> {
    let mut inbox = Inbox::default();
    loop {
        if let Some(request) = inbox.take::<Request>()? {
            let stdin = if request.has_stdin { inbox.take_descriptor() } else { None };
            return Ok((request, stdin));
        }
        if !inbox.read(socket, RecvFlags::empty())? && inbox.ended {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Reads one message and not a byte more: what follows is for the process that gets the socket next.
pub(crate) fn receive_one<M: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<M> {
    let mut inbox = Inbox::default();
    loop {
        if let Some(message) = inbox.take::<M>()? {
            return Ok(message);
        }
        let most = inbox.missing().min(CHUNK_BYTES);
        if !inbox.read_at_most(socket, RecvFlags::empty(), most)? && inbox.ended {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Sends a report; if nobody reads it any more, the cell is about to end anyway.
pub(crate) fn report(socket: impl AsFd, report: &Report) {
    drop(send(socket.as_fd(), report, None));
}
