//! The name of a table, and its rules for keeping observations.

use crate::{Period, PeriodError};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// The longest table name, in bytes: the limit of CQL.
pub const MAX_TABLE_NAME_BYTES: usize = 48;

/// The name of a table: 1 to 48 of `a-z A-Z 0-9 _ - .`, starting with a letter or digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TableName(String);

/// Why a text is not a table name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a table name; use 1 to {MAX_TABLE_NAME_BYTES} of a-z A-Z 0-9 _ - . starting with a letter or digit"
)]
pub struct NameError(String);

impl TableName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TableName {
    type Err = NameError;
    fn from_str(text: &str) -> Result<TableName, NameError> {
        let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        let all_allowed = text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
        if starts_well && all_allowed && text.len() <= MAX_TABLE_NAME_BYTES {
            Ok(TableName(text.to_owned()))
        } else {
            Err(NameError(text.to_owned()))
        }
    }
}

impl TryFrom<String> for TableName {
    type Error = NameError;
    fn try_from(text: String) -> Result<TableName, NameError> {
        text.parse()
    }
}

impl From<TableName> for String {
    fn from(name: TableName) -> String {
        name.0
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The identity of a table: 128 random bits, which no other table of any store has. It stays when the table
/// gets another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u128);

impl fmt::Display for TableId {
    /// 32 lowercase hex digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Which observations of a pair a table keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// The newest observation of each pair.
    #[default]
    Last,
    /// Each distinct observation.
    All,
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Keep::Last => "last",
            Keep::All => "all",
        })
    }
}

/// The matches of a population row that are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pick {
    /// Every match, as SQL's JOIN gives them.
    #[default]
    All,
    /// The newest one.
    Latest,
    /// This number of the newest.
    Newest(NonZeroU32),
}

impl Pick {
    /// The most matches of a row.
    pub fn most(self) -> usize {
        match self {
            Pick::All => usize::MAX,
            Pick::Latest => 1,
            Pick::Newest(most) => most.get() as usize,
        }
    }
}

/// One of the two sides of a pair. As a key it names the direction of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The company's own identifier.
    Id,
    /// The partner's identifier.
    PartnerId,
}

impl Side {
    /// Both sides, the own one first.
    pub const BOTH: [Side; 2] = [Side::Id, Side::PartnerId];

    /// The other side of the pair, which is the side of the answers to a question by this one.
    pub fn other(self) -> Side {
        match self {
            Side::Id => Side::PartnerId,
            Side::PartnerId => Side::Id,
        }
    }

    /// The name of its column.
    pub fn column(self) -> &'static str {
        match self {
            Side::Id => "id",
            Side::PartnerId => "partner_id",
        }
    }
}

/// The options of a table, which are chosen when it is made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TableOptions {
    /// Which observations are kept.
    pub keep: Keep,
    /// How long an observation is shown, at least a day; `None` is for ever.
    pub retention: Option<Period>,
}

impl TableOptions {
    /// Refuses options that no table can have.
    pub fn check(&self) -> Result<(), PeriodError> {
        self.retention.as_ref().map_or(Ok(()), Period::check_retention)
    }
}

/// Such as `keep last and retention 13mo`.
impl fmt::Display for TableOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let retention = self.retention.as_ref().map_or("none".to_owned(), ToString::to_string);
        write!(f, "keep {} and retention {retention}", self.keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_as_file_and_cql_names() {
        for good in ["a", "appnexus", "Partner_2", "9lives", "a.b-c"] {
            assert!(good.parse::<TableName>().is_ok(), "{good:?} was refused");
        }
        for bad in ["", "_x", "-x", ".x", "a/b", "a b", "é", &"x".repeat(49)] {
            assert!(bad.parse::<TableName>().is_err(), "{bad:?} was taken");
        }
    }
}
