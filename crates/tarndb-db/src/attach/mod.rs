//! Attaching tables that are there already, and giving tables back to their own logs.
//!
//! Invariant: whoever stops anywhere leaves a table that is read as before and that the same
//! call goes on with. A table is marked in its own log before the database says that it has it,
//! under an id that the database uses once; giving it back is its last version in the database
//! log, which anybody publishes.
//! Spec: docs/format/log.md, "Attached tables"; docs/guide/sql.md, "Attaching tables".

pub mod error;

use std::sync::Arc;

use tarndb_delta::{Mark, Marked, NativeError, mark_managed};
use tarndb_storage::Path;
use tarndb_storage::placement::{Placement, placement};
use tarndb_table::TableError;
use tarndb_types::{DbVersion, TableId, TableVersion};

use crate::catalog::{Catalog, Place, TableEntry, check_name};
use crate::commit::check_writable;
use crate::database::{Database, Inner};
use crate::error::DbError;
use crate::options::TxnOptions;
use crate::publish::publish_now;
use crate::record::AttachAction;
use error::AttachError;

/// Tries at a table whose place is just being given back, or that others keep writing to.
const ATTEMPTS: u32 = 5;

/// A table that was attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedTable {
    /// Its identity.
    pub id: TableId,
    /// Its version then; those before it can still be read.
    pub table_version: TableVersion,
    /// The database version that has it.
    pub version: Option<DbVersion>,
}

/// A table that was given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachedTable {
    /// Where it lies: relative to the root, or a URL.
    pub place: String,
    /// The database version that does not have it any more.
    pub version: Option<DbVersion>,
    /// What the user should be told.
    pub notices: Vec<String>,
}

impl Database {
    /// Makes the Delta table at `url` the table `schema.name`: from now on this database decides
    /// about it, and other engines only read it. Its history stays, and its versions go on.
    ///
    /// # Errors
    /// A name that is taken, a place that is a table's or holds the database; what keeps this
    /// build from writing to the table, by name; another database that manages it, by its id.
    /// After an error the call can be repeated.
    ///
    /// # Cancel safety
    /// A dropped call may leave the table marked as this database's: other engines then only
    /// read it. Attaching it again goes on; attaching and detaching it gives it back.
    ///
    /// # Cost
    /// That of opening the table, a PUT in its log and one of the record; outside the root the
    /// probe of its store.
    pub async fn attach_table(
        &self,
        schema: &str,
        name: &str,
        url: &str,
    ) -> Result<AttachedTable, DbError> {
        self.inner.check_open()?;
        let mut probed = false;
        for _ in 0..ATTEMPTS {
            self.inner.refresh().await?;
            let catalog = self.inner.head.catalog();
            check_writable(&catalog)?;
            check_free(&catalog, schema, name)?;
            let text = self.place_of(url)?;
            let place = free_place(&catalog, &text)?;
            if place.url.is_some() && !probed {
                probe(&self.inner, &text, &place.location).await?;
                probed = true;
            }
            let marked = self.mark(&text, &place.location).await?;
            if let Some(action) = self.action(schema, name, &text, &marked).await? {
                return self.commit_attach(action).await;
            }
        }
        let place = url.to_owned();
        Err(AttachError::Busy { place }.into())
    }

    /// The place of a URL as the log writes it.
    fn place_of(&self, url: &str) -> Result<String, DbError> {
        let root = self.inner.store.url();
        match placement(root, url)? {
            Placement::Inside(key) => Ok(key.to_string()),
            Placement::Outside(url) => Ok(url),
            Placement::Around => Err(AttachError::AroundRoot {
                url: url.to_owned(),
                root: root.to_owned(),
            }
            .into()),
        }
    }

    async fn mark(&self, text: &str, location: &Path) -> Result<Marked, DbError> {
        let inner = &self.inner;
        let catalog = inner.head.catalog();
        let mark = Mark {
            database: catalog.database(),
            db_version: catalog.version(),
            table: TableId(inner.context().uuid()),
            commit_time: inner.options.commit_deadline,
        };
        let store = inner.store.direct();
        let marked = mark_managed(&store, location, &mark).await;
        marked.map_err(|error| {
            let place = text.to_owned();
            if error.is_no_table() {
                return AttachError::NotATable { place }.into();
            }
            match error {
                NativeError::Pending { .. } | NativeError::OutcomeExpired { .. } => {
                    AttachError::Pending { place }.into()
                }
                NativeError::Busy { .. } => AttachError::Busy { place }.into(),
                NativeError::Table(TableError::Store(source)) => source.into(),
                NativeError::Table(source) => DbError::table(place)(source),
                NativeError::Log(source) => DbError::Log(source),
                _ => DbError::Internal {
                    what: "marking a table met a conflict",
                },
            }
        })
    }

