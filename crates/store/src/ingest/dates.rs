//! Date columns: timestamps of every unit and zone, dates, whole numbers, and text, by the rules of a source.

use super::ids::{bytes_of, cast};
use super::rejects::BadRows;
use crate::{Error, ErrorKind, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::{DataType, TimeUnit};
use idmatch_model::{DateRules, NoDate, SeenAt};

const COLUMN: &str = "seen_at";

/// Reads a date column; a row without a good date is noted in `wrong` and gets 1970. Timestamps without a
/// zone are local times; timestamps with a zone are instants already.
pub(super) fn seen_at(
    array: &ArrayRef,
    (now, rules): (SeenAt, &DateRules),
    wrong: &mut BadRows,
) -> Result<Vec<SeenAt>> {
    use DataType::*;
    if let Dictionary(_, values) = array.data_type() {
        return seen_at(&cast(array, values, COLUMN)?, (now, rules), wrong);
    }
    if array.data_type().is_integer() {
        let numbers = cast(array, &Int64, COLUMN)?;
        let mut judge = Judge { now, rules, wrong, is_local: false };
        return Ok(judge.integers(array, numbers.as_primitive::<Int64Type>()));
    }
    let is_local = !matches!(array.data_type(), Timestamp(_, Some(_)));
    let mut judge = Judge { now, rules, wrong, is_local: is_local && rules.has_zone() };
    Ok(match array.data_type() {
        Timestamp(TimeUnit::Second, _) => {
            judge.numbers(array.as_primitive::<TimestampSecondType>(), |s| s.saturating_mul(1_000))
        }
        Timestamp(TimeUnit::Millisecond, _) => {
            judge.numbers(array.as_primitive::<TimestampMillisecondType>(), |ms| ms)
        }
        Timestamp(TimeUnit::Microsecond, _) => judge
            .numbers(array.as_primitive::<TimestampMicrosecondType>(), |us| us.div_euclid(1_000)),
        Timestamp(TimeUnit::Nanosecond, _) => judge
            .numbers(array.as_primitive::<TimestampNanosecondType>(), |ns| {
                ns.div_euclid(1_000_000)
            }),
        Date32 => {
            judge.numbers(array.as_primitive::<Date32Type>(), |days| i64::from(days) * 86_400_000)
        }
        Date64 => judge.numbers(array.as_primitive::<Date64Type>(), |ms| ms),
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | Null => {
            let field = arrow_schema::Field::new(COLUMN, array.data_type().clone(), true);
            judge.texts(&bytes_of((&field, array), COLUMN)?)
        }
        other => {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "column {COLUMN:?} has type {other}, which is no date; \
                     use a timestamp, a date, a whole number or text"
                ),
            ));
        }
    })
}

struct Judge<'a> {
    now: SeenAt,
    rules: &'a DateRules,
    wrong: &'a mut BadRows,
    is_local: bool,
}

impl Judge<'_> {
    fn numbers<T: arrow_array::ArrowPrimitiveType>(
        &mut self,
        array: &PrimitiveArray<T>,
        to_millis: impl Fn(T::Native) -> i64,
    ) -> Vec<SeenAt> {
        let dates = array.iter().enumerate();
        dates
            .map(|(row, value)| {
                let Some(value) = value else { return self.missing(row) };
                let millis = to_millis(value);
                if self.is_local {
                    return self.checked(row, self.rules.local_millis(millis));
                }
                let instant = SeenAt::from_millis(millis);
                self.checked(row, instant.map_err(|e| e.reason().to_owned()))
            })
            .collect()
    }

    /// Whole numbers; `numbers` lacks numbers that do not fit in 64 bits.
    fn integers(&mut self, array: &ArrayRef, numbers: &PrimitiveArray<Int64Type>) -> Vec<SeenAt> {
        let dates = numbers.iter().enumerate();
        dates
            .map(|(row, value)| match value {
                Some(number) => self.checked(row, self.rules.number(number, self.now)),
                None if array.is_null(row) => self.missing(row),
                None => self.checked(row, Err("is no date: it has more than 64 bits".to_owned())),
            })
            .collect()
    }

    fn texts(&mut self, array: &arrow_array::BinaryViewArray) -> Vec<SeenAt> {
        let texts = array.into_iter().enumerate();
        texts
            .map(|(row, text)| match text {
                None | Some(b"") => self.missing(row),
                Some(bytes) => {
                    let text = String::from_utf8_lossy(bytes);
                    self.checked(row, self.rules.text(&text, self.now))
                }
            })
            .collect()
    }

    fn missing(&mut self, row: usize) -> SeenAt {
        self.wrong.add(row, COLUMN, "is missing");
        SeenAt::EPOCH
    }

    fn checked(&mut self, row: usize, seen_at: Result<SeenAt, NoDate>) -> SeenAt {
        let observed =
            seen_at.and_then(|at| at.check_observed(self.now).map_err(|e| e.reason().to_owned()));
        observed.unwrap_or_else(|reason| {
            self.wrong.add(row, COLUMN, reason);
            SeenAt::EPOCH
        })
    }
}
