//! What a statement says, as this crate's own types.
//!
//! Invariant: names are kept as written; embedded queries and expressions have their names
//! folded (see `name`), so that the engine resolves them without regard to case.
//! Does not: know whether anything named here exists.

use std::fmt;
use std::time::Duration;

use datafusion::sql::sqlparser::ast::{Expr, Query, TableWithJoins};
use tarndb_table::{ColumnPath, DataType, Field, Position};
use tarndb_txn::Isolation;

use crate::parser::object::ObjectStatement;
use crate::parser::template::{Argument, Template};
use crate::parser::upkeep::Upkeep;

/// `[schema.]table` as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    /// The schema, when said.
    pub schema: Option<String>,
    /// The table.
    pub name: String,
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{schema}.{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// A parsed statement.
#[derive(Clone, Debug)]
pub enum Statement {
    /// BEGIN.
    Begin {
        /// The isolation level, when said.
        isolation: Option<Isolation>,
    },
    /// COMMIT or END.
    Commit,
    /// ROLLBACK or ABORT.
    Rollback,
    /// SAVEPOINT, ROLLBACK TO, RELEASE.
    Savepoint(Savepoint),
    /// PREPARE, EXECUTE, DEALLOCATE.
    Prepared(Prepared),
    /// CONVERT TO DELTA.
    Convert {
        /// The folder.
        url: String,
        /// PARTITIONED BY: the columns that the folders name.
        partitions: Vec<Field>,
    },
    /// ATTACH TABLE.
    Attach {
        /// Where the table is.
        url: String,
        /// What it is called here.
        name: TableName,
    },
    /// DETACH TABLE.
    Detach {
        /// The table.
        name: TableName,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// CREATE TABLE.
    CreateTable(Box<CreateTable>),
    /// CREATE TABLE .. CLONE.
    CloneTable(Box<CloneTable>),
    /// CREATE SCHEMA.
    CreateSchema {
        /// The schema.
        name: String,
        /// IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// DROP SCHEMA.
    DropSchema {
        /// The schema.
        name: String,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE: its tables too.
        cascade: bool,
    },
    /// DROP TABLE.
    DropTable {
        /// The tables.
        names: Vec<TableName>,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// ALTER TABLE.
    AlterTable {
        /// The table.
        name: TableName,
        /// IF EXISTS.
        if_exists: bool,
        /// What to change.
        action: AlterAction,
    },
    /// TRUNCATE.
    Truncate {
        /// The table.
        name: TableName,
    },
    /// INSERT.
    Insert(Box<Insert>),
    /// UPDATE.
    Update(Update),
    /// DELETE.
    Delete(Delete),
    /// MERGE.
    Merge(Box<Merge>),
    /// A query for the engine.
    Query(Box<Query>),
    /// SHOW.
    Show(Show),
    /// SET.
    Set {
        /// The setting.
        name: String,
        /// Its value.
        value: String,
    },
    /// RESET.
    Reset {
        /// The setting.
        name: String,
    },
    /// DESCRIBE.
    Describe {
        /// The table.
        name: TableName,
    },
    /// DESCRIBE HISTORY.
    DescribeHistory {
        /// The table.
        name: TableName,
        /// LIMIT.
        limit: Option<u64>,
    },
    /// EXPLAIN.
    Explain(Explain),
    /// COPY .. TO.
    Copy(Copy),
    /// COPY .. FROM.
    CopyFrom(Box<CopyFrom>),
    /// VACUUM.
    Vacuum(Vacuum),
    /// RESTORE.
    Restore(Restore),
    /// OPTIMIZE, CHECKPOINT and ANALYZE.
    Upkeep(Upkeep),
    /// Views, tags, versions of the database, definitions.
    Object(Box<ObjectStatement>),
}

/// A statement about a savepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Savepoint {
    /// SAVEPOINT.
    Set(String),
    /// ROLLBACK TO.
    RollbackTo(String),
    /// RELEASE.
    Release(String),
}

impl Savepoint {
    /// The tag of the command.
    pub(crate) fn tag(&self) -> &'static str {
        match self {
            Self::Set(_) => "SAVEPOINT",
            Self::RollbackTo(_) => "ROLLBACK",
            Self::Release(_) => "RELEASE",
        }
    }
}

/// A statement about a prepared statement.
#[derive(Clone, Debug)]
pub enum Prepared {
    /// PREPARE.
    Prepare {
        /// The name that it gets.
        name: String,
        /// The statement.
        template: Template,
    },
    /// EXECUTE.
    Execute {
        /// The prepared statement.
        name: String,
        /// Its arguments, in order.
        arguments: Vec<Argument>,
    },
    /// DEALLOCATE.
    Deallocate {
        /// The prepared statement; `None` for ALL.
        name: Option<String>,
    },
}

/// RESTORE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    /// The table.
    pub name: TableName,
    /// The version that it goes back to.
    pub to: RestoreTarget,
}

/// Which version a table goes back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreTarget {
    /// VERSION AS OF.
    Version(u64),
    /// TIMESTAMP AS OF, as written.
    Timestamp(String),
}

