//! The table of SQL type names, and the way to the engine's types.
//!
//! Invariant: `NAMES` is the whole truth about plain type names; `docs/sql/types.md` shows the
//! same table and a test compares the two.
//! Spec: docs/sql/types.md.

use std::sync::Arc;

use arrow_schema::FieldRef;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast;
use tarndb_table::rules::CHAR_VARCHAR;
use tarndb_table::{ColumnPath, DataType, Field, Schema};

use crate::error::SqlError;
use crate::name;
use crate::parser::parse_type;

/// How deep types may nest. A table keeps its schema as JSON, which no reader takes with more than
/// 127 brackets inside each other.
pub(crate) const LEVELS_MAX: usize = 100;
/// What a struct counts for: it has three brackets in a schema, an array or map one.
pub(crate) const STRUCT_LEVELS: usize = 3;

/// How deep a type nests.
pub(crate) fn levels(data_type: &DataType) -> usize {
    match data_type {
        DataType::Array { element, .. } => 1 + levels(element),
        DataType::Map { key, value, .. } => 1 + levels(key).max(levels(value)),
        DataType::Struct(fields) => {
            let inside = fields.iter().map(|field| levels(&field.data_type));
            STRUCT_LEVELS + inside.max().unwrap_or(0)
        }
        _ => 0,
    }
}

/// What is said of a type that nests deeper than [`LEVELS_MAX`].
pub(crate) fn too_nested() -> String {
    format!("a type nests deeper than {LEVELS_MAX} levels (a STRUCT counts as {STRUCT_LEVELS})")
}

/// What a type name means.
pub(crate) enum Named {
    /// This type.
    Type(DataType),
    /// Known, but no table stores it; the text says what to use.
    Refused(String),
    /// Not known.
    Unknown,
}

/// SQL names (lower case) and the name of the Delta type each stands for. `decimal` takes
/// arguments, the rest ignores a length.
pub(crate) const NAMES: &[(&str, &[&str])] = &[
    ("boolean", &["boolean", "bool"]),
    ("byte", &["tinyint", "int1", "byte"]),
    (
        "short",
        &[
            "smallint",
            "int2",
            "int16",
            "short",
            "tinyint unsigned",
            "utinyint",
            "uint8",
        ],
    ),
    (
        "integer",
        &[
            "int",
            "integer",
            "int4",
            "int32",
            "smallint unsigned",
            "usmallint",
            "uint16",
        ],
    ),
    (
        "long",
        &[
            "bigint",
            "int8",
            "int64",
            "long",
            "int unsigned",
            "integer unsigned",
            "uinteger",
            "uint32",
        ],
    ),
    ("decimal(20,0)", &["bigint unsigned", "ubigint", "uint64"]),
    ("float", &["real", "float", "float4"]),
    ("double", &["double", "double precision", "float8"]),
    ("decimal(38,10)", &["decimal", "numeric", "dec"]),
    (
        "string",
        &[
            "string",
            "text",
            "varchar",
            "char",
            "character",
            "character varying",
            "char varying",
            "nvarchar",
            "bpchar",
        ],
    ),
    ("binary", &["binary", "varbinary", "bytea", "blob", "bytes"]),
    ("date", &["date"]),
    (
        "timestamp",
        &[
            "timestamptz",
            "timestamp with time zone",
            "timestamp_ltz",
            "timestamp with local time zone",
        ],
    ),
    (
        "timestamp_ntz",
        &[
            "timestamp",
            "timestamp_ntz",
            "timestamp without time zone",
            "datetime",
        ],
    ),
];

/// Type names of other systems that no Delta table stores.
const REFUSED: &[(&str, &str)] = &[
    (
        "time",
        "no Delta type holds a time of day: use BIGINT (microseconds) or STRING",
    ),
    (
        "time without time zone",
        "no Delta type holds a time of day: use BIGINT or STRING",
    ),
    (
        "interval",
        "no Delta type holds an interval: use BIGINT (microseconds) or STRING",
    ),
    ("uuid", "no Delta type holds a UUID: use STRING"),
    (
        "json",
        "no Delta type holds JSON: use STRING, or STRUCT and MAP",
    ),
    (
        "jsonb",
        "no Delta type holds JSON: use STRING, or STRUCT and MAP",
    ),
    ("serial", "use BIGINT; there are no sequences"),
    ("bigserial", "use BIGINT; there are no sequences"),
];

