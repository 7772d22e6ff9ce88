//! What a statement gives back.

use std::fmt;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::stream::BoxStream;

use crate::error::SqlError;

/// Batches of a result, read as they are computed. Independent of the session: it reads the
/// snapshot of its statement, whatever is committed meanwhile.
pub type RowStream = BoxStream<'static, Result<RecordBatch, SqlError>>;

/// The outcome of one statement.
pub enum Outcome {
    /// Rows.
    Rows {
        /// Their columns, spelled as in the tables.
        schema: SchemaRef,
        /// The rows.
        stream: RowStream,
    },
    /// Rows were changed or written.
    Count {
        /// `INSERT`, `UPDATE`, `DELETE`, `COPY`, ...
        tag: &'static str,
        /// How many.
        rows: u64,
    },
    /// Done, nothing to count.
    Done {
        /// `CREATE TABLE`, `COMMIT`, ...
        tag: &'static str,
    },
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows { schema, .. } => f.debug_struct("Rows").field("schema", schema).finish(),
            Self::Count { tag, rows } => f
                .debug_struct("Count")
                .field("tag", tag)
                .field("rows", rows)
                .finish(),
            Self::Done { tag } => f.debug_struct("Done").field("tag", tag).finish(),
        }
    }
}

impl Outcome {
    /// All rows of a result; none for other outcomes.
    ///
    /// # Errors
    /// The first error of the stream.
    pub async fn collect(self) -> Result<Vec<RecordBatch>, SqlError> {
        match self {
            Self::Rows { stream, .. } => futures::TryStreamExt::try_collect(stream).await,
            _ => Ok(Vec::new()),
        }
    }

    /// A result that is there already.
    pub(crate) fn of_batch(batch: RecordBatch) -> Self {
        let schema = batch.schema();
        Self::Rows {
            schema,
            stream: Box::pin(futures::stream::iter([Ok(batch)])),
        }
    }
}
