//! The rule for identifiers: `id` and `partner_id` obey the same one.

/// The longest identifier, in bytes of UTF-8.
pub const MAX_ID_BYTES: usize = 1024;

/// Why a value is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// No bytes at all.
    #[error("is empty; an identifier has 1 to {MAX_ID_BYTES} bytes")]
    Empty,
    /// More bytes than [`MAX_ID_BYTES`].
    #[error("is {0} bytes long; an identifier has 1 to {MAX_ID_BYTES} bytes")]
    TooLong(usize),
    /// Not UTF-8, with the offset of the first bad byte.
    #[error("is not UTF-8 (bad byte at offset {0})")]
    NotUtf8(usize),
}

/// Checks that `bytes` are an identifier and returns them as text. Cost: one pass.
pub fn check_id(bytes: &[u8]) -> Result<&str, IdError> {
    match bytes.len() {
        0 => Err(IdError::Empty),
        n if n > MAX_ID_BYTES => Err(IdError::TooLong(n)),
        _ => std::str::from_utf8(bytes).map_err(|e| IdError::NotUtf8(e.valid_up_to())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_is_counted_in_bytes_and_bounded_on_both_sides() {
        assert_eq!(check_id(b""), Err(IdError::Empty));
        assert_eq!(check_id(b" "), Ok(" "));
        assert!(check_id(&[b'x'; 1024]).is_ok());
        assert_eq!(check_id(&[b'x'; 1025]), Err(IdError::TooLong(1025)));
        assert_eq!(check_id("é".repeat(513).as_bytes()), Err(IdError::TooLong(1026)));
    }

    #[test]
    fn bytes_that_are_not_utf8_name_their_offset() {
        assert_eq!(check_id(b"ab\xffc"), Err(IdError::NotUtf8(2)));
    }
}
