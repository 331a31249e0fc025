//! The case files as they are written; `spec/cases/README.md` explains every field.

use super::value::{Date, Text};
use idmatch_model::{Keep, Period, Pick, Side};
use serde::Deserialize;
use std::collections::BTreeMap;

/// One file: one theme.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseFile {
    /// The common subject of the cases, for the reader.
    #[serde(rename = "theme")]
    pub(super) _theme: String,
    pub(super) cases: Vec<Case>,
}

/// One table, its loads, and the answers that it must give after them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) keep: KeepModes,
    pub(super) retention: Option<Period>,
    #[serde(default)]
    pub(super) loads: Vec<Load>,
    /// Erasures, which may come before or after loads.
    #[serde(default)]
    pub(super) erasures: Vec<ErasureRow>,
    #[serde(default)]
    pub(super) questions: Vec<Question>,
    /// In place of loads, erasures and questions: steps in this order.
    #[serde(default)]
    pub(super) steps: Vec<Step>,
}

/// A step of a case. Tables are named within the case.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Step {
    Create {
        table: String,
        keep: Option<Keep>,
        retention: Option<Period>,
        error: Option<String>,
    },
    Load {
        table: String,
        rows: Load,
    },
    Upsert {
        table: String,
        rows: Load,
    },
    Erase {
        table: String,
        rows: Vec<ErasureRow>,
    },
    /// Replaces all rows, with other steps between begin and commit.
    Replace {
        table: String,
        rows: Load,
        #[serde(default)]
        meanwhile: Vec<Step>,
    },
    Rename {
        table: String,
        to: String,
        error: Option<String>,
    },
    Swap {
        table: String,
        with: String,
        error: Option<String>,
    },
    Drop {
        table: String,
        error: Option<String>,
    },
    Alter {
        table: String,
        retention: Option<Period>,
        error: Option<String>,
    },
    Ask {
        table: String,
        questions: Vec<Question>,
    },
    /// Matches a population with one table after another.
    Chain(ChainQuestion),
    /// There is no such table.
    Missing {
        table: String,
    },
}

/// The kinds of table for which a case holds.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum KeepModes {
    Last,
    All,
    Either,
}

impl KeepModes {
    pub(super) fn each(self) -> &'static [Keep] {
        match self {
            KeepModes::Last => &[Keep::Last],
            KeepModes::All => &[Keep::All],
            KeepModes::Either => &[Keep::Last, Keep::All],
        }
    }
}

/// One call of load. A plain list of rows has no bad row.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a load is a list of rows or {rows, strict, rejected, error}")]
pub(super) enum Load {
    Plain(Vec<Item<ObservationRow>>),
    Judged(JudgedLoad),
}

/// A load with bad rows in it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JudgedLoad {
    pub(super) rows: Vec<Item<ObservationRow>>,
    #[serde(default)]
    pub(super) strict: bool,
    /// Row number from 1, column, and a part of the reason.
    #[serde(default)]
    pub(super) rejected: Vec<(u64, String, String)>,
    pub(super) error: Option<String>,
}

/// id, partner_id, seen_at.
pub(super) type ObservationRow = (Option<Text>, Option<Text>, Option<Date>);
/// id, partner_id, and up to when; of the identifiers one may be null.
pub(super) type ErasureRow = (Option<Text>, Option<Text>, Date);
/// The answer and its date.
pub(super) type AnswerRow = (Text, Date);
/// The population's identifier, its answer, and the date.
pub(super) type MatchRow = (Text, Text, Date);
/// id, partner_id, seen_at, as a scan gives them.
pub(super) type ObservedRow = (Text, Text, Date);

/// A row, or many rows made from one pattern.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "an item is a row or {generate: {numbers, row}}")]
pub(super) enum Item<Row> {
    Many(Many<Row>),
    One(Row),
}

/// The wrapper that tells generated rows from plain ones.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Many<Row> {
    pub(super) generate: Generate<Row>,
}

/// One row for each number, first and last included, up or down.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Generate<Row> {
    pub(super) numbers: (u64, u64),
    #[serde(default = "one")]
    pub(super) step: u64,
    pub(super) row: Row,
}

fn one() -> u64 {
    1
}

/// A question and its answer.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(super) enum Question {
    PartnerIds(AnswersQuestion),
    Ids(AnswersQuestion),
    LastSeen(PairQuestion),
    History(PairQuestion),
    Match(MatchQuestion),
    Scan(ScanQuestion),
}

/// Asks for the answers of one key.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswersQuestion {
    pub(super) of: Text,
    pub(super) since: Option<Date>,
    pub(super) until: Option<Date>,
    pub(super) limit: Option<usize>,
    pub(super) answer: Option<Vec<Item<AnswerRow>>>,
    pub(super) error: Option<String>,
}

/// Asks about one pair.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PairQuestion {
    pub(super) id: Text,
    pub(super) partner_id: Text,
    pub(super) answer: Option<Vec<Item<Date>>>,
    pub(super) error: Option<String>,
}

/// Matches a population.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MatchQuestion {
    pub(super) population: Vec<Item<Option<Text>>>,
    pub(super) by: Side,
    pub(super) pick: Pick,
    pub(super) since: Option<Date>,
    pub(super) until: Option<Date>,
    pub(super) counts: Counts,
    /// The code of the error without positions. With them, the match must count `counts`.
    pub(super) error: Option<String>,
    pub(super) rows: Option<Vec<Item<MatchRow>>>,
    /// A load after the counting and before the reading of the rows. It changes neither.
    pub(super) then_load: Option<Load>,
}

/// Scans the table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScanQuestion {
    pub(super) since: Option<Date>,
    pub(super) until: Option<Date>,
    /// All rows, in any order.
    pub(super) answer: Vec<Item<ObservedRow>>,
}

/// Matches a population with one table after another, and has the expected result.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChainQuestion {
    pub(super) population: Vec<Item<Option<Text>>>,
    /// Columns that the population carries, by name: all text, or all numbers.
    #[serde(default)]
    pub(super) carry: BTreeMap<String, Vec<Option<Cell>>>,
    pub(super) hops: Vec<HopQuestion>,
    #[serde(default)]
    pub(super) how: How,
    #[serde(default)]
    pub(super) with_hops: bool,
    pub(super) counts: ChainCounts,
    /// The columns of the result.
    pub(super) columns: Vec<String>,
    /// The rows of the result, in any order.
    pub(super) rows: Vec<Vec<Option<Cell>>>,
    /// Identifier, reason and carried columns of the population rows without a match, in order.
    #[serde(default)]
    pub(super) unmatched: Vec<Vec<Option<Cell>>>,
}

/// A table of a chain, and the question to it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HopQuestion {
    pub(super) table: String,
    pub(super) by: Side,
    #[serde(default)]
    pub(super) pick: Pick,
    pub(super) since: Option<Date>,
    pub(super) until: Option<Date>,
}

/// Whether population rows without a match are rows of the result.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum How {
    #[default]
    Inner,
    Left,
}

/// A value of a row. In a column of dates, text is a date.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "a value is a number, text or another identifier")]
pub(super) enum Cell {
    Number(i64),
    Text(Text),
}

/// The counts that a chain must have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChainCounts {
    pub(super) population: u64,
    pub(super) matched: u64,
    pub(super) rows: u64,
    pub(super) written: u64,
    /// Rows in, matched and rows of each table.
    pub(super) hops: Vec<(u64, u64, u64)>,
}

/// The counts that a match must have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Counts {
    pub(super) population: u64,
    pub(super) matched: u64,
    pub(super) rows: u64,
}
