//! The rows that generated items of a case stand for.

use super::format::{Generate, Item, Many};
use super::value::{Scope, wrong};
use idmatch_store::Result;

/// Makes the rows that a list of items stands for.
pub(super) fn expand<Row, Value>(
    items: &[Item<Row>],
    scope: Scope,
    value_of: impl Fn(&Row, Scope) -> Result<Value>,
) -> Result<Vec<Value>> {
    let mut values = Vec::new();
    for item in items {
        match item {
            Item::One(row) => values.push(value_of(row, scope)?),
            Item::Many(Many { generate }) => {
                for number in numbers(generate)? {
                    values.push(value_of(&generate.row, Scope { number: Some(number), ..scope })?);
                }
            }
        }
    }
    Ok(values)
}

fn numbers<Row>(generate: &Generate<Row>) -> Result<Vec<u64>> {
    let (first, last) = generate.numbers;
    let step = usize::try_from(generate.step).ok().filter(|step| *step > 0);
    let step = step.ok_or_else(|| wrong("the step of generated numbers must be positive"))?;
    Ok(if first <= last {
        (first..=last).step_by(step).collect()
    } else {
        (last..=first).rev().step_by(step).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::super::value::Text;
    use super::*;
    use idmatch_model::SeenAt;

    #[test]
    fn generated_numbers_go_up_or_down_and_include_both_ends() {
        let made = |json: &str| {
            let items: Vec<Item<Option<Text>>> = serde_json::from_str(json).ok()?;
            let value_of = |row: &Option<Text>, scope: Scope| {
                row.as_ref().map(|text| text.text(scope)).transpose()
            };
            expand(&items, Scope::new(SeenAt::EPOCH), value_of).ok()
        };
        let some = |texts: &[&str]| {
            Some(texts.iter().map(|text| Some((*text).to_owned())).collect::<Vec<_>>())
        };
        let up = r#"["x", {"generate": {"numbers": [1, 5], "step": 2, "row": "n%d"}}]"#;
        assert_eq!(made(up), some(&["x", "n1", "n3", "n5"]));
        let down = r#"[{"generate": {"numbers": [2, 0], "row": "n%02d"}}]"#;
        assert_eq!(made(down), some(&["n02", "n01", "n00"]));
        assert_eq!(made("[null]"), Some(vec![None]));
        let stuck = r#"[{"generate": {"numbers": [2, 0], "step": 0, "row": "n"}}]"#;
        assert_eq!(made(stuck), None);
    }
}
