//! Identifiers in fewer bytes.
//!
//! A packed identifier is a [`Kind`] and a payload. Packing is lossless and canonical: each text packs in
//! exactly one way, so packed identifiers are equal if and only if the texts are. The hash of an identifier
//! is the hash of its packed form; segments are ordered by it.

use std::cmp::Ordering;
use twox_hash::XxHash3_64;

/// How a payload stands for a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The text itself.
    Text = 0,
    /// An even number of lowercase hexadecimal digits, two to a byte.
    Hex = 1,
    /// A lowercase UUID with its four hyphens, as 16 bytes.
    Uuid = 2,
    /// A decimal number below 2^64 without leading zeros, as 8 bytes, big-endian.
    Decimal = 3,
}

impl Kind {
    /// The kind with this number.
    pub(crate) fn from_u8(number: u8) -> Option<Kind> {
        match number {
            0 => Some(Kind::Text),
            1 => Some(Kind::Hex),
            2 => Some(Kind::Uuid),
            3 => Some(Kind::Decimal),
            _ => None,
        }
    }
}

/// The secret seed of a store's hashes. Without it, no one can choose identifiers that share a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct HashSeed(pub(crate) u64);

/// A packed identifier, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Packed<'a> {
    /// How the payload is read.
    pub(crate) kind: Kind,
    /// 1 to 1,024 bytes.
    pub(crate) payload: &'a [u8],
}

const UUID_LEN: usize = 36;
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// Packs identifiers one after another without allocating.
pub(crate) struct Packer {
    number: [u8; 8],
    uuid: [u8; 16],
    hex: [u8; 512],
}

impl Default for Packer {
    fn default() -> Packer {
        Packer { number: [0; 8], uuid: [0; 16], hex: [0; 512] }
    }
}

impl Packer {
    /// Packs a text of 1 to 1,024 bytes. The result lives until the next call.
    #[inline]
    pub(crate) fn pack<'a>(&'a mut self, text: &'a [u8]) -> Packed<'a> {
        if let Some(number) = decimal(text) {
            self.number = number.to_be_bytes();
            return Packed { kind: Kind::Decimal, payload: &self.number };
        }
        if let Some(uuid) = uuid(text) {
            self.uuid = uuid;
            return Packed { kind: Kind::Uuid, payload: &self.uuid };
        }
        if text.len().is_multiple_of(2)
            && is_lower_hex(text)
            && let Some(payload) = self.hex.get_mut(..text.len() / 2)
            && faster_hex::hex_decode(text, payload).is_ok()
        {
            return Packed { kind: Kind::Hex, payload };
        }
        Packed { kind: Kind::Text, payload: text }
    }
}

/// The value of a canonical decimal number.
fn decimal(text: &[u8]) -> Option<u64> {
    let (first, rest) = text.split_first()?;
    if text.len() > 20 || !first.is_ascii_digit() || (*first == b'0' && !rest.is_empty()) {
        return None;
    }
    let mut number = u64::from(first - b'0');
    for digit in rest {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(number)
}

fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != UUID_LEN {
        return None;
    }
    let mut digits = [0u8; 32];
    let mut free = digits.iter_mut();
    for (at, byte) in text.iter().enumerate() {
        if !HYPHENS.contains(&at) {
            *free.next()? = *byte;
        } else if *byte != b'-' {
            return None;
        }
    }
    let mut payload = [0; 16];
    let fits = is_lower_hex(&digits) && faster_hex::hex_decode(&digits, &mut payload).is_ok();
    fits.then_some(payload)
}

/// No branch in the loop, so that it becomes a few vector instructions.
fn is_lower_hex(text: &[u8]) -> bool {
    text.iter()
        .fold(true, |all, byte| all & (byte.wrapping_sub(b'0') < 10 || byte.wrapping_sub(b'a') < 6))
}

impl<'a> Packed<'a> {
    /// The 64-bit hash that orders segments.
    #[inline]
    pub(crate) fn hash(&self, seed: HashSeed) -> u64 {
        XxHash3_64::oneshot_with_seed(seed.0.wrapping_add(self.kind as u64), self.payload)
    }

