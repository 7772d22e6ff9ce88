//! The logical schema: the types every open table format shares.
//!
//! Invariant: names keep the case they were written in and are looked up without regard to it;
//! a schema that passed [`Schema::validate`] has no two names that differ by case only.
//! Does not: know the JSON form of a schema (the codec) or Arrow's types (`schema::arrow`).
//! Spec: Delta PROTOCOL, "Schema Serialization Format".

pub mod arrow;
pub mod conform;
pub(crate) mod mapping;
pub mod path;
mod widen;

use std::collections::BTreeMap;
use std::fmt;

use crate::error::TableError;

pub use mapping::Physical;

/// A column's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataType {
    /// True or false.
    Boolean,
    /// 8-bit signed integer.
    Byte,
    /// 16-bit signed integer.
    Short,
    /// 32-bit signed integer.
    Integer,
    /// 64-bit signed integer.
    Long,
    /// 32-bit floating point.
    Float,
    /// 64-bit floating point.
    Double,
    /// Fixed point number.
    Decimal {
        /// All digits, 1 to 38.
        precision: u8,
        /// Digits after the point, at most `precision`.
        scale: u8,
    },
    /// UTF-8 text.
    String,
    /// Bytes.
    Binary,
    /// Day of the proleptic Gregorian calendar.
    Date,
    /// Instant in microseconds, UTC.
    Timestamp,
    /// Wall clock time in microseconds without zone.
    TimestampNtz,
    /// List of values.
    Array {
        /// Type of the elements.
        element: Box<DataType>,
        /// Whether an element may be NULL.
        contains_null: bool,
    },
    /// Map from keys (never NULL) to values.
    Map {
        /// Type of the keys.
        key: Box<DataType>,
        /// Type of the values.
        value: Box<DataType>,
        /// Whether a value may be NULL.
        value_contains_null: bool,
    },
    /// Named fields.
    Struct(Vec<Field>),
    /// Only NULLs; never in a data file.
    Void,
    /// A value of any type, in the binary form of the Variant specification: given out as a
    /// struct of two binaries, `metadata` and `value`. Only read, never written.
    Variant,
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            Self::Array { element, .. } => write!(f, "array<{element}>"),
            Self::Map { key, value, .. } => write!(f, "map<{key},{value}>"),
            Self::Struct(fields) => {
                f.write_str("struct<")?;
                for (i, field) in fields.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    write!(f, "{comma}{}:{}", field.name, field.data_type)?;
                }
                f.write_str(">")
            }
            simple => f.write_str(simple.simple_name().unwrap_or_default()),
        }
    }
}

impl DataType {
    /// Delta's name of a type without parameters; `None` for the others.
    fn simple_name(&self) -> Option<&'static str> {
        Some(match self {
            Self::Boolean => "boolean",
            Self::Byte => "byte",
            Self::Short => "short",
            Self::Integer => "integer",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::String => "string",
            Self::Binary => "binary",
            Self::Date => "date",
            Self::Timestamp => "timestamp",
            Self::TimestampNtz => "timestamp_ntz",
            Self::Void => "void",
            Self::Variant => "variant",
            Self::Decimal { .. } | Self::Array { .. } | Self::Map { .. } | Self::Struct(_) => {
                return None;
            }
        })
    }

    /// Reads Delta's name of a primitive type: `long`, `decimal(10, 2)`, `varchar(5)` (a
    /// string), ...
    ///
    /// # Errors
    /// [`TableError::UnknownTypeName`].
    pub fn parse_primitive(text: &str) -> Result<Self, TableError> {
        let simple = [
            Self::Boolean,
            Self::Byte,
            Self::Short,
            Self::Integer,
            Self::Long,
            Self::Float,
            Self::Double,
            Self::String,
            Self::Binary,
            Self::Date,
            Self::Timestamp,
            Self::TimestampNtz,
            Self::Void,
            Self::Variant,
        ];
        if let Some(found) = simple.into_iter().find(|t| t.simple_name() == Some(text)) {
            return Ok(found);
        }
        let unknown = || TableError::UnknownTypeName {
            text: text.to_owned(),
        };
        if text == "decimal" {
            return Ok(Self::Decimal {
                precision: 10,
                scale: 0,
            });
        }
        let (name, rest) = text.split_once('(').ok_or_else(unknown)?;
        let arguments = rest.trim_end().strip_suffix(')').ok_or_else(unknown)?;
        match name.trim() {
            "char" | "varchar" => arguments.trim().parse::<u32>().map(|_| Self::String).ok(),
            "decimal" => arguments.split_once(',').and_then(|(p, s)| {
                let (precision, scale) = (p.trim().parse().ok()?, s.trim().parse().ok()?);
                let legal = (1..=38).contains(&precision) && scale <= precision;
                legal.then_some(Self::Decimal { precision, scale })
            }),
            _ => None,
        }
        .ok_or_else(unknown)
    }

    /// Whether the type has parts (array, map, struct, variant).
    pub fn is_nested(&self) -> bool {
        matches!(
            self,
            Self::Array { .. } | Self::Map { .. } | Self::Struct(_) | Self::Variant
        )
    }

    /// Whether `test` holds for the type or any type inside it.
    pub fn any(&self, test: &dyn Fn(&DataType) -> bool) -> bool {
        test(self)
            || match self {
                Self::Array { element, .. } => element.any(test),
                Self::Map { key, value, .. } => key.any(test) || value.any(test),
                Self::Struct(fields) => fields.iter().any(|field| field.data_type.any(test)),
                _ => false,
            }
    }
}

