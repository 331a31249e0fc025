//! Sizes and counts as people write them: `200000`, `1.5G`, `512Mi`.

use parse_size::Config;

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// It has no number, another unit, or is too large.
    #[error("{0:?} is not a size; write it like 200000, 1M, 1.5G or 512Mi")]
    Malformed(String),
    /// It has a fraction of a byte.
    #[error("{0:?} is not a size: a size is a whole number of bytes, such as 200000, 1M or 1.5G")]
    Fraction(String),
}

/// Parses a count, or a size in bytes: `k` is 1,000, `Ki` is 1,024.
///
/// # Errors
/// [`SizeError::Fraction`] for a number that is not whole, such as `1.5` or `0.1Ki`.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let malformed = |_| SizeError::Malformed(text.to_owned());
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.strip_prefix(number).unwrap_or_default();
    let size = parse_size::parse_size(text).map_err(malformed)?;
    let factor = parse_size::parse_size(format!("1{unit}")).map_err(malformed)?;
    // The library rounds. So the number is parsed again, in the smallest parts of a byte that fit into 64
    // bits (a ten-millionth at 1T). A difference shows that the library has rounded.
    let parts = 10_u64.pow((u64::MAX / size.max(factor).max(1)).ilog10());
    let exact = Config::new().with_default_factor(factor * parts).parse_size(number);
    if exact == Ok(size * parts) { Ok(size) } else { Err(SizeError::Fraction(text.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_whole_number_of_bytes() {
        for (text, size) in [
            ("0", 0),
            ("200000", 200_000),
            ("1.0", 1),
            ("1.5k", 1_500),
            ("1.5G", 1_500_000_000),
            ("1.123456789012T", 1_123_456_789_012),
            ("2Gi", 1 << 31),
            ("0.5Ki", 512),
            ("3 k", 3_000),
            ("1_000B", 1_000),
            ("1e6", 1_000_000),
            ("15e-1k", 1_500),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(size), "{text}");
        }
    }

    #[test]
    fn a_fraction_of_a_byte_is_refused() {
        for text in
            ["1.5", "0.1", "1.2B", "0.1Ki", "0.0001k", "1.0000000001G", "5e-1", "1.1234567890125T"]
        {
            assert_eq!(parse_size(text), Err(SizeError::Fraction(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "-1", "1X", "M", "1.5.0M", "20E", "99999999999999999999", "1 k k", "é"] {
            assert_eq!(parse_size(text), Err(SizeError::Malformed(text.to_owned())), "{text}");
        }
    }
}
