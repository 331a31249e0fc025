//! What all files of a store have in common, read as `spec/format/` says, with nothing of the engine's.

use super::number;
use serde_json::Value;
use std::path::Path;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The text of a packed identifier, and its hash.
pub(crate) fn unpacked(kind: u8, payload: &[u8], seed: u64) -> (String, u64) {
    let hex: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = match kind {
        0 => String::from_utf8(payload.to_vec()).unwrap(),
        1 => hex,
        2 => [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"),
        3 => u64::from_be_bytes(payload.try_into().unwrap()).to_string(),
        kind => panic!("kind {kind}"),
    };
    (text, xxh3_64_with_seed(payload, seed.wrapping_add(u64::from(kind))))
}

/// An identifier of a journal: its text, and where the next byte is.
fn journal_id(bytes: &[u8]) -> (String, usize) {
    let (kind, start, len) = match bytes[0] {
        192 => (0, 3, number(&bytes[1..3]) as usize),
        193 => (1, 3, number(&bytes[1..3]) as usize),
        194 => (2, 1, 16),
        195 => (3, 1, 8),
        hex @ 196.. => (1, 1, usize::from(hex) - 195),
        text => (0, 1, usize::from(text)),
    };
    (unpacked(kind, &bytes[start..start + len], 0).0, start + len)
}

/// A row of a journal record or of a staged part, and where the next byte is.
pub(crate) fn journal_row(bytes: &[u8]) -> (super::Row, usize) {
    let seen_at = number(&bytes[..6]) as i64;
    let (id, next) = journal_id(&bytes[6..]);
    let (partner_id, end) = journal_id(&bytes[6 + next..]);
    ((id, partner_id, seen_at), 6 + next + end)
}

/// The JSON of a file of a kind, after its first line.
pub(crate) fn sealed_json(kind: &str, path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap();
    let (line, json) = text.split_once('\n').unwrap();
    assert_eq!(line, format!("idmatch-{kind} 2 {:016x}", xxh3_64(json.as_bytes())));
    serde_json::from_str(json).unwrap()
}