/// A named, typed column or struct field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, case kept.
    pub name: String,
    /// Its type.
    pub data_type: DataType,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// What it is called in data files, statistics and partition values, where that is not
    /// `name`: set by the codec exactly when the table maps its columns.
    pub physical: Option<Physical>,
    /// Everything else the format keeps with it, verbatim.
    pub metadata: BTreeMap<String, serde_json::Value>,
}

impl Field {
    /// A field without metadata.
    pub fn new(name: impl Into<String>, data_type: DataType, nullable: bool) -> Self {
        Self {
            name: name.into(),
            data_type,
            nullable,
            physical: None,
            metadata: BTreeMap::new(),
        }
    }

    /// The column's comment, if it has one.
    pub fn comment(&self) -> Option<&str> {
        self.metadata
            .get("comment")
            .and_then(serde_json::Value::as_str)
    }
}

/// The columns of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    /// Columns in order.
    pub fields: Vec<Field>,
}

impl Schema {
    /// A schema of the given columns; see [`Schema::validate`].
    pub fn new(fields: Vec<Field>) -> Self {
        Self { fields }
    }

    /// A column and its position, looked up without regard to case (an exact match first).
    pub fn field(&self, name: &str) -> Option<(usize, &Field)> {
        let columns = || self.fields.iter().enumerate();
        columns().find(|(_, field)| field.name == name).or_else(|| {
            let folded = fold_name(name);
            columns().find(|(_, field)| fold_name(&field.name) == folded)
        })
    }

    /// The columns that are in data files: all but the partition columns.
    pub fn file_fields(&self, partition_columns: &[String]) -> Vec<&Field> {
        let in_file =
            |f: &&Field| !crate::partition::is_partition_column(partition_columns, &f.name);
        self.fields.iter().filter(in_file).collect()
    }

    /// Checks that a table can be made with this schema.
    ///
    /// # Errors
    /// No column, empty names, names equal but for case, forbidden characters, types that
    /// cannot be stored; each names the column.
    pub fn validate(&self) -> Result<(), TableError> {
        if self.fields.is_empty() {
            return Err(TableError::NoColumns);
        }
        validate_fields(&self.fields, "")
    }
}

/// The form of a name under which two names are the same.
pub(crate) fn fold_name(name: &str) -> String {
    name.to_lowercase()
}

fn validate_fields(fields: &[Field], parent: &str) -> Result<(), TableError> {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for field in fields {
        if field.name.is_empty() {
            return Err(TableError::EmptyColumnName {
                parent: parent.to_owned(),
            });
        }
        let path = nested_name(parent, &field.name);
        // A mapped column is never called so in a file.
        let forbidden = |c: &char| field.physical.is_none() && " ,;{}()\n\t=".contains(*c);
        if let Some(character) = field.name.chars().find(forbidden) {
            return Err(TableError::IllegalColumnName {
                column: path,
                character,
            });
        }
        if let Some(first) = seen.insert(fold_name(&field.name), &field.name) {
            return Err(TableError::DuplicateColumn {
                first: nested_name(parent, first),
                second: path,
            });
        }
        validate_type(&field.data_type, &path)?;
    }
    Ok(())
}

fn validate_type(data_type: &DataType, path: &str) -> Result<(), TableError> {
    let unsupported = |advice| TableError::UnsupportedType {
        column: path.to_owned(),
        data_type: data_type.to_string(),
        advice,
    };
    match data_type {
        DataType::Array { element, .. } => validate_type(element, &nested_name(path, "element")),
        DataType::Map { key, value, .. } => {
            validate_type(key, &nested_name(path, "key"))?;
            validate_type(value, &nested_name(path, "value"))
        }
        DataType::Struct(fields) if fields.is_empty() => {
            Err(unsupported("give the struct at least one field"))
        }
        DataType::Struct(fields) => validate_fields(fields, path),
        DataType::Decimal { precision, scale }
            if *precision == 0 || *precision > 38 || scale > precision =>
        {
            Err(unsupported(
                "use 1 to 38 digits and no more fraction digits than digits",
            ))
        }
        DataType::Void => Err(unsupported("give the column a type (CAST the NULLs)")),
        DataType::Variant => Err(unsupported("this version reads variants but writes none")),
        _ => Ok(()),
    }
}

/// `parent.name`, or `name` at the top.
pub(crate) fn nested_name(parent: &str, name: &str) -> String {
    if parent.is_empty() {
        name.to_owned()
    } else {
        format!("{parent}.{name}")
    }
}

#[cfg(test)]
mod tests;