    /// What the record is to say of a marked table; `None` when a table that was given back there
    /// is only now published, so that all has to be looked at again.
    async fn action(
        &self,
        schema: &str,
        name: &str,
        text: &str,
        marked: &Marked,
    ) -> Result<Option<AttachAction>, DbError> {
        // What the table says is only judged by a catalog that is as new.
        self.inner.refresh().await?;
        let catalog = self.inner.head.catalog();
        let leaving = catalog
            .dropped_tables()
            .find(|table| table.is_detached && table.place() == text && table.unpublished() > 0);
        if let Some(leaving) = leaving {
            publish_now(&self.inner, leaving.id).await?;
            return Ok(None);
        }
        let place = text.to_owned();
        let id = match marked.table {
            Some(id) if catalog.table_or_dropped(id).is_none() => id,
            Some(id) if catalog.table(id).is_some_and(|table| table.place() == text) => {
                return Err(AttachError::AttachedMeanwhile { place }.into());
            }
            _ => return Err(AttachError::Copy { place }.into()),
        };
        Ok(Some(AttachAction {
            id,
            schema: schema.to_owned(),
            name: name.to_owned(),
            format: "delta".to_owned(),
            location: place,
            version: marked.version,
        }))
    }

    async fn commit_attach(&self, action: AttachAction) -> Result<AttachedTable, DbError> {
        let (id, table_version) = (action.id, action.version);
        let place = action.location.clone();
        let mut txn = self.begin(TxnOptions::default()).await?;
        if txn.catalog().table_or_dropped(id).is_some() {
            return Err(AttachError::AttachedMeanwhile { place }.into());
        }
        check_free(txn.catalog(), &action.schema, &action.name)?;
        free_place(txn.catalog(), &place)?;
        txn.attach(action)?;
        let committed = txn.commit().await?;
        Ok(AttachedTable {
            id,
            table_version,
            version: committed.version,
        })
    }

    /// Gives a table back to its own log: it leaves the database, and any engine may write to it.
    /// Its files stay. All that is committed is published first.
    ///
    /// # Errors
    /// [`DbError::TableNotFound`]; a table that a foreign writer changed; the store's, after which
    /// the table is still the database's. Once it is not, what is left to publish is told in
    /// the notices, and any handle that writes does it.
    ///
    /// # Cost
    /// What publishing the table costs; 1 PUT of the record, 1 of the table's last version.
    pub async fn detach_table(&self, id: TableId) -> Result<DetachedTable, DbError> {
        self.inner.check_open()?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let mut txn = self.begin(TxnOptions::default()).await?;
            let place = txn.entry(id)?.place().to_owned();
            publish_now(&self.inner, id).await?;
            txn.detach(id).await?;
            let committed = match txn.commit().await {
                // Somebody wrote meanwhile: his version is published first, too.
                Err(DbError::Conflict { .. }) if attempt < ATTEMPTS => continue,
                other => other?,
            };
            let mut notices = Vec::new();
            if let Err(error) = publish_now(&self.inner, id).await {
                notices.push(format!(
                    "detached, but other engines cannot write to it before `tarndb publish`: {error}"
                ));
            }
            return Ok(DetachedTable {
                place,
                version: committed.version,
                notices,
            });
        }
    }
}

/// The name is one that a table can get.
fn check_free(catalog: &Catalog, schema: &str, name: &str) -> Result<(), DbError> {
    check_name(name).map_err(|reason| DbError::InvalidName {
        what: "table",
        name: name.to_owned(),
        reason,
    })?;
    let found = catalog.schema(schema);
    let schema = found.ok_or_else(|| DbError::SchemaNotFound {
        name: schema.to_owned(),
    })?;
    match catalog.find(&schema.name, name) {
        None => Ok(()),
        Some(table) => Err(DbError::TableExists {
            name: table.display_name(),
        }),
    }
}

/// The place is one that a table can have, and none has.
fn free_place(catalog: &Catalog, text: &str) -> Result<Place, DbError> {
    let bad = |_| AttachError::BadPlace {
        place: text.to_owned(),
    };
    let place = Place::parse(text).map_err(bad)?;
    match catalog.location_conflict(text) {
        None => Ok(place),
        Some(other) => Err(AttachError::PlaceTaken {
            place: text.to_owned(),
            other: other.to_owned(),
        }
        .into()),
    }
}

/// Tries whether the store of a table outside the root honours put-if-absent, where there is a
/// table at all.
async fn probe(inner: &Arc<Inner>, text: &str, location: &Path) -> Result<(), DbError> {
    let store = inner.store.direct();
    let log = location.clone().join("_delta_log");
    if store.list_after(&log, None).await?.is_empty() {
        let place = text.to_owned();
        return Err(AttachError::NotATable { place }.into());
    }
    Ok(store.probe(&location.clone().join("_tarndb")).await?)
}

/// A table that was there before is given back, not dropped.
///
/// # Errors
/// [`AttachError::DropAttached`].
pub(crate) fn check_droppable(table: &TableEntry) -> Result<(), DbError> {
    match table.attached {
        None => Ok(()),
        Some(_) => Err(AttachError::DropAttached {
            table: table.display_name(),
        }
        .into()),
    }
}
