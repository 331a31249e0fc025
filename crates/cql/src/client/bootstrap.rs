//! Connects to one contact point that answers, while a node hangs: until such a connection is given up,
//! the driver waits for the contact point that it happens to ask first, and then for every other node.
//!
//! Must not know what a session is used for.

use super::cluster::{is_near, knows_cluster};
use crate::settings::Settings;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::host_filter::AllowListHostFilter;
use std::future::ready;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

/// So many contact points are tried at once, and so many addresses of each.
const TRIED: usize = 5;

/// A session with one node. `None` where no contact point is a node that can be asked: none answers, or
/// servers know each other by other addresses.
pub(super) async fn session(settings: &Settings, builder: &SessionBuilder) -> Option<Session> {
    let mut names: Vec<&String> = settings.nodes.iter().collect();
    fastrand::shuffle(&mut names);
    let by_name = async |name| {
        let mut addresses: Vec<_> = tokio::net::lookup_host(name).await.ok()?.collect();
        fastrand::shuffle(&mut addresses);
        let with_one = |address| with_one(settings, builder, address);
        first(addresses.into_iter().take(TRIED).map(with_one)).await
    };
    first(names.into_iter().take(TRIED).map(by_name)).await
}

/// The first that there is.
async fn first<T>(tries: impl Iterator<Item: Future<Output = Option<T>>>) -> Option<T> {
    let tries: FuturesUnordered<_> = tries.collect();
    pin!(tries.filter_map(ready)).next().await
}

async fn with_one(
    settings: &Settings,
    builder: &SessionBuilder,
    node: SocketAddr,
) -> Option<Session> {
    let only = AllowListHostFilter::new([node]).ok()?;
    let builder = builder.clone().known_node_addr(node).host_filter(Arc::new(only));
    let session = builder.build().await.ok()?;
    let metadata_cache = session.get_cluster_state();
    let mut nodes = metadata_cache.get_nodes_info().iter();
    let can_be_asked = nodes.any(|node| node.is_connected() && is_near(settings, node));
    (can_be_asked && knows_cluster(&session)).then_some(session)
}
