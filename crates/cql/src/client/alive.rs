//! What a request needed of the servers, and what there was of them when it was given up, in words: the
//! driver tells of the last attempt alone, such as that a connection is broken. Must not know what was asked.

use super::Client;
use super::attempts::Attempts;
use crate::settings::name_of_consistency;
use scylla::cluster::metadata::Strategy;
use scylla::errors::{ExecutionError, RequestAttemptError};
use scylla::statement::Consistency;
use std::collections::HashMap;

/// So many nodes are named.
const NAMED: usize = 5;

impl Client {
    /// How many copies were needed, which nodes are not connected, and how many copies a node said there
    /// were, unless that is the last error.
    pub(super) fn needed_and_alive(
        &self,
        consistency: Option<Consistency>,
        attempts: &Attempts,
        last: &ExecutionError,
    ) -> String {
        let needed = consistency.map(|consistency| self.needed(consistency) + "; ");
        let is_said =
            matches!(last, ExecutionError::LastAttemptError(RequestAttemptError::DbError(..)));
        let said = attempts.counted().filter(|_| !is_said);
        let said = said.map(|said| format!("; a node said: {said}"));
        [needed.unwrap_or_default(), self.alive(), said.unwrap_or_default()].concat()
    }

    fn needed(&self, consistency: Consistency) -> String {
        let state = self.session.get_cluster_state();
        let keyspace = state.get_keyspace(&self.settings.keyspace);
        let copies = match keyspace.map(|keyspace| &keyspace.strategy) {
            Some(Strategy::SimpleStrategy { replication_factor }) => {
                HashMap::from([(String::new(), *replication_factor)])
            }
            Some(Strategy::NetworkTopologyStrategy { datacenter_repfactors }) => {
                datacenter_repfactors.clone()
            }
            _ => HashMap::new(),
        };
        needed(consistency, &copies, self.settings.datacenter.as_deref())
    }

    /// Which nodes are not connected.
    pub(super) fn alive(&self) -> String {
        let state = self.session.get_cluster_state();
        let nodes = state.get_nodes_info();
        let away = nodes.iter().filter(|node| !node.is_connected());
        let mut away: Vec<String> = away.map(|node| node.address.to_string()).collect();
        away.sort();
        connected(nodes.len(), &away)
    }
}

/// How many copies it takes, where they are counted in one place.
fn needed(consistency: Consistency, copies: &HashMap<String, usize>, near: Option<&str>) -> String {
    let name = name_of_consistency(consistency);
    let all = copies.values().sum::<usize>();
    let local = match copies.len() {
        1 => all,
        _ => near.and_then(|near| copies.get(near)).copied().unwrap_or_default(),
    };
    let majority = |copies: usize| copies / 2 + 1;
    let (needed, of) = match consistency {
        Consistency::One => (1, all),
        Consistency::LocalOne => (1, local),
        Consistency::Two => (2, all),
        Consistency::Three => (3, all),
        Consistency::Quorum => (majority(all), all),
        Consistency::LocalQuorum => (majority(local), local),
        Consistency::EachQuorum if copies.len() == 1 => (majority(all), all),
        Consistency::All => (all, all),
        _ => (0, 0),
    };
    match of {
        0 => format!("{name} was required"),
        _ => format!("{name} was required, which is {needed} of {of} copies"),
    }
}

/// Which nodes are not connected.
fn connected(nodes: usize, away: &[String]) -> String {
    let there = nodes - away.len();
    let text = format!(
        "{there} of {nodes} nodes {}",
        if there == 1 { "is connected" } else { "are connected" }
    );
    let named = away.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match away.len() {
        0 => text,
        1..=NAMED => format!("{text}, not {named}"),
        more => format!("{text}, not {named} and {} more", more - NAMED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(of: &[(&str, usize)]) -> HashMap<String, usize> {
        of.iter().map(|(name, copies)| ((*name).to_owned(), *copies)).collect()
    }

    #[test]
    fn a_quorum_is_of_the_copies_that_it_is_about() {
        let (one, two) = (copies(&[("", 3)]), copies(&[("east", 3), ("west", 5)]));
        for (consistency, copies, near, expected) in [
            (
                Consistency::LocalQuorum,
                &one,
                None,
                "local_quorum was required, which is 2 of 3 copies",
            ),
            (
                Consistency::LocalQuorum,
                &two,
                Some("west"),
                "local_quorum was required, which is 3 of 5 copies",
            ),
            (
                Consistency::Quorum,
                &two,
                Some("west"),
                "quorum was required, which is 5 of 8 copies",
            ),
            (
                Consistency::LocalOne,
                &two,
                Some("east"),
                "local_one was required, which is 1 of 3 copies",
            ),
            (Consistency::All, &one, None, "all was required, which is 3 of 3 copies"),
            (
                Consistency::EachQuorum,
                &one,
                None,
                "each_quorum was required, which is 2 of 3 copies",
            ),
            (Consistency::EachQuorum, &two, None, "each_quorum was required"),
            // A datacenter that the keyspace is not in, and a keyspace that is not there.
            (Consistency::LocalQuorum, &two, Some("north"), "local_quorum was required"),
            (Consistency::Quorum, &copies(&[]), None, "quorum was required"),
        ] {
            assert_eq!(needed(consistency, copies, near), expected);
        }
    }

    #[test]
    fn nodes_that_are_away_are_named() {
        let away = |count: u8| (1..=count).map(|n| format!("10.0.0.{n}:9042")).collect::<Vec<_>>();
        assert_eq!(connected(3, &[]), "3 of 3 nodes are connected");
        let expected = "1 of 3 nodes is connected, not 10.0.0.1:9042, 10.0.0.2:9042";
        assert_eq!(connected(3, &away(2)), expected);
        assert!(connected(9, &away(7)).ends_with("10.0.0.5:9042 and 2 more"));
    }
}
