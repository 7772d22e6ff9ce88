//! Measures queries over the tables of a database, beside the engine alone over their data files.
//!
//! ```text
//! queries load DB FOLDER              a table of each Parquet file, called as the file
//! queries sql  DB STATEMENTS
//! queries run  DB FOLDER [rounds=3] [raw=true] [deleted=false] [answers=FOLDER] [set.NAME=VALUE ..]
//! ```
//!
//! Invariant: both sides run in this process, in turns, over the same files, each query to its last
//! row; unless rows are deleted, both must give as many rows. One line of JSON for each query and
//! one for their sums; the best of the rounds counts.
//! Does not: hold any query: they come from a folder, one file each.
//! Spec: docs/performance.md, "Queries".

#![expect(clippy::print_stdout, reason = "where the figures go")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::csv::WriterBuilder;
use arrow_array::RecordBatch;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::prelude::SessionContext;
use serde_json::{Value, json};
use tarndb_db::{Database, DbOptions};
use tarndb_sql::{Session, SessionOptions};
use tarndb_storage::StoreOptions;
use tarndb_storage::context::Context;
use tarndb_types::TableId;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let mut word = || words.next().unwrap_or_default();
    let (step, place, what) = (word(), word(), word());
    let mut session = open(&place, step == "load").await?;
    match step.as_str() {
        "load" => load(&mut session, Path::new(&what)).await?,
        "sql" => drop(session.sql(&what).await?),
        "run" => run(&mut session, &Plan::new(&what, words)?).await?,
        _ => return Err("write load, sql or run".into()),
    }
    Ok(session.database().close().await?)
}

/// What to run and how often.
struct Plan {
    queries: BTreeMap<String, PathBuf>,
    rounds: u32,
    /// Whether the engine alone runs them too.
    raw: bool,
    /// Whether some rows of the files are deleted, so that the engine alone finds more.
    deleted: bool,
    /// Where the results are written.
    answers: Option<PathBuf>,
    settings: BTreeMap<String, String>,
}

impl Plan {
    fn new(folder: &str, words: impl Iterator<Item = String>) -> Result<Self> {
        let mut plan = Self {
            queries: files(Path::new(folder), "sql")?,
            rounds: 3,
            raw: true,
            deleted: false,
            answers: None,
            settings: BTreeMap::new(),
        };
        for word in words {
            let (key, value) = word.split_once('=').ok_or("write key=value")?;
            match key {
                "rounds" => plan.rounds = value.parse()?,
                "raw" => plan.raw = value.parse()?,
                "deleted" => plan.deleted = value.parse()?,
                "answers" => plan.answers = Some(value.into()),
                _ => {
                    let name = key.strip_prefix("set.").ok_or("there is no such option")?;
                    plan.settings.insert(name.to_owned(), value.to_owned());
                }
            }
        }
        Ok(plan)
    }
}

async fn open(place: &str, create: bool) -> Result<Session> {
    let store = tarndb_storage::open(place, &StoreOptions::default(), Context::system())?;
    let db = match create {
        true => Database::create(store, DbOptions::default()).await?,
        false => Database::open(store, DbOptions::default()).await?,
    };
    Ok(Session::new(db, SessionOptions::default())?)
}

async fn load(session: &mut Session, folder: &Path) -> Result<()> {
    for (name, path) in files(folder, "parquet")? {
        let path = path.display();
        let statement = format!("CREATE TABLE {name} AS SELECT * FROM '{path}'");
        session.sql(&statement).await?;
    }
    Ok(())
}

async fn run(session: &mut Session, plan: &Plan) -> Result<()> {
    for (name, value) in &plan.settings {
        session.sql(&format!("SET {name} = '{value}'")).await?;
    }
    let raw = match plan.raw {
        true => Some(raw_tables(session).await?),
        false => None,
    };
    let (mut sum, mut raw_sum) = (Duration::ZERO, Duration::ZERO);
    for (name, path) in &plan.queries {
        let text = fs::read_to_string(path)?;
        let text = text.trim().trim_end_matches(';');
        let (ours, raw_best, rows) = best(session, raw.as_ref(), plan, name, text).await?;
        sum += ours;
        raw_sum += raw_best;
        let line = json!({"bench": "query", "name": name, "rows": rows});
        print(line, ours, raw.is_some().then_some(raw_best));
    }
    let line = json!({"bench": "queries", "rounds": plan.rounds, "peak_mb": peak_mb()});
    print(line, sum, raw.is_some().then_some(raw_sum));
    Ok(())
}

