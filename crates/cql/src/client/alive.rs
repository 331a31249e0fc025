//! What a request needed of the servers, and what there was of them when it was given up, in words: the
//! driver tells of the last attempt alone, such as that a connection is broken. Must not know what was asked.

use super::Client;
use super::attempts::Attempts;
use crate::errors::counts_copies;
use crate::settings::name_of_consistency;
use scylla::cluster::metadata::Strategy;
use scylla::errors::{DbError, ExecutionError};
use scylla::statement::Consistency;
use std::collections::HashMap;

/// So many nodes are named.
const NAMED: usize = 5;

/// What a request needs, to say so when it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Any node.
    Node,
    /// So many copies.
    Copies(Consistency),
    /// The same, and a majority of all copies that agree on who is first.
    Agreement(Consistency),
}

/// How many copies a keyspace has.
#[derive(Debug)]
enum Copies {
    /// Wherever.
    All(usize),
    /// In each datacenter.
    In(HashMap<String, usize>),
}

impl Client {
    /// How many copies were needed, which nodes are not connected, and how many copies a node said there
    /// were, unless that is the last error.
    pub(super) fn needed_and_alive(
        &self,
        needs: Needs,
        attempts: &Attempts,
        last: &ExecutionError,
    ) -> String {
        let needed = self.needed(needs);
        let said = unsaid(attempts.counted(), last).map(|said| format!("a node said: {said}"));
        let parts = [needed, Some(self.alive()), said];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    fn needed(&self, needs: Needs) -> Option<String> {
        let state = self.session().get_cluster_state();
        let keyspace = state.get_keyspace(&self.settings.keyspace);
        let copies = match keyspace.map(|keyspace| &keyspace.strategy) {
            Some(Strategy::SimpleStrategy { replication_factor }) => {
                Copies::All(*replication_factor)
            }
            Some(Strategy::NetworkTopologyStrategy { datacenter_repfactors }) => {
                Copies::In(datacenter_repfactors.clone())
            }
            _ => Copies::All(0),
        };
        needed(needs, &copies, self.settings.datacenter.as_deref())
    }

    /// Which nodes are not connected.
    pub(super) fn alive(&self) -> String {
        let state = self.session().get_cluster_state();
        let nodes = state.get_nodes_info().iter().filter(|node| node.is_enabled());
        let away = nodes.clone().filter(|node| !node.is_connected());
        let mut away: Vec<String> = away.map(|node| node.address.to_string()).collect();
        away.sort();
        let text = connected(nodes.count(), &away);
        match self.connection.is_whole() {
            true => text,
            false => format!("{text}; others are still being connected to"),
        }
    }
}

/// What a node said of copies, where the last error does not.
fn unsaid(counted: Option<DbError>, last: &ExecutionError) -> Option<DbError> {
    let is_said =
        matches!(last, ExecutionError::LastAttemptError(last) if counts_copies(last).is_some());
    counted.filter(|_| !is_said)
}

/// How many copies it takes, where they are counted in one place.
fn needed(needs: Needs, copies: &Copies, near: Option<&str>) -> Option<String> {
    let (consistency, also) = match needs {
        Needs::Node => return None,
        Needs::Copies(consistency) => (consistency, ""),
        Needs::Agreement(consistency) => (consistency, "serial and "),
    };
    let name = name_of_consistency(consistency);
    let (all, local, place) = match (copies, near) {
        (Copies::All(copies), _) => (*copies, *copies, String::new()),
        (Copies::In(copies), Some(near)) => {
            let local = copies.get(near).copied().unwrap_or_default();
            (copies.values().sum(), local, format!(" in {near}"))
        }
        (Copies::In(copies), None) => {
            let all = copies.values().sum();
            (all, if copies.len() == 1 { all } else { 0 }, String::new())
        }
    };
    let is_one_place = match copies {
        Copies::All(_) => true,
        Copies::In(copies) => copies.len() == 1,
    };
    let majority = |copies: usize| copies / 2 + 1;
    let (needed, of, place) = match consistency {
        Consistency::One => (1, all, ""),
        Consistency::Two => (2, all, ""),
        Consistency::Three => (3, all, ""),
        Consistency::Quorum => (majority(all), all, ""),
        Consistency::EachQuorum if is_one_place => (majority(all), all, ""),
        Consistency::All => (all, all, ""),
        Consistency::LocalOne => (1, local, place.as_str()),
        Consistency::LocalQuorum => (majority(local), local, place.as_str()),
        _ => (0, 0, ""),
    };
    let required = if also.is_empty() { "was required" } else { "were required" };
    Some(match of {
        0 => format!("{also}{name} {required}"),
        _ => format!("{also}{name} {required}, which is {needed} of {of} copies{place}"),
    })
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
        1..=NAMED => format!("{text}; not {named}"),
        more => format!("{text}; not {named} and {} more", more - NAMED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scylla::errors::RequestAttemptError;

    fn places(of: &[(&str, usize)]) -> Copies {
        Copies::In(of.iter().map(|(name, copies)| ((*name).to_owned(), *copies)).collect())
    }

    #[test]
    fn a_quorum_is_of_the_copies_that_it_is_about() {
        use Consistency::{All, EachQuorum, LocalOne, LocalQuorum, Quorum};
        let simple = Copies::All(3);
        let (one, two) = (places(&[("east", 3)]), places(&[("east", 3), ("west", 5)]));
        for (consistency, copies, near, expected) in [
            (LocalQuorum, &simple, None, "local_quorum was required, which is 2 of 3 copies"),
            (LocalQuorum, &one, None, "local_quorum was required, which is 2 of 3 copies"),
            (
                LocalQuorum,
                &two,
                Some("west"),
                "local_quorum was required, which is 3 of 5 copies in west",
            ),
            (Quorum, &two, Some("west"), "quorum was required, which is 5 of 8 copies"),
            (
                LocalOne,
                &two,
                Some("east"),
                "local_one was required, which is 1 of 3 copies in east",
            ),
            (All, &one, None, "all was required, which is 3 of 3 copies"),
            (EachQuorum, &one, Some("east"), "each_quorum was required, which is 2 of 3 copies"),
            (EachQuorum, &two, None, "each_quorum was required"),
            // Datacenters without a copy, and a keyspace that is not there.
            (LocalQuorum, &one, Some("west"), "local_quorum was required"),
            (LocalQuorum, &two, Some("north"), "local_quorum was required"),
            (Quorum, &Copies::All(0), None, "quorum was required"),
        ] {
            let text = needed(Needs::Copies(consistency), copies, near);
            assert_eq!(text.as_deref(), Some(expected));
        }
        let agreement = needed(Needs::Agreement(EachQuorum), &one, None);
        let expected = "serial and each_quorum were required, which is 2 of 3 copies";
        assert_eq!(agreement.as_deref(), Some(expected));
        assert_eq!(needed(Needs::Node, &one, None), None);
    }

    #[test]
    fn what_a_node_said_is_told_once() {
        let consistency = Consistency::LocalQuorum;
        let few = || DbError::Unavailable { consistency, required: 2, alive: 1 };
        let last = |error| ExecutionError::from(RequestAttemptError::DbError(error, String::new()));
        assert_eq!(unsaid(Some(few()), &ExecutionError::EmptyPlan), Some(few()));
        assert_eq!(unsaid(Some(few()), &last(DbError::Overloaded)), Some(few()));
        assert_eq!(unsaid(Some(few()), &last(few())), None);
        assert_eq!(unsaid(None, &ExecutionError::EmptyPlan), None);
    }

    #[test]
    fn nodes_that_are_away_are_named() {
        let away = |count: u8| (1..=count).map(|n| format!("10.0.0.{n}:9042")).collect::<Vec<_>>();
        assert_eq!(connected(3, &[]), "3 of 3 nodes are connected");
        let expected = "1 of 3 nodes is connected; not 10.0.0.1:9042, 10.0.0.2:9042";
        assert_eq!(connected(3, &away(2)), expected);
        assert!(connected(9, &away(7)).ends_with("10.0.0.5:9042 and 2 more"));
    }
}
