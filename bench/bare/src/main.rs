//! The lower bound of a hash join of a population with a table: what any engine that works by hashes
//! has to do at the very least, without storage, verification of ids, or answers.
//!
//! 1. decode the population's `id` column from Parquet, row groups spread over the threads
//! 2. hash every id with XXH3
//! 3. sort the hashes
//! 4. probe a flat, sorted array in memory with as many hashes as the table has rows
//!
//! Prints one JSON document with the seconds of each step.

mod population;
mod sort;
mod table;

use population::Failure;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Instant;

struct Options {
    population: PathBuf,
    rows: usize,
    threads: usize,
    runs: usize,
}

fn main() -> Result<(), Failure> {
    let options = read_options()?;
    let threads = options.threads;
    let hashes = sort::sorted(
        population::hashes(&population::decode(&options.population, threads)?, threads),
        threads,
    );
    let table = table::Table::build(options.rows, &hashes, threads);

    let mut steps: [Vec<f64>; 4] = Default::default();
    let mut found = 0;
    for _ in 0..options.runs {
        let began = Instant::now();
        let ids = population::decode(&options.population, threads)?;
        let decoded = Instant::now();
        let hashes = population::hashes(&ids, threads);
        let hashed = Instant::now();
        let sorted = sort::sorted(hashes, threads);
        let ordered = Instant::now();
        found = table.probe(&sorted, threads);
        let probed = Instant::now();
        for (step, (from, to)) in steps.iter_mut().zip([
            (began, decoded),
            (decoded, hashed),
            (hashed, ordered),
            (ordered, probed),
        ]) {
            step.push((to - from).as_secs_f64());
        }
    }

    let total: Vec<f64> =
        (0..options.runs).map(|run| steps.iter().map(|step| step[run]).sum()).collect();
    let [decode, hash, sort, probe] = &steps;
    let document = json!({
        "rows": options.rows,
        "population_rows": hashes.len(),
        "found": found,
        "threads": threads,
        "decode": figures(decode),
        "hash": figures(hash),
        "sort": figures(sort),
        "probe": figures(probe),
        "total": figures(&total),
    });
    println!("{document:#}");
    Ok(())
}

fn figures(seconds: &[f64]) -> Value {
    let mut ordered = seconds.to_vec();
    ordered.sort_by(f64::total_cmp);
    let middle = ordered.len() / 2;
    let median = if ordered.len() % 2 == 1 {
        ordered[middle]
    } else {
        (ordered[middle - 1] + ordered[middle]) / 2.0
    };
    json!({ "seconds": seconds, "median": median, "min": ordered[0], "max": ordered[ordered.len() - 1] })
}

fn read_options() -> Result<Options, Failure> {
    let mut options = Options { population: PathBuf::new(), rows: 0, threads: 2, runs: 7 };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--population" => options.population = value.into(),
            "--rows" => options.rows = value.parse()?,
            "--threads" => options.threads = value.parse()?,
            "--runs" => options.runs = value.parse()?,
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    if options.rows == 0 || options.threads == 0 || options.runs == 0 {
        return Err("usage: bare --population FILE --rows N [--threads 2] [--runs 7]".into());
    }
    Ok(options)
}
