//! `Indexed`: which leaf columns of a table get statistics.
//!
//! Invariant: names are compared ignoring case; a struct stands for all its leaves; clustering
//! columns are always among them.
//! Spec: Delta PROTOCOL, "Per-file Statistics", "Clustered Table".

use crate::schema::fold_name;

/// A column, or a field inside one.
pub type NamePath = Vec<String>;

/// Which leaves are indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// The first leaves in the order of the schema; not where `named` is given.
    pub first: usize,
    /// Columns by the names that the table shows.
    pub named: Option<Vec<NamePath>>,
    /// Columns by their names in files, whatever else is said.
    pub always: Vec<NamePath>,
}

impl From<usize> for Indexed {
    fn from(first: usize) -> Self {
        Self {
            first,
            named: None,
            always: Vec::new(),
        }
    }
}

impl Indexed {
    /// Is the leaf at `place` of the schema, of these shown and stored names, indexed?
    pub(crate) fn includes(&self, place: usize, shown: &[String], stored: &[String]) -> bool {
        let chosen = match &self.named {
            Some(named) => named.iter().any(|column| holds(column, shown)),
            None => place < self.first,
        };
        chosen || self.always.iter().any(|column| holds(column, stored))
    }
}

fn holds(column: &[String], leaf: &[String]) -> bool {
    let mut pairs = column.iter().zip(leaf);
    column.len() <= leaf.len() && pairs.all(|(a, b)| fold_name(a) == fold_name(b))
}

/// The columns of a list: commas between them, dots inside, back-ticks around names that have
/// either; a doubled back-tick is one. `None` when malformed.
pub fn parse_column_list(text: &str) -> Option<Vec<NamePath>> {
    let mut columns = Vec::new();
    let mut column = NamePath::new();
    let mut rest = text.trim_start();
    if rest.is_empty() {
        return Some(columns);
    }
    loop {
        let (name, after) = parse_name(rest)?;
        column.push(name);
        let after = after.trim_start();
        rest = match after.chars().next() {
            None => {
                columns.push(column);
                return Some(columns);
            }
            Some('.') => after.get(1..)?.trim_start(),
            Some(',') => {
                columns.push(std::mem::take(&mut column));
                after.get(1..)?.trim_start()
            }
            Some(_) => return None,
        };
    }
}

/// One name, and what follows it.
fn parse_name(text: &str) -> Option<(String, &str)> {
    let Some(mut rest) = text.strip_prefix('`') else {
        let end = text.find(['.', ',', '`']).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let name = name.trim_end();
        return (!name.is_empty()).then(|| (name.to_owned(), rest));
    };
    let mut name = String::new();
    loop {
        let (part, after) = rest.split_once('`')?;
        name.push_str(part);
        let Some(doubled) = after.strip_prefix('`') else {
            return (!name.is_empty()).then_some((name, after));
        };
        name.push('`');
        rest = doubled;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Option<Vec<String>> {
        let columns = parse_column_list(text)?;
        Some(columns.iter().map(|column| column.join("|")).collect())
    }

    #[test]
    fn column_lists_are_read_with_dots_and_back_ticks() {
        let good: &[(&str, &[&str])] = &[
            ("", &[]),
            ("a", &["a"]),
            (" a , b.c ", &["a", "b|c"]),
            ("`a.b`.c,`d``e`", &["a.b|c", "d`e"]),
        ];
        for (text, columns) in good {
            assert_eq!(paths(text).unwrap(), *columns, "{text}");
        }
        for bad in ["a,", ",a", "a..b", "`a", "a`b`", "a b`"] {
            assert_eq!(paths(bad), None, "{bad}");
        }
    }

    #[test]
    fn named_columns_replace_the_first_and_clustering_columns_stay() {
        let path = |names: &[&str]| -> NamePath { names.iter().map(|n| (*n).to_owned()).collect() };
        let indexed = Indexed {
            first: 1,
            named: Some(vec![path(&["S"])]),
            always: vec![path(&["col-1"])],
        };
        assert!(!indexed.includes(0, &path(&["a"]), &path(&["a"])));
        assert!(indexed.includes(7, &path(&["s", "x"]), &path(&["s", "x"])));
        assert!(indexed.includes(9, &path(&["b"]), &path(&["col-1"])));
        assert!(Indexed::from(1).includes(0, &path(&["a"]), &path(&["a"])));
        assert!(!Indexed::from(1).includes(1, &path(&["b"]), &path(&["b"])));
    }
}
