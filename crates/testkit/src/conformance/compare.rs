//! Compares expected with actual results.

use idmatch_model::SeenAt;
use idmatch_store::{Error, Result};
use std::collections::HashMap;
use std::fmt;

/// A place where a backend does not answer as a case says.
#[derive(Debug)]
pub(super) struct Mismatch {
    pub(super) file: String,
    pub(super) case: String,
    /// The way in which the case ran, and the load or question.
    pub(super) step: String,
    pub(super) difference: Difference,
}

/// Two things that should have been equal, as text.
#[derive(Debug)]
pub(super) struct Difference {
    pub(super) expected: String,
    pub(super) got: String,
}

/// One row of any answer: identifiers, then a date.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ResultRow {
    pub(super) ids: Vec<String>,
    pub(super) seen_at: SeenAt,
}

/// The expected outcome of a question: rows, or an error with this code.
pub(super) type Expected = Result<Vec<ResultRow>, String>;

/// Compares an answer with the one that was expected, order included.
pub(super) fn compare_answer(
    expected: &Expected,
    got: &Result<Vec<ResultRow>>,
) -> Option<Difference> {
    match (expected, got) {
        (Ok(expected), Ok(got)) => compare_rows(expected, got),
        (Err(code), Err(error)) if code == error.kind().code() => None,
        _ => Some(Difference {
            expected: match expected {
                Ok(rows) => shown(rows, 0),
                Err(code) => format!("error {code}"),
            },
            got: match got {
                Ok(rows) => shown(rows, 0),
                Err(error) => shown_error(error),
            },
        }),
    }
}

/// Compares rows in order.
pub(super) fn compare_rows(expected: &[ResultRow], got: &[ResultRow]) -> Option<Difference> {
    if expected == got {
        return None;
    }
    let same = expected.iter().zip(got).take_while(|(expected, got)| expected == got).count();
    Some(Difference { expected: shown(expected, same), got: shown(got, same) })
}

/// Compares the rows of a match. They may come in any order, but the rows of each population row must be in
/// the order of the case.
pub(super) fn compare_match(expected: &[ResultRow], got: &[ResultRow]) -> Option<Difference> {
    if expected == got {
        return None;
    }
    let sorted = |rows: &[ResultRow]| {
        let mut rows = rows.to_vec();
        rows.sort_unstable();
        rows
    };
    compare_rows(&sorted(expected), &sorted(got)).or_else(|| compare_order(expected, got))
}

/// Checks the order of the rows of each key. A key that is in the population n times has its rows n times,
/// and these n lists may mix. But no row may have come more often than the row before it.
fn compare_order(expected: &[ResultRow], got: &[ResultRow]) -> Option<Difference> {
    let mut predecessors: HashMap<&ResultRow, Option<&ResultRow>> = HashMap::new();
    let mut last_of_key: HashMap<Option<&String>, &ResultRow> = HashMap::new();
    for row in expected {
        let key = row.ids.first();
        predecessors.entry(row).or_insert_with(|| last_of_key.insert(key, row));
    }
    let mut times: HashMap<&ResultRow, usize> = HashMap::new();
    for row in got {
        let times_before = predecessors
            .get(row)
            .copied()
            .flatten()
            .map(|before| times.get(before).copied().unwrap_or_default());
        let times_now = times.entry(row).or_default();
        *times_now += 1;
        if times_before.is_some_and(|before| before < *times_now) {
            return Some(Difference {
                expected: format!("the rows of one key newest first: {}", shown(expected, 0)),
                got: format!("{row} too early in {}", shown(got, 0)),
            });
        }
    }
    None
}

/// An error as a mismatch shows it.
pub(super) fn shown_error(error: &Error) -> String {
    format!("error {}: {}", error.kind().code(), error.chain())
}

/// All rows if they are few; else some of them, from the row with the number `first` on.
fn shown(rows: &[ResultRow], first: usize) -> String {
    const FEW: usize = 12;
    let first = if rows.len() <= FEW { 0 } else { first };
    let some: Vec<String> = rows.iter().skip(first).take(FEW).map(ResultRow::to_string).collect();
    let cut = match first {
        0 if rows.len() <= FEW => String::new(),
        _ => format!("{} rows, from the {}th: ", rows.len(), first + 1),
    };
    format!("{cut}[{}]", some.join(", "))
}

impl fmt::Display for ResultRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        self.ids.iter().try_for_each(|id| write!(f, "{id:?}, "))?;
        write!(f, "{}]", self.seen_at)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { file, case, step, difference: Difference { expected, got } } = self;
        write!(f, "{file}: {case}: {step}\n  expected {expected}\n  got      {got}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<ResultRow> {
        let row = |pair: &str| ResultRow {
            ids: pair.chars().map(String::from).collect(),
            seen_at: SeenAt::EPOCH,
        };
        text.split_whitespace().map(row).collect()
    }

    #[test]
    fn rows_of_a_match_may_mix_but_each_key_keeps_its_order() {
        let expected = rows("k1 k2 k3 k1 k2 k3 x1");
        for same in ["k1 k2 k3 k1 k2 k3 x1", "x1 k1 k1 k2 k2 k3 k3", "k1 k2 k1 x1 k3 k2 k3"] {
            assert!(compare_match(&expected, &rows(same)).is_none(), "{same}");
        }
        for other in ["k1 k2 k2 k1 k3 k3 x1", "k2 k1 k3 k1 k2 k3 x1", "k1 k2 k3 k1 k2 k3", ""] {
            assert!(compare_match(&expected, &rows(other)).is_some(), "{other}");
        }
    }

    #[test]
    fn the_first_difference_of_long_answers_is_shown() {
        let long = "a b c d e f g h i j k l m n";
        let difference = compare_rows(&rows(long), &rows(&long.replace('n', "o")));
        let got = difference.map(|difference| difference.got);
        assert_eq!(
            got.as_deref(),
            Some(r#"14 rows, from the 14th: [["o", 1970-01-01T00:00:00.000Z]]"#)
        );
    }
}
