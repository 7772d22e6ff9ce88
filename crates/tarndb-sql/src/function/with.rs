//! Names that WITH defines, where they are in sight.
//!
//! Invariant: a name of WITH is in sight in the query that it stands before and in the parts of
//! that WITH that follow it; in its own part only when it is RECURSIVE.
//! Spec: docs/guide/sql.md, "Earlier versions".

use datafusion::sql::sqlparser::ast::Query;

use crate::name::fold;

/// One query that is being visited.
#[derive(Debug, Default)]
struct Frame {
    /// Its parts in order: which query each is, and its name.
    parts: Vec<(*const Query, String)>,
    recursive: bool,
    /// How many of the names are in sight.
    seen: usize,
}

/// The queries around the place that is being visited, outermost first.
#[derive(Debug, Default)]
pub(super) struct WithNames(Vec<Frame>);

impl WithNames {
    /// A query begins.
    pub(super) fn enter(&mut self, query: &Query) {
        let mut frame = Frame::default();
        if let Some(with) = &query.with {
            frame.recursive = with.recursive;
            let parts = with.cte_tables.iter();
            frame.parts = parts
                .map(|part| (&raw const *part.query, fold(&part.alias.name.value)))
                .collect();
            frame.seen = match with.recursive {
                true => frame.parts.len(),
                false => 0,
            };
        }
        self.0.push(frame);
    }

    /// It ends.
    pub(super) fn leave(&mut self, query: &Query) {
        self.0.pop();
        if let Some(around) = self.0.last_mut().filter(|around| !around.recursive) {
            let part = around
                .parts
                .iter()
                .position(|(part, _)| std::ptr::eq(*part, query));
            if let Some(part) = part {
                around.seen = part + 1;
            }
        }
    }

    /// Whether a name is in sight.
    pub(super) fn sees(&self, name: &str) -> bool {
        let name = fold(name);
        let mut seen = self
            .0
            .iter()
            .flat_map(|frame| frame.parts.iter().take(frame.seen));
        seen.any(|(_, known)| *known == name)
    }
}
