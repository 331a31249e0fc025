//! Makes the session: where it connects to, as whom, and why it may not.

use super::patience::Patience;
use super::{answering, tls};
use crate::settings::Settings;
use futures::future::{Either, select};
use idmatch_store::{Error, ErrorKind, Result};
use scylla::client::PoolSize;
use scylla::client::execution_profile::{ExecutionProfile, ExecutionProfileHandle};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::Node;
use scylla::policies::load_balancing::DefaultPolicy;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// How often nodes are asked whether all know of a change of tables.
const AGREEMENT_INTERVAL: Duration = Duration::from_millis(50);
/// A connection on which nothing is heard for so long is given up.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// After so long without a session, it is looked which contact points answer: a node may hang.
const HASTE: Duration = Duration::from_millis(500);

/// Connects to the contact points that answer. What is sent by itself has `patience`.
pub(super) async fn session(settings: &Settings, patience: &Arc<Patience>) -> Result<Arc<Session>> {
    let mut builder = SessionBuilder::new()
        .connection_timeout(settings.request_timeout)
        .keepalive_interval(KEEPALIVE)
        .keepalive_timeout(KEEPALIVE)
        .pool_size(PoolSize::PerShard(NonZeroUsize::MIN))
        // What changes here are tables, whose columns are known.
        .refresh_metadata_on_auto_schema_agreement(false)
        .schema_agreement_interval(AGREEMENT_INTERVAL)
        .keyspaces_to_fetch([settings.keyspace.as_str()])
        .default_execution_profile_handle(profile(settings, patience));
    if let Some(login) = &settings.login {
        builder = builder.user(&login.user, &login.password);
    }
    if let Some(tls) = &settings.tls {
        builder = builder.tls_context(Some(tls::config(tls)?));
    }
    let connected = async {
        let whole = builder.clone().known_nodes(&settings.nodes);
        // The driver tries every contact point.
        let mut whole = pin!(async { whole.build().await.map(Arc::new) });
        if let Ok(connected) = tokio::time::timeout(HASTE, &mut whole).await {
            return connected;
        }
        match select(whole, pin!(answering::session(settings, &builder))).await {
            Either::Left((connected, _)) => connected,
            Either::Right((Some(session), _)) => Ok(session),
            Either::Right((None, whole)) => whole.await,
        }
    };
    let session = match tokio::time::timeout(settings.timeout, connected).await {
        Ok(connected) => connected.map_err(|e| super::refused::unconnected(settings, e))?,
        Err(late) => return Err(super::refused::unanswered(settings, late)),
    };
    check_datacenter(settings, &session)?;
    Ok(session)
}

/// How requests are sent for which another node is asked when `patience` is over.
pub(super) fn profile(settings: &Settings, patience: &Arc<Patience>) -> ExecutionProfileHandle {
    let mut balancing = DefaultPolicy::builder().token_aware(true);
    if let Some(datacenter) = &settings.datacenter {
        balancing = balancing.prefer_datacenter(datacenter.clone());
    }
    let mut profile = ExecutionProfile::builder()
        .request_timeout(Some(settings.request_timeout))
        .consistency(settings.read_consistency)
        .load_balancing_policy(balancing.build());
    if settings.speculate_after.is_some() {
        profile = profile.speculative_execution_policy(Some(Arc::clone(patience) as _));
    }
    profile.build().into_handle()
}

/// Whether a node is one of those that are asked.
pub(super) fn is_near(settings: &Settings, node: &Node) -> bool {
    settings.datacenter.is_none() || settings.datacenter == node.datacenter
}

/// LOCAL_QUORUM is of the datacenter of whoever is asked: it has to be the same one each time.
fn check_datacenter(settings: &Settings, session: &Session) -> Result<()> {
    let state = session.get_cluster_state();
    let nodes = state.get_nodes_info().iter();
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
