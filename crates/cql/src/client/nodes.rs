//! Questions to each node about itself, such as what its `system_views` say. Must not know any table of ours.

use super::session::Client;
use futures::future::join_all;
use scylla::cluster::Node;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::{Consistency, Statement};
use scylla::value::{CqlValue, Row};
use std::sync::Arc;
use std::time::Duration;

/// Time for a node to answer. A later answer counts as none, because the figures of all nodes wait for it.
const TIMEOUT: Duration = Duration::from_millis(800);

/// A value of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeValue {
    /// A number of any type.
    Number(f64),
    /// Text, or a network address as text.
    Text(String),
    /// Null, or a value of another type.
    Null,
}

/// A row: columns by their names.
pub type NodeRow = Vec<(String, NodeValue)>;

/// What one node has answered.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeAnswers {
    /// Its address.
    pub node: String,
    /// Its datacenter.
    pub datacenter: Option<String>,
    /// For each question its rows; `None` where the node has not answered.
    pub rows: Vec<Option<Vec<NodeRow>>>,
}

impl Client {
    /// Asks all nodes the same questions at once. A question is a SELECT.
    pub(crate) async fn ask_nodes(&self, questions: &[String]) -> Vec<NodeAnswers> {
        let cluster_state = self.session().get_cluster_state();
        let nodes = cluster_state.get_nodes_info().iter();
        join_all(nodes.map(|node| self.ask_node(node, questions))).await
    }

    async fn ask_node(&self, node: &Arc<Node>, questions: &[String]) -> NodeAnswers {
        let rows = join_all(questions.iter().map(async |question| {
            let asked = tokio::time::timeout(TIMEOUT, self.rows_of(node, question)).await;
            asked.ok().flatten()
        }));
        NodeAnswers {
            node: node.address.ip().to_string(),
            datacenter: node.datacenter.clone(),
            rows: rows.await,
        }
    }

    async fn rows_of(&self, node: &Arc<Node>, question: &str) -> Option<Vec<NodeRow>> {
        let mut statement = Statement::new(question);
        statement.set_is_idempotent(true);
        statement.set_consistency(Consistency::One);
        let only = NodeIdentifier::Node(Arc::clone(node));
        statement.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(only, None)));
        let result = self.session().query_unpaged(statement, ()).await.ok()?;
        let result = result.into_rows_result().ok()?;
        let names: Vec<String> =
            result.column_specs().iter().map(|column| column.name().to_owned()).collect();
        let rows = result.rows::<Row>().ok()?.map(|row| {
            let values = row.ok()?.columns.into_iter().map(value);
            Some(names.iter().cloned().zip(values).collect())
        });
        rows.collect()
    }
}

fn value(value: Option<CqlValue>) -> NodeValue {
    match value {
        None => NodeValue::Null,
        Some(CqlValue::Int(number)) => NodeValue::Number(f64::from(number)),
        Some(CqlValue::BigInt(number)) => NodeValue::Number(number as f64),
        Some(CqlValue::Float(number)) => NodeValue::Number(f64::from(number)),
        Some(CqlValue::Double(number)) => NodeValue::Number(number),
        Some(CqlValue::SmallInt(number)) => NodeValue::Number(f64::from(number)),
        Some(CqlValue::Ascii(text) | CqlValue::Text(text)) => NodeValue::Text(text),
        Some(CqlValue::Inet(address)) => NodeValue::Text(address.to_string()),
        Some(_) => NodeValue::Null,
    }
}
