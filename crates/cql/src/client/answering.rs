//! Connects to the contact points that answer, while a node hangs. The driver waits for a node that takes a
//! connection and says nothing until the connection is given up: for the contact point that it happens to
//! ask first, and then for each node, before it gives a session.
//!
//! Must not know what a session is used for.

use super::connect::is_near;
use crate::settings::Settings;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::metadata::Peer;
use scylla::policies::host_filter::HostFilter;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// For so long after one contact point has answered the others are waited for.
const OTHERS: Duration = Duration::from_millis(250);

/// The nodes that a session may connect to.
struct Admitted(RwLock<Nodes>);

enum Nodes {
    These(BTreeSet<SocketAddr>),
    All,
}

impl Admitted {
    fn admit(&self, nodes: Nodes) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = nodes;
    }
}

impl HostFilter for Admitted {
    fn accept(&self, node: &Peer) -> bool {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            Nodes::These(nodes) => {
                nodes.contains(&SocketAddr::new(node.address.ip(), node.address.port()))
            }
            Nodes::All => true,
        }
    }
}

/// Connects to the contact points that answer, and lets the other nodes in when no answer is to be had of
/// them any more or all have answered. `None` where no contact point is a node that can be asked: none
/// answers, or servers know each other by other addresses.
pub(super) async fn session(settings: &Settings, builder: &SessionBuilder) -> Option<Arc<Session>> {
    let mut points = BTreeSet::new();
    for node in &settings.nodes {
        points.extend(tokio::net::lookup_host(node).await.into_iter().flatten());
    }
    let mut tried: FuturesUnordered<_> =
        points.into_iter().map(|point| connect(settings, builder, point)).collect();
    let mut first = None;
    while first.is_none() {
        first = tried.next().await?;
    }
    let (point, session, admitted) = first?;
    let mut answering = BTreeSet::from([point]);
    let others = async {
        while let Some(found) = tried.next().await {
            answering.extend(found.map(|(point, _, _)| point));
        }
    };
    let _ = tokio::time::timeout(OTHERS, others).await;
    admitted.admit(Nodes::These(answering));
    // Without them the first can be asked.
    let _ = tokio::time::timeout(settings.request_timeout, session.refresh_metadata()).await;
    admitted.admit(Nodes::All);
    let whole = Arc::clone(&session);
    tokio::spawn(async move { whole.refresh_metadata().await });
    Some(session)
}

/// A session with one contact point, if that is a node that can be asked.
async fn connect(
    settings: &Settings,
    builder: &SessionBuilder,
    point: SocketAddr,
) -> Option<(SocketAddr, Arc<Session>, Arc<Admitted>)> {
    let admitted = Arc::new(Admitted(RwLock::new(Nodes::These(BTreeSet::from([point])))));
    let builder = builder.clone().known_node_addr(point);
    let session = builder.host_filter(Arc::clone(&admitted) as _).build().await.ok()?;
    let state = session.get_cluster_state();
    let mut nodes = state.get_nodes_info().iter();
    let is_one = nodes.any(|node| node.is_connected() && is_near(settings, node));
    is_one.then(|| (point, Arc::new(session), admitted))
}
