//! JSON values on their way to a column's type.
//!
//! Invariant: a number reaches an integer, a decimal or a float only as the value that it is (a
//! decimal rounded half away from zero), and nothing else; in structs keys are spelled as the
//! fields are, and none is unknown or comes twice.
//! Spec: docs/sql/types.md, "What goes into a column".

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use tarndb_table::DataType;

use crate::import::number::Number;
use crate::import::text::no_such;
use crate::name::same;

/// The keys and values of an object in their order, twice where they come twice. The values are
/// as written, so that long numbers keep their digits.
pub(super) struct Entries<'a>(pub(super) Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntryVisitor;
        impl<'de> Visitor<'de> for EntryVisitor {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry::<String, &'de RawValue>()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(EntryVisitor)
    }
}

/// A value that is not nested as the text of its type; the error says what is wrong.
pub(super) fn leaf(raw: &str, data_type: &DataType) -> Result<Option<String>, String> {
    let wrong = || no_such(data_type);
    match (raw.as_bytes().first(), data_type) {
        (Some(b'n'), _) => Ok(None),
        (Some(b't' | b'f'), DataType::Boolean) => Ok(Some(raw.to_owned())),
        (Some(b'"'), DataType::Boolean) => Err(wrong()),
        (Some(b'"'), _) => serde_json::from_str(raw)
            .map(Some)
            .map_err(|error| error.to_string()),
        (Some(b'-' | b'0'..=b'9'), _) => number(raw, data_type).map(Some).ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

/// A number in the digits of its type; `None` when it is no value of it.
fn number(raw: &str, data_type: &DataType) -> Option<String> {
    let within = |min: i64, max: i64| {
        let whole = Number::parse(raw)?.whole()?;
        let value = whole.parse::<i64>().ok()?;
        (min..=max).contains(&value).then_some(whole)
    };
    match data_type {
        DataType::Byte => within(i8::MIN.into(), i8::MAX.into()),
        DataType::Short => within(i16::MIN.into(), i16::MAX.into()),
        DataType::Integer => within(i32::MIN.into(), i32::MAX.into()),
        DataType::Long => within(i64::MIN, i64::MAX),
        DataType::Decimal { scale, .. } => Number::parse(raw)?.rounded(*scale),
        DataType::Float => {
            let finite = raw.parse::<f32>().is_ok_and(f32::is_finite);
            finite.then(|| raw.to_owned())
        }
        DataType::Double => {
            let finite = raw.parse::<f64>().is_ok_and(f64::is_finite);
            finite.then(|| raw.to_owned())
        }
        _ => None,
    }
}

/// Writes a value of a nested type so that the engine's decoder cannot change it.
pub(super) fn rewrite(raw: &str, data_type: &DataType, out: &mut Vec<u8>) -> Result<(), String> {
    let first = raw.as_bytes().first();
    let parsed = |error: serde_json::Error| error.to_string();
    match (first, data_type) {
        (Some(b'['), DataType::Array { element, .. }) => {
            let values: Vec<&RawValue> = serde_json::from_str(raw).map_err(parsed)?;
            out.push(b'[');
            for (place, value) in values.into_iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                rewrite(value.get(), element, out)?;
            }
            out.push(b']');
        }
        (Some(b'{'), DataType::Map { .. } | DataType::Struct(_)) => {
            let Entries(entries) = serde_json::from_str(raw).map_err(parsed)?;
            object(entries, data_type, out)?;
        }
        (Some(b'"'), DataType::Decimal { scale, .. }) => {
            // The decoder cuts off what cannot be kept, where SQL rounds.
            let text: String = serde_json::from_str(raw).map_err(parsed)?;
            let digits = Number::parse(text.trim()).and_then(|n| n.rounded(*scale));
            let digits = digits.ok_or_else(|| no_such(data_type))?;
            out.extend_from_slice(digits.as_bytes());
        }
        (Some(b'-' | b'0'..=b'9'), _) => {
            let digits = number(raw, data_type).ok_or_else(|| no_such(data_type))?;
            out.extend_from_slice(digits.as_bytes());
        }
        // Texts, true and false, NULL, and what the decoder refuses.
        _ => out.extend_from_slice(raw.as_bytes()),
    }
    Ok(())
}

fn object(
    entries: Vec<(String, &RawValue)>,
    data_type: &DataType,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let mut seen = std::collections::HashSet::with_capacity(entries.len());
    out.push(b'{');
    for (place, (key, value)) in entries.into_iter().enumerate() {
        let (name, of) = match data_type {
            DataType::Struct(fields) => {
                let field = fields.iter().find(|field| same(&field.name, &key));
                let field = field.ok_or_else(|| format!("there is no field {key}"))?;
                (field.name.clone(), &field.data_type)
            }
            DataType::Map { value, .. } => (key, value.as_ref()),
            other => return Err(no_such(other)),
        };
        if place > 0 {
            out.push(b',');
        }
        let quoted = serde_json::to_string(&name).map_err(|error| error.to_string())?;
        out.extend_from_slice(quoted.as_bytes());
        out.push(b':');
        rewrite(value.get(), of, out)?;
        if !seen.insert(name) {
            return Err("a key comes twice in one object".to_owned());
        }
    }
    out.push(b'}');
    Ok(())
}
