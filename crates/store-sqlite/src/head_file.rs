//! The head file: how far the store got, outside of the database and its write-ahead log.
//!
//! SQLite ends a write-ahead log at the first frame whose checksum is wrong, without an error: one flipped
//! bit, or the loss of the log, takes back every commit from there on. So after each commit the position of
//! the store is written here, with one write and no sync. A store whose position is behind that of its head
//! file has lost commits, and is refused.
//!
//! The file has [`SLOTS`] slots, and a position is written to the slot of its number, so that a process that
//! is late does not overwrite what a faster one has written since; the greatest position counts. Each slot
//! has a checksum; one that is empty or torn says nothing.
//!
//! A store may have a second such file elsewhere, its *witness*: what is replaced or removed together with the database
//! and its head file is noticed by it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use windlass_store::StoreError;

use crate::progress::checksum;
use crate::sql::Context as _;

const SLOTS: i64 = 128;
/// Divides the smallest sector, so that no slot lies in two of them.
const SLOT_BYTES: usize = 32;
const FILE_BYTES: usize = SLOTS as usize * SLOT_BYTES;

/// What one slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Head {
    /// The position of the store.
    pub position: i64,
    /// The length of the write-ahead log at that position, in pages.
    pub wal_pages: u32,
    /// The id of the store.
    pub store: i64,
}

impl Head {
    fn encode(self) -> [u8; SLOT_BYTES] {
        let numbers = [self.store, self.position, i64::from(self.wal_pages)];
        let numbers = numbers.map(i64::to_be_bytes).concat();
        let mut slot = [0; SLOT_BYTES];
        for (place, byte) in
            slot.iter_mut().zip(numbers.iter().chain(&checksum(&numbers).to_be_bytes()))
        {
            *place = *byte;
        }
        slot
    }

    fn decode(slot: &[u8]) -> Option<Self> {
        let (numbers, sum) = slot.split_at_checked(SLOT_BYTES - size_of::<i64>())?;
        if sum != checksum(numbers).to_be_bytes() {
            return None;
        }
        let (store, rest) = numbers.split_first_chunk()?;
        let (position, rest) = rest.split_first_chunk()?;
        let pages = i64::from_be_bytes(*rest.first_chunk()?);
        Some(Self {
            position: i64::from_be_bytes(*position),
            wal_pages: u32::try_from(pages).ok()?,
            store: i64::from_be_bytes(*store),
        })
    }
}

/// The path of the head file of a database.
pub fn path_of(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".head");
    path.into()
}

/// Reads the greatest position that a head file has; `None` if there is no file, or no slot is valid.
pub fn read(path: &Path) -> Result<Option<Head>, StoreError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(bytes.chunks(SLOT_BYTES).filter_map(Head::decode).max()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("read its head file"),
    }
}

/// The open head file of a store, and its witness, if it has one.
#[derive(Debug)]
pub struct HeadFile {
    own: Slots,
    witness: Option<Slots>,
}

impl HeadFile {
    /// The files of a store.
    pub const fn new(own: Slots, witness: Option<Slots>) -> Self {
        Self { own, witness }
    }

    /// Writes the position of the store after a commit, if it has grown. This may fail: then the file is
    /// behind the store, as after a power failure.
    pub fn write(&mut self, position: i64, wal_pages: u32) {
        for slots in [Some(&mut self.own), self.witness.as_mut()].into_iter().flatten() {
            slots.write(position, wal_pages);
        }
    }
}

/// One open file of positions.
#[derive(Debug)]
pub struct Slots {
    file: File,
    store: i64,
    /// The position that this process has written last.
    written: i64,
}

impl Slots {
    /// Opens the file, or creates it, and writes the present position unless it is there.
    pub fn open(path: &Path, found: Option<Head>, present: Head) -> Result<Self, StoreError> {
        let operation = "open its head file";
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.context(operation)?;
        // With all of its size from the beginning, later writes need no more of the disk.
        if file.metadata().context(operation)?.len() < FILE_BYTES as u64 {
            file.set_len(FILE_BYTES as u64).context(operation)?;
        }
        let written = found.map_or(-1, |found| found.position);
        let mut head = Self { file, store: present.store, written };
        head.write(present.position, present.wal_pages);
        Ok(head)
    }

    fn write(&mut self, position: i64, wal_pages: u32) {
        if position <= self.written {
            return;
        }
        let offset = position.rem_euclid(SLOTS).unsigned_abs() * SLOT_BYTES as u64;
        let slot = Head { position, wal_pages, store: self.store }.encode();
        if self.file.write_all_at(&slot, offset).is_ok() {
            self.written = position;
        }
    }
}
