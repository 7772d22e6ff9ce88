//! `delta.dataSkippingStatsColumns`: columns named in a property, which follow their columns.
//!
//! Invariant: what does not name the column stays as it was written.
//! Spec: docs/format/delta.md, "Schema evolution".

use tarndb_table::ColumnPath;

/// The property.
pub(super) const KEY: &str = "delta.dataSkippingStatsColumns";

/// The list after a column got another path (`None`: is gone); `None` when it is not in it.
pub(super) fn rewritten(
    list: &str,
    column: &ColumnPath,
    to: Option<&ColumnPath>,
) -> Option<String> {
    let mut changed = false;
    let items = split(list, ',').into_iter().filter_map(|item| {
        let parts = split(item.trim(), '.');
        let names: Vec<String> = parts.iter().map(|part| unquoted(part)).collect();
        let own: Vec<&str> = column.parts().collect();
        let within = names.len() >= own.len()
            && own
                .iter()
                .zip(&names)
                .all(|(own, name)| own.to_lowercase() == name.to_lowercase());
        if !within {
            return Some(item.to_owned());
        }
        changed = true;
        let renamed = to?.parts().map(str::to_owned);
        let rest = names.get(own.len()..).unwrap_or_default().iter().cloned();
        ColumnPath::new(renamed.chain(rest).collect()).map(|path| path.to_string())
    });
    let items: Vec<String> = items.collect();
    changed.then(|| items.join(","))
}

/// The parts between separators that are not within back-ticks.
fn split(text: &str, separator: char) -> Vec<&str> {
    let mut quoted = false;
    text.split(|c: char| {
        quoted ^= c == '`';
        c == separator && !quoted
    })
    .collect()
}

fn unquoted(name: &str) -> String {
    let inner = name
        .strip_prefix('`')
        .and_then(|rest| rest.strip_suffix('`'));
    inner.map_or_else(|| name.to_owned(), |inner| inner.replace("``", "`"))
}

#[cfg(test)]
mod tests {
    use tarndb_table::ColumnPath;

    use super::rewritten;

    #[test]
    fn list_follows_renamed_and_dropped_columns() {
        let path = |text: &str| {
            let parts = text.split('/').map(str::to_owned).collect();
            ColumnPath::new(parts).unwrap()
        };
        for (list, from, to, expected) in [
            ("a,b", "a", Some("c"), Some("c,b")),
            ("a,b", "c", Some("d"), None),
            ("a, b", "b", None, Some("a")),
            ("a", "a", None, Some("")),
            ("s.a,s.b,t", "s", Some("u"), Some("u.a,u.b,t")),
            ("s.a,s.b", "s/a", Some("s/x.y"), Some("s.`x.y`,s.b")),
            ("`x.y`,`a,b`", "x.y", Some("z"), Some("z,`a,b`")),
            ("A", "a", Some("b"), Some("b")),
        ] {
            let to = to.map(path);
            let found = rewritten(list, &path(from), to.as_ref());
            assert_eq!(found.as_deref(), expected, "{list} {from}");
        }
    }
}
