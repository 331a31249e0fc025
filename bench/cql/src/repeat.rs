//! How often something is measured: the same rule as in `cql_peers/worker.py`.

use crate::Failure;
use clap::Args;
use serde_json::Value;
use std::time::Instant;

#[derive(Args)]
pub(crate) struct RunLimits {
    /// Runs that count.
    #[arg(long)]
    runs: usize,
    /// Seconds after which no further run starts.
    #[arg(long)]
    seconds: f64,
    /// Seconds of runs that do not count; at least one run.
    #[arg(long)]
    warm_up_seconds: f64,
}

impl RunLimits {
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

/// The answer of each run, with its seconds.
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
