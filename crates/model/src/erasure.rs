//! Erasures, and the keyed hashes (tombstones) that record them without their identifiers.

use crate::SeenAt;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::fmt;
use std::hash::Hasher;
use std::str::FromStr;

/// The target of an erasure: everything of an identifier, or one pair.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// All observations of an id.
    Id(String),
    /// All observations of a partner_id.
    PartnerId(String),
    /// All observations of the pair.
    Pair {
        /// The own identifier.
        id: String,
        /// The partner's.
        partner_id: String,
    },
}

/// Hides every observation of its target with `seen_at <= at`, whenever it arrives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Erasure {
    /// The target whose observations are hidden.
    pub target: Target,
    /// The last instant that is hidden.
    pub at: SeenAt,
}

/// The secret key of a store. A tombstone is a hash with this key (SipHash-2-4, 128 bits): without the key
/// no identifier can be tested against it or recovered from it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ErasureKey([u8; 16]);

/// A text that is not 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a key of erasures has 32 hexadecimal digits")]
pub struct ErasureKeyError;

impl ErasureKey {
    /// A key of 16 random bytes.
    pub fn new(random: [u8; 16]) -> ErasureKey {
        ErasureKey(random)
    }

    /// The tombstone of a target.
    pub fn of(&self, target: &Target) -> u128 {
        match target {
            Target::Id(id) => self.id(id.as_bytes()),
            Target::PartnerId(partner_id) => self.partner_id(partner_id.as_bytes()),
            Target::Pair { id, partner_id } => self.pair(id.as_bytes(), partner_id.as_bytes()),
        }
    }

    /// The tombstone of an id: the hash of the byte 1 and its text.
    pub fn id(&self, id: &[u8]) -> u128 {
        self.hash(&[&[1], id])
    }

    /// The tombstone of a partner_id: the hash of the byte 2 and its text.
    pub fn partner_id(&self, partner_id: &[u8]) -> u128 {
        self.hash(&[&[2], partner_id])
    }

    /// The tombstone of a pair: the hash of the byte 3, the id's length in two bytes
    /// (little-endian), the id and the partner_id.
    pub fn pair(&self, id: &[u8], partner_id: &[u8]) -> u128 {
        self.hash(&[&[3], &(id.len() as u16).to_le_bytes(), id, partner_id])
    }

    /// Whether a tombstone hides a row. `hides` is asked about each hash that can erase it: of its id, of its
    /// partner_id, and of both.
    pub fn any_of(&self, id: &[u8], partner_id: &[u8], hides: impl Fn(u128) -> bool) -> bool {
        hides(self.id(id)) || hides(self.partner_id(partner_id)) || hides(self.pair(id, partner_id))
    }

    fn hash(&self, parts: &[&[u8]]) -> u128 {
        let mut hash = SipHasher24::new_with_key(&self.0);
        parts.iter().for_each(|part| hash.write(part));
        hash.finish128().as_u128()
    }
}

/// 32 lowercase hexadecimal digits.
impl fmt::Display for ErasureKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// A key is a secret: it is not printed by accident.
impl fmt::Debug for ErasureKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ErasureKey(..)")
    }
}

impl FromStr for ErasureKey {
    type Err = ErasureKeyError;
    fn from_str(text: &str) -> Result<ErasureKey, ErasureKeyError> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).map_err(|_| ErasureKeyError)?;
        is_hex.then_some(ErasureKey(number.to_be_bytes())).ok_or(ErasureKeyError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_siphash_2_4_with_128_bits() {
        // The test vectors of the reference implementation: key 00..0f, messages of 0 and 1 byte.
        let key: ErasureKey =
            "000102030405060708090a0b0c0d0e0f".parse().unwrap_or(ErasureKey([0; 16]));
        let bytes = |hash: u128| hash.to_le_bytes();
        let expected = [
            0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55,
            0x02, 0x93,
        ];
        assert_eq!(bytes(key.hash(&[])), expected);
        let expected = [
            0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22,
            0xfc, 0x45,
        ];
        assert_eq!(bytes(key.hash(&[&[0]])), expected);
    }

    #[test]
    fn tombstones_are_distinct() {
        let key = ErasureKey::new([7; 16]);
        let pair = |id: &str, partner_id: &str| Target::Pair {
            id: id.into(),
            partner_id: partner_id.into(),
        };
        let targets = [
            Target::Id("ab".into()),
            Target::PartnerId("ab".into()),
            pair("a", "b"),
            pair("ab", "c"),
            pair("a", "bc"),
        ];
        let hashes: std::collections::HashSet<u128> =
            targets.iter().map(|target| key.of(target)).collect();
        assert_eq!(hashes.len(), targets.len());
        assert_ne!(key.id(b"ab"), ErasureKey::new([8; 16]).id(b"ab"));
    }

    #[test]
    fn a_key_is_written_as_digits_and_not_shown() {
        let key = ErasureKey::new([0xa5; 16]);
        assert_eq!(key.to_string(), "a5".repeat(16));
        assert_eq!(key.to_string().parse(), Ok(key));
        assert_eq!(format!("{key:?}"), "ErasureKey(..)");
        for bad in ["", "a5", &"g".repeat(32), &format!("+{}", "a".repeat(31))] {
            assert_eq!(bad.parse::<ErasureKey>(), Err(ErasureKeyError));
        }
    }
}
