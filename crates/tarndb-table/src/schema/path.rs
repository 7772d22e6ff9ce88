//! `ColumnPath`: the way to a column, or to a field inside of one.
//!
//! Invariant: never empty; names compare as those of columns do, without regard to case. Into an
//! array leads `element`, into a map `key` and `value`.
//! Does not: know how a format names what is inside a column.
//! Spec: Delta PROTOCOL, "Schema Serialization Format".

use std::fmt;

use crate::schema::{DataType, Field, Schema, fold_name};

/// The step into an array.
pub const ELEMENT_STEP: &str = "element";
/// The step to the keys of a map.
pub const KEY_STEP: &str = "key";
/// The step to the values of a map.
pub const VALUE_STEP: &str = "value";

/// The way to a column or to a part of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnPath {
    parents: Vec<String>,
    leaf: String,
}

impl ColumnPath {
    /// A column of the table itself.
    pub fn top(name: impl Into<String>) -> Self {
        Self {
            parents: Vec::new(),
            leaf: name.into(),
        }
    }

    /// A path of these parts, the outermost first; `None` without any.
    pub fn new(mut parts: Vec<String>) -> Option<Self> {
        let leaf = parts.pop()?;
        let parents = parts;
        Some(Self { parents, leaf })
    }

    /// What `name` is called inside of this.
    #[must_use]
    pub fn child(&self, name: impl Into<String>) -> Self {
        let parents = self.parts().map(str::to_owned).collect();
        let leaf = name.into();
        Self { parents, leaf }
    }

    /// The same place under another name.
    #[must_use]
    pub fn sibling(&self, name: impl Into<String>) -> Self {
        Self {
            parents: self.parents.clone(),
            leaf: name.into(),
        }
    }

    /// Its own name.
    pub fn leaf(&self) -> &str {
        &self.leaf
    }

    /// The names of what it lies in, the outermost first.
    pub fn parents(&self) -> &[String] {
        &self.parents
    }

    /// All names, the outermost first.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        let parents = self.parents.iter().map(String::as_str);
        parents.chain([self.leaf.as_str()])
    }

    /// Whether it is a column of the table itself.
    pub fn is_top(&self) -> bool {
        self.parents.is_empty()
    }
}

impl fmt::Display for ColumnPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, part) in self.parts().enumerate() {
            if at > 0 {
                f.write_str(".")?;
            }
            if part.contains(['.', '`']) {
                write!(f, "`{}`", part.replace('`', "``"))?;
            } else {
                f.write_str(part)?;
            }
        }
        Ok(())
    }
}

impl From<&str> for ColumnPath {
    fn from(name: &str) -> Self {
        Self::top(name)
    }
}

/// Position of a name among fields: an exact match first, else without regard to case.
pub fn position(fields: &[Field], name: &str) -> Option<usize> {
    let exact = fields.iter().position(|field| field.name == name);
    exact.or_else(|| {
        let folded = fold_name(name);
        let names = fields.iter();
        names
            .enumerate()
            .find_map(|(at, field)| (fold_name(&field.name) == folded).then_some(at))
    })
}

impl Schema {
    /// The field at a path, with the path spelled as in the schema.
    pub fn field_at(&self, path: &ColumnPath) -> Option<(ColumnPath, &Field)> {
        let mut spelled = Vec::new();
        let fields = fields_at(&self.fields, path.parents(), &mut spelled)?;
        let field = fields.get(position(fields, path.leaf())?)?;
        spelled.push(field.name.clone());
        Some((ColumnPath::new(spelled)?, field))
    }

    /// The fields of the table (no parts) or of the struct at the path of the parts.
    pub fn fields_at_mut(&mut self, parts: &[String]) -> Option<&mut Vec<Field>> {
        fields_at_mut(&mut self.fields, parts)
    }
}

fn fields_at<'a>(
    fields: &'a [Field],
    parts: &[String],
    spelled: &mut Vec<String>,
) -> Option<&'a [Field]> {
    let Some((first, rest)) = parts.split_first() else {
        return Some(fields);
    };
    let field = fields.get(position(fields, first)?)?;
    spelled.push(field.name.clone());
    type_fields(&field.data_type, rest, spelled)
}

fn type_fields<'a>(
    data_type: &'a DataType,
    parts: &[String],
    spelled: &mut Vec<String>,
) -> Option<&'a [Field]> {
    if let DataType::Struct(fields) = data_type {
        return fields_at(fields, parts, spelled);
    }
    let (step, rest) = parts.split_first()?;
    let (name, inner) = match data_type {
        DataType::Array { element, .. } if step == ELEMENT_STEP => (ELEMENT_STEP, element),
        DataType::Map { key, .. } if step == KEY_STEP => (KEY_STEP, key),
        DataType::Map { value, .. } if step == VALUE_STEP => (VALUE_STEP, value),
        _ => return None,
    };
    spelled.push(name.to_owned());
    type_fields(inner, rest, spelled)
}

fn fields_at_mut<'a>(fields: &'a mut Vec<Field>, parts: &[String]) -> Option<&'a mut Vec<Field>> {
    let Some((first, rest)) = parts.split_first() else {
        return Some(fields);
    };
    let at = position(fields, first)?;
    type_fields_mut(&mut fields.get_mut(at)?.data_type, rest)
}

fn type_fields_mut<'a>(
    data_type: &'a mut DataType,
    parts: &[String],
) -> Option<&'a mut Vec<Field>> {
    if let DataType::Struct(fields) = data_type {
        return fields_at_mut(fields, parts);
    }
    let (step, rest) = parts.split_first()?;
    match data_type {
        DataType::Array { element, .. } if step == ELEMENT_STEP => type_fields_mut(element, rest),
        DataType::Map { key, .. } if step == KEY_STEP => type_fields_mut(key, rest),
        DataType::Map { value, .. } if step == VALUE_STEP => type_fields_mut(value, rest),
        _ => None,
    }
}
