//! Runs a population through one table after another.

use crate::carried::Tee;
use crate::chunk_matches::ChunkMatches;
use crate::columns::own_fields;
use crate::fates::{Fates, MAX_HOPS};
use crate::gather::HopRows;
use crate::hop::{Hop, HopCounts, JoinOptions};
use crate::joined::Joined;
use crate::next_population::NextPopulation;
use arrow_schema::Schema;
use idmatch_store::{
    BatchSource, Call, Error, ErrorKind, JudgedPopulation, MatchQuery, Result, Stage,
};
use std::sync::Arc;

/// Matches a population with the first table, the answers with the second table, and so on. The first column
/// of the population has the identifiers, the other columns are carried.
///
/// Cost: a match for each hop. At each hop the carried columns and the matches are also written and read
/// once; beyond 128 MiB they are in the folder for temporary files. Memory: the largest match of a hop, and
/// two bytes for each population row.
///
/// # Errors
/// The errors of the source and the tables; `InvalidArgument` for no hop or more than 16, carried columns
/// whose types differ or whose names are taken, and more than `u32::MAX` rows; `Io` where the folder for
/// temporary files cannot take the rows.
pub fn join(
    population: &mut dyn BatchSource,
    hops: Vec<Hop>,
    options: JoinOptions,
    call: &Call,
) -> Result<Joined> {
    let Some((first, others)) = hops.split_first().filter(|_| hops.len() <= MAX_HOPS) else {
        let text = format!("a chain has {} tables; name 1 to {MAX_HOPS}", hops.len());
        return Err(Error::new(ErrorKind::InvalidArgument, text));
    };
    let own = own_fields(&hops, options)?;
    let timings = call.timings();
    let mut counts = Vec::with_capacity(hops.len());
    let (mut rows, mut fates) = {
        let mut tee = Tee::new(population, Some(own.clone()), Arc::clone(&timings));
        // As in a match without positions, a column without any identifier is an error.
        let query = MatchQuery { positions: false, ..first.query() };
        let mut judged = JudgedPopulation::new(&mut tee, query);
        let matched = first.table.match_population(&mut judged, first.query(), call)?;
        let level = tee.finish()?;
        counts.push(HopCounts::of(matched.as_ref()));
        let matches = ChunkMatches::of(matched.as_ref(), &level, call)?;
        let fates = Fates::of_first(matched.as_ref())?;
        (HopRows { by: first.by, level, matches }, fates)
    };
    let carried = rows.level.fields.iter().skip(1).cloned();
    let schema = Arc::new(Schema::new(own.into_iter().chain(carried).collect::<Vec<_>>()));
    let mut population = None;
    // The other hops read the rows of the hop before.
    let call = &call.clone().with_source_stage(Stage::Carrying);
    for (number, hop) in (1u8..).zip(others) {
        let next = {
            let mut source =
                NextPopulation::new(&rows, usize::from(number), options.with_hops, call);
            let mut tee = Tee::new(&mut source, None, Arc::clone(&timings));
            let matched = hop.table.match_population(&mut tee, hop.query(), call)?;
            let level = tee.finish()?;
            counts.push(HopCounts::of(matched.as_ref()));
            let matches = ChunkMatches::of(matched.as_ref(), &level, call)?;
            fates.note_hop(number + 1, matched.as_ref(), &level, call)?;
            HopRows { by: hop.by, level, matches }
        };
        let before = std::mem::replace(&mut rows, next);
        population.get_or_insert(before.level);
    }
    Ok(Joined::new(hops, options, schema, counts, (rows, population), fates, timings))
}
