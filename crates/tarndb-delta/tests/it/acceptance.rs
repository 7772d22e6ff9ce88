//! The acceptance set of foreign Delta tables: state, rows, errors and time travel.
//!
//! The set is not part of this repository; without it the test says so and passes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path as FilePath, PathBuf};

use futures::TryStreamExt;
use serde_json::Value;
use tarndb_delta::{
    CatalogTail, DeltaCodec, DeltaState, NativeTarget, RatifiedCommit, RatifiedContent,
    open_native, open_with_tail,
};
use tarndb_storage::context::Context;
use tarndb_storage::{Path, Store, StoreOptions};
use tarndb_table::{Deletion, TableCodec, TableError, TableState, read_file};

use crate::checksum::Sums;

mod changes;
mod pruning;
mod times;

/// Versions whose expectation only one reader gave and whose log says otherwise: the vector of
/// this one states one deleted row of ten (and is not plain Z85), the expectation has ten.
const DISPUTED: [(&str, u64); 1] = [("kernelrs__cdf-table-with-dv", 5)];

enum Outcome {
    Ok(String),
    Fail(String),
}

#[tokio::test]
async fn ex_07_a_slash_at_the_end_of_the_root_changes_nothing() {
    let Some(root) = fixtures() else {
        return;
    };
    for name in [
        "kernelrs__table-with-dv-small",
        "derived__dv-at-nonzero-offset",
    ] {
        let mut found = Vec::new();
        for end in ["", "/"] {
            let url = format!("{}{end}", root.join(name).join("table").display());
            let store = tarndb_storage::open(&url, &StoreOptions::default(), Context::seeded(1));
            let store = store.unwrap();
            let state = open_native(&store, NativeTarget::Latest).await.unwrap();
            assert!(state.files.values().any(|file| !file.deletion.is_none()));
            let sums = sums(&store, &state).await.unwrap();
            found.push((sums.rows, sums.all));
        }
        assert_eq!(found[0], found[1], "{name}");
    }
}

/// The cases of the set, in order.
fn cases() -> Option<Vec<PathBuf>> {
    let root = fixtures()?;
    let mut cases: Vec<PathBuf> = std::fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("expected.json").is_file())
        .collect();
    cases.sort();
    Some(cases)
}

fn expectation(case: &FilePath) -> Value {
    serde_json::from_slice(&std::fs::read(case.join("expected.json")).unwrap()).unwrap()
}

fn open_store(case: &FilePath) -> Store {
    let url = case.join("table").to_string_lossy().into_owned();
    tarndb_storage::open(&url, &StoreOptions::default(), Context::seeded(1)).unwrap()
}

fn fixtures() -> Option<PathBuf> {
    let path = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/delta");
    if path.is_dir() {
        return Some(path);
    }
    println!(
        "SKIPPED: the Delta acceptance set is not at {}",
        path.display()
    );
    None
}

