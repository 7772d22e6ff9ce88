//! What a table's metadata says about the values of one column.
//!
//! Invariant: a rule that is there is found, also in a nested field; one that this build does
//! not know how to keep is an error, never passed over.
//! Spec: Delta PROTOCOL, "Column Invariants", "Generated Columns", "Default Columns".

use serde_json::Value;

use super::error::RuleError;
use super::identity::Identity;
use crate::expression::{Expression, ExpressionError};
use crate::schema::{DataType, Field, Schema};

/// Key of a generated column's expression in its metadata.
pub const GENERATION_EXPRESSION: &str = "delta.generationExpression";
/// Key of a column's default.
pub const CURRENT_DEFAULT: &str = "CURRENT_DEFAULT";
/// Key of a column's invariant.
pub const INVARIANTS: &str = "delta.invariants";
/// Key of the declared CHAR or VARCHAR.
pub const CHAR_VARCHAR: &str = "__CHAR_VARCHAR_TYPE_STRING";

/// A column's declared length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Length {
    /// As declared.
    pub(super) text: String,
    /// Most characters.
    pub(super) most: usize,
    /// CHAR: shorter values are filled with blanks.
    pub(super) padded: bool,
}

/// The rules of one column.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ColumnRules {
    pub(super) generated: Option<Expression>,
    pub(super) default: Option<Expression>,
    pub(super) identity: Option<Identity>,
    pub(super) length: Option<Length>,
}

impl ColumnRules {
    pub(super) fn of(field: &Field, schema: &Schema) -> Result<Self, RuleError> {
        let generated = text(field, GENERATION_EXPRESSION)?
            .map(|text| {
                if field.data_type.is_nested() {
                    return Err(nested_generated(field, text));
                }
                Expression::parse_value(text, schema, &field.data_type)
                    .map_err(not_evaluated(format!("generated column {}", field.name)))
            })
            .transpose()?;
        let default = text(field, CURRENT_DEFAULT)?
            .map(|text| default(text, field))
            .transpose()?;
        let rules = Self {
            generated,
            default,
            identity: Identity::of(field)?,
            length: length(field)?,
        };
        rules.check_together(field)?;
        refuse_nested_lengths(&field.data_type, &field.name)?;
        Ok(rules)
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn check_together(&self, field: &Field) -> Result<(), RuleError> {
        let kinds = [
            self.generated.is_some(),
            self.default.is_some(),
            self.identity.is_some(),
        ];
        if kinds.iter().filter(|there| **there).count() > 1 {
            return Err(RuleError::IllegalRule {
                rule: format!("column {}", field.name),
                reason: "only one of generated, default and identity goes together with a column"
                    .to_owned(),
            });
        }
        Ok(())
    }
}

fn nested_generated(field: &Field, text: &str) -> RuleError {
    RuleError::NotEvaluated {
        rule: format!("generated column {}", field.name),
        source: ExpressionError::Unsupported {
            construct: format!("a value of type {}", field.data_type),
            text: text.to_owned(),
        },
    }
}

/// The default of a column; it names no other.
fn default(text: &str, field: &Field) -> Result<Expression, RuleError> {
    Expression::parse_value(text, &Schema::default(), &field.data_type)
        .map_err(not_evaluated(format!("default of column {}", field.name)))
}

pub(super) fn not_evaluated(rule: String) -> impl FnOnce(ExpressionError) -> RuleError {
    move |source| RuleError::NotEvaluated { rule, source }
}

fn text<'a>(field: &'a Field, key: &str) -> Result<Option<&'a str>, RuleError> {
    match field.metadata.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(RuleError::IllegalRule {
            rule: format!("{key} of column {}", field.name),
            reason: "it is not a text".to_owned(),
        }),
    }
}

fn length(field: &Field) -> Result<Option<Length>, RuleError> {
    let Some(declared) = text(field, CHAR_VARCHAR)? else {
        return Ok(None);
    };
    let parsed = declared.trim().strip_suffix(')').and_then(|rest| {
        let (name, most) = rest.split_once('(')?;
        let padded = match name.trim().to_ascii_lowercase().as_str() {
            "char" => true,
            "varchar" => false,
            _ => return None,
        };
        let most = most.trim().parse().ok()?;
        Some(Length {
            text: declared.to_owned(),
            most,
            padded,
        })
    });
    match parsed {
        Some(length) if field.data_type == DataType::String => Ok(Some(length)),
        _ => Err(nested_length(&field.name, declared)),
    }
}

