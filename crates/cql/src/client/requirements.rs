//! Explains a failed request: what it required of the servers, and which nodes were connected then.
//!
//! The driver reports the last attempt alone, such as a broken connection. Must not know what was
//! asked.

use super::history::Attempts;
use crate::error::counts_copies;
use crate::settings::{Settings, name_of_consistency};
use scylla::client::session::Session;
use scylla::cluster::metadata::Strategy;
use scylla::errors::ExecutionError;
use scylla::statement::Consistency;

/// Nodes that an error names at most.
const NAMED_NODES: usize = 5;

/// What a request requires, for the error when it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Any node.
    Node,
    /// This consistency.
    Copies(Consistency),
    /// This consistency, and a majority of all replicas that agree on the order (serial).
    Agreement(Consistency),
}

/// The requirement, the nodes that are not connected, and a node's count of replicas, unless that is
/// the last error.
pub(super) fn needed_and_alive(
    (session, settings, has_all_nodes): (&Session, &Settings, bool),
    (needs, attempts, last): (Needs, &Attempts, &ExecutionError),
) -> String {
    let is_last =
        matches!(last, ExecutionError::LastAttemptError(last) if counts_copies(last).is_some());
    let said = attempts.counted().filter(|_| !is_last);
    let said = said.map(|said| format!("a node said: {said}"));
    let cluster_state = session.get_cluster_state();
    let keyspace = cluster_state.get_keyspace(&settings.keyspace);
    let near = settings.datacenter.as_deref();
    let required = required(needs, keyspace.map_or(0, |keyspace| copies(&keyspace.strategy, near)));
    let parts = [required, Some(replica_status(session, has_all_nodes)), said];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Describes which nodes are not connected.
pub(super) fn replica_status(session: &Session, has_all_nodes: bool) -> String {
    let cluster_state = session.get_cluster_state();
    let nodes = cluster_state.get_nodes_info().iter().filter(|node| node.is_enabled());
    let disconnected = nodes.clone().filter(|node| !node.is_connected());
    let mut disconnected: Vec<String> = disconnected.map(|node| node.address.to_string()).collect();
    disconnected.sort();
    let text = connected(nodes.count(), &disconnected);
    match has_all_nodes {
        true => text,
        false => format!("{text}; others are still being connected to"),
    }
}

/// The requirement, for the number of replicas in the local datacenter; 0 if that is unknown.
fn required(needs: Needs, copies: usize) -> Option<String> {
    let (consistency, also, verb) = match needs {
        Needs::Node => return None,
        Needs::Copies(consistency) => (consistency, "", "was"),
        Needs::Agreement(consistency) => (consistency, "serial and ", "were"),
    };
    let text = format!("{also}{} {verb} required", name_of_consistency(consistency));
    Some(match consistency {
        Consistency::LocalQuorum if copies > 0 => {
            format!("{text}, which is {} of {copies} copies", copies / 2 + 1)
        }
        _ => text,
    })
}

/// The number of replicas in the chosen or the only datacenter; 0 if that is unknown.
fn copies(strategy: &Strategy, near: Option<&str>) -> usize {
    match (strategy, near) {
        (Strategy::SimpleStrategy { replication_factor }, _) => *replication_factor,
        (Strategy::NetworkTopologyStrategy { datacenter_repfactors: all }, Some(near)) => {
            all.get(near).copied().unwrap_or_default()
        }
        (Strategy::NetworkTopologyStrategy { datacenter_repfactors: all }, None) => {
            all.values().next().copied().filter(|_| all.len() == 1).unwrap_or_default()
        }
        _ => 0,
    }
}

/// Describes which nodes are not connected.
fn connected(nodes: usize, disconnected: &[String]) -> String {
    let there = nodes - disconnected.len();
    let text = format!(
        "{there} of {nodes} nodes {}",
        if there == 1 { "is connected" } else { "are connected" }
    );
    let named = disconnected.iter().take(NAMED_NODES).cloned().collect::<Vec<_>>().join(", ");
    match disconnected.len() {
        0 => text,
        1..=NAMED_NODES => format!("{text}; not {named}"),
        more => format!("{text}; not {named} and {} more", more - NAMED_NODES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_counts_the_replicas_of_its_datacenter() {
        let simple = Strategy::SimpleStrategy { replication_factor: 3 };
        let places = |of: &[(&str, usize)]| Strategy::NetworkTopologyStrategy {
            datacenter_repfactors: of.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect(),
        };
        let (one, two) = (places(&[("east", 3)]), places(&[("east", 3), ("west", 5)]));
        for (strategy, near, expected) in [
            (&simple, None, 3),
            (&one, None, 3),
            (&two, Some("west"), 5),
            // Datacenters without a replica, and two of which none is chosen.
            (&one, Some("west"), 0),
            (&two, Some("north"), 0),
            (&two, None, 0),
        ] {
            assert_eq!(copies(strategy, near), expected, "{near:?}");
        }
    }

    #[test]
    fn an_error_names_the_required_consistency() {
        let text = |needs, copies| required(needs, copies).unwrap_or_default();
        for (copies, expected) in [
            (3, "local_quorum was required, which is 2 of 3 copies"),
            (5, "local_quorum was required, which is 3 of 5 copies"),
            (0, "local_quorum was required"),
        ] {
            assert_eq!(text(Needs::Copies(Consistency::LocalQuorum), copies), expected);
        }
        let agreement = text(Needs::Agreement(Consistency::EachQuorum), 3);
        assert_eq!(agreement, "serial and each_quorum were required");
        assert_eq!(text(Needs::Copies(Consistency::One), 3), "one was required");
        assert_eq!(required(Needs::Node, 3), None);
    }

    #[test]
    fn disconnected_nodes_are_named() {
        let disconnected =
            |count: u8| (1..=count).map(|n| format!("10.0.0.{n}:9042")).collect::<Vec<_>>();
        assert_eq!(connected(3, &[]), "3 of 3 nodes are connected");
        let expected = "1 of 3 nodes is connected; not 10.0.0.1:9042, 10.0.0.2:9042";
        assert_eq!(connected(3, &disconnected(2)), expected);
        assert!(connected(9, &disconnected(7)).ends_with("10.0.0.5:9042 and 2 more"));
    }
}
