//! `idmatch._core`: the stores as Python sees them.
//!
//! Converts values, releases the GIL, maps errors, and writes output files (`outputs`). Its
//! contract is the stub `python/idmatch/_core.pyi`. Must not know how input files are read, nor
//! options that the stub lacks.
#![deny(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod answers;
mod checkpoints;
mod copies;
mod errors;
mod forks;
mod interrupt;
mod judge;
mod logs;
mod matches;
mod nodes;
mod outputs;
mod panics;
mod process;
mod progress;
mod raised;
mod requested;
mod rows;
mod scans;
mod sessions;
mod snapshots;
mod sources;
mod store_context;
mod stores;
mod stream;
mod table_reader;
mod tables;
mod values;

use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The compiled core: conversions only. Use the `idmatch` package, not this module.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::copies::copy_table;
    #[pymodule_export]
    use crate::judge::judge;
    #[pymodule_export]
    use crate::logs::{flush_logs, log_to};
    #[pymodule_export]
    use crate::matches::{Match, match_chain, match_population};
    #[pymodule_export]
    use crate::nodes::Nodes;
    #[pymodule_export]
    use crate::progress::report_to;
    #[pymodule_export]
    use crate::rows::Rows;
    #[pymodule_export]
    use crate::scans::{partition_of, scan, scan_ranges};
    #[pymodule_export]
    use crate::sessions::{Session, begin};
    #[pymodule_export]
    use crate::snapshots::Snapshot;
    #[pymodule_export]
    use crate::stores::{
        Store, address_parts, explain_address, give_memory_back, name_process, open_servers,
        open_store, recover, restore,
    };
    #[pymodule_export]
    use crate::tables::Table;
    #[pymodule_export]
    use crate::values::{format_instant, parse_instant, parse_period, parse_size};
    use pyo3::prelude::*;
    use pyo3::types::IntoPyDict;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::panics::note_panics();
        let end = wrap_pyfunction!(crate::process::end, module)?;
        module.py().import("atexit")?.call_method1("register", (end,))?;
        let begin_fork = wrap_pyfunction!(crate::process::begin_fork, module)?;
        let in_child = [("after_in_child", begin_fork)].into_py_dict(module.py())?;
        module.py().import("os")?.call_method("register_at_fork", (), Some(&in_child))?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
