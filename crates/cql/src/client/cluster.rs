//! What a session knows of the cluster: whether the driver has its metadata, and which nodes requests go to.
//!
//! `bootstrap` and `connection` ask before they use a session. Must not connect to anything.

use crate::settings::Settings;
use scylla::client::session::Session;
use scylla::cluster::Node;

/// Whether the driver has metadata of the cluster: it also returns sessions without any.
pub(super) fn knows_cluster(session: &Session) -> bool {
    !session.get_cluster_state().cluster_name().is_empty()
}

/// Whether requests go to a node: it is in the chosen datacenter, or none is chosen.
pub(super) fn is_near(settings: &Settings, node: &Node) -> bool {
    settings.datacenter.is_none() || settings.datacenter == node.datacenter
}