/// VACUUM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vacuum {
    /// The table; `None`: DATABASE.
    pub name: Option<TableName>,
    /// RETAIN.
    pub retention: Option<Duration>,
    /// DRY RUN.
    pub dry_run: bool,
}

/// One column of CREATE TABLE or ADD COLUMN.
#[derive(Clone, Debug)]
pub struct ColumnDef {
    /// Name as written.
    pub name: String,
    /// Type.
    pub data_type: DataType,
    /// `varchar(n)` or `char(n)`, where the type is written with a length.
    pub length: Option<String>,
    /// Not NOT NULL.
    pub nullable: bool,
    /// COMMENT.
    pub comment: Option<String>,
    /// DEFAULT, GENERATED AS or IDENTITY.
    pub rule: Option<ColumnRule>,
}

/// Where the values of a column come from that a row does not say. Expressions are Spark SQL,
/// as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnRule {
    /// DEFAULT.
    Default(String),
    /// GENERATED ALWAYS AS (..).
    Generated(String),
    /// GENERATED .. AS IDENTITY.
    Identity {
        /// START WITH.
        start: i64,
        /// INCREMENT BY.
        step: i64,
        /// BY DEFAULT: rows may bring their own values.
        explicit: bool,
    },
}

/// `[CONSTRAINT name] CHECK (..)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// Its name, when said.
    pub name: Option<String>,
    /// Spark SQL, as written.
    pub expression: String,
}

/// `[CONSTRAINT name] PRIMARY KEY (..) NOT ENFORCED`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryKey {
    /// Its name, when said.
    pub name: Option<String>,
    /// The columns.
    pub columns: Vec<String>,
}

/// CREATE TABLE.
#[derive(Clone, Debug)]
pub struct CreateTable {
    /// The table.
    pub name: TableName,
    /// OR REPLACE.
    pub or_replace: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The columns; empty with a query.
    pub columns: Vec<ColumnDef>,
    /// CHECK, of columns and of the table.
    pub constraints: Vec<Constraint>,
    /// PRIMARY KEY, of a column or of the table.
    pub primary_key: Option<PrimaryKey>,
    /// PARTITIONED BY.
    pub partition_columns: Vec<String>,
    /// CLUSTER BY.
    pub cluster_columns: Vec<Vec<String>>,
    /// WITH and TBLPROPERTIES, as written.
    pub options: Vec<(String, String)>,
    /// COMMENT.
    pub comment: Option<String>,
    /// AS SELECT.
    pub query: Option<Box<Query>>,
}

/// CREATE TABLE .. CLONE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloneTable {
    /// The new table.
    pub name: TableName,
    /// OR REPLACE.
    pub or_replace: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// SHALLOW: files are shared.
    pub shallow: bool,
    /// The table that is cloned.
    pub source: TableName,
    /// Its version; `None`: the newest.
    pub as_of: Option<AsOf>,
}

/// Which version of a table is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AsOf {
    /// VERSION AS OF.
    Version(u64),
    /// TIMESTAMP AS OF, as written.
    Timestamp(String),
}

