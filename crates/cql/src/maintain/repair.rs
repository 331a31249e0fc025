//! Repairs rows on which the directions of a table differ.

use super::verify::RowDifference;
use crate::context::TableContext;
use crate::row_buffer::RowBuffer;
use crate::write::batch::write;
use idmatch_store::Result;
use std::sync::Arc;

/// Writes to each direction the rows that it lacks.
pub(crate) async fn repair(
    context: &Arc<TableContext>,
    differences: &[RowDifference],
) -> Result<()> {
    let mut rows = RowBuffer::default();
    for difference in differences {
        if let Some(date) = difference.newest() {
            rows.push(&difference.id, &difference.partner_id, date);
        }
    }
    write(context, rows).await
}
