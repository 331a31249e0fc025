//! How often something is measured: the same rule as in `cql_peers/worker.py`.

use crate::Failure;
use clap::Args;
use serde_json::Value;
use std::time::Instant;

#[derive(Args)]
pub(crate) struct Pace {
    /// Runs that count.
    #[arg(long)]
    runs: usize,
    /// No further run is begun after so long.
    #[arg(long)]
    seconds: f64,
    /// Runs that do not count are repeated for so long, at least one.
    #[arg(long)]
    warm_up_seconds: f64,
}

impl Pace {
    pub(crate) async fn repeat(
        &self,
        ask: impl AsyncFn() -> Result<Value, Failure>,
    ) -> Result<Vec<Value>, Failure> {
        timed(self.runs, self.seconds, ask).await
    }

    pub(crate) async fn warm_up(
        &self,
        ask: impl AsyncFn() -> Result<Value, Failure>,
    ) -> Result<Vec<Value>, Failure> {
        timed(usize::MAX, self.warm_up_seconds, ask).await
    }
}

/// What each run gave, with the seconds it took.
async fn timed(
    most: usize,
    seconds: f64,
    ask: impl AsyncFn() -> Result<Value, Failure>,
) -> Result<Vec<Value>, Failure> {
    let (mut runs, all) = (Vec::new(), Instant::now());
    while runs.len() < most && (runs.is_empty() || all.elapsed().as_secs_f64() < seconds) {
        let began = Instant::now();
        let mut run = ask().await?;
        run["seconds"] = began.elapsed().as_secs_f64().into();
        runs.push(run);
    }
    Ok(runs)
}
