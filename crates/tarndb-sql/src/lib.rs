//! SQL over a TarnDB database: sessions, transactions, DDL, DML and queries.
//!
//! A [`Session`] takes statements. Our own parser reads them; queries are planned and run by
//! the engine (DataFusion) over table providers that are pinned to the transaction's
//! snapshot; changes go through `tarndb_db::Transaction`.
//!
//! Invariant: this is the only crate that knows the engine. The engine never writes a table:
//! its hooks for that return errors, and DML is planned as an ordinary query whose result
//! names the rows to change.
//! Spec: docs/sql/.

mod alter;
mod attach;
mod catalog;
mod clone;
mod copy;
mod copy_from;
mod copy_text;
mod ddl;
mod dml;
mod engine;
mod error;
mod explain;
mod function;
mod import;
mod information;
mod merge;
mod name;
mod native;
mod native_alter;
mod object;
mod optimize;
mod options;
mod outcome;
mod parser;
mod primary_key;
mod provider;
mod query;
mod resource;
mod restore;
mod rewrite;
mod rule;
mod session;
mod setting;
mod show;
mod sorter;
mod statement;
mod timeout;
mod types;
mod upkeep;
mod vacuum;

pub use error::{FileValueError, SqlError, SyntaxError};
pub use import::{Format as ImportFormat, ImportFile, ImportOptions, ImportProgress, ImportReport};
pub use optimize::compact;
pub use options::SessionOptions;
pub use outcome::{Outcome, RowStream};
pub use parser::{
    AddedColumn, AlterAction, AsOf, CloneTable, ColumnDef, ColumnRule, Conflict, ConflictAction,
    Constraint, Copy, CopyFrom, CreateTable, CreateView, DatabaseVersion, Delete, Explain, Insert,
    Merge, MergeAction, MergeClause, MergeWhen, ObjectStatement, Optimize, ParsedStatement,
    Prepared, PrimaryKey, Restore, RestoreTarget, Savepoint, Show, Statement, TableName, Update,
    Upkeep, Vacuum, is_incomplete, parse,
    template::{Argument, Parameter, Template},
};
pub use resource::default_memory_limit;
pub use session::Session;