/// Resolves a plain type name (lower case) with its arguments.
pub(crate) fn named(name: &str, arguments: &[u64]) -> Named {
    if let Some((_, hint)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Named::Refused((*hint).to_owned());
    }
    let Some((target, _)) = NAMES.iter().find(|(_, names)| names.contains(&name)) else {
        return Named::Unknown;
    };
    match (*target, arguments) {
        ("string", [0]) => Named::Refused("the length of a text is at least 1".to_owned()),
        ("decimal(38,10)", [precision]) => decimal(*precision, 0),
        ("decimal(38,10)", [precision, scale]) => decimal(*precision, *scale),
        ("float", [bits]) if *bits > 24 => Named::Type(DataType::Double),
        ("timestamp" | "timestamp_ntz", [digits]) if *digits > 6 => Named::Refused(
            "timestamps are stored with microseconds: at most TIMESTAMP(6)".to_owned(),
        ),
        (target, _) => plain(target).map_or(Named::Unknown, Named::Type),
    }
}

/// The declared length of a text, as Delta records it; `None` where a name has none.
pub(crate) fn length(name: &str, arguments: &[u64]) -> Option<String> {
    let kind = match name {
        "varchar" | "character varying" | "char varying" | "nvarchar" => "varchar",
        "char" | "character" | "bpchar" => "char",
        _ => return None,
    };
    match arguments {
        [length] => Some(format!("{kind}({length})")),
        _ => None,
    }
}

/// The type of a column as CREATE TABLE takes it, with the length of a text.
pub(crate) fn sql_type(field: &Field) -> String {
    let declared = field.metadata.get(CHAR_VARCHAR);
    match declared.and_then(|text| text.as_str()) {
        Some(text) if field.data_type == DataType::String => text.to_uppercase(),
        _ => sql_name(&field.data_type),
    }
}

/// # Errors
/// The column has a length: a new type would leave it as it is, in silence.
pub(crate) fn check_no_length(schema: &Schema, column: &ColumnPath) -> Result<(), SqlError> {
    let field = schema.field_at(column);
    match field.and_then(|(_, field)| field.metadata.get(CHAR_VARCHAR)) {
        None => Ok(()),
        Some(_) => Err(SqlError::Unsupported {
            what: "a change of the length of a text".to_owned(),
            hint: Some("copy the column into a new one of type TEXT, drop this one".to_owned()),
        }),
    }
}

fn decimal(precision: u64, scale: u64) -> Named {
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision @ 1..=38), Ok(scale)) if scale <= precision => {
            Named::Type(DataType::Decimal { precision, scale })
        }
        _ => Named::Refused(format!(
            "DECIMAL({precision},{scale}) is out of range: 1 to 38 digits, of which 0 to all \
             behind the point"
        )),
    }
}

fn plain(target: &str) -> Option<DataType> {
    Some(match target {
        "boolean" => DataType::Boolean,
        "byte" => DataType::Byte,
        "short" => DataType::Short,
        "integer" => DataType::Integer,
        "long" => DataType::Long,
        "float" => DataType::Float,
        "double" => DataType::Double,
        "decimal(20,0)" => DataType::Decimal {
            precision: 20,
            scale: 0,
        },
        "decimal(38,10)" => DataType::Decimal {
            precision: 38,
            scale: 10,
        },
        "string" => DataType::String,
        "binary" => DataType::Binary,
        "date" => DataType::Date,
        "timestamp" => DataType::Timestamp,
        "timestamp_ntz" => DataType::TimestampNtz,
        _ => return None,
    })
}

