//! Folders of files: a folder for each value of a column, as Hive names them, and files with a limited number
//! of rows.
//!
//! Rows are divided into spilled batches first, so any number of values and rows takes bounded memory. Then one
//! file after the other is written.

use super::failed::{encoding_failed, file_failed};
use super::write::{Format, write};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, UInt32Array};
use arrow_cast::cast;
use arrow_schema::{DataType, SchemaRef};
use arrow_select::take::take_record_batch;
use idmatch_store::locks::Mutex;
use idmatch_store::{
    Call, Error, ErrorKind, MatchLane, MatchSink, Result, SpilledBatch, SpilledBatches,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, create_dir};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Bytes of divided rows that stay in memory.
const MEMORY_BYTES: usize = 64 << 20;
/// A lane divides this many rows or bytes at once.
const DIVIDED_ROWS: usize = 1 << 18;
const DIVIDED_BYTES: usize = 32 << 20;
/// Folders of one result: more is likely the wrong column.
const MAX_VALUES: usize = 10_000;

/// Hive's name for the folder of null and of empty text. The same text as a value has the same folder: it
/// reads as null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";
/// The characters that stay as they are in the name of a folder.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b' ');

/// The division of a result into files.
pub(crate) struct FolderOptions {
    /// The column whose values have folders of their own, and which the files leave out. Times are divided by
    /// days.
    pub(crate) by: Option<String>,
    /// Most rows of a file.
    pub(crate) max_rows: usize,
    /// The ending of the names of files, without the dot.
    pub(crate) ending: String,
}

/// Some rows of a batch.
type BatchSlice<'a> = (&'a SpilledBatch, Range<usize>);

/// The batches of each value.
type Divided = BTreeMap<Option<String>, Vec<SpilledBatch>>;

/// Writes the rows of `send` to a folder that exists and is empty.
///
/// # Errors
/// The errors of `send`; `Io` where a file cannot be written; `InvalidArgument` for a column to cut by that
/// is missing, is neither text, a whole number, a date, a time nor a boolean, or has more than 10,000 values;
/// for a time where a column has the name of its days.
pub(crate) fn write_folder(
    folder: &Path,
    format: Format,
    options: &FolderOptions,
    schema: &SchemaRef,
    call: &Call,
    send: impl FnOnce(&dyn MatchSink) -> Result<()>,
) -> Result<()> {
    let column = options.by.as_deref().map(|by| column_of(by, schema)).transpose()?;
    let (at, name, is_day) = match column {
        Some(column) => (Some(column.at), column.name, column.is_day),
        None => (None, String::new(), false),
    };
    let partitioner = ValuePartitioner {
        column: at,
        is_day,
        spilled: SpilledBatches::new(MEMORY_BYTES),
        divided: Mutex::default(),
    };
    send(&partitioner)?;
    let mut divided = partitioner.divided.into_inner();
    if at.is_none() {
        // Even without rows there is one file, which tells the columns.
        divided.entry(None).or_default();
    }
    // Days are a column of another name, so the column with the time stays.
    let left_out = at.filter(|_| !is_day);
    let kept: Vec<usize> = (0..schema.fields().len()).filter(|at| Some(*at) != left_out).collect();
    let schema = Arc::new(schema.project(&kept).map_err(encoding_failed)?);
    // This thread alone writes the files.
    let (timings, of_file) = (call.timings(), call.clone().timed(&Arc::default()));
    for (value, batches) in &divided {
        let below = at.map(|_| {
            let value = value.as_deref().map_or(NULL.into(), encoded);
            folder.join(format!("{}={value}", encoded(&name)))
        });
        if let Some(below) = &below {
            create_dir(below).map_err(file_failed)?;
        }
        let folder = below.as_deref().unwrap_or(folder);
        for (number, slices) in (1..).zip(files_of(batches, options.max_rows)) {
            let path = folder.join(format!("part-{number:05}.{}", options.ending));
            File::create_new(&path).map_err(file_failed)?;
            let send = |sink: &dyn MatchSink| {
                let mut lane = sink.lane()?;
                for (batch, rows) in &slices {
                    call.check()?;
                    let batch = batch.read()?.slice(rows.start, rows.len());
                    lane.push(batch.project(&kept).map_err(encoding_failed)?)?;
                }
                lane.finish()
            };
            timings.single_threaded(|| write(&path, format, &schema, &of_file, send))?;
        }
    }
    Ok(())
}

fn encoded(text: &str) -> std::borrow::Cow<'_, str> {
    utf8_percent_encode(text, KEPT).into()
}

/// A column whose values have folders of their own.
struct PartitionColumn {
    at: usize,
    /// Its name in the names of folders.
    name: String,
    /// Whether it is a time, which is divided by days in UTC.
    is_day: bool,
}

