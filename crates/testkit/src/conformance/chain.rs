//! Chains of tables: the rows that a population has after one table after another, with its carried columns,
//! and its unmatched rows.

use super::compare::Difference;
use super::format::{Cell, ChainQuestion, HopQuestion, How};
use super::input::{Batches, Batching};
use super::value::{Date, Scope, Text, window};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, SchemaRef};
use idmatch_join::{JoinCounts, JoinOptions, Joined, join};
use idmatch_model::{SeenAt, TableName};
use idmatch_store::locks::Mutex;
use idmatch_store::{Call, MatchSink, Result, Snapshot};
use std::fmt::Debug;
use std::sync::Arc;

/// A row of a result: a text for each column, `None` for null.
type ChainRow = Vec<Option<String>>;

/// Runs a chain at a snapshot. Compares counts, columns, rows and unmatched rows with the expected ones.
pub(super) fn run(
    snapshot: &dyn Snapshot,
    table_name: &dyn Fn(&str) -> Result<TableName>,
    question: &ChainQuestion,
    (scope, batching): (Scope, Batching),
) -> Result<Vec<Difference>> {
    let call = Call::default();
    let hop = |HopQuestion { table, by, pick, since, until }: &HopQuestion| {
        Ok(idmatch_join::Hop {
            table: snapshot.table_named(&table_name(table)?, &call)?,
            by: *by,
            pick: *pick,
            window: window(since.as_ref(), until.as_ref(), scope)?,
        })
    };
    let hops = question.hops.iter().map(hop).collect::<Result<Vec<_>>>()?;
    let options = JoinOptions {
        keep_unmatched: matches!(question.how, How::Left),
        with_hops: question.with_hops,
    };
    let carried = |(name, cells): (&'_ String, &Vec<_>)| Ok((name.clone(), column(cells, scope)?));
    let carried = question.carry.iter().map(carried).collect::<Result<_>>()?;
    let mut population = Batches::of_population(&question.population, carried, scope, batching)?;
    let joined = join(&mut population, hops, options, &call)?;
    let mut differences: Vec<_> = counts(&joined, question).into_iter().collect();
    let schema = joined.schema();
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().clone()).collect();
    differences.extend(differ(&question.columns, &names));
    // Twice, because they can be read any number of times.
    for _ in 0..2 {
        let mut expected = wanted(&question.rows, &schema, scope)?;
        let mut got = read(&|sink| joined.write(sink, &call))?;
        expected.sort_unstable();
        got.sort_unstable();
        differences.extend(differ(&expected, &got));
        let expected = wanted(&question.unmatched, &joined.unmatched_schema(), scope)?;
        let got = read(&|sink| joined.write_unmatched(sink, &call))?;
        differences.extend(differ(&expected, &got));
    }
    Ok(differences)
}

fn counts(joined: &Joined, question: &ChainQuestion) -> Option<Difference> {
    let JoinCounts { population, matched, rows, written } = joined.counts();
    let hops = joined.hops().iter().map(|hop| (hop.rows_in, hop.matched, hop.rows)).collect();
    let expected = &question.counts;
    differ(
        &([expected.population, expected.matched, expected.rows, expected.written], &expected.hops),
        &([population, matched, rows, written], &hops),
    )
}

fn differ<T: PartialEq + Debug + ?Sized>(expected: &T, got: &T) -> Option<Difference> {
    (expected != got)
        .then(|| Difference { expected: format!("{expected:?}"), got: format!("{got:?}") })
}

/// A column that the population carries: of numbers, or of text.
fn column(cells: &[Option<Cell>], scope: Scope) -> Result<ArrayRef> {
    let number = |cell: &Cell| match cell {
        Cell::Number(number) => Some(*number),
        Cell::Text(_) => None,
    };
    if cells.iter().flatten().all(|cell| number(cell).is_some()) {
        let numbers = cells.iter().map(|cell| cell.as_ref().and_then(number));
        return Ok(Arc::new(numbers.collect::<Int64Array>()));
    }
    let text = |cell: &Cell| match cell {
        Cell::Text(text) => text.text(scope),
        Cell::Number(number) => Ok(number.to_string()),
    };
    let texts = cells.iter().map(|cell| cell.as_ref().map(text).transpose());
    Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
}

/// The rows of a case as [`read`] shows them.
fn wanted(rows: &[Vec<Option<Cell>>], schema: &SchemaRef, scope: Scope) -> Result<Vec<ChainRow>> {
    let cell = |(at, cell): (usize, &Option<Cell>)| {
        let is_date = schema
            .fields()
            .get(at)
            .is_some_and(|field| matches!(field.data_type(), DataType::Timestamp(..)));
        Ok(match cell {
            None => None,
            Some(Cell::Number(number)) => Some(number.to_string()),
            Some(Cell::Text(Text::Plain(date))) if is_date => {
                Some(Date::Plain(date.clone().into()).instant(scope)?.to_string())
            }
            Some(Cell::Text(text)) => {
                Some(String::from_utf8_lossy(&text.bytes(scope)?).into_owned())
            }
        })
    };
    rows.iter().map(|row| row.iter().enumerate().map(cell).collect()).collect()
}

fn read(write: &dyn Fn(&dyn MatchSink) -> Result<()>) -> Result<Vec<ChainRow>> {
    let rows = Mutex::new(Vec::new());
    let take = |batch: RecordBatch| {
        let columns: Vec<Vec<Option<String>>> =
            batch.columns().iter().map(shown).collect::<Result<_>>()?;
        let row =
            |at: usize| columns.iter().map(|column| column.get(at).cloned().flatten()).collect();
        rows.lock().extend((0..batch.num_rows()).map(row));
        Ok(())
    };
    write(&take)?;
    Ok(rows.into_inner())
}

fn shown(column: &ArrayRef) -> Result<Vec<Option<String>>> {
    if let Some(texts) = column.as_string_opt::<i32>() {
        return Ok(texts.iter().map(|text| text.map(str::to_owned)).collect());
    }
    if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
        return Ok(numbers.iter().map(|number| number.map(|number| number.to_string())).collect());
    }
    let date = |millis: i64| SeenAt::from_millis(millis).map(|date| date.to_string());
    let dates = column.as_primitive::<TimestampMillisecondType>();
    dates.iter().map(|millis| Ok(millis.map(date).transpose()?)).collect()
}
