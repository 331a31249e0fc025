//! Takes over what another table remembers of erasures.
//!
//! It is published as an erasure is, and hides from then on; that rows are there which it hides costs
//! disk, and a compaction removes them.

use crate::catalog::Note;
use crate::handle::Handle;
use idmatch_store::{Erasures, Result};
use std::sync::Arc;

/// Hides what the other table hides; returns when every client knows. Cost: a lease, and a few requests
/// for each ten thousand that are new.
pub(crate) async fn adopt(handle: &Arc<Handle>, theirs: &Erasures) -> Result<()> {
    let before = handle.state.refresh().await?;
    theirs.check_key(Some(before.erasures.key()), handle.name())?;
    let is_new = |(hash, at): &(u128, _)| !before.erasures.covers(*hash, *at);
    let new: Vec<_> = theirs.hashes.iter().copied().filter(is_new).collect();
    if new.is_empty() {
        return Ok(());
    }
    let notes: Vec<_> = new.into_iter().map(|(hash, at)| (hash, Note::Erased(at))).collect();
    handle.publish(&before, &notes).await
}
