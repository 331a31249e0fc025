//! The outcomes of write sessions by their keys, in `idmatch_keys`. Servers forget them after a day.

use crate::context::TableContext;
use crate::error::unexpected;
use idmatch_store::{Committed, Error, ErrorKind, Result, SessionId, WriteKey};
use uuid::Uuid;

/// The outcome of the session that has committed with this key.
pub(crate) async fn outcome(context: &TableContext, key: &WriteKey) -> Result<Option<Committed>> {
    let (what, client) = ("the outcome of a key", &context.client);
    let keyspace = &client.settings().keyspace;
    let cql = format!(
        "SELECT session, rows, rejected FROM {keyspace}.idmatch_keys WHERE id = ? AND key = ?"
    );
    let read = client.prepare_catalog(&cql).await?;
    let rows = client.read(what, &read, (context.uuid(), key.as_str())).await?;
    let row = rows.maybe_first_row::<(Uuid, i64, i64)>().map_err(|e| unexpected(what, e))?;
    Ok(row.map(|(session, rows, rejected)| Committed {
        session: SessionId(session.as_u128()),
        rows: rows.cast_unsigned(),
        rejected: rejected.cast_unsigned(),
    }))
}

/// Notes the outcome of a session, and returns the outcome of the first session with this key.
pub(crate) async fn note(
    context: &TableContext,
    key: &WriteKey,
    outcome_here: Committed,
) -> Result<Committed> {
    let (what, client) = ("the outcome of a key", &context.client);
    let cql = format!(
        "INSERT INTO {}.idmatch_keys (id, key, session, rows, rejected) VALUES (?, ?, ?, ?, ?) \
         IF NOT EXISTS",
        client.settings().keyspace
    );
    let Committed { session, rows, rejected } = outcome_here;
    let (session, rows) = (Uuid::from_u128(session.0), rows.cast_signed());
    let values = (context.uuid(), key.as_str(), session, rows, rejected.cast_signed());
    let insert = client.prepare_catalog(&cql).await?;
    client.write(what, &insert, values).await?;
    let noted = outcome(context, key).await?;
    noted.ok_or_else(|| Error::new(ErrorKind::UnknownOutcome, "the outcome of a key is not noted"))
}