#[tokio::test]
async fn foreign_tables_read_as_expected() {
    let Some(cases) = cases() else {
        return;
    };
    let mut failures = Vec::new();
    let mut counts = BTreeMap::new();
    for case in &cases {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let expected = expectation(case);
        let (kind, text) = match run(case, &expected).await {
            Outcome::Ok(what) => ("ok", what),
            Outcome::Fail(why) => {
                failures.push(format!("{name}: {why}"));
                ("FAIL", why)
            }
        };
        *counts.entry(kind).or_insert(0) += 1;
        println!("{name:<60} {kind:<12} {text}");
    }
    println!("{} cases: {counts:?}", cases.len());
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

async fn run(case: &FilePath, expected: &Value) -> Outcome {
    let store = open_store(case);
    let wants_error = expected["expect"] == "error";
    let table = Table::of(case, store.clone()).await;
    let state = match table.open(None).await {
        Ok(state) => state,
        Err(error) => return refused(&error, wants_error),
    };
    let mut problems = Vec::new();
    if !wants_error {
        compare_state(&state, &expected["state"], &mut problems);
    }
    let mut states = Vec::new();
    let mut done = "state".to_owned();
    if expected["expect"] != "state" {
        match sums(&store, &state).await {
            Ok(_) if wants_error => {
                return Outcome::Fail(format!("read, but must fail: {}", expected["error"]));
            }
            Ok(sums) => compare_rows(&state, &sums, &expected["latest"], &mut problems),
            Err(error) => return refused(&error, wants_error),
        }
        done.push_str(", rows");
    }
    for version in expected["versions"].as_array().into_iter().flatten() {
        let number = version["version"].as_u64().unwrap();
        let disputed = DISPUTED
            .iter()
            .any(|(name, at)| case.ends_with(name) && *at == number);
        if disputed {
            continue;
        }
        let at = table.open(Some(number)).await;
        if let Some(why) = version.get("error") {
            if at.is_ok() {
                problems.push(format!("version {number} must fail: {why}"));
            }
            continue;
        }
        let found = match at {
            Ok(state) => sums(&store, &state).await.map(|sums| (state, sums)),
            Err(error) => Err(error),
        };
        match found {
            Ok((state, sums)) => {
                assert_eq!(state.version.0, number);
                compare_rows(&state, &sums, version, &mut problems);
                states.push(state);
            }
            Err(error) => problems.push(format!("version {number}: {}", chain(&error))),
        }
        done = format!("state, rows, versions to {number}");
    }
    states.push(state);
    if table.catalog.is_none()
        && let Some(times) = times::compare_times(&store, &states, &mut problems).await
    {
        done.push_str(&times);
    }
    if let Some(feed) = changes::compare_feed(&store, expected, &mut problems).await {
        done.push_str(&feed);
    }
    if problems.is_empty() {
        Outcome::Ok(done)
    } else {
        Outcome::Fail(problems.join("; "))
    }
}

/// A table of the set, and what its catalog says where it has one.
struct Table {
    store: Store,
    catalog: Option<CatalogTail>,
}

impl Table {
    async fn of(case: &FilePath, store: Store) -> Self {
        let catalog = match std::fs::read(case.join("catalog.json")) {
            Ok(bytes) => Some(tail(&serde_json::from_slice(&bytes).unwrap())),
            Err(_) => None,
        };
        if catalog.is_some() {
            let error = open_native(&store, NativeTarget::Latest).await.unwrap_err();
            assert!(chain(&error).contains("catalogManaged"), "{error}");
        }
        Self { store, catalog }
    }

    async fn open(&self, version: Option<u64>) -> Result<TableState, TableError> {
        match &self.catalog {
            Some(tail) => open_with_tail(&self.store, tail, version).await,
            None => {
                let target = version.map_or(NativeTarget::Latest, NativeTarget::Version);
                open_native(&self.store, target).await
            }
        }
    }
}

fn tail(catalog: &Value) -> CatalogTail {
    let commits = catalog["ratified_commits"].as_array().unwrap().iter();
    CatalogTail {
        latest: catalog["latest_ratified_version"].as_u64().unwrap(),
        commits: commits
            .map(|commit| {
                let file = commit["file"].as_str().unwrap();
                let name = file.strip_prefix("_delta_log/_staged_commits/").unwrap();
                RatifiedCommit {
                    version: commit["version"].as_u64().unwrap(),
                    content: RatifiedContent::Staged(name.to_owned()),
                }
            })
            .collect(),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

fn refused(error: &TableError, wanted: bool) -> Outcome {
    let text = chain(error);
    if wanted {
        return Outcome::Ok(format!("refused: {text}"));
    }
    Outcome::Fail(text)
}

fn compare<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: T,
    expected: T,
    problems: &mut Vec<String>,
) {
    if found != expected {
        problems.push(format!("{what}: found {found:?}, expected {expected:?}"));
    }
}

fn compare_state(state: &TableState, expected: &Value, problems: &mut Vec<String>) {
    let delta = DeltaState::of(state).unwrap();
    compare(
        "version",
        Some(state.version.0),
        expected["version"].as_u64(),
        problems,
    );
    let protocol = serde_json::to_value(delta.protocol.as_ref()).unwrap();
    compare("protocol", &protocol, &expected["protocol"], problems);
    compare(
        "id",
        delta.metadata.id.as_str(),
        expected["metadata_id"].as_str().unwrap(),
        problems,
    );
    let names = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect()
    };
    let partitions = delta.metadata.partition_columns.clone();
    compare(
        "partitions",
        partitions,
        names(&expected["partition_columns"]),
        problems,
    );
    let fields = state
        .schema
        .fields
        .iter()
        .map(|field| field.name.clone())
        .collect();
    compare(
        "columns",
        fields,
        names(&expected["schema_field_names"]),
        problems,
    );
    let configuration = serde_json::to_value(&state.properties).unwrap();
    compare(
        "configuration",
        &configuration,
        &expected["configuration"],
        problems,
    );
    compare(
        "live bytes",
        Some(state.size_bytes()),
        expected["live_bytes"].as_u64(),
        problems,
    );
    compare(
        "tombstones",
        Some(delta.tombstones.len() as u64),
        expected["num_tombstones_seen"].as_u64(),
        problems,
    );
    compare(
        "number of files",
        Some(state.files.len() as u64),
        expected["num_live_files"].as_u64(),
        problems,
    );
    compare_files(state, expected, problems);
    let txns: BTreeMap<String, i64> = state
        .app_txns
        .iter()
        .map(|(id, version)| (id.clone(), *version))
        .collect();
    let no_txns = expected.get("txns").is_none() && txns.is_empty();
    if !no_txns {
        compare(
            "txns",
            &serde_json::to_value(txns).unwrap(),
            &expected["txns"],
            problems,
        );
    }
    let domains: BTreeMap<String, String> = delta
        .domains
        .iter()
        .map(|(name, text)| (name.clone(), text.clone()))
        .collect();
    let no_domains = expected.get("domain_metadata").is_none() && domains.is_empty();
    if !no_domains {
        let found = serde_json::to_value(domains).unwrap();
        compare("domains", &found, &expected["domain_metadata"], problems);
    }
    if let Some(timestamp) = expected.get("in_commit_timestamp") {
        compare(
            "ict",
            state.in_commit_timestamp,
            timestamp.as_i64(),
            problems,
        );
    }
}

fn compare_files(state: &TableState, expected: &Value, problems: &mut Vec<String>) {
    let Some(files) = expected["live_files"].as_array() else {
        return;
    };
    let wanted: BTreeSet<(String, Option<String>)> = files
        .iter()
        .map(|file| {
            let id = file
                .get("dv_unique_id")
                .and_then(Value::as_str)
                .map(str::to_owned);
            (file["path"].as_str().unwrap().to_owned(), id)
        })
        .collect();
    let found: BTreeSet<_> = state
        .files
        .values()
        .map(|file| (file.raw_path.clone(), vector_id(&file.deletion)))
        .collect();
    if expected["live_files_truncated"] == true {
        compare("files", wanted.is_subset(&found), true, problems);
    } else {
        compare("files", found, wanted, problems);
    }
}

fn vector_id(deletion: &Deletion) -> Option<String> {
    let Deletion::Stored(found) = deletion else {
        return None;
    };
    let kind = match found.storage {
        tarndb_table::DvStorage::Inline => "i",
        tarndb_table::DvStorage::Relative => "u",
        tarndb_table::DvStorage::Absolute => "p",
    };
    let offset = found
        .offset
        .map_or_else(String::new, |offset| format!("@{offset}"));
    Some(format!("{kind}{}{offset}", found.path_or_inline))
}

async fn sums(store: &Store, state: &TableState) -> Result<Sums, TableError> {
    let root = Path::default();
    let codec = DeltaCodec::default();
    let mut sums = Sums::default();
    sums.columns.resize(state.schema.fields.len(), (0, 0));
    for file in state.files.values() {
        let deleted = match &file.deletion {
            Deletion::None => None,
            deletion => Some(codec.load_deletion(store, &root, deletion).await?),
        };
        let partitions = &state.partition_columns;
        let mut batches = read_file(
            store,
            &root,
            &file,
            &state.schema,
            partitions,
            deleted.as_deref(),
        )
        .await?;
        while let Some(batch) = batches.try_next().await? {
            sums.add(&batch, &state.schema.fields);
        }
        if let Some(rows) = file.num_records() {
            let physical = tarndb_table::parquet_row_count(store, &root, &file).await?;
            assert_eq!(rows, physical, "{}", file.path);
        }
    }
    Ok(sums)
}

fn compare_rows(state: &TableState, sums: &Sums, expected: &Value, problems: &mut Vec<String>) {
    let at = format!("version {}", state.version);
    let count = expected["row_count"].as_u64();
    compare(&format!("{at} rows"), Some(sums.rows), count, problems);
    for (index, column) in expected["columns"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let Some((nulls, sum)) = sums.columns.get(index) else {
            problems.push(format!("{at}: column {} is missing", column["name"]));
            continue;
        };
        let name = column["name"].as_str().unwrap_or_default();
        compare(
            &format!("{at} nulls of {name}"),
            Some(*nulls),
            column["nulls"].as_u64(),
            problems,
        );
        let sum = format!("{sum:016x}");
        compare(
            &format!("{at} {name}"),
            Some(sum.as_str()),
            column["checksum"].as_str(),
            problems,
        );
    }
    let all = format!("{:016x}", sums.all);
    compare(
        &format!("{at} checksum"),
        Some(all.as_str()),
        expected["rows_checksum"].as_str(),
        problems,
    );
}
