//! Files into tables: CSV (also .gz), NDJSON and Parquet, any number in one commit.
//!
//! Invariant: all files or none; memory stays bounded (files are read in batches, partitioned
//! tables are filled through a spilling sort); a value that does not fit ends the import with
//! its file, line and column.
//! Does not: draw progress; it calls back.

mod csv;
mod infer;
mod json;
mod nested;
mod number;
mod parquet_file;
mod quotes;
mod source;
mod stream;
mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use tarndb_db::{NewTable, Transaction, TxnOptions};
use tarndb_table::{Schema, Supplied, Supply, Written};
use tarndb_txn::Operation;
use tarndb_types::TableId;

use crate::copy_from::columns_refused;
use crate::ddl::properties;
use crate::dml::write::{Destination, stream_of};
use crate::engine::DEFAULT_SCHEMA;
use crate::error::{SqlError, translate::translate};
use crate::name::Spelling;
use crate::parser::TableName;
use crate::session::{Rerun, Session};
pub use source::Format;
use source::{Reading, Source};

/// One file and the table it goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportFile {
    /// Name of the table, `table` or `schema.table`.
    pub table: String,
    /// The local file.
    pub path: PathBuf,
}

/// What to import and how to read it.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// The files; several may go to one table.
    pub files: Vec<ImportFile>,
    /// Create the tables, with types inferred from all of the data.
    pub create: bool,
    /// Schema of tables that name none.
    pub schema: Option<String>,
    /// Text that stands for NULL in CSV, beside the empty value.
    pub null_text: Option<String>,
    /// Character between the values of CSV.
    pub delimiter: u8,
    /// Whether the first line of CSV names the columns.
    pub header: bool,
    /// Partition columns of created tables.
    pub partition_columns: Vec<String>,
    /// Table options of created tables, as in `WITH (..)`.
    pub table_options: Vec<(String, String)>,
    /// What the files hold, whatever they are called.
    pub format: Option<Format>,
    /// The columns of CSV files in their order, whatever a header calls them.
    pub columns: Vec<String>,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            create: false,
            schema: None,
            null_text: None,
            delimiter: b',',
            header: true,
            partition_columns: Vec::new(),
            table_options: Vec::new(),
            format: None,
            columns: Vec::new(),
        }
    }
}

/// How far an import is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportProgress {
    /// The file being read.
    pub path: PathBuf,
    /// The table it goes to.
    pub table: String,
    /// Whether its columns are inferred still, or its rows written already.
    pub inferring: bool,
    /// Bytes of the file read so far, as stored (compressed).
    pub bytes_read: u64,
    /// Bytes of the file.
    pub bytes_total: u64,
    /// Rows written so far, of all files.
    pub rows: u64,
}

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Rows by table.
    pub tables: BTreeMap<String, u64>,
    /// Data files written.
    pub files: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// Called as an import goes on.
pub(crate) type Report<'a> = &'a mut (dyn FnMut(&ImportProgress) + Send);