/// The type as CREATE TABLE takes it, with the same meaning.
pub(crate) fn sql_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Boolean => "BOOLEAN",
        DataType::Byte => "TINYINT",
        DataType::Short => "SMALLINT",
        DataType::Integer => "INT",
        DataType::Long => "BIGINT",
        DataType::Float => "REAL",
        DataType::Double => "DOUBLE",
        DataType::String => "VARCHAR",
        DataType::Binary => "BINARY",
        DataType::Date => "DATE",
        DataType::Timestamp => "TIMESTAMPTZ",
        DataType::TimestampNtz => "TIMESTAMP",
        DataType::Decimal { precision, scale } => return format!("DECIMAL({precision},{scale})"),
        DataType::Array { element, .. } => return format!("ARRAY<{}>", sql_name(element)),
        DataType::Map { key, value, .. } => {
            return format!("MAP<{}, {}>", sql_name(key), sql_name(value));
        }
        DataType::Struct(fields) => {
            let fields = fields.iter().map(sql_field).collect::<Vec<_>>();
            return format!("STRUCT<{}>", fields.join(", "));
        }
        other => return other.to_string().to_uppercase(),
    };
    name.to_owned()
}

fn sql_field(field: &Field) -> String {
    let not_null = if field.nullable { "" } else { " NOT NULL" };
    let is_plain = field
        .name
        .starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && field
            .name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_');
    let name = if is_plain {
        field.name.clone()
    } else {
        format!("\"{}\"", field.name.replace('"', "\"\""))
    };
    format!("{name} {}{not_null}", sql_name(&field.data_type))
}

/// Names near an unknown one, for a hint.
pub(crate) fn near_names(unknown: &str) -> String {
    let known = NAMES.iter().flat_map(|(_, names)| names.iter().copied());
    name::near(unknown, known).join(" or ").to_uppercase()
}

/// The Arrow field of a table type.
pub(crate) fn arrow_field(name: &str, data_type: &DataType, nullable: bool) -> FieldRef {
    let schema = Schema {
        fields: vec![Field::new(name, data_type.clone(), nullable)],
    };
    schema.to_arrow().fields().first().map_or_else(
        || {
            Arc::new(arrow_schema::Field::new(
                name,
                arrow_schema::DataType::Null,
                true,
            ))
        },
        Arc::clone,
    )
}

/// Gives the types in CAST and typed literals the meaning they have for columns.
#[derive(Debug)]
pub(crate) struct TableTypes;

impl TypePlanner for TableTypes {
    fn plan_type_field(
        &self,
        sql_type: &ast::DataType,
    ) -> datafusion::error::Result<Option<FieldRef>> {
        Ok(parse_type(&sql_type.to_string()).map(|t| arrow_field("", &t, true)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_resolves_to_its_target() {
        for (target, names) in NAMES {
            for name in *names {
                let Named::Type(data_type) = named(name, &[]) else {
                    panic!("{name}")
                };
                assert_eq!(&data_type.to_string(), target, "{name}");
            }
        }
    }

    #[test]
    fn the_page_shows_the_same_names() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sql/types.md");
        let page = std::fs::read_to_string(path).unwrap();
        for (target, names) in NAMES {
            let row = page
                .lines()
                .find(|line| line.starts_with(&format!("| `{target}` |")))
                .unwrap_or_else(|| panic!("no row for {target}"));
            for name in *names {
                assert!(
                    row.contains(&format!("`{}`", name.to_uppercase())),
                    "{target}: {name}"
                );
            }
        }
    }

    #[test]
    fn names_shown_are_names_taken() {
        for (target, names) in NAMES {
            let data_type = parse_type(names[0]).unwrap();
            assert_eq!(&data_type.to_string(), target);
            assert_eq!(parse_type(&sql_name(&data_type)), Some(data_type));
        }
        let nested = "STRUCT<a INT NOT NULL, \"b c\" MAP<VARCHAR, ARRAY<TIMESTAMPTZ>>, \
                      c STRUCT<D DECIMAL(5,2)>>";
        assert_eq!(sql_name(&parse_type(nested).unwrap()), nested);
    }

    #[test]
    fn decimals_out_of_range_are_refused() {
        assert!(matches!(named("decimal", &[39, 0]), Named::Refused(_)));
        assert!(matches!(named("decimal", &[3, 4]), Named::Refused(_)));
        assert!(matches!(named("timestamp", &[9]), Named::Refused(_)));
    }
}