/// A column of ADD COLUMN.
#[derive(Clone, Debug)]
pub struct AddedColumn {
    /// Names of the column, and of what is inside, in which it is added.
    pub parents: Vec<String>,
    /// The column.
    pub column: ColumnDef,
    /// FIRST or AFTER.
    pub position: Position,
}

/// What ALTER TABLE changes.
#[derive(Clone, Debug)]
pub enum AlterAction {
    /// RENAME TO.
    Rename(TableName),
    /// SET SCHEMA.
    SetSchema(String),
    /// ADD COLUMN.
    AddColumns {
        /// The new columns.
        columns: Vec<AddedColumn>,
        /// IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// RENAME COLUMN.
    RenameColumn {
        /// The column.
        column: ColumnPath,
        /// Its new name.
        to: String,
    },
    /// DROP COLUMN.
    DropColumns {
        /// The columns.
        columns: Vec<ColumnPath>,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// ALTER COLUMN .. TYPE.
    SetType {
        /// The column.
        column: ColumnPath,
        /// Its new type.
        data_type: DataType,
    },
    /// ALTER COLUMN .. SET or DROP NOT NULL.
    SetNullable {
        /// The column.
        column: ColumnPath,
        /// Whether NULL is allowed.
        nullable: bool,
    },
    /// ADD FEATURE.
    AddFeature(String),
    /// DROP FEATURE.
    DropFeature(String),
    /// CLUSTER BY: columns, fields inside them by their paths; none for NONE.
    ClusterBy(Vec<Vec<String>>),
    /// ADD CONSTRAINT.
    AddConstraint(Constraint),
    /// ADD PRIMARY KEY.
    AddPrimaryKey(PrimaryKey),
    /// DROP PRIMARY KEY.
    DropPrimaryKey {
        /// IF EXISTS.
        if_exists: bool,
    },
    /// DROP CONSTRAINT.
    DropConstraint {
        /// Its name.
        name: String,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// ALTER COLUMN .. SET DEFAULT, DROP DEFAULT.
    SetDefault {
        /// The column.
        column: ColumnPath,
        /// Spark SQL, as written; `None` drops it.
        expression: Option<String>,
    },
    /// SET TBLPROPERTIES.
    SetOptions(Vec<(String, String)>),
    /// UNSET TBLPROPERTIES.
    UnsetOptions(Vec<String>),
    /// COMMENT ON.
    SetComment {
        /// The column; `None` for the table.
        column: Option<String>,
        /// The comment; `None` removes it.
        text: Option<String>,
    },
}

impl AlterAction {
    /// The tag of the command.
    pub(crate) fn tag(&self) -> &'static str {
        match self {
            Self::SetComment { .. } => "COMMENT",
            _ => "ALTER TABLE",
        }
    }
}

/// INSERT.
#[derive(Clone, Debug)]
pub struct Insert {
    /// OVERWRITE: the table's rows are replaced.
    pub overwrite: bool,
    /// The table.
    pub table: TableName,
    /// AS.
    pub alias: Option<String>,
    /// The columns named, empty for all in order.
    pub columns: Vec<String>,
    /// BY NAME: the query's columns go to those of the same names.
    pub by_name: bool,
    /// DEFAULT VALUES: one row of what the table's rules say; `query` means nothing then.
    pub default_values: bool,
    /// REPLACE WHERE: the rows for which it is true are replaced.
    pub replace_where: Option<Expr>,
    /// VALUES or SELECT.
    pub query: Box<Query>,
    /// ON CONFLICT.
    pub conflict: Option<Conflict>,
    /// RETURNING, as a SELECT without FROM.
    pub returning: Option<Box<Query>>,
}

impl Insert {
    /// Whether more than the columns of the table decides what is done, or returned.
    pub(crate) fn reads_its_table(&self) -> bool {
        self.conflict.is_some() || self.replace_where.is_some() || self.returning.is_some()
    }
}

/// ON CONFLICT.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// The columns of the key as written; none: the table's primary key.
    pub key: Vec<String>,
    /// What is done with a row whose key is there.
    pub action: ConflictAction,
}

/// What ON CONFLICT does.
#[derive(Clone, Debug)]
pub enum ConflictAction {
    /// DO NOTHING: the row is left out.
    Nothing,
    /// DO UPDATE: the row that is there changes.
    Update {
        /// SET, with column names as written.
        assignments: Vec<(String, Expr)>,
        /// WHERE.
        filter: Option<Box<Expr>>,
    },
}

/// UPDATE.
#[derive(Clone, Debug)]
pub struct Update {
    /// The table.
    pub table: TableName,
    /// AS.
    pub alias: Option<String>,
    /// SET, with column names as written.
    pub assignments: Vec<(String, Expr)>,
    /// FROM: the other tables.
    pub from: Vec<TableWithJoins>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// RETURNING, as a SELECT without FROM.
    pub returning: Option<Box<Query>>,
}

/// DELETE.
#[derive(Clone, Debug)]
pub struct Delete {
    /// The table.
    pub table: TableName,
    /// AS.
    pub alias: Option<String>,
    /// USING: the other tables.
    pub using: Vec<TableWithJoins>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// RETURNING, as a SELECT without FROM.
    pub returning: Option<Box<Query>>,
}

/// MERGE.
#[derive(Clone, Debug)]
pub struct Merge {
    /// The table that is changed.
    pub table: TableName,
    /// AS.
    pub alias: Option<String>,
    /// WITH SCHEMA EVOLUTION: columns of the source that the table lacks are added.
    pub evolve: bool,
    /// All rows of USING.
    pub source: Box<Query>,
    /// How the columns of the source are qualified, folded.
    pub source_name: String,
    /// ON.
    pub on: Expr,
    /// WHEN, in order.
    pub clauses: Vec<MergeClause>,
}

/// One WHEN of a MERGE.
#[derive(Clone, Debug)]
pub struct MergeClause {
    /// For which rows.
    pub when: MergeWhen,
    /// AND.
    pub condition: Option<Expr>,
    /// THEN.
    pub action: MergeAction,
}

/// The rows that a WHEN of a MERGE is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeWhen {
    /// A row of the table with a row of the source.
    Matched,
    /// A row of the source without one of the table.
    NotMatched,
    /// A row of the table without one of the source.
    NotMatchedBySource,
}

