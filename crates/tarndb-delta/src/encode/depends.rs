//! What of a table refers to a column by its logical name.
//!
//! Invariant: rather one column too many than one too few: a text that cannot be taken apart
//! refers to every column. A function is not a column, a text in quotes is none.
//! Does not: evaluate expressions.
//! Spec: Delta PROTOCOL, "Column Mapping", "CHECK Constraints", "Generated Columns".

use std::collections::BTreeMap;

use serde_json::Value;
use tarndb_table::{ColumnPath, Field, Schema};

/// Prefix of the properties that hold constraints.
const CONSTRAINTS: &str = "delta.constraints.";
const GENERATION: &str = "delta.generationExpression";
const INVARIANTS: &str = "delta.invariants";

/// The first thing that refers to `column`, in words; `None` when nothing does.
pub(super) fn referrer(
    column: &ColumnPath,
    schema: &Schema,
    properties: &BTreeMap<String, String>,
) -> Option<String> {
    let constraint = properties.iter().find_map(|(key, text)| {
        let name = key.strip_prefix(CONSTRAINTS)?;
        refers(text, column).then(|| format!("the CHECK constraint {name}"))
    });
    constraint.or_else(|| {
        let top = column.parts().next();
        let mut fields = schema.fields.iter();
        fields.find_map(|field| expression_of(field, column, top == Some(field.name.as_str())))
    })
}

/// `own`: the field is the column or holds it, so that its own generation goes with it.
fn expression_of(field: &Field, column: &ColumnPath, own: bool) -> Option<String> {
    let text = |key: &str| field.metadata.get(key).and_then(Value::as_str);
    if let Some(expression) = text(GENERATION)
        && !own
        && refers(expression, column)
    {
        return Some(format!("the generated column {}", field.name));
    }
    let invariant = text(INVARIANTS)?;
    let refers = match invariant_expression(invariant) {
        Some(expression) => refers(&expression, column),
        None => true,
    };
    refers.then(|| format!("the invariant of column {}", field.name))
}

/// An invariant is JSON around an expression.
fn invariant_expression(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    let expression = value.get("expression")?.get("expression")?.as_str()?;
    Some(expression.to_owned())
}

/// Whether an expression refers to the column, to what it lies in, or to what lies in it.
fn refers(expression: &str, column: &ColumnPath) -> bool {
    let Some(chains) = chains(expression) else {
        return true;
    };
    chains.iter().any(|chain| {
        let pairs = chain.iter().zip(column.parts());
        pairs
            .into_iter()
            .all(|(name, part)| name.to_lowercase() == part.to_lowercase())
    })
}

/// The names of a text, those joined by dots together; `None` when a quote is not closed.
fn chains(text: &str) -> Option<Vec<Vec<String>>> {
    let mut chains: Vec<Vec<String>> = Vec::new();
    let mut joined = false;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (name, after) = match first {
            '\'' | '"' => {
                rest = quoted(rest, first)?.1;
                joined = false;
                continue;
            }
            '`' => quoted(rest, first)?,
            c if is_word(c) => {
                let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                (word.to_owned(), after)
            }
            c => {
                joined = c == '.' || (joined && c.is_whitespace());
                rest = rest.get(c.len_utf8()..)?;
                continue;
            }
        };
        let following = after.trim_start();
        match chains.last_mut().filter(|_| joined) {
            Some(chain) => chain.push(name),
            None if first != '`' && following.starts_with('(') => {}
            None => chains.push(vec![name]),
        }
        joined = following.starts_with('.');
        rest = after;
    }
    Some(chains)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || !c.is_ascii()
}

/// What stands between the quote at the start of `text` and the next one, and what follows. Two
/// quotes in a row are one, and so is one after a back-slash in a text.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && quote != '`' {
            name.extend(chars.next().map(|(_, c)| c));
        } else if c != quote || chars.next_if(|(_, next)| *next == quote).is_some() {
            name.push(c);
        } else {
            return Some((name, text.get(at + c.len_utf8()..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tarndb_table::{ColumnPath, DataType, Field, Schema};

    use super::{referrer, refers};

    fn path(parts: &[&str]) -> ColumnPath {
        ColumnPath::new(parts.iter().map(|part| (*part).to_owned()).collect()).unwrap()
    }

    #[test]
    fn expression_refers_to_its_columns_and_to_what_holds_them() {
        for (expression, column, expected) in [
            ("a > 3", &["a"][..], true),
            ("A > 3", &["a"], true),
            ("`A` > 3", &["a"], true),
            ("ab > 3", &["a"], false),
            ("b = 'a'", &["a"], false),
            ("b = \"a\" AND c", &["a"], false),
            ("b = 'it''s a' or c = 'x\\'a'", &["a"], false),
            ("year(a) = 2", &["a"], true),
            ("year(a) = 2", &["year"], false),
            ("year = 2", &["year"], true),
            ("s.a > 1", &["s"], true),
            ("s.a > 1", &["s", "a"], true),
            ("s . `a` > 1", &["s", "b"], false),
            ("s > 1", &["s", "b"], true),
            ("s.a > 1", &["a"], false),
            ("`s.a` > 1", &["s.a"], true),
            ("`s.a` > 1", &["s"], false),
            ("stra\u{df}e > 1", &["stra\u{df}e"], true),
            ("b = 'open", &["a"], true),
            ("b = `open", &["a"], true),
            ("", &["a"], false),
            ("1.5 > b", &["a"], false),
        ] {
            assert_eq!(refers(expression, &path(column)), expected, "{expression}");
        }
    }

    #[test]
    fn referrer_is_named() {
        let mut doubled = Field::new("doubled", DataType::Long, true);
        doubled
            .metadata
            .insert("delta.generationExpression".into(), "a * 2".into());
        let mut checked = Field::new("checked", DataType::Long, true);
        let invariant = r#"{"expression":{"expression":"checked > 3"}}"#;
        checked
            .metadata
            .insert("delta.invariants".into(), invariant.into());
        let schema = Schema::new(vec![
            Field::new("a", DataType::Long, true),
            doubled,
            checked,
        ]);
        let properties = BTreeMap::from([("delta.constraints.few".into(), "b < 9".into())]);
        let of = |column| referrer(&path(&[column]), &schema, &properties);
        assert_eq!(of("a").as_deref(), Some("the generated column doubled"));
        assert_eq!(of("b").as_deref(), Some("the CHECK constraint few"));
        assert_eq!(
            of("checked").as_deref(),
            Some("the invariant of column checked")
        );
        assert_eq!(of("doubled"), None);
    }
}
