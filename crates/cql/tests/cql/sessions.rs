//! Write sessions: what servers keep of a key, and what they refuse.

use crate::common::{Batches, answers, fresh, open};
use idmatch_cql::CqlStore;
use idmatch_model::{Side, TableName, TableOptions};
use idmatch_store::{
    Call, Committed, ErrorFields, ErrorKind, Ingest, NewWrite, NoRejects, OpenTables, Result,
    Store, WriteKey, WriteKind, now,
};

fn name() -> TableName {
    "t".parse().unwrap()
}

fn write(store: &CqlStore, key: Option<&str>) -> NewWrite {
    let table = store.table(&name()).unwrap().snapshot().unwrap().id();
    NewWrite { key: key.map(|key| WriteKey::new(key).unwrap()), ..NewWrite::load(table) }
}

/// Writes a row in one part.
fn commit(store: &CqlStore, key: Option<&str>, partner_id: &str) -> Result<Committed> {
    let call = Call::default();
    let session = store.begin(write(store, key), &call)?;
    if let Some(outcome) = session.outcome() {
        return Ok(outcome);
    }
    let mut rows = Batches::of_rows(&[("i".to_owned(), partner_id.to_owned(), 1_750_000_000_000)]);
    let mut no_rejects = NoRejects;
    let ingest = Ingest::new(true, now(), &mut no_rejects);
    let part = session.stage(None, &ingest.judged(&mut rows), &call)?;
    session.commit(&[part], &call)
}

#[test]
fn a_key_returns_the_first_outcome_to_every_client() {
    let beside = fresh("keys");
    let (here, there) = (open("keys"), open("keys"));
    here.table_with(&name(), &TableOptions::default()).unwrap();
    let first = commit(&here, Some("2026-11-25"), "p").unwrap();
    assert_eq!((first.rows, first.rejected), (1, 0));
    assert_eq!(commit(&there, Some("2026-11-25"), "q").unwrap(), first);
    assert_ne!(commit(&there, Some("2026-11-26"), "r").unwrap(), first);
    assert_ne!(commit(&there, None, "s").unwrap(), first);
    let table = there.table(&name()).unwrap();
    assert_eq!(answers(&table, Side::Id, "i").unwrap(), ["p", "r", "s"]);
    assert_eq!(beside.count("keys.idmatch_keys"), 2);
    // Both have begun before either commits.
    let call = Call::default();
    let sessions = [&here, &there].map(|store| store.begin(write(store, Some("both")), &call));
    let outcomes = sessions.map(|session| session.unwrap().commit(&[], &call).unwrap());
    assert_eq!(outcomes[0], outcomes[1]);
}

#[test]
fn a_replace_names_another_way() {
    let _beside = fresh("replaces");
    let store = open("replaces");
    store.table_with(&name(), &TableOptions::default()).unwrap();
    let write = NewWrite { kind: WriteKind::Replace, ..write(&store, None) };
    let error = store.begin(write, &Call::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let Some(ErrorFields::Unsupported { instead }) = error.fields() else { panic!("{error:?}") };
    assert!(instead.contains("rename --swap"), "{instead}");
}

#[test]
fn a_session_of_a_dropped_table_ends_with_an_error() {
    let _beside = fresh("gone");
    let (here, there) = (open("gone"), open("gone"));
    here.table_with(&name(), &TableOptions::default()).unwrap();
    let session = here.begin(write(&here, None), &Call::default()).unwrap();
    there.drop_table(&name(), &Call::default()).unwrap();
    let error = session.commit(&[], &Call::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TableNotFound);
}
