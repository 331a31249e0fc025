//! Files of sealed JSON: the manifest, the table files and the note in LOCK.
//!
//! The first line is `idmatch-<kind> <format> <checksum of the rest, 16 hex digits>`; the rest is JSON. Must not
//! know what the JSON says.

use crate::disk::{corrupt, other_format, place};
use crate::identity::Hex64;
use idmatch_store::{Error, ErrorKind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use twox_hash::XxHash3_64;

/// The format that this version writes, and the only one it reads.
pub(crate) const FORMAT: u32 = 2;

/// The bytes of a file of a kind, such as `manifest`, and the checksum of its JSON.
pub(super) fn seal(kind: &str, json: &str) -> (Vec<u8>, Hex64) {
    let sum = Hex64(XxHash3_64::oneshot(json.as_bytes()));
    (format!("idmatch-{kind} {FORMAT} {sum:?}\n{json}").into_bytes(), sum)
}

/// The JSON of a value.
pub(super) fn to_json(kind: &str, value: &impl Serialize) -> Result<String> {
    let json = serde_json::to_string_pretty(value);
    json.map_err(|e| Error::with_source(ErrorKind::Io, format!("cannot encode the {kind}"), e))
}

/// Whether these are the bytes of a file of a kind whose JSON has this checksum.
pub(super) fn is_sealed(kind: &str, bytes: &[u8], sum: Hex64) -> bool {
    let json = bytes.strip_prefix(format!("idmatch-{kind} {FORMAT} {sum:?}\n").as_bytes());
    json.is_some_and(|json| XxHash3_64::oneshot(json) == sum.0)
}

/// Reads a file of a kind; returns its checksum, too.
///
/// # Errors
/// `UnsupportedFormat` for another format, or a key that this version does not know; `Corrupt`.
pub(super) fn unseal<T: DeserializeOwned>(
    kind: &str,
    path: &Path,
    bytes: &[u8],
) -> Result<(T, Hex64)> {
    let none = || corrupt(path, 0, &format!("this is no {kind}"));
    let line_end = bytes.iter().position(|byte| *byte == b'\n');
    let (line, json) = match line_end.and_then(|at| bytes.split_at_checked(at)) {
        Some((line, rest)) => (line, rest.get(1..).unwrap_or_default()),
        None => return Err(none()),
    };
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let is_kind = words.next() == Some(&*format!("idmatch-{kind}"));
    let format: u32 = match words.next().and_then(|word| word.parse().ok()) {
        Some(format) if is_kind => format,
        _ => return Err(none()),
    };
    // Checked first: the rest may have another format.
    if format != FORMAT {
        return Err(other_format(path, kind, format, FORMAT));
    }
    let sum = Hex64(XxHash3_64::oneshot(json));
    if (words.next(), words.next()) != (Some(&*format!("{sum:?}")), None) {
        return Err(corrupt(path, 0, &format!("the checksum of the {kind} is wrong")));
    }
    let value = serde_json::from_slice(json).map_err(|e| {
        // A later version may have added the key. A version that does not know it must write nothing back.
        let is_unknown = e.to_string().starts_with("unknown ");
        let (kind_of_error, what) = match is_unknown {
            true => (ErrorKind::UnsupportedFormat, "has a key that this version does not know"),
            false => (ErrorKind::Corrupt, "is not as this version writes it"),
        };
        let text = format!("{}, offset {}: the {kind} {what}", path.display(), line.len());
        let error = Error::with_source(kind_of_error, text, e);
        match is_unknown {
            true => error,
            false => error.with_fields(place(path, Some(line.len()))),
        }
    })?;
    Ok((value, sum))
}
