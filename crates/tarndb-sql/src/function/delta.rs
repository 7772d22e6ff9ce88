//! `delta_scan('<url>' [, version => N | timestamp => '..'])`, delta.`<url>`: any Delta table by
//! path.
//!
//! Invariant: reads the table's own log, not the database's; a reader feature that is not
//! known is refused by name. Within a transaction the newest version is that of the first read.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::compute::kernels::cast_utils::string_to_datetime;
use datafusion::datasource::provider_as_source;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use object_store::path::Path;
use tarndb_db::ErrorKind;
use tarndb_delta::{DeltaError, NativeTarget, open_native};
use tarndb_storage::Store;
use tarndb_table::{ErrorClass, TableError, TableState};

use crate::engine::Engine;
use crate::error::{SqlError, translate::translate};
use crate::function::{FileCall, argument_error};
use crate::name::Spelling;
use crate::provider::{Pinned, TarnTable};
use crate::query::Storage;

/// Opens the table of a call.
pub(super) async fn open(
    call: &FileCall,
    engine: &Engine,
    storage: &Storage,
    spelling: &mut Spelling,
) -> Result<LogicalPlan, SqlError> {
    let target = target(&call.options)?;
    let newest = target == NativeTarget::Latest;
    let known = engine.functions.pins.get(&call.path).filter(|_| newest);
    let pinned = match known {
        Some(pinned) => pinned,
        None => {
            let store = store_of(&call.path, storage)?;
            let state = open_native(&store, target)
                .await
                .map_err(|error| missing(&call.path, error))?;
            let pinned = pin_state(&call.path, store, Arc::new(state), engine, storage)?;
            if newest {
                engine.functions.pins.read(&call.path, &pinned);
            }
            pinned
        }
    };
    for field in &pinned.state.schema.fields {
        spelling.note_column(&field.name);
    }
    let source = provider_as_source(Arc::new(TarnTable::new(pinned)));
    LogicalPlanBuilder::scan("delta_scan", source, None)
        .and_then(LogicalPlanBuilder::build)
        .map_err(|error| translate(error, &Spelling::default()))
}

/// The store whose root is the table.
pub(crate) fn store_of(path: &str, storage: &Storage) -> Result<Store, SqlError> {
    let opened = tarndb_storage::open(path, &storage.options, storage.context.clone());
    opened.map_err(|source| SqlError::File {
        path: path.to_owned(),
        reason: source.to_string(),
    })
}

/// A table by path at one version, known to the engine.
pub(crate) fn pin_state(
    path: &str,
    store: Store,
    state: Arc<TableState>,
    engine: &Engine,
    storage: &Storage,
) -> Result<Arc<Pinned>, SqlError> {
    let (number, is_new) = engine.functions.root_number(path);
    let store_url = ObjectStoreUrl::parse(format!("tarndb-scan://{number}"))
        .map_err(|error| translate(error, &Spelling::default()))?;
    if is_new {
        engine
            .context
            .register_object_store(store_url.as_ref(), store.objects());
    }
    Ok(Arc::new(Pinned {
        name: path.to_owned(),
        state,
        store,
        store_url,
        location: Path::default(),
        codec: Arc::clone(&storage.codec),
        vectors: None,
    }))
}

/// A table or version that is not there is no damage.
pub(crate) fn missing(path: &str, error: TableError) -> SqlError {
    let (message, hint) = match &error {
        TableError::Format {
            class: ErrorClass::NotFound,
            source,
            ..
        } => match source.downcast_ref() {
            Some(DeltaError::NotATable { .. }) => (
                format!("no Delta table at {path}"),
                "a table's path is the folder that holds _delta_log",
            ),
            Some(DeltaError::NoVersionAt {
                wanted,
                first,
                last,
            }) => (
                match wanted < first {
                    true => format!("table {path} begins at {}", time(*first)),
                    false => format!(
                        "{} is yet to come; the newest version of {path} is of {}",
                        time(*wanted),
                        time(*last)
                    ),
                },
                "choose a time from the first version to now, or version => n",
            ),
            _ => (
                format!("table {path}: {source}"),
                "without version => the newest is read",
            ),
        },
        _ => return SqlError::of_table(path.to_owned(), error),
    };
    SqlError::Engine {
        message,
        sqlstate: "58P01",
        kind: ErrorKind::NotFound,
        hint: Some(hint.to_owned()),
    }
}

fn time(ms: i64) -> String {
    chrono::DateTime::from_timestamp_millis(ms).map_or_else(
        || ms.to_string(),
        |time| time.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
    )
}

fn target(options: &BTreeMap<String, String>) -> Result<NativeTarget, SqlError> {
    let mut target = NativeTarget::Latest;
    if options.len() > 1 {
        return Err(argument_error(
            "delta_scan",
            "give a version or a timestamp, not both",
        ));
    }
    for (name, value) in options {
        target = match name.as_str() {
            "version" => NativeTarget::Version(value.parse().map_err(|_| {
                argument_error("delta_scan", &format!("no version number: {value:?}"))
            })?),
            "timestamp" => {
                let time = string_to_datetime(&chrono::Utc, value).map_err(|_| {
                    argument_error("delta_scan", &format!("not a timestamp: {value:?}"))
                })?;
                NativeTarget::Timestamp(time.timestamp_millis())
            }
            other => {
                let reason = format!("no option {other}: there are version and timestamp");
                return Err(argument_error("delta_scan", &reason));
            }
        };
    }
    Ok(target)
}
