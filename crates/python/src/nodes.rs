//! The answers of the nodes of a cluster about themselves, for Python.

use crate::errors::OrRaise;
use crate::interrupt::uninterrupted;
use crate::process::Own;
use crate::stores::settings;
use idmatch_cql::{CqlStore, NodeValue};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A connection to the nodes of an address.
#[pyclass(frozen, module = "idmatch._core")]
pub(crate) struct Nodes(Own<CqlStore>);

/// Address and datacenter of a node, and for each question its rows; `None` where it has not answered.
type NodeReply<'py> = (String, Option<String>, Vec<Option<Vec<Bound<'py, PyDict>>>>);

#[pymethods]
impl Nodes {
    /// Connects.
    #[new]
    fn new(py: Python<'_>, address: &str) -> PyResult<Nodes> {
        let settings = settings(address).or_raise(py)?;
        Ok(Nodes(Own::new(uninterrupted(py, || CqlStore::open(settings))?.or_raise(py)?)))
    }

    /// Asks each node.
    fn ask<'py>(&self, py: Python<'py>, questions: Vec<String>) -> PyResult<Vec<NodeReply<'py>>> {
        let store = self.0.get(py)?;
        let answers = uninterrupted(py, || store.ask_nodes(&questions))?;
        let told = answers.into_iter().map(|of_node| {
            let rows = of_node.rows.into_iter().map(|rows| {
                let rows = rows.map(|rows| rows.into_iter().map(|row| as_dict(py, row)).collect());
                rows.transpose()
            });
            Ok((of_node.node, of_node.datacenter, rows.collect::<PyResult<_>>()?))
        });
        told.collect()
    }
}

fn as_dict(py: Python<'_>, row: Vec<(String, NodeValue)>) -> PyResult<Bound<'_, PyDict>> {
    let shown = PyDict::new(py);
    for (name, value) in row {
        match value {
            NodeValue::Number(number) => shown.set_item(name, number)?,
            NodeValue::Text(text) => shown.set_item(name, text)?,
            NodeValue::Null => shown.set_item(name, py.None())?,
        }
    }
    Ok(shown)
}