impl Session {
    /// Imports files in one transaction: the open one, else one of its own, which runs again
    /// after a retryable conflict.
    ///
    /// # Errors
    /// [`SqlError::FileValue`] with file, line, column and value; nothing is imported then.
    ///
    /// # Cost
    /// The data files, and one PUT.
    pub async fn import(
        &mut self,
        options: &ImportOptions,
        progress: Report<'_>,
    ) -> Result<ImportReport, SqlError> {
        if let Some(mut txn) = self.take_open()? {
            let report = Box::pin(self.import_into(&mut txn, options, progress)).await?;
            self.put_open(txn);
            return Ok(report);
        }
        let id = self.take_id();
        let mut retry = Rerun::new(self);
        loop {
            let begin = TxnOptions {
                isolation: self.options.isolation,
                id,
                ..Default::default()
            };
            let mut txn = retry.begin(begin).await?;
            let report = Box::pin(self.import_into(&mut txn, options, progress)).await;
            let error = match report {
                Ok(report) => match self.commit_txn(txn).await {
                    Ok(()) => return Ok(report),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            retry.after(error).await?;
        }
    }

    pub(crate) async fn import_into(
        &self,
        txn: &mut Transaction,
        options: &ImportOptions,
        progress: Report<'_>,
    ) -> Result<ImportReport, SqlError> {
        let mut report = ImportReport::default();
        for (table, paths) in by_table(options) {
            let sources = paths
                .iter()
                .map(|path| Source::open(path, options.format))
                .collect::<Result<Vec<_>, _>>()?;
            let named = |source: &Source| source.format != Format::Csv;
            if !options.columns.is_empty() && sources.iter().any(named) {
                return Err(columns_refused());
            }
            let name = table_name(&table, options)?;
            let id = self
                .find_or_create(txn, &name, &sources, options, progress)
                .await?;
            let destination = Destination::of_table(txn, id, &self.options).await?;
            for (sources, supplied) in shares(&destination, &name, sources, options).await? {
                // What the rows of one share took from an identity column, the next must not.
                let destination = Destination::of_table(txn, id, &self.options).await?;
                let destination = destination.with_supplied(supplied);
                let written = self
                    .write_files(&destination, &table, &sources, options, progress, &report)
                    .await?;
                *report.tables.entry(table.clone()).or_default() += written.rows;
                report.files += u64::try_from(written.files.len()).unwrap_or(u64::MAX);
                report.bytes += written.bytes;
                if written.rows > 0 {
                    txn.add_files(id, written, Operation::Append).await?;
                }
            }
        }
        Ok(report)
    }

    /// The table of a name, created from the columns of its files where that was asked for.
    async fn find_or_create(
        &self,
        txn: &mut Transaction,
        name: &TableName,
        sources: &[Source],
        options: &ImportOptions,
        progress: Report<'_>,
    ) -> Result<TableId, SqlError> {
        if !options.create {
            return self.scope(txn).find(name).map_err(|error| match error {
                SqlError::UnknownTable { name, near } if near.is_empty() => {
                    SqlError::UnknownTable {
                        name,
                        near: Vec::new(),
                    }
                }
                other => other,
            });
        }
        let schema = infer::schema_of(sources, options, name, progress).await?;
        let partition_columns = options
            .partition_columns
            .iter()
            .map(|column| partition_column(&schema, column, name))
            .collect::<Result<Vec<_>, _>>()?;
        let table = NewTable {
            name: name.name.clone(),
            schema,
            partition_columns,
            properties: properties(&options.table_options)?,
            comment: None,
        };
        let into = name.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
        Ok(txn.create_table(into, table).await?)
    }

    async fn write_files(
        &self,
        destination: &Destination,
        table: &str,
        sources: &[Source],
        options: &ImportOptions,
        progress: Report<'_>,
        before: &ImportReport,
    ) -> Result<Written, SqlError> {
        let reading = Reading {
            schema: Arc::clone(&destination.schema),
            table: table.to_owned(),
            null_text: options.null_text.clone(),
            delimiter: options.delimiter,
            header: options.header,
            columns: options.columns.clone(),
        };
        let spelling = Spelling::default();
        let position = stream::Position::default();
        let plan = stream::plan(sources.to_vec(), reading, position.clone())
            .map_err(|error| translate(error, &spelling))?;
        let plan: Arc<dyn ExecutionPlan> = destination.prepare(plan)?;
        let mut stream = stream_of(&self.engine, plan, &spelling)?;
        let mut writer = destination.writer(&self.db);
        let rows_before = before.tables.values().sum::<u64>();
        let rows_written = AtomicU64::new(0);
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(|error| translate(error, &spelling))?;
            writer
                .write(&batch)
                .await
                .map_err(SqlError::table(&destination.name))?;
            let rows = u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
            let rows = rows_written.fetch_add(rows, Ordering::Relaxed) + rows;
            if let Some((source, bytes_read)) = position.now(sources) {
                progress(&ImportProgress {
                    path: source.path.clone(),
                    table: table.to_owned(),
                    inferring: false,
                    bytes_read,
                    bytes_total: source.size_bytes,
                    rows: rows_before + rows,
                });
            }
        }
        writer
            .finish()
            .await
            .map_err(SqlError::table(&destination.name))
    }
}

/// The files with the columns that they give. Of a table whose rules fill in columns each file
/// is looked at before: what it does not name is filled in. Other tables take all at once.
async fn shares(
    destination: &Destination,
    name: &TableName,
    sources: Vec<Source>,
    options: &ImportOptions,
) -> Result<Vec<(Vec<Source>, Supplied)>, SqlError> {
    let fields = &destination.schema.fields;
    if !(0..fields.len()).any(|place| destination.rules.fills(place)) {
        return Ok(vec![(sources, Supplied::all(&destination.schema))]);
    }
    let mut shares = Vec::with_capacity(sources.len());
    for source in sources {
        let only = [source];
        let supplied = if !options.columns.is_empty() {
            Supplied::only(&destination.schema, &options.columns)
                .map_err(SqlError::table(&destination.name))?
        } else if options.header || only.iter().all(|s| s.format != Format::Csv) {
            let given = infer::schema_of(&only, options, name, &mut |_| {}).await?;
            let supply = fields.iter().map(|field| match given.field(&field.name) {
                Some(_) => Supply::Given,
                None => Supply::Omitted,
            });
            Supplied::new(supply.collect())
        } else {
            Supplied::all(&destination.schema)
        };
        shares.push((only.into(), supplied));
    }
    Ok(shares)
}

/// Files by table, in the order in which tables first come.
fn by_table(options: &ImportOptions) -> Vec<(String, Vec<PathBuf>)> {
    let mut tables = Vec::<(String, Vec<PathBuf>)>::new();
    for file in &options.files {
        match tables
            .iter_mut()
            .find(|(table, _)| crate::name::same(table, &file.table))
        {
            Some((_, paths)) => paths.push(file.path.clone()),
            None => tables.push((file.table.clone(), vec![file.path.clone()])),
        }
    }
    tables
}

fn table_name(text: &str, options: &ImportOptions) -> Result<TableName, SqlError> {
    let mut parts = text.split('.');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, None) => Ok(TableName {
            schema: options.schema.clone(),
            name: name.to_owned(),
        }),
        (Some(schema), Some(name), None) => Ok(TableName {
            schema: Some(schema.to_owned()),
            name: name.to_owned(),
        }),
        _ => Err(SqlError::UnknownTable {
            name: text.to_owned(),
            near: Vec::new(),
        }),
    }
}

fn partition_column(schema: &Schema, column: &str, table: &TableName) -> Result<String, SqlError> {
    match schema.field(column) {
        Some((_, field)) => Ok(field.name.clone()),
        None => Err(SqlError::UnknownColumn {
            name: column.to_owned(),
            table: Some(table.to_string()),
            near: crate::name::near(column, schema.fields.iter().map(|f| f.name.as_str())),
        }),
    }
}
