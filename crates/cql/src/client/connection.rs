//! Makes the session: its nodes, its login, and its connection errors.
//!
//! While a node does not respond, the first session has a single node. The session with all nodes
//! replaces it as soon as it is made.

use super::cluster::knows_cluster;
use super::connect_error::without_text;
use super::speculation;
use super::{bootstrap, tls};
use crate::settings::Settings;
use futures::future::{Either, select};
use idmatch_store::{Error, ErrorKind, Result};
use scylla::client::PoolSize;
use scylla::client::execution_profile::{ExecutionProfile, ExecutionProfileHandle};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::load_balancing::DefaultPolicy;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tracing::{debug, info, warn};

/// How often the driver checks for schema agreement.
const AGREEMENT_INTERVAL: Duration = Duration::from_millis(50);
/// A connection that does not answer a keepalive for this long is closed.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// After this long without a session, single contact points are tried: a node may not respond.
const BOOTSTRAP_DELAY: Duration = Duration::from_millis(500);
/// The pause before a session with all nodes is tried again.
const RECONNECT_INTERVAL: Duration = Duration::from_secs(1);

/// The session in use.
pub(super) struct Connection(watch::Receiver<Current>);

struct Current {
    session: Arc<Session>,
    /// Whether it has all nodes.
    has_all_nodes: bool,
}

impl Connection {
    /// The session to use now. The next call may return another.
    pub(super) fn session(&self) -> Arc<Session> {
        Arc::clone(&self.0.borrow().session)
    }

    pub(super) fn has_all_nodes(&self) -> bool {
        self.0.borrow().has_all_nodes
    }

    /// Waits for the session with all nodes.
    pub(super) async fn full_session(&self) -> Arc<Session> {
        // The sender does not end before it sends that session.
        let _ = self.0.clone().wait_for(|current| current.has_all_nodes).await;
        self.session()
    }
}

/// Connects to the contact points that answer.
pub(super) async fn connect(settings: &Settings) -> Result<Connection> {
    let mut builder = SessionBuilder::new()
        .connection_timeout(settings.request_timeout)
        .keepalive_interval(KEEPALIVE)
        .keepalive_timeout(KEEPALIVE)
        .pool_size(PoolSize::PerShard(NonZeroUsize::MIN))
        // Only tables change here, and their columns are known.
        .refresh_metadata_on_auto_schema_agreement(false)
        .schema_agreement_interval(AGREEMENT_INTERVAL)
        .keyspaces_to_fetch([settings.keyspace.as_str()])
        .default_execution_profile_handle(profile(settings, speculation::BULK))
        .tls_context(tls::config(&settings.tls)?);
    if let Some(login) = &settings.login {
        builder = builder.user(&login.user, &login.password);
    }
    let all = builder.clone().known_nodes(&settings.nodes);
    let again = all.clone();
    // The driver tries every contact point.
    let mut all_nodes = Box::pin(async move { all.build().await });
    let connected = async {
        if let Ok(connected) = tokio::time::timeout(BOOTSTRAP_DELAY, &mut all_nodes).await {
            return (connected, None);
        }
        match select(all_nodes, pin!(bootstrap::session(settings, &builder))).await {
            Either::Left((connected, _)) => (connected, None),
            Either::Right((Some(session), all_nodes)) => (Ok(session), Some(all_nodes)),
            Either::Right((None, all_nodes)) => (all_nodes.await, None),
        }
    };
    let (session, all_nodes) = match tokio::time::timeout(settings.timeout, connected).await {
        Ok((Ok(session), all_nodes)) => (Arc::new(session), all_nodes),
        Ok((Err(error), _)) => return Err(super::connect_error::unconnected(settings, error)),
        Err(late) => return Err(super::connect_error::unanswered(settings, late)),
    };
    check_datacenter(settings, &session)?;
    let (sender, receiver) =
        watch::channel(Current { session, has_all_nodes: all_nodes.is_none() });
    if let Some(all_nodes) = all_nodes {
        info!("a single node is connected to: not all nodes answered in time");
        tokio::spawn(async move {
            let (mut connected, mut failures) = (all_nodes.await, 0);
            let session = loop {
                match connected {
                    Ok(session) if knows_cluster(&session) => break Arc::new(session),
                    Ok(_) => log_reconnect(failures, &"no metadata of the cluster"),
                    Err(ref error) => log_reconnect(failures, without_text(error)),
                }
                failures += 1;
                tokio::time::sleep(RECONNECT_INTERVAL).await;
                connected = again.build().await;
            };
            info!(failures, "all nodes are connected to");
            sender.send_replace(Current { session, has_all_nodes: true });
        });
    }
    Ok(Connection(receiver))
}

/// Logs that the session with all nodes failed: as a warning at first, and not each second.
fn log_reconnect(failures: u64, error: &dyn Display) {
    if failures == 0 {
        warn!(%error, "session with all nodes failed; it is tried again each second");
    } else {
        debug!(failures, %error, "session with all nodes failed again");
    }
}

/// The execution profile of requests with at least this speculative delay.
pub(super) fn profile(settings: &Settings, min_delay: Duration) -> ExecutionProfileHandle {
    let mut balancing = DefaultPolicy::builder().token_aware(true);
    if let Some(datacenter) = &settings.datacenter {
        balancing = balancing.prefer_datacenter(datacenter.clone());
    }
    ExecutionProfile::builder()
        .request_timeout(Some(settings.request_timeout))
        .consistency(settings.read_consistency)
        .load_balancing_policy(balancing.build())
        .speculative_execution_policy(speculation::policy(settings, min_delay))
        .build()
        .into_handle()
}

/// LOCAL_QUORUM counts the coordinator's datacenter, which must be the same for every request.
fn check_datacenter(settings: &Settings, session: &Session) -> Result<()> {
    let cluster_state = session.get_cluster_state();
    let nodes = cluster_state.get_nodes_info().iter();
    let there: BTreeSet<&str> = nodes.filter_map(|node| node.datacenter.as_deref()).collect();
    let names = || there.iter().copied().collect::<Vec<_>>().join(", ");
    let wrong = match &settings.datacenter {
        None if there.len() > 1 => format!("the servers are in {}", names()),
        Some(chosen) if !there.contains(chosen.as_str()) => {
            format!("the servers are in {}, none in {chosen}", names())
        }
        _ => return Ok(()),
    };
    let text = format!("{wrong}; name the nearest datacenter in the address: datacenter=NAME");
    Err(Error::new(ErrorKind::InvalidArgument, text))
}