/// What a MERGE does with a row.
#[derive(Clone, Debug)]
pub enum MergeAction {
    /// DO NOTHING.
    Nothing,
    /// DELETE.
    Delete,
    /// UPDATE SET, with column names as written.
    Update(Vec<(String, Expr)>),
    /// UPDATE SET *.
    UpdateAll,
    /// INSERT.
    Insert {
        /// The columns named, empty for all in order.
        columns: Vec<String>,
        /// VALUES.
        values: Vec<Expr>,
    },
    /// INSERT *.
    InsertAll,
}

/// SHOW.
#[derive(Clone, Debug)]
pub enum Show {
    /// SHOW TABLES.
    Tables {
        /// Of one schema only.
        schema: Option<String>,
    },
    /// SHOW SCHEMAS.
    Schemas,
    /// SHOW ALL.
    All,
    /// SHOW a setting.
    Setting(String),
}

/// EXPLAIN.
#[derive(Clone, Debug)]
pub struct Explain {
    /// ANALYZE: executes.
    pub analyze: bool,
    /// VERBOSE.
    pub verbose: bool,
    /// FORMAT.
    pub format: Option<String>,
    /// What to explain.
    pub statement: Box<Statement>,
}

/// COPY .. TO.
#[derive(Clone, Debug)]
pub struct Copy {
    /// What to write.
    pub query: Box<Query>,
    /// Where to: a path or URL.
    pub target: String,
    /// The format, when said.
    pub format: Option<String>,
    /// Other options, keys in lower case.
    pub options: Vec<(String, String)>,
}

/// COPY .. FROM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyFrom {
    /// The table.
    pub table: TableName,
    /// The columns of the file in its order, when said.
    pub columns: Vec<String>,
    /// The files: a path with `*` and `?`, or a URL.
    pub source: String,
    /// The format, when said.
    pub format: Option<String>,
    /// Other options, keys in lower case.
    pub options: Vec<(String, String)>,
}
