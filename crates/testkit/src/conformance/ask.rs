//! Questions, and the answers that they must get.

use super::compare::{Difference, Expected, ResultRow, compare_answer};
use super::format::{AnswersQuestion, Item, PairQuestion, Question};
use super::generate::expand;
use super::input::Batching;
use super::population;
use super::scan;
use super::value::{Date, Scope, Text, window, wrong};
use idmatch_model::{SeenAt, Side, Window};
use idmatch_store::{Lookup, Result, Table};

/// Asks a question and compares the answer. Returns only errors that no case expects.
pub(super) fn ask(
    table: &Table,
    question: &Question,
    scope: Scope,
    batching: Batching,
) -> Result<Vec<Difference>> {
    let difference = match question {
        Question::PartnerIds(question) => ask_answers(table, Side::Id, question, scope)?,
        Question::Ids(question) => ask_answers(table, Side::PartnerId, question, scope)?,
        Question::LastSeen(question) => ask_pair(question, scope, |id, partner_id| {
            Ok(table.last_seen(id, partner_id)?.into_iter().collect())
        })?,
        Question::History(question) => {
            ask_pair(question, scope, |id, partner_id| table.history(id, partner_id))?
        }
        Question::Match(question) => return population::ask(table, question, scope, batching),
        Question::Scan(question) => return scan::ask(table, question, scope),
    };
    Ok(difference.into_iter().collect())
}

fn ask_answers(
    table: &Table,
    by: Side,
    question: &AnswersQuestion,
    scope: Scope,
) -> Result<Option<Difference>> {
    let row = |(answer, seen_at): &(Text, Date), scope| {
        Ok(ResultRow { ids: vec![answer.text(scope)?], seen_at: seen_at.instant(scope)? })
    };
    let expected = expected(question.answer.as_deref(), question.error.as_ref(), scope, row)?;
    let key = question.of.text(scope)?;
    let window = window(question.since.as_ref(), question.until.as_ref(), scope)?;
    let limit = question.limit.unwrap_or(usize::MAX);
    Ok(compare_answer(&expected, &read_answers(table, by, &key, window, limit)))
}

fn read_answers(
    table: &Table,
    by: Side,
    key: &str,
    window: Window,
    limit: usize,
) -> Result<Vec<ResultRow>> {
    let answers = table.lookup_many(&[key], Lookup { by, window, limit })?;
    let row =
        |(answer, seen_at): (&str, SeenAt)| ResultRow { ids: vec![answer.to_owned()], seen_at };
    Ok(answers.of(0).map(row).collect())
}

fn ask_pair(
    question: &PairQuestion,
    scope: Scope,
    dates_of: impl Fn(&str, &str) -> Result<Vec<SeenAt>>,
) -> Result<Option<Difference>> {
    let row = |date: &Date, scope| Ok(ResultRow { ids: Vec::new(), seen_at: date.instant(scope)? });
    let expected = expected(question.answer.as_deref(), question.error.as_ref(), scope, row)?;
    let dates = dates_of(&question.id.text(scope)?, &question.partner_id.text(scope)?);
    let got = dates.map(|dates| {
        dates.into_iter().map(|seen_at| ResultRow { ids: Vec::new(), seen_at }).collect()
    });
    Ok(compare_answer(&expected, &got))
}

/// The expected outcome of a question: either an answer or an error.
fn expected<Written>(
    answer: Option<&[Item<Written>]>,
    error: Option<&String>,
    scope: Scope,
    row_of: impl Fn(&Written, Scope) -> Result<ResultRow>,
) -> Result<Expected> {
    match (answer, error) {
        (Some(items), None) => Ok(Ok(expand(items, scope, row_of)?)),
        (None, Some(code)) => Ok(Err(code.clone())),
        _ => Err(wrong("a question has either an answer or an error")),
    }
}
