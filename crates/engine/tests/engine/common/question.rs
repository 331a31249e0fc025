//! Every question that a table answers, asked the same way of every backend.

use super::rows::{Batches, Row};
use super::whole::rows_of;
use arrow_array::RecordBatch;
use idmatch_model::{Pick, SeenAt, Side, Window};
use idmatch_store::locks::Mutex;
use idmatch_store::{ErrorKind, MatchQuery, Result, Table};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A question to a table.
#[derive(Debug, Clone)]
pub(crate) enum Question {
    Answers(Side, String, Window),
    LastSeen(String, String),
    History(String, String),
    Match(Arc<Vec<String>>, MatchQuery),
}

/// All questions about the keys and pairs of some rows, and about a key that is in none.
pub(crate) fn questions(rows: &[Row], windows: &[Window]) -> Vec<Question> {
    let mut questions = Vec::new();
    for side in Side::BOTH {
        let mut keys: BTreeSet<&str> = BTreeSet::from(["nobody"]);
        keys.extend(rows.iter().map(|(id, partner_id, _)| match side {
            Side::Id => id.as_str(),
            Side::PartnerId => partner_id.as_str(),
        }));
        // Every other key twice, as populations have them.
        let population: Vec<String> =
            keys.iter().chain(keys.iter().step_by(2)).map(|key| (*key).to_owned()).collect();
        let population = Arc::new(population);
        for window in windows {
            let answers = |key: &&str| Question::Answers(side, (*key).to_owned(), *window);
            questions.extend(keys.iter().map(answers));
            for pick in [Pick::All, Pick::Latest] {
                let query = MatchQuery { by: side, pick, window: *window, positions: false };
                questions.push(Question::Match(population.clone(), query));
            }
        }
    }
    let pairs: BTreeSet<(&str, &str)> =
        rows.iter().map(|(id, partner_id, _)| (id.as_str(), partner_id.as_str())).collect();
    for (id, partner_id) in pairs.into_iter().chain([("nobody", "nothing")]) {
        questions.push(Question::LastSeen(id.to_owned(), partner_id.to_owned()));
        questions.push(Question::History(id.to_owned(), partner_id.to_owned()));
    }
    questions
}

/// The answer as rows. Those of a match are sorted, because it promises no order between
/// population rows, and follow its counts.
pub(crate) fn ask(table: &Table, question: &Question) -> Result<Vec<Row>> {
    let dates = |dates: Vec<SeenAt>| {
        dates.into_iter().map(|date| (String::new(), String::new(), date.millis_i64())).collect()
    };
    match question {
        Question::Answers(by, key, window) => {
            let answers = table.answers(*by, key, *window)?;
            let row = |(answer, date): (&str, SeenAt)| {
                (key.clone(), answer.to_owned(), date.millis_i64())
            };
            Ok(answers.of(0).map(row).collect())
        }
        Question::LastSeen(id, partner_id) => {
            Ok(dates(table.last_seen(id, partner_id)?.into_iter().collect()))
        }
        Question::History(id, partner_id) => Ok(dates(table.history(id, partner_id)?)),
        Question::Match(population, query) => {
            let matched =
                table.match_population(&mut Batches::of_population(population), *query)?;
            let rows = Mutex::new(Vec::new());
            matched.write(&|batch: RecordBatch| {
                rows.lock().extend(rows_of(&batch));
                Ok(())
            })?;
            let mut rows = rows.into_inner();
            rows.sort();
            let counts = matched.counts();
            assert_eq!(counts.rows, rows.len() as u64, "a match counts what it writes");
            rows.insert(0, (counts.population.to_string(), counts.matched.to_string(), 0));
            Ok(rows)
        }
    }
}

/// A call has ended because its caller gave up or its time was over.
pub(crate) fn assert_cancelled<T>(outcome: Result<T>, what: &str) {
    match outcome {
        Ok(_) => panic!("{what} did all of its work"),
        Err(e) => assert_eq!(e.kind(), ErrorKind::Cancelled, "{what}: {e}"),
    }
}
