//! Explains a failed request: what it required of the servers, and which nodes were connected then.
//!
//! The driver reports the last attempt alone, such as a broken connection. Must not know the content of
//! requests.

use super::history::RequestHistory;
use crate::error::replica_counts;
use crate::settings::{Settings, name_of_consistency};
use scylla::client::session::Session;
use scylla::cluster::metadata::Strategy;
use scylla::errors::ExecutionError;
use scylla::statement::Consistency;
use std::collections::BTreeMap;

/// Nodes that an error names at most.
const NAMED_NODES: usize = 5;

/// The requirement of a request, for the error when it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequiredReplicas {
    /// Any node.
    Node,
    /// The replicas of this consistency level.
    Level(Consistency),
    /// The replicas of this level, and a majority of all replicas, which agree on the order (serial).
    Serial(Consistency),
}

/// Describes the requirement, the nodes that are not connected, and the replicas that a node counted. The
/// last part is missing where the last error has it already.
pub(super) fn requirement_status(
    (session, settings, has_all_nodes): (&Session, &Settings, bool),
    (needs, attempts, last): (RequiredReplicas, &RequestHistory, &ExecutionError),
) -> String {
    let is_last =
        matches!(last, ExecutionError::LastAttemptError(last) if replica_counts(last).is_some());
    let said = attempts.counted().filter(|_| !is_last);
    let said = said.map(|said| format!("a node said: {said}"));
    let cluster_state = session.get_cluster_state();
    let keyspace = cluster_state.get_keyspace(&settings.keyspace);
    let datacenter = settings.datacenter.as_deref();
    let replicas = keyspace.map(|keyspace| Replicas::of(&keyspace.strategy, datacenter));
    let required = required(needs, &replicas.unwrap_or_default());
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

/// Describes the requirement, with the number of replicas that it takes where these are known.
fn required(needs: RequiredReplicas, replicas: &Replicas) -> Option<String> {
    let level = |name: &str, consistency| match replicas.needed(consistency) {
        Some(needed) => format!("{name} ({needed})"),
        None => name.to_owned(),
    };
    let named = |consistency| level(name_of_consistency(consistency), consistency);
    match needs {
        RequiredReplicas::Node => None,
        RequiredReplicas::Level(consistency) => {
            Some(format!("{} was required", named(consistency)))
        }
        RequiredReplicas::Serial(consistency) => {
            let serial = level("serial", Consistency::Quorum);
            Some(format!("{serial} and {} were required", named(consistency)))
        }
    }
}

/// The replicas of each row of a keyspace.
#[derive(Debug, Default)]
struct Replicas {
    /// By datacenter; without a name where the strategy does not distinguish them.
    each: BTreeMap<String, usize>,
    /// In the local datacenter; 0 if that is unknown.
    local: usize,
}

impl Replicas {
    /// The replicas of a strategy, for the chosen or the only datacenter.
    fn of(strategy: &Strategy, datacenter: Option<&str>) -> Replicas {
        let each = match strategy {
            Strategy::SimpleStrategy { replication_factor } => {
                BTreeMap::from([(String::new(), *replication_factor)])
            }
            Strategy::NetworkTopologyStrategy { datacenter_repfactors } => {
                datacenter_repfactors.iter().map(|(name, n)| (name.clone(), *n)).collect()
            }
            _ => BTreeMap::new(),
        };
        let local = match datacenter {
            Some(name) => each.get(name).or_else(|| each.get("")),
            None => each.values().next().filter(|_| each.len() == 1),
        };
        Replicas { local: local.copied().unwrap_or_default(), each }
    }

    /// The replicas that a consistency level needs, and the replicas that there are, as text; `None` if that
    /// is unknown.
    fn needed(&self, consistency: Consistency) -> Option<String> {
        let (all, local) = (self.each.values().sum(), self.local);
        let (needed, of) = match consistency {
            Consistency::One => (1, all),
            Consistency::Two => (2, all),
            Consistency::Three => (3, all),
            Consistency::LocalOne => (1, local),
            Consistency::Quorum => (all / 2 + 1, all),
            Consistency::LocalQuorum => (local / 2 + 1, local),
            Consistency::All => (all, all),
            Consistency::EachQuorum if self.each.len() > 1 => {
                let each = self.each.iter().filter(|(_, of)| **of > 0);
                let each = each.map(|(name, of)| format!("{} of {of} in {name}", of / 2 + 1));
                return Some(format!("replicas: {}", each.collect::<Vec<_>>().join(", ")));
            }
            Consistency::EachQuorum => (all / 2 + 1, all),
            _ => (0, 0),
        };
        (of > 0).then(|| format!("{needed} of {of} replicas"))
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

    fn replicas(of: &[(&str, usize)], datacenter: Option<&str>) -> Replicas {
        let all = of.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        let strategy = Strategy::NetworkTopologyStrategy { datacenter_repfactors: all };
        Replicas::of(&strategy, datacenter)
    }

    #[test]
    fn the_replicas_of_the_local_datacenter_are_known_where_it_is() {
        let (one, two) = ([("east", 3)].as_slice(), [("east", 3), ("west", 5)].as_slice());
        for (of, datacenter, expected) in [
            (one, None, 3),
            (two, Some("west"), 5),
            // The chosen datacenter has no replica, or none of two datacenters is chosen.
            (one, Some("west"), 0),
            (two, Some("north"), 0),
            (two, None, 0),
        ] {
            assert_eq!(replicas(of, datacenter).local, expected, "{datacenter:?}");
        }
        let simple = Strategy::SimpleStrategy { replication_factor: 3 };
        assert_eq!(Replicas::of(&simple, Some("east")).local, 3);
        assert_eq!(Replicas::of(&Strategy::LocalStrategy, None).local, 0);
    }

    #[test]
    fn an_error_names_the_required_replicas_of_each_consistency_level() {
        let simple = Strategy::SimpleStrategy { replication_factor: 3 };
        let (simple, one) = (Replicas::of(&simple, None), replicas(&[("east", 3)], None));
        let two = replicas(&[("east", 3), ("west", 5)], Some("west"));
        let unchosen = replicas(&[("east", 3), ("west", 5)], None);
        let unknown = Replicas::default();
        let each = "each_quorum (replicas: 2 of 3 in east, 3 of 5 in west) was required";
        for (consistency, replicas, expected) in [
            (Consistency::One, &two, "one (1 of 8 replicas) was required"),
            (Consistency::LocalOne, &two, "local_one (1 of 5 replicas) was required"),
            (Consistency::LocalOne, &unchosen, "local_one was required"),
            (Consistency::Two, &one, "two (2 of 3 replicas) was required"),
            (Consistency::Three, &two, "three (3 of 8 replicas) was required"),
            (Consistency::Quorum, &one, "quorum (2 of 3 replicas) was required"),
            (Consistency::Quorum, &two, "quorum (5 of 8 replicas) was required"),
            (Consistency::Quorum, &unchosen, "quorum (5 of 8 replicas) was required"),
            (Consistency::LocalQuorum, &one, "local_quorum (2 of 3 replicas) was required"),
            (Consistency::LocalQuorum, &two, "local_quorum (3 of 5 replicas) was required"),
            (Consistency::LocalQuorum, &unchosen, "local_quorum was required"),
            (Consistency::EachQuorum, &simple, "each_quorum (2 of 3 replicas) was required"),
            (Consistency::EachQuorum, &one, "each_quorum (2 of 3 replicas) was required"),
            (Consistency::EachQuorum, &two, each),
            (Consistency::EachQuorum, &unchosen, each),
            (Consistency::All, &one, "all (3 of 3 replicas) was required"),
            (Consistency::All, &two, "all (8 of 8 replicas) was required"),
            (Consistency::All, &unknown, "all was required"),
            (Consistency::EachQuorum, &unknown, "each_quorum was required"),
        ] {
            let text = required(RequiredReplicas::Level(consistency), replicas);
            assert_eq!(text.as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_conditional_write_requires_a_majority_of_all_replicas_too() {
        let needs = RequiredReplicas::Serial(Consistency::EachQuorum);
        let agreement = |replicas: Replicas| required(needs, &replicas);
        let two = agreement(replicas(&[("east", 3), ("west", 5)], Some("west")));
        let expected = "serial (5 of 8 replicas) and \
                        each_quorum (replicas: 2 of 3 in east, 3 of 5 in west) were required";
        assert_eq!(two.as_deref(), Some(expected));
        let unknown = agreement(Replicas::default());
        assert_eq!(unknown.as_deref(), Some("serial and each_quorum were required"));
        assert_eq!(required(RequiredReplicas::Node, &Replicas::default()), None);
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
