//! Positional matches. They must give the rows of the same match without positions, with row numbers instead
//! of identifiers. Each other row must have the reason that follows from the population.

use super::compare::{Difference, ResultRow, compare_rows, shown_error};
use super::sent::{self, SentRow};
use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use idmatch_model::SeenAt;
use idmatch_store::{Error, ErrorKind, Match, MatchQuery, Result, UnmatchedReason};
use std::collections::{HashMap, HashSet};

/// Compares a positional match with the rows `plain` of the same match without positions.
pub(super) fn compare(
    matched: &dyn Match,
    query: &MatchQuery,
    population: &[Option<Vec<u8>>],
    plain: &[ResultRow],
) -> Result<Vec<Difference>> {
    let answers = answers_by_key(plain);
    let (mut hits, mut unmatched) = (Vec::new(), Vec::new());
    for (number, cell) in (0..).zip(population) {
        let key = identifier(cell.as_deref());
        match key.map(|key| answers.get(key)) {
            Ok(Some(answers)) => {
                for (answer, date) in answers {
                    hits.push((number, (*answer).clone(), *date));
                }
            }
            Ok(None) => unmatched.push((number, UnmatchedReason::NotFound)),
            Err(reason) => unmatched.push((number, reason)),
        }
    }
    let mut got: Vec<SentRow<u32>> =
        sent::read(&query.schema(), numbers, |sink| matched.write(sink))?;
    // Stable: the rows of one population row keep their order.
    got.sort_by_key(|(number, _, _)| *number);
    let mut differences = Vec::new();
    if hits != got {
        differences.extend(compare_rows(&shown(hits), &shown(got)));
    }
    // Twice, because they can be read any number of times.
    for _ in 0..2 {
        differences.extend(compare_unmatched(&unmatched, &read_unmatched(matched)?));
    }
    if !unmatched.is_empty() {
        differences.extend(check_refusal(matched));
    }
    Ok(differences)
}

/// A match without positions has no unmatched rows to tell.
pub(super) fn check_plain(matched: &dyn Match) -> Option<Difference> {
    let got = match read_unmatched(matched) {
        Err(error) if error.kind() == ErrorKind::InvalidArgument => return None,
        Err(error) => shown_error(&error),
        Ok(rows) => format!("{} unmatched rows", rows.len()),
    };
    Some(Difference { expected: "error invalid-argument".to_owned(), got })
}

/// Hits as a difference shows them.
fn shown(hits: Vec<SentRow<u32>>) -> Vec<ResultRow> {
    let row = |(number, answer, seen_at): SentRow<u32>| ResultRow {
        ids: vec![number.to_string(), answer],
        seen_at,
    };
    hits.into_iter().map(row).collect()
}

/// The answers of each key, each once, in the order of their first occurrence. The rows of a key that is in
/// the population several times may mix, but none comes before its predecessor.
fn answers_by_key(plain: &[ResultRow]) -> HashMap<&str, Vec<(&String, SeenAt)>> {
    let (mut seen, mut answers) = (HashSet::new(), HashMap::<&str, Vec<_>>::new());
    for row in plain {
        if let [key, answer] = row.ids.as_slice()
            && seen.insert(row)
        {
            answers.entry(key).or_default().push((answer, row.seen_at));
        }
    }
    answers
}

/// The identifier that a cell holds, by the rules of docs/reference/data.md.
fn identifier(cell: Option<&[u8]>) -> Result<&str, UnmatchedReason> {
    let bytes = cell.ok_or(UnmatchedReason::Null)?;
    match std::str::from_utf8(bytes) {
        Ok(text) if (1..=1024).contains(&text.len()) => Ok(text),
        _ => Err(UnmatchedReason::Malformed),
    }
}

fn numbers(keys: &ArrayRef) -> Vec<Option<u32>> {
    keys.as_primitive::<UInt32Type>().iter().collect()
}

fn read_unmatched(matched: &dyn Match) -> Result<Vec<(u32, UnmatchedReason)>> {
    let mut rows = Vec::new();
    matched.unmatched(&mut |row, reason| {
        rows.push((row, reason));
        Ok(())
    })?;
    Ok(rows)
}

fn compare_unmatched(
    expected: &[(u32, UnmatchedReason)],
    got: &[(u32, UnmatchedReason)],
) -> Option<Difference> {
    if expected == got {
        return None;
    }
    let same = expected.iter().zip(got).take_while(|(expected, got)| expected == got).count();
    let text = |rows: &[(u32, UnmatchedReason)]| {
        format!("{} unmatched rows, the {}th is {:?}", rows.len(), same + 1, rows.get(same))
    };
    Some(Difference { expected: text(expected), got: text(got) })
}

