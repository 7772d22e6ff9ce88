//! Transactions, SHOW, SET, RESET, DESCRIBE, EXPLAIN, COPY, CONVERT, ATTACH and DETACH.
//!
//! Does not: know which settings exist; that is `setting`.

use std::time::Duration;

use datafusion::sql::sqlparser::tokenizer::Token;
use tarndb_table::Field;
use tarndb_txn::Isolation;

use crate::error::SqlError;
use crate::parser::ast::{Explain, Restore, RestoreTarget, Savepoint, Show, Statement, Vacuum};
use crate::parser::cursor::Cursor;
use crate::parser::{copy, ddl, parse_statement, types, upkeep};

/// BEGIN, COMMIT, ROLLBACK and their other spellings.
pub(crate) fn transaction(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if cursor.word("savepoint") {
        let name = cursor.identifier("the name of a savepoint")?;
        return Ok(Statement::Savepoint(Savepoint::Set(name)));
    }
    if cursor.word("release") {
        cursor.word("savepoint");
        let name = cursor.identifier("the name of a savepoint")?;
        return Ok(Statement::Savepoint(Savepoint::Release(name)));
    }
    if cursor.words(&["start", "transaction"]) {
        return begin(cursor);
    }
    if cursor.word("begin") {
        let _ = cursor.word("transaction") || cursor.word("work");
        return begin(cursor);
    }
    if cursor.word("commit") || cursor.word("end") {
        let _ = cursor.word("transaction") || cursor.word("work");
        return Ok(Statement::Commit);
    }
    if cursor.word("rollback") || cursor.word("abort") {
        let _ = cursor.word("transaction") || cursor.word("work");
        if cursor.word("to") {
            cursor.word("savepoint");
            let name = cursor.identifier("the name of a savepoint")?;
            return Ok(Statement::Savepoint(Savepoint::RollbackTo(name)));
        }
        return Ok(Statement::Rollback);
    }
    Err(cursor.expected("START TRANSACTION"))
}

fn begin(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let mut isolation = None;
    while !cursor.is_end() {
        if cursor.words(&["isolation", "level"]) {
            isolation = Some(isolation_level(cursor)?);
        } else if cursor.words(&["read", "write"]) {
            // The default.
        } else if cursor.words(&["read", "only"]) {
            return Err(cursor.unsupported("READ ONLY", "a transaction that writes nothing is one"));
        } else {
            return Err(cursor.expected("ISOLATION LEVEL or the end of the statement"));
        }
        cursor.token(&Token::Comma);
    }
    Ok(Statement::Begin { isolation })
}

/// The words of an isolation level.
pub(crate) fn isolation_level(cursor: &mut Cursor<'_>) -> Result<Isolation, SqlError> {
    if cursor.word("serializable") {
        return Ok(Isolation::Serializable);
    }
    if cursor.word("snapshot") || cursor.words(&["repeatable", "read"]) {
        return Ok(Isolation::Snapshot);
    }
    // A stronger level than asked for is always right.
    if cursor.words(&["read", "committed"]) || cursor.words(&["read", "uncommitted"]) {
        return Ok(Isolation::Snapshot);
    }
    Err(cursor.expected("SNAPSHOT or SERIALIZABLE"))
}

/// The other statements of this module.
pub(crate) fn statement(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if cursor.word("show") {
        return show(cursor).map(Statement::Show);
    }
    if cursor.word("set") {
        return set(cursor);
    }
    if cursor.word("reset") {
        return Ok(Statement::Reset {
            name: cursor.dotted("a setting")?.to_lowercase(),
        });
    }
    if cursor.word("restore") {
        return restore(cursor).map(Statement::Restore);
    }
    if cursor.word("describe") || cursor.word("desc") {
        // A table may be called so.
        if cursor.at_word("history") && matches!(cursor.peek_at(1), Token::Word(_)) {
            cursor.skip();
            let name = cursor.table_name()?;
            let limit = cursor.word("limit").then(|| cursor.unsigned());
            let limit = limit.transpose()?;
            return Ok(Statement::DescribeHistory { name, limit });
        }
        cursor.word("table");
        return Ok(Statement::Describe {
            name: cursor.table_name()?,
        });
    }
    if cursor.word("explain") {
        return explain(cursor).map(Statement::Explain);
    }
    if cursor.word("copy") {
        return copy::copy(cursor);
    }
    if cursor.word("vacuum") {
        return vacuum(cursor).map(Statement::Vacuum);
    }
    if let Some(statement) = upkeep::statement(cursor)? {
        return Ok(Statement::Upkeep(statement));
    }
    if cursor.words(&["attach", "table"]) {
        return attach(cursor);
    }
    if cursor.words(&["detach", "table"]) {
        let if_exists = cursor.words(&["if", "exists"]);
        let name = cursor.table_name()?;
        return Ok(Statement::Detach { name, if_exists });
    }
    if cursor.words(&["convert", "to", "delta"]) {
        return convert(cursor);
    }
    Err(cursor.expected(
        "a statement (SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, TRUNCATE, \
         COMMENT ON, BEGIN, COMMIT, ROLLBACK, SHOW, DESCRIBE, EXPLAIN, COPY, CONVERT TO DELTA, \
         ATTACH TABLE, DETACH TABLE, SET, RESTORE, VACUUM, OPTIMIZE, \
         CHECKPOINT, ANALYZE)",
    ))
}