fn column_of(name: &str, schema: &SchemaRef) -> Result<PartitionColumn> {
    let wrong = |text| Err(Error::new(ErrorKind::InvalidArgument, text));
    let Ok(at) = schema.index_of(name) else {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        return wrong(format!(
            "there is no column {name:?} to cut by; columns: {}",
            names.join(", ")
        ));
    };
    let kind = schema.field(at).data_type();
    let is_text = matches!(kind, DataType::Utf8 | DataType::LargeUtf8);
    if is_text || kind.is_integer() || matches!(kind, DataType::Date32 | DataType::Boolean) {
        return Ok(PartitionColumn { at, name: name.to_owned(), is_day: false });
    }
    if let DataType::Timestamp(..) = kind {
        let day = format!("{name}_day");
        if schema.index_of(&day).is_ok() {
            return wrong(format!(
                "the folders of {name:?} have the name {day:?}, which is a column; give that another name"
            ));
        }
        return Ok(PartitionColumn { at, name: day, is_day: true });
    }
    wrong(format!(
        "column {name:?} is {kind}; cut by text, whole numbers, dates, times or booleans"
    ))
}

/// The rows of each file; at least one file.
fn files_of(batches: &[SpilledBatch], max_rows: usize) -> Vec<Vec<BatchSlice<'_>>> {
    let (mut files, mut slices, mut left) = (Vec::new(), Vec::new(), max_rows);
    for batch in batches {
        let mut start = 0;
        while start < batch.rows() {
            if left == 0 {
                files.push(std::mem::take(&mut slices));
                left = max_rows;
            }
            let end = batch.rows().min(start.saturating_add(left));
            slices.push((batch, start..end));
            left -= end - start;
            start = end;
        }
    }
    files.push(slices);
    files
}

/// Divides rows by the values of a column.
struct ValuePartitioner {
    column: Option<usize>,
    /// Whether its values are times, which are divided by days.
    is_day: bool,
    spilled: SpilledBatches,
    divided: Mutex<Divided>,
}

impl MatchSink for ValuePartitioner {
    fn lane(&self) -> Result<Box<dyn MatchLane + '_>> {
        Ok(Box::new(FolderLane { partitioner: self, pending: Vec::new(), rows: 0, bytes: 0 }))
    }
}

struct FolderLane<'a> {
    partitioner: &'a ValuePartitioner,
    pending: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl FolderLane<'_> {
    fn divide(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        (self.rows, self.bytes) = (0, 0);
        let Some(first) = pending.first() else { return Ok(()) };
        let batch = arrow_select::concat::concat_batches(first.schema_ref(), &pending)
            .map_err(encoding_failed)?;
        let Some(column) = self.partitioner.column else { return self.keep(None, &batch) };
        let Some(values) = batch.columns().get(column) else { return Ok(()) };
        let days = match values.data_type() {
            DataType::Timestamp(unit, zone) if self.partitioner.is_day => {
                // A cast to days would take the days of the column's zone.
                let utc = DataType::Timestamp(*unit, zone.as_ref().map(|_| "UTC".into()));
                let times = cast(values, &utc).map_err(encoding_failed)?;
                &cast(&times, &DataType::Date32).map_err(encoding_failed)?
            }
            _ => values,
        };
        let texts = cast(days, &DataType::Utf8).map_err(encoding_failed)?;
        for (value, rows) in rows_of_values(texts.as_string()) {
            let part =
                take_record_batch(&batch, &UInt32Array::from(rows)).map_err(encoding_failed)?;
            self.keep(value.map(str::to_owned), &part)?;
        }
        Ok(())
    }

    fn keep(&self, value: Option<String>, rows: &RecordBatch) -> Result<()> {
        let rows = self.partitioner.spilled.push(rows)?;
        let mut divided = self.partitioner.divided.lock();
        divided.entry(value).or_default().push(rows);
        if divided.len() > MAX_VALUES {
            let text =
                format!("the column to cut by has more than {MAX_VALUES} values; name another one");
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        Ok(())
    }
}

/// The rows of each value, null among them. Empty text counts as null, and so does the text of null's name.
fn rows_of_values(texts: &StringArray) -> HashMap<Option<&str>, Vec<u32>> {
    let mut rows = HashMap::<Option<&str>, Vec<u32>>::new();
    for (row, value) in (0..).zip(texts.iter()) {
        let value = value.filter(|value| !value.is_empty() && *value != NULL);
        rows.entry(value).or_default().push(row);
    }
    rows
}

impl MatchLane for FolderLane<'_> {
    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        self.rows += batch.num_rows();
        // A batch may be a slice of a large one.
        let bytes =
            |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or_default();
        self.bytes += batch.columns().iter().map(bytes).sum::<usize>();
        self.pending.push(batch);
        if self.rows >= DIVIDED_ROWS || self.bytes >= DIVIDED_BYTES {
            self.divide()
        } else {
            Ok(())
        }
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.divide()
    }
}
