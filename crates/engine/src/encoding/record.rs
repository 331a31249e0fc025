//! Packed identifiers one after another: in memory, in temporary files, and in the journal.
//!
//! ```text
//! first byte  0..=191    a text of that many bytes follows
//!             192, 193   a text, or hex: u16 length, payload
//!             194        UUID: 16 bytes
//!             195        decimal: 8 bytes
//!             196..=255  hex of (byte - 195) payload bytes: 1..=60
//! ```

use super::bytes::{slice, u16_at};
use super::packed::{Kind, Packed};

const SHORT_TEXT: usize = 191;
const LONG_TEXT: u8 = 192;
const LONG_HEX: u8 = 193;
const UUID: u8 = 194;
const DECIMAL: u8 = 195;
const SHORT_HEX: usize = 60;

/// Appends an identifier.
#[inline]
pub(crate) fn push(out: &mut Vec<u8>, id: Packed<'_>) {
    let len = id.payload.len();
    match id.kind {
        Kind::Uuid => out.push(UUID),
        Kind::Decimal => out.push(DECIMAL),
        Kind::Hex if len <= SHORT_HEX => out.push(DECIMAL + len as u8),
        Kind::Text if len <= SHORT_TEXT => out.push(len as u8),
        kind => {
            out.push(if kind == Kind::Hex { LONG_HEX } else { LONG_TEXT });
            out.extend_from_slice(&(len as u16).to_le_bytes());
        }
    }
    out.extend_from_slice(id.payload);
}

/// The identifier at `at`, and where the next byte is.
#[inline]
pub(crate) fn read(bytes: &[u8], at: usize) -> Option<(Packed<'_>, usize)> {
    let tag = *bytes.get(at)?;
    let (kind, start, len) = match tag {
        LONG_TEXT => (Kind::Text, at + 3, usize::from(u16_at(bytes, at + 1)?)),
        LONG_HEX => (Kind::Hex, at + 3, usize::from(u16_at(bytes, at + 1)?)),
        UUID => (Kind::Uuid, at + 1, 16),
        DECIMAL => (Kind::Decimal, at + 1, 8),
        hex if hex > DECIMAL => (Kind::Hex, at + 1, usize::from(hex - DECIMAL)),
        text => (Kind::Text, at + 1, usize::from(text)),
    };
    // No identifier is empty, so an empty payload is damage.
    let payload = slice(bytes, start, len).filter(|payload| !payload.is_empty())?;
    Some((Packed { kind, payload }, start + len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Packer;

    #[test]
    fn every_length_comes_back() {
        let mut out = Vec::new();
        let mut texts: Vec<String> = (1..=1024).map(|n| "x".repeat(n)).collect();
        texts.extend((1..=512).map(|n| "ab".repeat(n)));
        texts.push("01234567-89ab-cdef-0123-456789abcdef".into());
        texts.push("18446744073709551615".into());
        for text in &texts {
            push(&mut out, Packer::default().pack(text.as_bytes()));
        }
        let mut at = 0;
        for text in &texts {
            let (id, next) = read(&out, at).unwrap();
            assert_eq!(id, Packer::default().pack(text.as_bytes()));
            at = next;
        }
        assert_eq!(at, out.len());
        assert!(read(&out, at).is_none());
        for nothing in [&[0][..], &[LONG_TEXT, 0, 0], &[LONG_HEX, 0, 0]] {
            assert!(read(nothing, 0).is_none());
        }
    }
}
