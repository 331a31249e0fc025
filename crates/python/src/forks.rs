//! Which process has made a value: a fork must not use it. Must not know Python.

use idmatch_store::{Error, ErrorKind};

/// A process.
#[derive(Clone, Copy)]
pub(crate) struct Process(u32);

impl Process {
    /// This one.
    pub(crate) fn this() -> Process {
        Process(std::process::id())
    }

    /// Fails in a fork.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(crate) fn check(self) -> Result<(), Error> {
        if self.is_this() {
            return Ok(());
        }
        let text = format!(
            "this is of process {}, of which this process is a fork; open the store here, with \
             idmatch.open or from a pickle",
            self.0
        );
        Err(Error::new(ErrorKind::InvalidArgument, text))
    }

    /// Whether it is this one.
    pub(crate) fn is_this(self) -> bool {
        self.0 == std::process::id()
    }
}
