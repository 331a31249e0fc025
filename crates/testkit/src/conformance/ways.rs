//! The ways in which a case runs, and the choice of a short form.

use super::format::{Case, Load};
use super::input::Batching;
use idmatch_model::Keep;
use std::fmt;
use std::str::FromStr;

/// The ways in which cases run: all five, or as written and one other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ways(Option<Way>);

impl Ways {
    /// All five.
    pub const ALL: Ways = Ways(None);

    /// The ways that `IDMATCH_TEST_WAYS` names; without it, all.
    ///
    /// # Panics
    /// Where it names none.
    pub fn of_environment() -> Ways {
        let parsed =
            |text: String| text.parse().unwrap_or_else(|why| panic!("IDMATCH_TEST_WAYS: {why}"));
        std::env::var("IDMATCH_TEST_WAYS").map_or(Ways::ALL, parsed)
    }

    /// The modes in which a case runs as written, and those in which it runs in the other ways. In the short form
    /// a case for both modes has one of them each.
    pub(super) fn keeps(self, case: &Case) -> [&'static [Keep]; 2] {
        let keeps = case.keep.each();
        let ([last, all], Some(way)) = (keeps, self.0) else { return [keeps, keeps] };
        let [last, all] = [last, all].map(std::slice::from_ref);
        match way {
            Way::Reversed | Way::Upserted => [last, all],
            _ => [all, last],
        }
    }

    /// The ways besides as written. Cases of many rows have none.
    pub(super) fn others(&self, case: &Case) -> &[Way] {
        match &self.0 {
            _ if case.is_large() => &[],
            Some(way) => std::slice::from_ref(way),
            None => &OTHERS,
        }
    }
}

impl FromStr for Ways {
    type Err = String;

    /// `all`, or the name of one other way: `reversed`, `repeated`, `upserted` or `mixed`.
    fn from_str(text: &str) -> Result<Ways, String> {
        if text == "all" {
            return Ok(Ways::ALL);
        }
        let way = OTHERS.into_iter().find(|way| way.name() == text);
        way.map(|way| Ways(Some(way))).ok_or_else(|| {
            let names = OTHERS.map(Way::name).join(", ");
            format!("{text:?} is no way to run a case; use all, {names}")
        })
    }
}

impl fmt::Display for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("all ways"),
            Some(way) => write!(f, "as written, {}", way.name()),
        }
    }
}

const OTHERS: [Way; 4] = [Way::Reversed, Way::Repeated, Way::Upserted, Way::Mixed];

/// A way to run a case. No way may change an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The loads as they are written, and the questions at once.
    AsWritten,
    /// The loads reversed, and the rows of each; then the store is opened anew.
    Reversed,
    /// The loads as they are written, then all of them again, each by a session that another handle stages twice;
    /// then the store is opened anew.
    Repeated,
    /// The loads as upserts; then the store is opened anew.
    Upserted,
    /// Every other load as an upsert, and the questions at once.
    Mixed,
}

impl Way {
    /// The loads in the order of this way.
    pub(super) fn loads(self, loads: &[Load]) -> Vec<&Load> {
        match self {
            Way::AsWritten | Way::Upserted | Way::Mixed => loads.iter().collect(),
            Way::Reversed => loads.iter().rev().collect(),
            Way::Repeated => loads.iter().chain(loads).collect(),
        }
    }

    /// Whether the load with this number is done as an upsert.
    pub(super) fn upserts(self, load: usize) -> bool {
        self == Way::Upserted || (self == Way::Mixed && load % 2 == 1)
    }

    /// After how many loads the erasures come; for some ways they come twice.
    pub(super) fn erases_after(self, loads: usize) -> Vec<usize> {
        match self {
            Way::AsWritten => vec![loads],
            Way::Reversed => vec![0],
            Way::Repeated => vec![loads, loads / 2],
            Way::Upserted => vec![loads / 2],
            Way::Mixed => vec![1, loads],
        }
    }

    /// How rows are divided into batches.
    pub(super) fn batching(self) -> Batching {
        match self {
            Way::AsWritten | Way::Mixed => Batching { batch_rows: 65_536, ends_empty: false },
            Way::Reversed => Batching { batch_rows: 1, ends_empty: false },
            Way::Repeated | Way::Upserted => Batching { batch_rows: 2, ends_empty: true },
        }
    }

    fn name(self) -> &'static str {
        match self {
            Way::AsWritten => "as written",
            Way::Reversed => "reversed",
            Way::Repeated => "repeated",
            Way::Upserted => "upserted",
            Way::Mixed => "mixed",
        }
    }
}
