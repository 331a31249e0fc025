//! What a session knows of its cluster.

use crate::settings::Settings;
use scylla::client::session::Session;
use scylla::cluster::Node;

/// Whether the driver has learnt anything of the cluster: it also gives sessions that have not.
pub(super) fn knows_cluster(session: &Session) -> bool {
    !session.get_cluster_state().cluster_name().is_empty()
}

/// Whether a node is one of those that are asked.
pub(super) fn is_near(settings: &Settings, node: &Node) -> bool {
    settings.datacenter.is_none() || settings.datacenter == node.datacenter
}