fn nested_length(column: &str, declared: &str) -> RuleError {
    RuleError::NotEvaluated {
        rule: format!("length of column {column}"),
        source: ExpressionError::Unsupported {
            construct: "CHAR or VARCHAR inside a nested type".to_owned(),
            text: declared.to_owned(),
        },
    }
}

fn refuse_nested_lengths(data_type: &DataType, column: &str) -> Result<(), RuleError> {
    match data_type {
        DataType::Struct(fields) => fields.iter().try_for_each(|field| {
            if let Some(declared) = text(field, CHAR_VARCHAR)? {
                return Err(nested_length(&format!("{column}.{}", field.name), declared));
            }
            refuse_nested_lengths(&field.data_type, &format!("{column}.{}", field.name))
        }),
        DataType::Array { element, .. } => refuse_nested_lengths(element, column),
        DataType::Map { key, value, .. } => {
            refuse_nested_lengths(key, column)?;
            refuse_nested_lengths(value, column)
        }
        _ => Ok(()),
    }
}

/// The invariants of a field and of those inside it: the name of the field, and the text of
/// the expression.
pub(super) fn invariants(
    field: &Field,
    path: &str,
    found: &mut Vec<(String, String)>,
) -> Result<(), RuleError> {
    let path = crate::schema::nested_name(path, &field.name);
    if let Some(json) = text(field, INVARIANTS)? {
        let value: Option<Value> = serde_json::from_str(json).ok();
        let expression = value.as_ref().and_then(|value| {
            let expression = value.get("expression")?.get("expression")?;
            expression.as_str().map(str::to_owned)
        });
        let expression = expression.ok_or_else(|| RuleError::IllegalRule {
            rule: format!("invariant of column {path}"),
            reason: format!("it is not {{\"expression\":{{\"expression\":..}}}}: {json}"),
        })?;
        found.push((path.clone(), expression));
    }
    nested_invariants(&field.data_type, &path, found)
}

fn nested_invariants(
    data_type: &DataType,
    path: &str,
    found: &mut Vec<(String, String)>,
) -> Result<(), RuleError> {
    match data_type {
        DataType::Struct(fields) => fields
            .iter()
            .try_for_each(|field| invariants(field, path, found)),
        DataType::Array { element, .. } => nested_invariants(element, path, found),
        DataType::Map { key, value, .. } => {
            nested_invariants(key, path, found)?;
            nested_invariants(value, path, found)
        }
        _ => Ok(()),
    }
}

/// Whether the column's values come from elsewhere than a default.
pub(super) fn is_filled_otherwise(field: &Field) -> bool {
    let keys = [
        GENERATION_EXPRESSION,
        super::IDENTITY_START,
        super::IDENTITY_STEP,
    ];
    keys.iter().any(|key| field.metadata.contains_key(*key))
}

/// Adds the texts of a field's rules, those inside it included.
pub(super) fn write_fingerprint(field: &Field, path: &str, text: &mut String) {
    use std::fmt::Write as _;
    const KEYS: [&str; 7] = [
        GENERATION_EXPRESSION,
        CURRENT_DEFAULT,
        INVARIANTS,
        CHAR_VARCHAR,
        super::IDENTITY_START,
        super::IDENTITY_STEP,
        super::IDENTITY_EXPLICIT,
    ];
    for key in KEYS {
        if let Some(value) = field.metadata.get(key) {
            let _infallible = writeln!(text, "{path} {key}={value}");
        }
    }
    nested_fingerprint(&field.data_type, path, text);
}

fn nested_fingerprint(data_type: &DataType, path: &str, text: &mut String) {
    match data_type {
        DataType::Struct(fields) => {
            for field in fields {
                write_fingerprint(field, &format!("{path}.{}", field.name), text);
            }
        }
        DataType::Array { element, .. } => nested_fingerprint(element, path, text),
        DataType::Map { key, value, .. } => {
            nested_fingerprint(key, path, text);
            nested_fingerprint(value, path, text);
        }
        _ => {}
    }
}
