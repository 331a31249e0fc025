//! The process that has made a value: a fork must not use it. Must not know Python.

use idmatch_store::{Error, ErrorKind};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// The id of this process; 0 where it must be asked for. Asking is a system call, and each lookup needs the
/// id.
static CURRENT: AtomicU32 = AtomicU32::new(0);

/// Whether forks forget `CURRENT`.
static FORGETS: OnceLock<bool> = OnceLock::new();

extern "C" fn forget() {
    CURRENT.store(0, Relaxed);
}

fn current() -> u32 {
    let known = CURRENT.load(Relaxed);
    if known != 0 {
        return known;
    }
    #[allow(unsafe_code, reason = "the handler only stores an atomic")]
    let forgets =
        *FORGETS.get_or_init(|| unsafe { libc::pthread_atfork(None, None, Some(forget)) == 0 });
    let id = std::process::id();
    if forgets {
        CURRENT.store(id, Relaxed);
    }
    id
}

/// A process.
#[derive(Clone, Copy)]
pub(crate) struct Process(u32);

impl Process {
    /// This process.
    pub(crate) fn this() -> Process {
        Process(current())
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

    /// Whether this process is the running one.
    pub(crate) fn is_this(self) -> bool {
        self.0 == current()
    }
}
