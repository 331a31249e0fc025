//! The definition of a table: its options, and the traces of a change of its retention.
//!
//! Must not know how it is stored.

use idmatch_model::{Keep, Period, SeenAt, TableName, TableOptions};

/// A day in milliseconds: rows that a shorter retention hides stay for this long.
const DAY_MS: i64 = 86_400_000;

/// A table's options and state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Definition {
    pub(crate) name: TableName,
    pub(crate) keep: Keep,
    pub(crate) buckets: i32,
    pub(crate) retention: Option<Period>,
    /// A longer retention that was in force within the last day.
    pub(crate) kept: Option<FormerRetention>,
    /// Rows before this date are hidden until all rows are rewritten: some may be left in one direction only.
    pub(crate) hidden_before: Option<SeenAt>,
    /// The number of retention changes. It is part of the rows' timestamps, so a row that is
    /// written again takes the newer TTL.
    pub(crate) generation: i32,
    /// The generation to which all rows have been rewritten.
    pub(crate) rewritten: i32,
    pub(crate) is_dropped: bool,
}

/// A retention whose rows stay on disk, although a shorter one hides them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FormerRetention {
    pub(crate) retention: Option<Period>,
    pub(crate) until: SeenAt,
}

impl Definition {
    pub(crate) fn new(name: &TableName, options: &TableOptions, buckets: i32) -> Definition {
        Definition {
            name: name.clone(),
            keep: options.keep,
            buckets,
            retention: options.retention.clone(),
            kept: None,
            hidden_before: None,
            generation: 0,
            rewritten: 0,
            is_dropped: false,
        }
    }

    pub(crate) fn options(&self) -> TableOptions {
        TableOptions { keep: self.keep, retention: self.retention.clone() }
    }

    /// Whether rows are not rewritten yet.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.rewritten < self.generation
    }

    /// The longest retention of the last day.
    fn longest(&self, now: SeenAt) -> &Option<Period> {
        match &self.kept {
            Some(kept)
                if now < kept.until
                    && oldest(&kept.retention, now) < oldest(&self.retention, now) =>
            {
                &kept.retention
            }
            _ => &self.retention,
        }
    }

    /// The oldest date whose rows stay on disk.
    pub(crate) fn kept_from(&self, now: SeenAt) -> SeenAt {
        oldest(self.longest(now), now)
    }

    /// The definition with another retention, and whether all rows must be rewritten. They must where the new
    /// retention shows dates whose rows may have expired or been purged.
    pub(crate) fn altered(&self, retention: Option<Period>, now: SeenAt) -> (Definition, bool) {
        let (longest, kept_from) = (self.longest(now).clone(), self.kept_from(now));
        let is_longer = oldest(&retention, now) < kept_from;
        let stays = !is_longer && longest != retention;
        let until = SeenAt::from_millis(now.millis_i64() + DAY_MS).unwrap_or(now);
        let hidden_before = match is_longer {
            true => self.hidden_before.max(Some(kept_from)),
            false => self.hidden_before,
        };
        let kept = stays.then_some(FormerRetention { retention: longest, until });
        let generation = self.generation + 1;
        (Definition { retention, kept, hidden_before, generation, ..self.clone() }, is_longer)
    }
}

/// The oldest date that a retention shows.
fn oldest(retention: &Option<Period>, now: SeenAt) -> SeenAt {
    retention.as_ref().map_or(SeenAt::EPOCH, |period| period.before(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(days: i64) -> SeenAt {
        SeenAt::from_millis((20_000 + days) * DAY_MS).unwrap()
    }

    fn days(count: i64) -> Option<Period> {
        Some(Period::parse(&format!("{count}d")).unwrap())
    }

    fn table(retention: Option<Period>) -> Definition {
        let options = TableOptions { keep: Keep::Last, retention };
        Definition::new(&"t".parse().unwrap(), &options, 16)
    }

    #[test]
    fn what_a_shorter_retention_hides_stays_for_a_day() {
        let (shorter, rewrites) = table(days(90)).altered(days(30), at(0));
        assert!(!rewrites);
        assert_eq!([0, 1].map(|day| shorter.kept_from(at(day))), [at(-90), at(1 - 30)]);
        // Within a day, setting the retention back changes only the filter; a day later rows may be gone.
        let just = SeenAt::from_millis(at(1).millis_i64() - 1).unwrap();
        let (back, rewrites) = shorter.altered(days(90), just);
        assert_eq!((rewrites, back.kept.clone(), back.hidden_before), (false, None, None));
        let (late, rewrites) = shorter.altered(days(90), at(1));
        assert_eq!((rewrites, late.hidden_before), (true, Some(at(1 - 30))));
        // The longest of several retentions stays.
        let (again, rewrites) = shorter.altered(days(10), just);
        assert!(!rewrites);
        assert_eq!(again.kept_from(just), back.kept_from(just));
    }

    #[test]
    fn a_longer_retention_hides_what_the_former_one_let_go() {
        let (longer, rewrites) = table(days(90)).altered(None, at(0));
        assert_eq!((rewrites, longer.hidden_before), (true, Some(at(-90))));
        assert_eq!((longer.kept_from(at(0)), longer.generation), (SeenAt::EPOCH, 1));
        let (shorter, rewrites) = table(None).altered(days(90), at(0));
        assert_eq!((rewrites, shorter.hidden_before), (false, None));
        assert_eq!([0, 1].map(|d| shorter.kept_from(at(d))), [SeenAt::EPOCH, at(1 - 90)]);
    }
}
