//! Tags of a transaction: names for versions of the database, which then stay.
//!
//! Invariant: the checkpoint of exactly the tagged version is there before the record names it,
//! so that no record below it is needed for it any more. A version of which a vacuum may have
//! deleted files gets no tag.
//! Spec: docs/format/log.md, "Tags".

use tarndb_txn::Operation;
use tarndb_types::DbVersion;

use super::Transaction;
use crate::catalog::error::ObjectError;
use crate::catalog::{Catalog, check_name};
use crate::checkpoint;
use crate::database::Inner;
use crate::error::DbError;
use crate::record::{Action, TagAction};

impl Transaction {
    /// Names a version of the database; `None`: the one that the transaction reads.
    ///
    /// # Errors
    /// The name is invalid or taken; a version that is not there (yet, or any more).
    ///
    /// # Cost
    /// That of [`crate::Database::snapshot_at`], a PUT of a checkpoint, and a GET when it is
    /// there already.
    pub async fn create_tag(
        &mut self,
        name: &str,
        version: Option<DbVersion>,
    ) -> Result<DbVersion, DbError> {
        check_name(name).map_err(|reason| DbError::InvalidName {
            what: "tag",
            name: name.to_owned(),
            reason,
        })?;
        if self.changes.catalog.tag(name).is_some() {
            let name = name.to_owned();
            return Err(ObjectError::TagExists { name }.into());
        }
        let newest = self.snapshot.version();
        let wanted = version.unwrap_or(newest);
        if wanted > newest {
            return Err(DbError::VersionNotFound {
                wanted,
                oldest: DbVersion::ZERO,
                newest,
            });
        }
        check_above_horizon(&self.changes.catalog, wanted)?;
        let database = self.snapshot.database().clone();
        let tagged = database.snapshot_at(wanted).await?;
        checkpoint::write_only(&self.inner().store, tagged.catalog()).await?;
        self.changes.tagged.push(tagged.catalog().clone());
        let tag = TagAction {
            name: name.to_owned(),
            version: wanted,
        };
        self.act(Action::CreateTag(tag), Operation::CreateTag)?;
        Ok(wanted)
    }

    /// Drops a tag. What only it kept goes with the next vacuum and cleanup.
    ///
    /// # Errors
    /// [`ObjectError::TagNotFound`].
    pub fn drop_tag(&mut self, name: &str) -> Result<(), DbError> {
        let found = self.changes.catalog.tag(name);
        let name = match found {
            Some(tag) => tag.name.clone(),
            None => {
                let name = name.to_owned();
                return Err(ObjectError::TagNotFound { name }.into());
            }
        };
        self.act(Action::DropTag { name }, Operation::DropTag)
    }
}

/// Sees to it that the checkpoints of versions that were tagged are there: a cleanup that began
/// before the tags can have taken them.
pub(super) async fn keep(inner: &Inner, tagged: &[Catalog]) {
    for catalog in tagged {
        if let Err(error) = checkpoint::write_only(&inner.store, catalog).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                error,
                "the checkpoint of a tag could not be looked at again"
            );
        }
    }
}

/// A version gets a tag only where no vacuum may have deleted files of it, unless a tag kept
/// them already.
///
/// # Errors
/// [`ObjectError::BelowHorizon`].
pub(crate) fn check_above_horizon(catalog: &Catalog, wanted: DbVersion) -> Result<(), DbError> {
    match catalog.vacuum() {
        Some(mark) if wanted < mark.horizon && !catalog.is_version_tagged(wanted) => {
            let horizon = mark.horizon;
            Err(ObjectError::BelowHorizon { wanted, horizon }.into())
        }
        _ => Ok(()),
    }
}
