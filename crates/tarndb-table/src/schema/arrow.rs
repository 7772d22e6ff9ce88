//! The logical schema as Arrow's, and back.
//!
//! Invariant: what we hand out names no view, large or dictionary type, so that the Arrow schema
//! embedded in a data file is one that every reader knows; `from_arrow(to_arrow(s)) == s` but
//! for field metadata.
//! Spec: Delta PROTOCOL, "Primitive Types"; Parquet, "Logical Types" (names inside LIST and MAP).

use std::sync::Arc;

use arrow_schema::{
    DataType as ArrowType, Field as ArrowField, FieldRef, Fields, Schema as ArrowSchema, SchemaRef,
    TimeUnit,
};

use crate::error::TableError;
use crate::schema::{DataType, Field, Schema, nested_name};

/// Name of the elements inside a LIST.
pub(crate) const ELEMENT: &str = "element";
pub(crate) const KEY_VALUE: &str = "key_value";
pub(crate) const KEY: &str = "key";
pub(crate) const VALUE: &str = "value";

/// Names of the parts of a variant, in the order in which they are given out.
pub(crate) const VARIANT_PARTS: [&str; 2] = ["metadata", "value"];
/// The part that holds what a shredded variant keeps apart.
pub(crate) const VARIANT_TYPED: &str = "typed_value";

/// What to do with nanosecond timestamps of an Arrow schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nanoseconds {
    /// An error that names the column.
    #[default]
    Refuse,
    /// Microseconds; the data is then checked value by value when it is written.
    CheckEachValue,
}

impl Schema {
    /// The schema in Arrow's types: Utf8, Binary, List, Map, Struct, Date32, Decimal128,
    /// Timestamp in microseconds (with zone "UTC", or without).
    pub fn to_arrow(&self) -> SchemaRef {
        let fields: Vec<ArrowField> = self.fields.iter().map(Field::to_arrow).collect();
        Arc::new(ArrowSchema::new(fields))
    }

    /// The schema of data that comes from outside. Unsigned integers are widened (64 bits to
    /// decimal(20,0)); views, dictionaries and large types become plain; half floats become
    /// floats; a Date64 becomes a date.
    ///
    /// # Errors
    /// [`TableError::NanosecondsLost`] for nanosecond timestamps, [`TableError::UnsupportedType`]
    /// for times of day, durations, intervals, unions and such. Names are not checked.
    pub fn from_arrow(schema: &ArrowSchema) -> Result<Self, TableError> {
        Self::from_arrow_with(schema, Nanoseconds::Refuse)
    }

