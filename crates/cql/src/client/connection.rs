//! Makes the session: where it connects to, as whom, and why it may not. While a node hangs there is
//! one with a single node at first, and the one with all nodes takes its place as soon as it is there.

use super::cluster::knows_cluster;
use super::speculation::AdaptiveSpeculation;
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
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often nodes are asked whether all know of a change of tables.
const AGREEMENT_INTERVAL: Duration = Duration::from_millis(50);
/// A connection on which nothing is heard for so long is given up.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// After so long without a session, it is looked which contact points answer: a node may hang.
const HASTE: Duration = Duration::from_millis(500);
/// A session with all nodes that was not made is tried again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// The session that is used.
pub(super) struct Connection(watch::Receiver<Current>);

struct Current {
    session: Arc<Session>,
    /// Whether it may ask all nodes.
    is_whole: bool,
}

impl Connection {
    /// The session to be used now. It may be another one the next time.
    pub(super) fn session(&self) -> Arc<Session> {
        Arc::clone(&self.0.borrow().session)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.0.borrow().is_whole
    }

    /// The session that may ask all nodes, when it is there.
    pub(super) async fn whole(&self) -> Arc<Session> {
        // Whoever sends it does not end before.
        let _ = self.0.clone().wait_for(|current| current.is_whole).await;
        self.session()
    }
}

/// Connects to the contact points that answer. What is sent by itself has `patience`.
pub(super) async fn connect(
    settings: &Settings,
    speculation: &Arc<AdaptiveSpeculation>,
) -> Result<Connection> {
    let mut builder = SessionBuilder::new()
        .connection_timeout(settings.request_timeout)
        .keepalive_interval(KEEPALIVE)
        .keepalive_timeout(KEEPALIVE)
        .pool_size(PoolSize::PerShard(NonZeroUsize::MIN))
        // What changes here are tables, whose columns are known.
        .refresh_metadata_on_auto_schema_agreement(false)
        .schema_agreement_interval(AGREEMENT_INTERVAL)
        .keyspaces_to_fetch([settings.keyspace.as_str()])
        .default_execution_profile_handle(profile(settings, speculation));
    if let Some(login) = &settings.login {
        builder = builder.user(&login.user, &login.password);
    }
    if let Some(tls) = &settings.tls {
        builder = builder.tls_context(Some(tls::config(tls)?));
    }
    let all = builder.clone().known_nodes(&settings.nodes);
    let again = all.clone();
    // The driver tries every contact point.
    let mut whole = Box::pin(async move { all.build().await });
    let connected = async {
        if let Ok(connected) = tokio::time::timeout(HASTE, &mut whole).await {
            return (connected, None);
        }
        match select(whole, pin!(bootstrap::session(settings, &builder))).await {
            Either::Left((connected, _)) => (connected, None),
            Either::Right((Some(session), whole)) => (Ok(session), Some(whole)),
            Either::Right((None, whole)) => (whole.await, None),
        }
    };
    let (session, whole) = match tokio::time::timeout(settings.timeout, connected).await {
        Ok((Ok(session), whole)) => (Arc::new(session), whole),
        Ok((Err(error), _)) => return Err(super::connect_error::unconnected(settings, error)),
        Err(late) => return Err(super::connect_error::unanswered(settings, late)),
    };
    check_datacenter(settings, &session)?;
    let (sender, receiver) = watch::channel(Current { session, is_whole: whole.is_none() });
    if let Some(whole) = whole {
        tokio::spawn(async move {
            let mut connected = whole.await;
            let session = loop {
                match connected {
                    Ok(session) if knows_cluster(&session) => break Arc::new(session),
                    _ => tokio::time::sleep(AGAIN).await,
                }
                connected = again.build().await;
            };
            sender.send_replace(Current { session, is_whole: true });
        });
    }
    Ok(Connection(receiver))
}

/// How requests are sent for which another node is asked when `patience` is over.
pub(super) fn profile(
    settings: &Settings,
    speculation: &Arc<AdaptiveSpeculation>,
) -> ExecutionProfileHandle {
    let mut balancing = DefaultPolicy::builder().token_aware(true);
    if let Some(datacenter) = &settings.datacenter {
        balancing = balancing.prefer_datacenter(datacenter.clone());
    }
    let mut profile = ExecutionProfile::builder()
        .request_timeout(Some(settings.request_timeout))
        .consistency(settings.read_consistency)
        .load_balancing_policy(balancing.build());
    if settings.speculate_after.is_some() {
        profile = profile.speculative_execution_policy(Some(Arc::clone(speculation) as _));
    }
    profile.build().into_handle()
}

/// LOCAL_QUORUM is of the datacenter of whoever is asked: it has to be the same one each time.
fn check_datacenter(settings: &Settings, session: &Session) -> Result<()> {
    let metadata_cache = session.get_cluster_state();
    let nodes = metadata_cache.get_nodes_info().iter();
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