/// `[TABLE] table TO VERSION AS OF n | TO TIMESTAMP AS OF '..'`.
fn restore(cursor: &mut Cursor<'_>) -> Result<Restore, SqlError> {
    cursor.word("table");
    let name = cursor.table_name()?;
    cursor.expect_word("to")?;
    let to = if cursor.words(&["version", "as", "of"]) {
        RestoreTarget::Version(cursor.unsigned()?)
    } else if cursor.words(&["timestamp", "as", "of"]) {
        RestoreTarget::Timestamp(cursor.expect_string("a timestamp such as '2026-01-31 12:00:00'")?)
    } else {
        return Err(cursor.expected("VERSION AS OF n or TIMESTAMP AS OF '..'"));
    };
    Ok(Restore { name, to })
}

/// `table | DATABASE [RETAIN n HOURS | DAYS] [DRY RUN]`.
fn vacuum(cursor: &mut Cursor<'_>) -> Result<Vacuum, SqlError> {
    let name = match cursor.word("database") {
        true => None,
        false => Some(cursor.table_name()?),
    };
    let retention = match cursor.word("retain") {
        true => Some(retention(cursor)?),
        false => None,
    };
    let dry_run = cursor.word("dry");
    if dry_run {
        cursor.expect_word("run")?;
    }
    Ok(Vacuum {
        name,
        retention,
        dry_run,
    })
}

fn retention(cursor: &mut Cursor<'_>) -> Result<Duration, SqlError> {
    let number = cursor.unsigned()?;
    let unit_seconds = if cursor.word("hours") || cursor.word("hour") {
        3600
    } else if cursor.word("days") || cursor.word("day") {
        24 * 3600
    } else {
        return Err(cursor.expected("HOURS or DAYS"));
    };
    let seconds = number.checked_mul(unit_seconds);
    let seconds = seconds.ok_or_else(|| cursor.error("the retention is too long"))?;
    Ok(Duration::from_secs(seconds))
}

/// `ATTACH TABLE '<url>' AS name`; also of a path as a name, delta.`<url>`.
fn attach(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let url = match cursor.string() {
        Some(url) => url,
        None => cursor.table_name()?.name,
    };
    cursor.expect_word("as")?;
    let name = cursor.table_name()?;
    Ok(Statement::Attach { url, name })
}

/// `CONVERT TO DELTA '<url>' [PARTITIONED BY (name type, ..)]`; also Spark's parquet.`<url>`.
fn convert(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let url = match cursor.string() {
        Some(url) => url,
        None => cursor.table_name()?.name,
    };
    let partitions = if cursor.words(&["partitioned", "by"]) {
        cursor.list(|cursor| {
            let name = cursor.identifier("a partition column")?;
            Ok(Field::new(name, types::data_type(cursor)?, true))
        })?
    } else {
        Vec::new()
    };
    Ok(Statement::Convert { url, partitions })
}

fn show(cursor: &mut Cursor<'_>) -> Result<Show, SqlError> {
    if cursor.word("tables") {
        let schema = if cursor.word("in") || cursor.word("from") {
            Some(cursor.identifier("a schema name")?)
        } else {
            None
        };
        return Ok(Show::Tables { schema });
    }
    if cursor.word("schemas") || cursor.word("databases") {
        return Ok(Show::Schemas);
    }
    if cursor.word("all") {
        return Ok(Show::All);
    }
    if cursor.words(&["transaction", "isolation", "level"]) {
        return Ok(Show::Setting("tarndb.isolation".to_owned()));
    }
    Ok(Show::Setting(
        cursor
            .dotted("TABLES, SCHEMAS, ALL or a setting")?
            .to_lowercase(),
    ))
}

fn set(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if cursor.words(&["transaction", "isolation", "level"])
        || cursor.words(&["session", "characteristics"])
    {
        return Err(cursor.unsupported("SET TRANSACTION", "say BEGIN ISOLATION LEVEL .."));
    }
    let _ = cursor.word("session") || cursor.word("local");
    if cursor.words(&["time", "zone"]) {
        let value = ddl::option_value(cursor)?;
        return Ok(Statement::Set {
            name: "datafusion.execution.time_zone".to_owned(),
            value,
        });
    }
    let name = cursor.dotted("a setting")?.to_lowercase();
    if !cursor.token(&Token::Eq) {
        cursor.expect_word("to")?;
    }
    Ok(Statement::Set {
        name,
        value: ddl::option_value(cursor)?,
    })
}

fn explain(cursor: &mut Cursor<'_>) -> Result<Explain, SqlError> {
    let (mut analyze, mut verbose, mut format) = (false, false, None);
    let options = cursor.peek() == &Token::LParen
        && ["analyze", "verbose", "format"]
            .iter()
            .any(|w| cursor.at_word_ahead(1, w));
    if options {
        cursor.skip();
    }
    loop {
        if cursor.word("analyze") {
            analyze = true;
        } else if cursor.word("verbose") {
            verbose = true;
        } else if cursor.word("format") {
            format = Some(cursor.identifier("a format")?.to_lowercase());
        } else {
            break;
        }
        cursor.token(&Token::Comma);
    }
    if options {
        cursor.expect(&Token::RParen)?;
    }
    let refused = |cursor: &Cursor<'_>| {
        cursor.unsupported(
            "EXPLAIN of this statement",
            "queries, INSERT, UPDATE, DELETE and MERGE can be explained",
        )
    };
    // Not read at all: each would be one descent more.
    if cursor.at_word("explain") {
        return Err(refused(cursor));
    }
    let statement = parse_statement(cursor)?;
    match statement {
        Statement::Query(_)
        | Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Merge(_) => Ok(Explain {
            analyze,
            verbose,
            format,
            statement: Box::new(statement),
        }),
        _ => Err(refused(cursor)),
    }
}
