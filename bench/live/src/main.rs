//! Writes to a store while it is read, and times both. One step a run:
//!
//! ```text
//! live pairs   --out FILE --at-most N FILES...    pairs of Parquet match files, as a flat file
//! live disk    --dir DIR                          what one fdatasync takes
//! live batches --store S --pairs P --seed N --seconds T
//! live singles --store S --pairs P --seed N --seconds T
//! live mixed   --store S --pairs P --seed N --seconds T --population FILE
//! live growth  --store S --pairs P --seed N --rows N --upserted FILE
//! live compare --store S --fresh S --population FILE
//! live fill    --store S --pairs P --seed N       says when the journal is full, then waits to be killed
//! live reopen  --store S --pairs P --seed N --rows N
//! ```
//! Each prints one JSON document; times are in seconds, memory and files in bytes. `rows.rs` says
//! which rows are upserted. Stores have a table `matches`.

mod clock;
mod flood;
mod growth;
mod joins;
mod latency;
mod lookups;
mod mixed;
mod pairs;
mod reopen;
mod rows;
mod watch;
mod writers;

use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_store::{OpenTables, Table};
use pairs::Pairs;
use rows::Rows;
use serde_json::Value;
use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

// As in the Python extension.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let step = words.next().ok_or("no step is named; see the head of main.rs")?;
    let options = Options::read(words)?;
    let document = match step.as_str() {
        "pairs" => pairs::make(
            Path::new(options.text("out")?),
            options.number("at-most")?,
            &options.files,
        )?,
        "disk" => watch::fdatasync(Path::new(options.text("dir")?))?,
        "batches" => flood::batches(&options)?,
        "singles" => flood::singles(&options)?,
        "mixed" => mixed::mixed(&options)?,
        "growth" => growth::growth(&options)?,
        "compare" => growth::compare(&options)?,
        "fill" => reopen::fill(&options)?,
        "reopen" => reopen::reopen(&options)?,
        _ => return Err(format!("there is no step {step}").into()),
    };
    print(&document);
    Ok(())
}

fn print(document: &Value) {
    println!("{document:#}");
}

/// What the command line says.
struct Options {
    named: HashMap<String, String>,
    files: Vec<PathBuf>,
}

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Options, Failure> {
        let (mut named, mut files) = (HashMap::new(), Vec::new());
        while let Some(word) = words.next() {
            match word.strip_prefix("--") {
                Some(name) => {
                    let value = words.next().ok_or_else(|| format!("--{name} has no value"))?;
                    named.insert(name.to_owned(), value);
                }
                None => files.push(word.into()),
            }
        }
        Ok(Options { named, files })
    }

    fn text(&self, name: &str) -> Result<&str, Failure> {
        Ok(self.named.get(name).ok_or_else(|| format!("--{name} is missing"))?)
    }

    fn number<T: FromStr<Err: Error + Send + Sync + 'static>>(
        &self,
        name: &str,
    ) -> Result<T, Failure> {
        Ok(self.text(name)?.parse()?)
    }

    fn number_or<T: FromStr<Err: Error + Send + Sync + 'static>>(
        &self,
        name: &str,
        otherwise: T,
    ) -> Result<T, Failure> {
        if self.named.contains_key(name) { self.number(name) } else { Ok(otherwise) }
    }

    fn population(&self) -> Result<PathBuf, Failure> {
        Ok(self.text("population")?.into())
    }

    fn rows(&self) -> Result<Rows, Failure> {
        Ok(Rows::new(Pairs::map(Path::new(self.text("pairs")?))?, self.number("seed")?))
    }

    fn store(&self) -> Result<PathBuf, Failure> {
        Ok(self.text("store")?.into())
    }

    fn open(&self, limits: MemoryLimits) -> Result<(EngineStore, Table), Failure> {
        self.open_at(&self.store()?, limits)
    }

    fn open_at(&self, path: &Path, limits: MemoryLimits) -> Result<(EngineStore, Table), Failure> {
        let store = EngineStore::open_with(Arc::new(OsDisk), path, limits)?;
        let table = store.table(&"matches".parse()?)?;
        Ok((store, table))
    }
}
