//! Some members of a JSON object, as raw text.
//!
//! Invariant: the same members that reading the whole object into a map would give, the last of
//! a name that stands twice; an object that is broken anywhere gives none. Nothing else is kept,
//! nor is anything allocated for it.
//! Spec: none.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of these `names`, in their order; `None` when the text is not a JSON object.
pub(super) fn members<'a, const N: usize>(
    text: &'a str,
    names: &[&str; N],
) -> Option<[Option<&'a RawValue>; N]> {
    let mut found = [None; N];
    fill(text, names, &mut found)?;
    Some(found)
}

/// As [`members`], for a list that is known at run time.
pub(super) fn listed_members<'a>(
    text: &'a str,
    names: &[&str],
) -> Option<Vec<Option<&'a RawValue>>> {
    let mut found = vec![None; names.len()];
    fill(text, names, &mut found)?;
    Some(found)
}

fn fill<'a>(text: &'a str, names: &[&str], found: &mut [Option<&'a RawValue>]) -> Option<()> {
    let mut json = serde_json::Deserializer::from_str(text);
    json.deserialize_map(Object { names, found }).ok()?;
    json.end().ok()
}

struct Object<'n, 'a> {
    names: &'n [&'n str],
    found: &'n mut [Option<&'a RawValue>],
}

impl<'a> Visitor<'a> for Object<'_, 'a> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let names = self.names;
        // Members mostly come in the order in which they are asked for.
        let mut next = 0;
        while let Some(place) = map.next_key_seed(Key { names, next })? {
            let Some(place) = place else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let value = map.next_value()?;
            if let Some(cell) = self.found.get_mut(place) {
                *cell = Some(value);
            }
            next = place + 1;
        }
        Ok(())
    }
}

/// Which of the names a key is.
#[derive(Clone, Copy)]
struct Key<'n> {
    names: &'n [&'n str],
    /// Where to look first.
    next: usize,
}

impl<'a> DeserializeSeed<'a> for Key<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'a>>(self, key: D) -> Result<Self::Value, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<usize>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        if self.names.get(self.next) == Some(&key) {
            return Ok(Some(self.next));
        }
        Ok(self.names.iter().position(|name| *name == key))
    }
}
