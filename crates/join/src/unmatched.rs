//! Population rows without a match, and the reasons.

use crate::carried::{Chunk, Level};
use crate::columns::{batch_of, failed};
use crate::fates::{Fate, Fates};
use crate::hop::Hop;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, UInt32Array};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow_select::take::take;
use idmatch_model::{MAX_ID_BYTES, Pick, Side, Window};
use idmatch_store::{BatchSource, Call, MatchQuery, Requests, Result, SourceBatch};
use std::borrow::Cow;
use std::sync::Arc;

/// The columns of unmatched rows: the identifier, the reason why it has no match, and the carried columns.
/// The second column is named `reason`; where a carried column has that name, `reason_2`, and so on.
pub(crate) fn schema(by: Option<Side>, carried: &[FieldRef]) -> SchemaRef {
    let is_taken = |name: &String| carried.iter().any(|field| field.name() == name);
    let further = (2..).map(|number| format!("reason_{number}"));
    let mut names = std::iter::once("reason".to_owned()).chain(further);
    let reason = names.find(|name| !is_taken(name)).unwrap_or_default();
    let mut fields = vec![
        Arc::new(Field::new(by.map_or("", Side::column), DataType::Utf8, true)),
        Arc::new(Field::new(reason, DataType::Utf8, false)),
    ];
    fields.extend(carried.iter().cloned());
    Arc::new(Schema::new(fields))
}

/// A batch of [`schema`]: the carried columns of rows, and their fates as reasons.
pub(crate) fn batch(
    schema: &SchemaRef,
    carried: Vec<ArrayRef>,
    rows: &[(usize, Fate)],
) -> Result<RecordBatch> {
    let mut carried = carried.into_iter();
    let mut columns: Vec<ArrayRef> = carried.next().into_iter().collect();
    let ids = columns.first().and_then(|ids| ids.as_string_opt::<i32>());
    let reasons = rows.iter().enumerate().map(|(at, (_, fate))| {
        let id = ids.filter(|ids| ids.is_valid(at)).map_or("", |ids| ids.value(at));
        reason(*fate, id)
    });
    columns.push(Arc::new(StringArray::from_iter_values(reasons)));
    columns.extend(carried);
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(failed)
}

fn reason(fate: Fate, id: &str) -> Cow<'static, str> {
    Cow::Borrowed(match fate {
        Fate::Null => "null",
        Fate::Malformed if id.is_empty() => "empty",
        Fate::Malformed if id.len() > MAX_ID_BYTES => "too long",
        Fate::Malformed => "not UTF-8",
        Fate::OutsideWindow => "outside the window",
        Fate::Reached(0) => "not in table",
        Fate::Reached(hops) => return Cow::Owned(format!("lost at hop {}", hops + 1)),
    })
}

/// The callback of [`each`]. It gets the columns of a level, and the rows that they are of.
pub(crate) type TakeRows<'a> = dyn FnMut(Vec<ArrayRef>, &[(usize, Fate)]) -> Result<()> + 'a;

/// Calls `take_rows` with the columns of some rows of a chunk, batch by batch.
pub(crate) fn each(
    chunk: &Chunk,
    mut rows: &[(usize, Fate)],
    call: &Call,
    take_rows: &mut TakeRows<'_>,
) -> Result<()> {
    let mut start = 0;
    for batch in chunk.batches() {
        call.check()?;
        if rows.is_empty() {
            return Ok(());
        }
        let batch = batch?;
        let end = start + batch.num_rows();
        let (these, rest) = rows.split_at(rows.partition_point(|(row, _)| *row < end));
        rows = rest;
        if !these.is_empty() {
            let places: UInt32Array =
                these.iter().map(|(row, _)| Some((row - start) as u32)).collect();
            let picked = |column: &ArrayRef| take(column, &places, None).map_err(failed);
            take_rows(batch.columns().iter().map(picked).collect::<Result<_>>()?, these)?;
        }
        start = end;
    }
    Ok(())
}

/// Tells rows that the first table has outside of its window from rows that it does not have. Matches them
/// again, without the window; on servers this reads the rows as they are now. Returns the requests of that
/// match.
pub(crate) fn tell_windows(
    first: &Hop,
    population: &Level,
    fates: &mut Fates,
    call: &Call,
) -> Result<Option<Requests>> {
    if first.window.is_all() || fates.count(0) == 0 {
        return Ok(None);
    }
    let matched = {
        let mut source = LostIds { fates, population, chunk: 0, ready: Vec::new(), call };
        let query = MatchQuery { window: Window::ALL, pick: Pick::Latest, ..first.query() };
        first.table.match_population(&mut source, query, call)?
    };
    let mut absent = Vec::new();
    matched.unmatched(&mut |row, _| {
        absent.push(row);
        Ok(())
    })?;
    fates.note_outside(&absent);
    Ok(matched.requests())
}

/// The identifiers that the first table does not have in its window.
struct LostIds<'a> {
    fates: &'a Fates,
    population: &'a Level,
    call: &'a Call,
    chunk: usize,
    /// The identifiers of a chunk, the last batch first.
    ready: Vec<ArrayRef>,
}

impl BatchSource for LostIds<'_> {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        while self.ready.is_empty() {
            let Some(chunk) = self.population.chunks.get(self.chunk) else { return Ok(None) };
            self.chunk += 1;
            let mut lost = self.fates.lost(chunk, u8::MAX);
            lost.retain(|(_, fate)| *fate == Fate::Reached(0));
            each(chunk, &lost, self.call, &mut |columns, _| {
                self.ready.extend(columns.into_iter().next());
                Ok(())
            })?;
            self.ready.reverse();
        }
        let Some(ids) = self.ready.pop() else { return Ok(None) };
        let field = Field::new("identifier", DataType::Utf8, true);
        let batch = batch_of(vec![Arc::new(field)], vec![ids])?;
        Ok(Some(SourceBatch { source: "unmatched rows".into(), first_row: 1, batch }))
    }
}
