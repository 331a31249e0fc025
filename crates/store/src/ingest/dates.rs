//! Date columns: timestamps of every unit and zone, dates, ISO 8601 text.

use super::ids::{bytes_of, cast};
use super::rejects::BadRows;
use crate::{Error, ErrorKind, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::{DataType, TimeUnit};
use idmatch_model::{SeenAt, SeenAtError};

const COLUMN: &str = "seen_at";

/// Reads a date column; a row without a good date is noted in `wrong` and gets 1970.
/// Timestamps without a zone are UTC; those with one are instants already.
pub(super) fn seen_at(array: &ArrayRef, now: SeenAt, wrong: &mut BadRows) -> Result<Vec<SeenAt>> {
    use DataType::*;
    if let Dictionary(_, values) = array.data_type() {
        return seen_at(&cast(array, values, COLUMN)?, now, wrong);
    }
    let mut judge = Judge { now, wrong };
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
                     use a timestamp, a date or ISO 8601 text"
                ),
            ));
        }
    })
}

struct Judge<'a> {
    now: SeenAt,
    wrong: &'a mut BadRows,
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
                self.checked(row, SeenAt::from_millis(to_millis(value)))
            })
            .collect()
    }

    fn texts(&mut self, array: &arrow_array::BinaryViewArray) -> Vec<SeenAt> {
        let texts = array.into_iter().enumerate();
        texts
            .map(|(row, text)| match text {
                None | Some(b"") => self.missing(row),
                Some(bytes) => self.checked(row, SeenAt::parse(&String::from_utf8_lossy(bytes))),
            })
            .collect()
    }

    fn missing(&mut self, row: usize) -> SeenAt {
        self.wrong.add(row, COLUMN, "is missing");
        SeenAt::EPOCH
    }

    fn checked(&mut self, row: usize, seen_at: Result<SeenAt, SeenAtError>) -> SeenAt {
        seen_at.and_then(|t| t.check_observed(self.now)).unwrap_or_else(|e| {
            let fault = match e {
                SeenAtError::NotADate(_) => "is no date",
                _ => "is out of range",
            };
            self.wrong.add(row, COLUMN, format_args!("{fault}: {e}"));
            SeenAt::EPOCH
        })
    }
}
