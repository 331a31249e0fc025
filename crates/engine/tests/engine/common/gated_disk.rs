//! A disk of this process on which one operation waits until the test lets it go on.

use super::hooked_disk::{HookedDisk, Hooks};
use idmatch_store::locks::Mutex;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The ending of the files that wait, and both ends of the test.
type Closed = (&'static str, Sender<()>, Receiver<()>);

/// Has the first read, link or making of a file with some ending wait once the gate is closed.
#[derive(Debug, Default)]
pub(crate) struct Gated {
    gate: Mutex<Option<Closed>>,
}

/// Real files with a gate.
pub(crate) type GatedDisk = HookedDisk<Gated>;

/// Says when the operation waits, and lets it go on.
pub(crate) struct Gate {
    pub(crate) reached: Receiver<()>,
    pub(crate) open: Sender<()>,
}

impl GatedDisk {
    pub(crate) fn new() -> Arc<GatedDisk> {
        Arc::default()
    }

    /// Closes the gate for the next read, link or making of a file with this ending.
    pub(crate) fn close_for(&self, ending: &'static str) -> Gate {
        let (reached, was_reached) = channel();
        let (open, opened) = channel();
        *self.0.gate.lock() = Some((ending, reached, opened));
        Gate { reached: was_reached, open }
    }
}

impl Hooks for Gated {
    const IS_SHARED: bool = true;

    fn before(&self, file: &Path) -> io::Result<()> {
        let is_gated = |(ending, ..): &mut Closed| file.to_string_lossy().ends_with(*ending);
        let gate = self.gate.lock().take_if(is_gated);
        if let Some((_, reached, opened)) = gate {
            reached.send(()).unwrap();
            opened.recv().unwrap();
        }
        Ok(())
    }
}
