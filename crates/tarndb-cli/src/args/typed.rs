//! What was typed: the grammar of the command line.
//!
//! Invariant: holds text and numbers only; `meant` gives them their meaning.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// A serverless ACID database on object storage.
#[derive(Parser, Debug)]
#[command(name = "tarndb", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done, 1 check found something, 2 wrong usage, \
                        3 and above by kind of error (docs/guide/cli.md)."
)]
pub(super) struct Typed {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// Options that every command takes.
#[derive(Args, Debug)]
#[command(next_help_heading = "Global options")]
pub(super) struct Global {
    /// The database: a folder, s3://, gs://, az://, abfss://, file:// or memory://
    #[arg(long, value_name = "URL", env = "TARNDB_DB", global = true)]
    pub(super) db: Option<String>,
    /// A store option, such as region=eu-west-1 or cache.dir=/tmp/c (repeatable)
    #[arg(long, value_name = "KEY=VALUE", global = true)]
    pub(super) storage_option: Vec<String>,
    /// How results are written
    #[arg(long, value_enum, default_value_t = TypedFormat::Table, global = true)]
    pub(super) format: TypedFormat,
    /// Memory that queries and imports may use, such as 512MB or 2GiB; 32MB at least
    #[arg(long, value_name = "SIZE", global = true)]
    pub(super) memory_limit: Option<String>,
    /// Where queries spill what memory does not hold [default: the system's temporary folder]
    #[arg(long, value_name = "DIR", global = true)]
    pub(super) temp_dir: Option<PathBuf>,
    /// Threads of one query [default: all cores]
    #[arg(long, value_name = "N", global = true)]
    pub(super) threads: Option<usize>,
    /// What the command does for tables by itself after its commits
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = TypedUpkeep::Compact)]
    #[arg(global = true)]
    pub(super) upkeep: TypedUpkeep,
    /// Print the store requests that were made, on stderr at the end
    #[arg(long, global = true)]
    pub(super) requests: bool,
    /// off, error, warn, info, debug, trace, step (the steps of commits), or a filter
    #[arg(long, value_name = "LEVEL", default_value = "warn", global = true)]
    pub(super) log: String,
    /// The id (a UUID) of the first writing transaction
    #[arg(long, value_name = "UUID", global = true)]
    pub(super) txn_id: Option<String>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(super) enum TypedUpkeep {
    /// Nothing
    Off,
    /// Joins small files where there are many
    Compact,
    /// That, and removes the beginning of the database log that is older than 7 days
    All,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(super) enum TypedFormat {
    /// Aligned columns, for reading
    Table,
    /// Comma-separated values with a header; NULL is empty, an empty text is ""
    Csv,
    /// One JSON object a line
    Ndjson,
}

#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// Create a database at --db
    Init,
    /// Run SQL statements in one session; stops at the first error
    Sql {
        /// The statements, separated by ';' ("-" reads standard input)
        statements: Option<String>,
        /// Read the statements from a file
        #[arg(short, long, value_name = "FILE", conflicts_with = "statements")]
        file: Option<PathBuf>,
    },
    /// Type SQL at a prompt
    Shell,
    /// Load CSV (also .gz), NDJSON and Parquet files into tables, in one transaction
    Import(ImportArgs),
    /// List transactions, newest first
    Log {
        /// How many at most
        #[arg(long, default_value_t = 20, value_name = "N")]
        limit: usize,
    },
    /// Show versions, tables, files, bytes and what is not published yet
    Status {
        /// Also try whether the store honours put-if-absent, with a name that is removed again
        #[arg(long)]
        probe: bool,
    },
    /// Publish every committed table version that is not published yet
    Publish,
    /// Write the checkpoints that are due: of the catalog and of tables
    Checkpoint,
    /// Compact tables: join small files, write files with many deleted rows anew
    Optimize(OptimizeArgs),
    /// Delete the files that no version within the retention needs
    Vacuum(VacuumArgs),
    /// Remove the beginning of the database log, below a checkpoint older than the retention
    Cleanup(CleanupArgs),
    /// Tell the outcome of a transaction; one that has not ended is aborted for good
    Txn {
        /// <base version>-<uuid> as a message named it, or the UUID that --txn-id gave it
        id: String,
    },
    /// Verify the database: records, checkpoints, published files, data files
    Check {
        /// Also read the data: rows, deletion vectors, statistics
        #[arg(long)]
        deep: bool,
    },
    /// Show the database at work on real data: in a temporary folder, or in a new database at --db
    Demo {
        /// Keep the demo's database in this folder (which must be empty)
        #[arg(long, value_name = "DIR")]
        keep: Option<PathBuf>,
    },
}

#[derive(Args, Debug)]
pub(super) struct OptimizeArgs {
    /// The tables
    #[arg(value_name = "TABLE", required = true)]
    pub(super) tables: Vec<String>,
    /// The database schema of tables that are named without one
    #[arg(long, value_name = "SCHEMA")]
    pub(super) schema: Option<String>,
    /// Size that files should have, such as 256MB [default: the table's tarndb.targetFileSize]
    #[arg(long, value_name = "SIZE")]
    pub(super) target_size: Option<String>,
    /// Write every file anew, whether it needs it or not
    #[arg(long)]
    pub(super) all: bool,
}

#[derive(Args, Debug)]
pub(super) struct VacuumArgs {
    /// The tables [default: all, and the folders of dropped ones]
    #[arg(value_name = "TABLE")]
    pub(super) tables: Vec<String>,
    /// The database schema of tables that are named without one
    #[arg(long, value_name = "SCHEMA")]
    pub(super) schema: Option<String>,
    /// How far back the database stays readable, such as 7d or 48h [default: 7d]
    #[arg(long, value_name = "TIME")]
    pub(super) retain: Option<String>,
    /// Allow less than an hour: readers may lose the files of their snapshot
    #[arg(long)]
    pub(super) force: bool,
    /// Delete nothing, and tell what would go
    #[arg(long)]
    pub(super) dry_run: bool,
}

#[derive(Args, Debug)]
pub(super) struct CleanupArgs {
    /// For how long records are kept, an hour at least, such as 7d or 48h [default: 7d]
    #[arg(long, value_name = "TIME")]
    pub(super) retain: Option<String>,
    /// Delete nothing, and tell what would go
    #[arg(long)]
    pub(super) dry_run: bool,
}

#[derive(Args, Debug)]
pub(super) struct ImportArgs {
    /// Files for the one table named by --table
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// The table; or TABLE=FILE, repeatable, for several tables in one commit
    #[arg(long, value_name = "TABLE[=FILE]", required = true)]
    pub(super) table: Vec<String>,
    /// Create the tables, with columns found from the files
    #[arg(long)]
    pub(super) create: bool,
    /// The database schema of tables that are named without one
    #[arg(long, value_name = "SCHEMA")]
    pub(super) schema: Option<String>,
    /// CSV: a text that means NULL, beside the empty field
    #[arg(long, value_name = "TEXT")]
    pub(super) null: Option<String>,
    /// CSV: the character between fields
    #[arg(long, value_name = "CHAR", default_value = ",")]
    pub(super) delimiter: String,
    /// CSV: the first line is data, not names
    #[arg(long)]
    pub(super) no_header: bool,
}
