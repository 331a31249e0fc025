//! The names of numbered files: ten or more digits and an ending, such as `0000000012.seg`.
//!
//! The one place that makes and parses them. A name that it does not parse is never joined to a folder, so
//! that no manifest can name a file elsewhere.

/// The name of the file with this number and ending.
pub(crate) fn file_name(number: u64, ending: &str) -> String {
    format!("{number:010}.{ending}")
}

/// The number of a file of this name; `None` if no file of this ending has it.
pub(crate) fn file_number(name: &str, ending: &str) -> Option<u64> {
    let digits = name.strip_suffix(ending)?.strip_suffix('.')?;
    let is_made_here = digits.bytes().all(|digit| digit.is_ascii_digit())
        && (digits.len() == 10 || (digits.len() > 10 && !digits.starts_with('0')));
    if is_made_here { digits.parse().ok() } else { None }
}

/// The number of a file of this name, with any ending.
pub(crate) fn any_file_number(name: &str) -> Option<u64> {
    file_number(name, name.split_once('.')?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_are_made_here_are_parsed() {
        for number in [0, 12, 9_999_999_999, 10_000_000_000, u64::MAX] {
            assert_eq!(file_number(&file_name(number, "seg"), "seg"), Some(number));
        }
        for name in [
            "",
            "12.seg",
            "+000000012.seg",
            "0000000012.era",
            "../0000000012.seg",
            "0000000012",
            "0000000012.seg/..",
            "00000000012.seg",
            "000000000.seg",
            "0000000012seg",
            "18446744073709551616.seg",
        ] {
            assert_eq!(file_number(name, "seg"), None, "{name:?}");
        }
    }
}