/// Checks that an error of the receiver ends the reading, which returns this error.
fn check_refusal(matched: &dyn Match) -> Option<Difference> {
    let mut calls = 0;
    let outcome = matched.unmatched(&mut |_, _| {
        calls += 1;
        Err(Error::new(ErrorKind::Busy, "the receiver takes nothing"))
    });
    match (outcome, calls) {
        (Err(error), 1) if error.kind() == ErrorKind::Busy => None,
        (outcome, calls) => Some(Difference {
            expected: "the error of the receiver".to_owned(),
            got: format!("{outcome:?} after {calls} calls"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{RecordBatch, StringArray, TimestampMillisecondArray, UInt32Array};
    use idmatch_model::{Pick, Side, Window};
    use idmatch_store::UnmatchedReason::{Malformed, NotFound, Null};
    use idmatch_store::{MatchCounts, MatchSink, PlanStep};
    use std::sync::Arc;

    const QUERY: MatchQuery =
        MatchQuery { by: Side::Id, pick: Pick::All, window: Window::ALL, positions: true };

    /// A match that tells these rows, which may be wrong.
    #[derive(Clone)]
    struct FakeMatch {
        hits: Vec<(u32, &'static str)>,
        unmatched: Vec<(u32, UnmatchedReason)>,
    }

    impl Match for FakeMatch {
        fn counts(&self) -> MatchCounts {
            MatchCounts::default()
        }

        fn plan(&self) -> Vec<PlanStep> {
            Vec::new()
        }

        fn write(&self, sink: &dyn MatchSink) -> Result<()> {
            let dates = TimestampMillisecondArray::from(vec![0; self.hits.len()]);
            let rows = UInt32Array::from_iter_values(self.hits.iter().map(|(row, _)| *row));
            let answers = StringArray::from_iter_values(self.hits.iter().map(|(_, text)| text));
            let columns: Vec<ArrayRef> =
                vec![Arc::new(rows), Arc::new(answers), Arc::new(dates.with_timezone("UTC"))];
            let batch = RecordBatch::try_new(QUERY.schema(), columns)
                .map_err(|e| Error::with_source(ErrorKind::Source, "no batch", e))?;
            let mut lane = sink.lane()?;
            lane.push(batch)?;
            lane.finish()
        }

        fn unmatched(
            &self,
            take: &mut dyn FnMut(u32, UnmatchedReason) -> Result<()>,
        ) -> Result<()> {
            self.unmatched.iter().try_for_each(|(row, reason)| take(*row, *reason))
        }
    }

    #[test]
    fn what_a_positional_match_tells_is_checked_row_by_row() {
        let row = |key: &str, answer: &str| ResultRow {
            ids: vec![key.to_owned(), answer.to_owned()],
            seen_at: SeenAt::EPOCH,
        };
        // "a" is in the population twice, so its rows come twice and may mix.
        let plain = [row("a", "1"), row("a", "1"), row("b", "3"), row("a", "2"), row("a", "2")];
        let population: Vec<Option<Vec<u8>>> =
            [Some("b"), None, Some("a"), Some(""), Some("c"), Some("a")]
                .map(|cell| cell.map(|text| text.as_bytes().to_vec()))
                .to_vec();
        let differs = |told: &FakeMatch| {
            compare(told, &QUERY, &population, &plain).map(|differences| !differences.is_empty())
        };
        let right = FakeMatch {
            hits: vec![(2, "1"), (5, "1"), (0, "3"), (5, "2"), (2, "2")],
            unmatched: vec![(1, Null), (3, Malformed), (4, NotFound)],
        };
        assert_eq!(differs(&right).ok(), Some(false));
        for hits in [
            // Another row, a row twice, a missing one, another answer, the older one first.
            vec![(2, "1"), (5, "1"), (4, "3"), (5, "2"), (2, "2")],
            vec![(2, "1"), (5, "1"), (0, "3"), (5, "2"), (2, "2"), (0, "3")],
            vec![(2, "1"), (5, "1"), (0, "3"), (5, "2")],
            vec![(2, "1"), (5, "1"), (0, "4"), (5, "2"), (2, "2")],
            vec![(2, "2"), (5, "1"), (0, "3"), (5, "2"), (2, "1")],
        ] {
            assert_eq!(differs(&FakeMatch { hits, ..right.clone() }).ok(), Some(true));
        }
        for unmatched in [
            vec![(1, Null), (3, Malformed)],
            vec![(1, Null), (3, NotFound), (4, NotFound)],
            vec![(1, Malformed), (3, Malformed), (4, NotFound)],
            vec![(3, Malformed), (1, Null), (4, NotFound)],
            vec![(0, NotFound), (1, Null), (3, Malformed), (4, NotFound)],
        ] {
            assert_eq!(differs(&FakeMatch { unmatched, ..right.clone() }).ok(), Some(true));
        }
    }
}
