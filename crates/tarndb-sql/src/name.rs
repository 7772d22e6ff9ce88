//! Names: kept as written, compared without regard to case.
//!
//! Invariant: two names are one exactly when their folded forms are equal. The engine only ever
//! sees folded names (tables, columns, aliases); spelling comes back with the result.

use std::collections::BTreeMap;

/// The form under which a name is compared.
pub(crate) fn fold(name: &str) -> String {
    name.to_lowercase()
}

/// Whether two names are the same.
pub(crate) fn same(a: &str, b: &str) -> bool {
    fold(a) == fold(b)
}

/// How folded names are spelled: by the tables a statement reads, else by its own text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spelling {
    columns: BTreeMap<String, String>,
    words: BTreeMap<String, String>,
}

impl Spelling {
    /// Notes a column of a table; the first spelling stays.
    pub(crate) fn note_column(&mut self, name: &str) {
        note(&mut self.columns, name);
    }

    /// Notes a word of the statement; the first spelling stays.
    pub(crate) fn note_word(&mut self, name: &str) {
        note(&mut self.words, name);
    }

    /// Notes all that another one knows.
    pub(crate) fn note_all(&mut self, other: &Self) {
        for name in other.columns.values() {
            self.note_column(name);
        }
        for name in other.words.values() {
            self.note_word(name);
        }
    }

    /// The spelling of a folded name.
    pub(crate) fn of<'a>(&'a self, folded: &'a str) -> &'a str {
        let known = self.columns.get(folded).or_else(|| self.words.get(folded));
        known.map_or(folded, String::as_str)
    }
}

fn note(map: &mut BTreeMap<String, String>, name: &str) {
    let folded = fold(name);
    if folded != name {
        map.entry(folded).or_insert_with(|| name.to_owned());
    } else {
        map.entry(folded.clone()).or_insert(folded);
    }
}

/// Up to three of `known` that `name` may have been meant to be, nearest first.
pub(crate) fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let folded = fold(name);
    let bound = (folded.chars().count() / 3).max(1) + 1;
    let mut found = known
        .into_iter()
        .map(|candidate| (distance(&folded, &fold(candidate)), candidate))
        .filter(|(distance, candidate)| {
            *distance < bound || (folded.len() > 2 && fold(candidate).contains(&folded))
        })
        .collect::<Vec<_>>();
    found.sort();
    found.dedup();
    found
        .into_iter()
        .take(3)
        .map(|(_, candidate)| candidate.to_owned())
        .collect()
}

/// Up to three tables that `schema.name` may have been meant to be: those of that name in other
/// schemas first, then those with a name near it. Tables of `default` are named without schema.
pub(crate) fn near_tables<'a>(
    schema: &str,
    name: &str,
    tables: impl IntoIterator<Item = (&'a str, &'a str)>,
    default: &str,
) -> Vec<String> {
    let shown = |of: &str, table: &str| match same(of, default) {
        true => table.to_owned(),
        false => format!("{of}.{table}"),
    };
    let mut alike = Vec::new();
    let mut others = Vec::new();
    for (of, table) in tables {
        match same(table, name) {
            true => alike.push(shown(of, table)),
            false => others.push((of, table)),
        }
    }
    alike.sort();
    let names = others.iter().map(|(_, table)| *table);
    for found in near(name, names) {
        let homes = others.iter().filter(|(_, table)| *table == found);
        let mut homes = homes.map(|(of, _)| *of).collect::<Vec<_>>();
        // The schema that was meant comes first.
        homes.sort_by_key(|of| !same(of, schema));
        alike.extend(homes.into_iter().map(|of| shown(of, &found)));
    }
    alike.truncate(3);
    alike
}

/// The number of edits between two texts: characters inserted, removed, replaced, or two
/// neighbours swapped (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let a = a.chars().collect::<Vec<_>>();
    let b = b.chars().collect::<Vec<_>>();
    let char_at = |text: &[char], place: usize| text.get(place).copied();
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    let at = |rows: &[Vec<usize>], i: usize, j: usize| {
        rows.get(i)
            .and_then(|row| row.get(j))
            .copied()
            .unwrap_or(usize::MAX / 2)
    };
    for i in 1..=a.len() {
        rows.push(vec![i]);
        for j in 1..=b.len() {
            let (x, y) = (char_at(&a, i - 1), char_at(&b, j - 1));
            let replaced = at(&rows, i - 1, j - 1) + usize::from(x != y);
            let mut best = replaced
                .min(at(&rows, i - 1, j) + 1)
                .min(at(&rows, i, j - 1) + 1);
            let swapped = i > 1 && j > 1 && x == char_at(&b, j - 2) && y == char_at(&a, i - 2);
            if swapped {
                best = best.min(at(&rows, i - 2, j - 2) + 1);
            }
            if let Some(row) = rows.last_mut() {
                row.push(best);
            }
        }
    }
    at(&rows, a.len(), b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_come_nearest_first() {
        assert_eq!(near("flihgts", ["flights", "planes"]), ["flights"]);
        assert_eq!(near("createdat", ["CreatedAt", "id"]), ["CreatedAt"]);
        assert!(near("zzz", ["flights", "planes"]).is_empty());
    }

    #[test]
    fn a_table_of_the_same_name_elsewhere_comes_first() {
        let tables = [("main", "orders2"), ("sales", "Orders"), ("main", "items")];
        let found = |schema, name| near_tables(schema, name, tables, "main");
        assert_eq!(found("main", "orders"), ["sales.Orders", "orders2"]);
        assert_eq!(found("sales", "itmes"), ["items"]);
        assert_eq!(found("sales", "order"), ["sales.Orders", "orders2"]);
        assert!(found("main", "zzz").is_empty());
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("mian", "main"), 1);
        assert_eq!(distance("abc", "abc"), 0);
    }
}