    /// As [`Schema::from_arrow`], with a choice for nanosecond timestamps.
    ///
    /// # Errors
    /// As [`Schema::from_arrow`].
    pub fn from_arrow_with(
        schema: &ArrowSchema,
        nanoseconds: Nanoseconds,
    ) -> Result<Self, TableError> {
        let convert = |field: &FieldRef| field_from_arrow(field, "", nanoseconds);
        Ok(Self {
            fields: schema
                .fields()
                .iter()
                .map(convert)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl Field {
    /// The field in Arrow's types, without metadata.
    pub fn to_arrow(&self) -> ArrowField {
        ArrowField::new(&self.name, self.data_type.to_arrow(), self.nullable)
    }
}

impl DataType {
    /// The type as Arrow's; see [`Schema::to_arrow`].
    pub fn to_arrow(&self) -> ArrowType {
        self.to_arrow_with(Field::to_arrow)
    }

    /// The type as Arrow's, with the fields of structs as `named` gives them.
    pub(crate) fn to_arrow_with(&self, named: fn(&Field) -> ArrowField) -> ArrowType {
        match self {
            Self::Boolean => ArrowType::Boolean,
            Self::Byte => ArrowType::Int8,
            Self::Short => ArrowType::Int16,
            Self::Integer => ArrowType::Int32,
            Self::Long => ArrowType::Int64,
            Self::Float => ArrowType::Float32,
            Self::Double => ArrowType::Float64,
            Self::Decimal { precision, scale } => {
                ArrowType::Decimal128(*precision, i8::try_from(*scale).unwrap_or(i8::MAX))
            }
            Self::String => ArrowType::Utf8,
            Self::Binary => ArrowType::Binary,
            Self::Date => ArrowType::Date32,
            Self::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::TimestampNtz => ArrowType::Timestamp(TimeUnit::Microsecond, None),
            Self::Array {
                element,
                contains_null,
            } => {
                let element =
                    ArrowField::new(ELEMENT, element.to_arrow_with(named), *contains_null);
                ArrowType::List(Arc::new(element))
            }
            Self::Map {
                key,
                value,
                value_contains_null,
            } => {
                let key = ArrowField::new(KEY, key.to_arrow_with(named), false);
                let value =
                    ArrowField::new(VALUE, value.to_arrow_with(named), *value_contains_null);
                let entry = ArrowType::Struct(Fields::from(vec![key, value]));
                ArrowType::Map(Arc::new(ArrowField::new(KEY_VALUE, entry, false)), false)
            }
            Self::Struct(fields) => {
                ArrowType::Struct(fields.iter().map(|field| Arc::new(named(field))).collect())
            }
            Self::Void => ArrowType::Null,
            Self::Variant => ArrowType::Struct(variant_fields()),
        }
    }

    /// The type of data that comes from outside; see [`Schema::from_arrow`].
    ///
    /// # Errors
    /// As [`Schema::from_arrow`]; `column` is named in them.
    pub fn from_arrow(
        data_type: &ArrowType,
        column: &str,
        nanoseconds: Nanoseconds,
    ) -> Result<Self, TableError> {
        type_from_arrow(data_type, column, nanoseconds)
    }
}

/// The parts of a variant.
pub(crate) fn variant_fields() -> Fields {
    let part = |name: &str| ArrowField::new(name, ArrowType::Binary, false);
    Fields::from(VARIANT_PARTS.map(part).to_vec())
}

fn field_from_arrow(
    field: &FieldRef,
    parent: &str,
    nanoseconds: Nanoseconds,
) -> Result<Field, TableError> {
    let path = nested_name(parent, field.name());
    let data_type = type_from_arrow(field.data_type(), &path, nanoseconds)?;
    Ok(Field::new(field.name(), data_type, field.is_nullable()))
}

fn type_from_arrow(
    data_type: &ArrowType,
    path: &str,
    nanoseconds: Nanoseconds,
) -> Result<DataType, TableError> {
    Ok(match data_type {
        ArrowType::Null => DataType::Void,
        ArrowType::Boolean => DataType::Boolean,
        ArrowType::Int8 => DataType::Byte,
        ArrowType::Int16 | ArrowType::UInt8 => DataType::Short,
        ArrowType::Int32 | ArrowType::UInt16 => DataType::Integer,
        ArrowType::Int64 | ArrowType::UInt32 => DataType::Long,
        ArrowType::UInt64 => DataType::Decimal {
            precision: 20,
            scale: 0,
        },
        ArrowType::Float16 | ArrowType::Float32 => DataType::Float,
        ArrowType::Float64 => DataType::Double,
        ArrowType::Decimal32(precision, scale)
        | ArrowType::Decimal64(precision, scale)
        | ArrowType::Decimal128(precision, scale)
        | ArrowType::Decimal256(precision, scale) => {
            decimal_from_arrow(*precision, *scale).ok_or_else(|| unsupported(data_type, path))?
        }
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => DataType::String,
        ArrowType::Binary
        | ArrowType::LargeBinary
        | ArrowType::BinaryView
        | ArrowType::FixedSizeBinary(_) => DataType::Binary,
        ArrowType::Date32 | ArrowType::Date64 => DataType::Date,
        ArrowType::Timestamp(TimeUnit::Nanosecond, _) if nanoseconds == Nanoseconds::Refuse => {
            return Err(TableError::NanosecondsLost {
                column: path.to_owned(),
                value: data_type.to_string(),
            });
        }
        ArrowType::Timestamp(_, Some(_)) => DataType::Timestamp,
        ArrowType::Timestamp(_, None) => DataType::TimestampNtz,
        ArrowType::Dictionary(_, value) => type_from_arrow(value, path, nanoseconds)?,
        ArrowType::RunEndEncoded(_, values) => {
            type_from_arrow(values.data_type(), path, nanoseconds)?
        }
        ArrowType::List(element)
        | ArrowType::LargeList(element)
        | ArrowType::ListView(element)
        | ArrowType::LargeListView(element)
        | ArrowType::FixedSizeList(element, _) => DataType::Array {
            element: Box::new(type_from_arrow(
                element.data_type(),
                &nested_name(path, ELEMENT),
                nanoseconds,
            )?),
            contains_null: element.is_nullable(),
        },
        ArrowType::Map(entries, _) => map_from_arrow(entries, path, nanoseconds)?,
        ArrowType::Struct(fields) => {
            let convert = |field: &FieldRef| field_from_arrow(field, path, nanoseconds);
            DataType::Struct(fields.iter().map(convert).collect::<Result<_, _>>()?)
        }
        ArrowType::Time32(_)
        | ArrowType::Time64(_)
        | ArrowType::Duration(_)
        | ArrowType::Interval(_)
        | ArrowType::Union(_, _) => return Err(unsupported(data_type, path)),
    })
}

fn map_from_arrow(
    entries: &FieldRef,
    path: &str,
    nanoseconds: Nanoseconds,
) -> Result<DataType, TableError> {
    let ArrowType::Struct(fields) = entries.data_type() else {
        return Err(unsupported(entries.data_type(), path));
    };
    let [key, value] = fields.as_ref() else {
        return Err(unsupported(entries.data_type(), path));
    };
    Ok(DataType::Map {
        key: Box::new(type_from_arrow(
            key.data_type(),
            &nested_name(path, KEY),
            nanoseconds,
        )?),
        value: Box::new(type_from_arrow(
            value.data_type(),
            &nested_name(path, VALUE),
            nanoseconds,
        )?),
        value_contains_null: value.is_nullable(),
    })
}

/// A negative scale (Arrow allows it) becomes digits before the point.
fn decimal_from_arrow(precision: u8, scale: i8) -> Option<DataType> {
    let scale_up = u8::try_from(-i16::from(scale)).unwrap_or(0);
    let scale = u8::try_from(scale).unwrap_or(0);
    let precision = precision.checked_add(scale_up)?.max(scale);
    (1..=38)
        .contains(&precision)
        .then_some(DataType::Decimal { precision, scale })
}

fn unsupported(data_type: &ArrowType, path: &str) -> TableError {
    let advice = match data_type {
        ArrowType::Time32(_) | ArrowType::Time64(_) => "cast the time of day to a string",
        ArrowType::Duration(_) | ArrowType::Interval(_) => "cast the interval to a number",
        ArrowType::Decimal256(_, _) => "use at most 38 digits",
        _ => "cast it to another type",
    };
    TableError::UnsupportedType {
        column: path.to_owned(),
        data_type: data_type.to_string(),
        advice,
    }
}