/// The best time of both sides, and the number of rows.
async fn best(
    session: &mut Session,
    raw: Option<&SessionContext>,
    plan: &Plan,
    name: &str,
    text: &str,
) -> Result<(Duration, Duration, usize)> {
    let context = Context::system();
    let (mut ours, mut raw_best, mut rows) = (Duration::MAX, Duration::MAX, 0);
    for round in 0..plan.rounds.max(1) {
        let begun = context.monotonic();
        let batches = session.sql(text).await?.collect().await?;
        ours = ours.min(context.monotonic().saturating_sub(begun));
        rows = count(&batches);
        if round == 0
            && let Some(answers) = &plan.answers
        {
            write(&answers.join(format!("{name}.csv")), &batches)?;
        }
        if let Some(raw) = raw {
            let begun = context.monotonic();
            let batches = raw.sql(text).await?.collect().await?;
            raw_best = raw_best.min(context.monotonic().saturating_sub(begun));
            if !plan.deleted && count(&batches) != rows {
                return Err(format!("{name}: {rows} rows, not {}", count(&batches)).into());
            }
        }
    }
    Ok((ours, raw_best, rows))
}

fn print(mut line: Value, ours: Duration, raw: Option<Duration>) {
    let ms = |time: Duration| (time.as_secs_f64() * 1e4).round() / 10.0;
    if let Some(line) = line.as_object_mut() {
        line.insert("tarndb_ms".to_owned(), json!(ms(ours)));
        if let Some(raw) = raw {
            let ratio = ours.as_secs_f64() / raw.as_secs_f64().max(1e-9);
            line.insert("parquet_ms".to_owned(), json!(ms(raw)));
            let ratio = (ratio * 1000.0).round() / 1000.0;
            line.insert("ratio".to_owned(), json!(ratio));
        }
    }
    println!("{line}");
}

/// The engine with its own settings, over the data files that the tables have now.
async fn raw_tables(session: &Session) -> Result<SessionContext> {
    let context = SessionContext::new();
    let snapshot = session.database().snapshot().await?;
    for table in snapshot.catalog().tables_in("main") {
        let files = data_files(session, table.id).await?;
        let urls = files.iter().map(ListingTableUrl::parse);
        let urls = urls.collect::<std::result::Result<Vec<_>, _>>()?;
        let options = ListingOptions::new(Arc::new(ParquetFormat::default()));
        let config = ListingTableConfig::new_with_multi_paths(urls).with_listing_options(options);
        let config = config.infer_schema(&context.state()).await?;
        let listing = ListingTable::try_new(config)?;
        context.register_table(table.name.as_str(), Arc::new(listing))?;
    }
    Ok(context)
}

async fn data_files(session: &Session, id: TableId) -> Result<Vec<String>> {
    let snapshot = session.database().snapshot().await?;
    let state = snapshot.table(id).await?;
    let location = &snapshot.entry(id)?.location;
    let root = session.database().store().url().trim_end_matches('/');
    let place = |path: String| format!("{root}/{location}/{path}");
    Ok(state.files.paths().map(place).collect())
}

/// The files of a folder with an extension, by their names without it.
fn files(folder: &Path, extension: &str) -> Result<BTreeMap<String, PathBuf>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        if let Some(name) = name
            && path.extension().is_some_and(|found| found == extension)
        {
            files.insert(name.to_owned(), path.clone());
        }
    }
    Ok(files)
}

fn count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

fn write(path: &Path, batches: &[RecordBatch]) -> Result<()> {
    let mut writer = WriterBuilder::new()
        .with_header(false)
        .with_delimiter(b'|')
        .build(File::create(path)?);
    for batch in batches {
        writer.write(batch)?;
    }
    Ok(())
}

/// The most memory that the process had so far, in MB; 0 where the system does not say.
fn peak_mb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) / 1024
}
