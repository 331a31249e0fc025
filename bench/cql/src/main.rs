//! The Rust driver `scylla` by itself, and what the benchmark asks of the server beside that. One step a run:
//!
//! ```text
//! cql match   --read WAY --keyspace K --warm-up FILE POPULATIONS...    answers populations
//! cql lookups --read WAY --keyspace K POPULATION                       one id after the other
//! cql load    --keyspace K FILES...                                    one-row inserts into new tables
//! cql ours    --keyspace K POPULATION                                  the same through idmatch, from Rust
//! cql count   --layout LAYOUT KEYSPACE                                 rows of each direction, and a sum of their dates
//! cql drop    KEYSPACE
//! cql settled                                                          waits until nothing is flushed or compacted
//! cql server  SETTINGS...                                              version and settings of the node
//! ```
//! Each prints one JSON document; times are in seconds. `reads.rs` says what the ways of reading are.

mod flight;
mod load;
mod ours;
mod parquets;
mod reads;
mod repeat;
mod server;
mod tables;

use clap::{Parser, Subcommand};
use reads::{Reader, Way};
use repeat::RunLimits;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::Consistency;
use serde_json::{Value, json};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tables::Layout;

// As in the Python extension.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn Error + Send + Sync>;

/// As long as the other systems wait for a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Parser)]
struct Arguments {
    /// The node, without a port.
    #[arg(long)]
    address: String,
    #[command(subcommand)]
    step: Step,
}

#[derive(Subcommand)]
enum Step {
    Match {
        #[arg(long)]
        read: Way,
        #[arg(long)]
        keyspace: String,
        #[arg(long)]
        in_flight: usize,
        #[arg(long)]
        warm_up: PathBuf,
        #[command(flatten)]
        limits: RunLimits,
        populations: Vec<PathBuf>,
    },
    Lookups {
        #[arg(long)]
        read: Way,
        #[arg(long)]
        keyspace: String,
        #[command(flatten)]
        limits: RunLimits,
        population: PathBuf,
    },
    Ours {
        #[arg(long)]
        keyspace: String,
        #[command(flatten)]
        limits: RunLimits,
        population: PathBuf,
    },
    Load {
        #[arg(long)]
        keyspace: String,
        #[arg(long)]
        in_flight: usize,
        files: Vec<PathBuf>,
    },
    Count {
        #[arg(long)]
        layout: Layout,
        keyspace: String,
    },
    Drop {
        keyspace: String,
    },
    Settled,
    Server {
        settings: Vec<String>,
    },
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let session = Arc::new(connect(&arguments.address).await?);
    let document = run(&session, &arguments.address, arguments.step).await?;
    println!("{document}");
    Ok(())
}

async fn connect(address: &str) -> Result<Session, Failure> {
    let profile = ExecutionProfile::builder()
        .consistency(Consistency::LocalQuorum)
        .request_timeout(Some(REQUEST_TIMEOUT))
        .build();
    Ok(SessionBuilder::new()
        .known_node(address)
        .default_execution_profile_handle(profile.into_handle())
        .build()
        .await?)
}

async fn run(session: &Arc<Session>, address: &str, step: Step) -> Result<Value, Failure> {
    match step {
        Step::Match { read, keyspace, in_flight, warm_up, limits, populations } => {
            let reader = Arc::new(Reader::new(session, &keyspace, read, in_flight).await?);
            let ask = async |file: &PathBuf| reader.answer(parquets::ids(file)?).await;
            let warm = limits.warm_up(async || ask(&warm_up).await).await?;
            let mut answers = Vec::new();
            for file in &populations {
                answers.push(limits.repeat(async || ask(file).await).await?);
            }
            Ok(json!({ "warm_up": warm, "populations": answers, "in_flight": in_flight }))
        }
        Step::Lookups { read, keyspace, limits, population } => {
            let reader = Reader::new(session, &keyspace, read, 1).await?;
            let ids = parquets::ids(&population)?;
            let ask = async || reader.one_by_one(&ids).await;
            let warm = limits.warm_up(ask).await?;
            Ok(json!({ "warm_up": warm, "runs": limits.repeat(ask).await? }))
        }
        Step::Ours { keyspace, limits, population } => {
            let store = format!("cql://{address}/{keyspace}");
            ours::lookups(store, parquets::ids(&population)?, limits).await
        }
        Step::Load { keyspace, in_flight, files } => {
            load::load(session, &keyspace, in_flight, &files).await
        }
        Step::Count { layout, keyspace } => {
            let mut directions = Vec::new();
            for (table, key) in tables::directions(session, &keyspace, layout).await? {
                directions.push(server::count(session, &table, key).await?);
            }
            Ok(json!({ "directions": directions }))
        }
        Step::Drop { keyspace } => server::drop(session, &keyspace).await,
        Step::Settled => server::settled(session).await,
        Step::Server { settings } => server::server(session, &settings).await,
    }
}
