//! Connects to one contact point that answers, while another node does not respond.
//!
//! The driver itself waits for the first contact point that it picks, and then for every other node,
//! until the connection times out. Must not know what a session is used for.

use super::cluster::{is_near, knows_cluster};
use super::connect_error::without_text;
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
use tracing::debug;

/// Contact points that are tried at once, and addresses of each.
const CONCURRENT_TRIES: usize = 5;

/// A session with one node. `None` if no contact point is usable: none answers, or the servers know
/// each other by other addresses.
pub(super) async fn session(settings: &Settings, builder: &SessionBuilder) -> Option<Session> {
    let mut names: Vec<&str> = settings.nodes.iter().map(String::as_str).collect();
    fastrand::shuffle(&mut names);
    let by_name = async |name| {
        let mut addresses = resolved(name).await?;
        fastrand::shuffle(&mut addresses);
        let with_one = |address| with_one(settings, builder, address);
        first(addresses.into_iter().take(CONCURRENT_TRIES).map(with_one)).await
    };
    first(names.into_iter().take(CONCURRENT_TRIES).map(by_name)).await
}

/// The first success; `None` if every try fails.
async fn first<T>(tries: impl Iterator<Item: Future<Output = Option<T>>>) -> Option<T> {
    let tries: FuturesUnordered<_> = tries.collect();
    pin!(tries.filter_map(ready)).next().await
}

/// The addresses of a contact point; `None` if its name has none.
async fn resolved(name: &str) -> Option<Vec<SocketAddr>> {
    match tokio::net::lookup_host(name).await {
        Ok(addresses) => Some(addresses.collect()),
        Err(error) => {
            debug!(node = name, %error, "contact point has no address");
            None
        }
    }
}

async fn with_one(
    settings: &Settings,
    builder: &SessionBuilder,
    node: SocketAddr,
) -> Option<Session> {
    let only = AllowListHostFilter::new([node]).ok()?;
    let builder = builder.clone().known_node_addr(node).host_filter(Arc::new(only));
    let session = match builder.build().await {
        Ok(session) => session,
        Err(error) => {
            debug!(%node, error = %without_text(&error), "contact point failed");
            return None;
        }
    };
    let cluster_state = session.get_cluster_state();
    let mut nodes = cluster_state.get_nodes_info().iter();
    let is_usable =
        nodes.any(|node| node.is_connected() && is_near(settings, node)) && knows_cluster(&session);
    if !is_usable {
        debug!(%node, "contact point is not usable: it has another address or datacenter");
    }
    is_usable.then_some(session)
}
