//! The rules for making and finding tables.

use super::compare::{Difference, shown_error};
use idmatch_model::{Keep, Period, TableName, TableOptions};
use idmatch_store::{ErrorKind, OpenTables, Result, Store, Table};
use std::sync::Arc;

/// Creates a few tables in a store that may hold others, and returns what differs.
pub(super) fn check(store: &Arc<dyn Store>) -> Result<Vec<Difference>> {
    let first: TableName = "rules.a".parse()?;
    let second: TableName = "Rules-b".parse()?;
    let absent: TableName = "rules_c".parse()?;
    let options = TableOptions { keep: Keep::All, retention: Some(Period::parse("13mo")?) };
    let other_keep = TableOptions { keep: Keep::Last, ..options.clone() };
    let other_retention = TableOptions { retention: None, ..options.clone() };
    store.table_with(&first, &options)?;
    store.table_with(&second, &TableOptions::default())?;

    let mut differences = Vec::new();
    differences.extend(expect_table(store.table(&first), &first, &options));
    differences.extend(expect_table(store.table_with(&first, &options), &first, &options));
    for other in [other_keep, other_retention] {
        let outcome = store.table_with(&first, &other);
        differences.extend(expect_error(outcome, ErrorKind::TableExists));
    }
    differences.extend(expect_error(store.table(&absent), ErrorKind::TableNotFound));
    differences.extend(check_retentions(store, &first, &absent)?);

    let names = store.tables()?;
    let mut expected = names.clone();
    expected.retain(|name| ![&first, &second, &absent].contains(&name));
    expected.extend([first, second]);
    expected.sort();
    if names != expected {
        differences.push(Difference {
            expected: format!("the tables {expected:?}"),
            got: format!("{names:?}"),
        });
    }
    Ok(differences)
}

/// A retention is at least a day, and retentions of the same length are equal.
fn check_retentions(
    store: &Arc<dyn Store>,
    there: &TableName,
    absent: &TableName,
) -> Result<Vec<Difference>> {
    let with = |text: &str| -> Result<TableOptions> {
        Ok(TableOptions { keep: Keep::All, retention: Some(Period::parse(text)?) })
    };
    let mut differences = Vec::new();
    for text in ["23h", "13m", "9999m"] {
        let outcome = store.table_with(absent, &with(text)?);
        differences.extend(expect_error(outcome, ErrorKind::InvalidArgument));
        let table = store.table(there)?;
        let outcome = table.set_retention(Some(Period::parse(text)?));
        differences.extend(expect_error(outcome.map(|()| table), ErrorKind::InvalidArgument));
    }
    let options = with("1y 1mo")?;
    differences.extend(expect_table(store.table_with(there, &options), there, &options));
    Ok(differences)
}

fn expect_table(
    outcome: Result<Table>,
    name: &TableName,
    options: &TableOptions,
) -> Option<Difference> {
    let got = match outcome {
        Ok(table)
            if table.name() == name && table.options().is_ok_and(|there| there == *options) =>
        {
            return None;
        }
        Ok(table) => format!("table {} with {:?}", table.name(), table.options()),
        Err(error) => shown_error(&error),
    };
    Some(Difference { expected: format!("table {name} with {options:?}"), got })
}

fn expect_error(outcome: Result<Table>, kind: ErrorKind) -> Option<Difference> {
    let got = match outcome {
        Err(error) if error.kind() == kind => return None,
        Err(error) => shown_error(&error),
        Ok(table) => format!("table {}", table.name()),
    };
    Some(Difference { expected: format!("error {}", kind.code()), got })
}