    /// Appends the text. Payloads of a wrong length give some other text. Only a damaged file can have them,
    /// and its readers have verified a checksum.
    #[inline]
    pub(crate) fn unpack_into(&self, text: &mut Vec<u8>) {
        if let Some(number) = self.number() {
            text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            return;
        }
        match self.kind {
            Kind::Text => text.extend_from_slice(self.payload),
            Kind::Uuid => {
                for (at, byte) in self.payload.iter().enumerate() {
                    if matches!(at, 4 | 6 | 8 | 10) {
                        text.push(b'-');
                    }
                    push_hex(text, &[*byte]);
                }
            }
            Kind::Hex | Kind::Decimal => push_hex(text, self.payload),
        }
    }

    fn number(&self) -> Option<u64> {
        let payload = <[u8; 8]>::try_from(self.payload).ok()?;
        (self.kind == Kind::Decimal).then(|| u64::from_be_bytes(payload))
    }

    /// The order of the texts. Cost: a comparison of payloads if both have one kind that keeps the order.
    pub(crate) fn cmp_text(&self, other: &Packed<'_>) -> Ordering {
        let alike = self.kind == other.kind
            && match self.kind {
                Kind::Text | Kind::Uuid => true,
                Kind::Hex => self.payload.len() == other.payload.len(),
                Kind::Decimal => false,
            };
        if alike {
            return self.payload.cmp(other.payload);
        }
        if let (Some(a), Some(b)) = (self.number(), other.number()) {
            let (mut left, mut right) = (itoa::Buffer::new(), itoa::Buffer::new());
            return left.format(a).cmp(right.format(b));
        }
        let (mut a, mut b) = (Vec::new(), Vec::new());
        self.unpack_into(&mut a);
        other.unpack_into(&mut b);
        a.cmp(&b)
    }
}

fn push_hex(text: &mut Vec<u8>, payload: &[u8]) {
    let start = text.len();
    text.resize(start + payload.len() * 2, 0);
    if let Some(digits) = text.get_mut(start..) {
        // The room is exactly twice the payload. The encoder refuses nothing else.
        let _ = faster_hex::hex_encode(payload, digits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kind(text: &str) -> Kind {
        Packer::default().pack(text.as_bytes()).kind
    }

    fn round_trip(text: &str) -> Vec<u8> {
        let mut back = Vec::new();
        Packer::default().pack(text.as_bytes()).unpack_into(&mut back);
        back
    }

    #[test]
    fn kinds_are_told_apart() {
        for (text, expected) in [
            ("0", Kind::Decimal),
            ("18446744073709551615", Kind::Decimal),
            ("18446744073709551616", Kind::Hex),
            ("00", Kind::Hex),
            ("007", Kind::Text),
            ("ab", Kind::Hex),
            ("AB", Kind::Text),
            ("abc", Kind::Text),
            ("0123456789abcdef0123456789abcdef", Kind::Hex),
            ("01234567-89ab-cdef-0123-456789abcdef", Kind::Uuid),
            ("01234567-89AB-cdef-0123-456789abcdef", Kind::Text),
            ("01234567089ab-cdef-0123-456789abcdef", Kind::Text),
            ("a@b.example", Kind::Text),
        ] {
            assert_eq!(kind(text), expected, "{text}");
            assert_eq!(round_trip(text), text.as_bytes());
        }
        assert_eq!(kind(&"ab".repeat(512)), Kind::Hex);
        assert_eq!(round_trip(&"ab".repeat(512)), "ab".repeat(512).as_bytes());
    }

    fn texts() -> impl Strategy<Value = String> {
        prop_oneof![
            "[0-9]{1,21}",
            "[0-9a-f]{1,40}",
            "[0-9a-fA-F]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "[0-9a-f-]{36}",
            "\\PC{1,20}",
        ]
    }

    proptest! {
        #[test]
        fn packing_is_lossless(text in texts()) {
            prop_assert_eq!(round_trip(&text), text.as_bytes());
        }

        #[test]
        fn order_and_equality_are_those_of_the_texts(a in texts(), b in texts()) {
            let (mut left, mut right) = (Packer::default(), Packer::default());
            let (pa, pb) = (left.pack(a.as_bytes()), right.pack(b.as_bytes()));
            prop_assert_eq!(pa.cmp_text(&pb), a.as_bytes().cmp(b.as_bytes()));
            prop_assert_eq!(pa == pb, a == b);
            if a == b {
                prop_assert_eq!(pa.hash(HashSeed(7)), pb.hash(HashSeed(7)));
            }
        }
    }
}
