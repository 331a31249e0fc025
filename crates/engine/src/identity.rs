//! Random identities of stores, tables and files, and 64-bit numbers. Text files have both as lowercase hex
//! digits.
//!
//! Must not know which things have an identity.

use idmatch_model::TableId;
use idmatch_store::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// 128 random bits. Zeros mean none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Identity(pub(crate) [u8; 16]);

impl From<TableId> for Identity {
    fn from(id: TableId) -> Identity {
        Identity(id.0.to_be_bytes())
    }
}

impl From<Identity> for TableId {
    fn from(id: Identity) -> TableId {
        TableId(u128::from_be_bytes(id.0))
    }
}

/// 64 bits: a checksum, a seed or the token of a publication.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Hex64(pub(crate) u64);

impl Identity {
    /// A new identity.
    ///
    /// # Errors
    /// `Io` if the system gives no random bytes.
    pub(crate) fn random() -> Result<Identity> {
        random().map(Identity)
    }

    /// Whether it was never set.
    pub(crate) fn is_none(self) -> bool {
        self == Identity::default()
    }
}

impl Hex64 {
    /// Random bits.
    ///
    /// # Errors
    /// `Io` if the system gives no random bytes.
    pub(crate) fn random() -> Result<Hex64> {
        random().map(u64::from_be_bytes).map(Hex64)
    }
}

/// Random bytes of the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|e| Error::with_source(ErrorKind::Io, "the system gives no random bytes", e))?;
    Ok(bytes)
}

fn parse<const N: usize>(text: &str) -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    let is_lower = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if text.len() == 2 * N
        && is_lower
        && faster_hex::hex_decode(text.as_bytes(), &mut bytes).is_ok()
    {
        return Ok(bytes);
    }
    Err(format!("{} lowercase hex digits are expected", 2 * N))
}

impl TryFrom<String> for Identity {
    type Error = String;
    fn try_from(text: String) -> Result<Identity, String> {
        parse(&text).map(Identity)
    }
}

impl TryFrom<String> for Hex64 {
    type Error = String;
    fn try_from(text: String) -> Result<Hex64, String> {
        parse(&text).map(u64::from_be_bytes).map(Hex64)
    }
}

impl From<Identity> for String {
    fn from(identity: Identity) -> String {
        faster_hex::hex_string(&identity.0)
    }
}

impl From<Hex64> for String {
    fn from(number: Hex64) -> String {
        faster_hex::hex_string(&number.0.to_be_bytes())
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from(*self))
    }
}

impl fmt::Debug for Hex64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from(*self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_as_it_is_written() {
        let id = Identity([0xab; 16]);
        assert_eq!(Identity::try_from(String::from(id)), Ok(id));
        assert_eq!(Hex64::try_from("00000000000000ff".to_owned()), Ok(Hex64(255)));
        for bad in ["", "ff", "00000000000000FF", "00000000000000fg", "+0000000000000ff"] {
            assert!(Hex64::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn new_identities_differ() {
        assert_ne!(Identity::random().unwrap(), Identity::random().unwrap());
        assert!(Identity::default().is_none());
    }
}
