//! The destination of an output: a file, standard output, or a FIFO, whose reader may be slow or missing.
//!
//! Invariants: no write blocks in the system while it waits for a reader: Ctrl-C would not end it. Standard
//! output is written at its present offset, and stays blocking: other processes have it, too.

use super::failed::file_failed;
use idmatch_store::{Call, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// The time between two checks of the call while a reader is waited for.
const READER_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The name of standard output.
const STDOUT: &str = "/dev/stdout";

/// Bytes that a ready pipe takes without waiting: PIPE_BUF of Linux.
const READY_BYTES: usize = 4_096;

/// A file or a FIFO that is written while its call goes on.
pub(super) struct OutputFile {
    file: File,
    call: Call,
    is_blocking: bool,
}

impl OutputFile {
    /// Opens a file or a FIFO that exists; waits for the reader of a FIFO.
    ///
    /// # Errors
    /// `Io`; `Cancelled`.
    pub(super) fn open(path: &Path, call: &Call) -> Result<OutputFile> {
        if path == Path::new(STDOUT) {
            let file: File = io::stdout().as_fd().try_clone_to_owned().map_err(file_failed)?.into();
            // A regular file has no reader to wait for.
            let is_blocking = !file.metadata().map_err(file_failed)?.is_file();
            return Ok(OutputFile { file, call: call.clone(), is_blocking });
        }
        let flags = OFlags::NONBLOCK.bits() as i32;
        let is_fifo = fs::metadata(path).map_err(file_failed)?.file_type().is_fifo();
        loop {
            match File::options().write(true).custom_flags(flags).open(path) {
                Ok(file) => {
                    return Ok(OutputFile { file, call: call.clone(), is_blocking: false });
                }
                Err(e) if is_fifo && e.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                    call.check()?;
                    std::thread::sleep(READER_CHECK_INTERVAL);
                }
                Err(e) => return Err(file_failed(e)),
            }
        }
    }

    /// Whether a reader takes bytes; waits for a while.
    fn is_ready(&self) -> io::Result<bool> {
        let interval = Timespec::try_from(READER_CHECK_INTERVAL).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.file, PollFlags::OUT)], Some(&interval)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.call.check().map_err(io::Error::other)?;
            if self.is_blocking && !self.is_ready()? {
                continue;
            }
            let piece = if self.is_blocking { READY_BYTES } else { bytes.len() };
            match self.file.write(bytes.get(..piece).unwrap_or(bytes)) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.is_ready()?;
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
