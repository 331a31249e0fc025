//! What an output is written to: a file, or a FIFO, whose reader may be slow or not there.
//!
//! Invariant: no write waits in the system for a reader, where Ctrl-C would not end it.

use super::failed::file_failed;
use idmatch_store::{Call, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// The time between two checks of the call while a reader is waited for.
const READER_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A file or a FIFO that is written while its call goes on.
pub(super) struct OutputFile {
    file: File,
    call: Call,
}

impl OutputFile {
    /// Opens a file or a FIFO that exists; waits for the reader of a FIFO.
    ///
    /// # Errors
    /// `Io`; `Cancelled`.
    pub(super) fn open(path: &Path, call: &Call) -> Result<OutputFile> {
        let flags = OFlags::NONBLOCK.bits() as i32;
        let is_fifo = fs::metadata(path).map_err(file_failed)?.file_type().is_fifo();
        loop {
            match File::options().write(true).custom_flags(flags).open(path) {
                Ok(file) => return Ok(OutputFile { file, call: call.clone() }),
                Err(e) if is_fifo && e.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                    call.check()?;
                    std::thread::sleep(READER_CHECK_INTERVAL);
                }
                Err(e) => return Err(file_failed(e)),
            }
        }
    }

    fn wait_for_reader(&self) -> io::Result<()> {
        let interval = Timespec::try_from(READER_CHECK_INTERVAL).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.file, PollFlags::OUT)], Some(&interval)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.call.check().map_err(io::Error::other)?;
            match self.file.write(bytes) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.wait_for_reader()?,
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
