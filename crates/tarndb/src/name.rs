//! Tables by name.

/// Schema and table of `schema.table`, or of `table` in the schema `main`.
pub(crate) fn parts(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or(("main", name))
}
