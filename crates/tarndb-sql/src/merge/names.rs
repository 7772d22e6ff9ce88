//! Which side of a MERGE a name means.
//!
//! Invariant: a clause without a matching row on one side sees the names of the other only; a
//! bare name there means a column of that side, whatever the hidden side calls its own.
//! Does not: look into subqueries, whose own tables may have the names; what these mean is looked at
//! when they are planned ([`Parts::check_subqueries`](super::plan::Parts)).
//! Spec: docs/sql/merge.md, "Names".

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, VisitMut, VisitorMut};
use tarndb_db::ErrorKind;

use crate::error::SqlError;

/// The sides that a clause sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sees {
    Both,
    Source,
    Target,
}

/// The names of both sides, folded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a> {
    pub(super) target: &'a str,
    pub(super) target_columns: &'a BTreeSet<String>,
    pub(super) source: &'a str,
    pub(super) source_columns: &'a BTreeSet<String>,
}

impl Names<'_> {
    /// Puts the side before bare names of an expression where only one side is seen.
    ///
    /// # Errors
    /// A name of the side that is not seen.
    pub(super) fn qualify(&self, expr: &mut Expr, sees: Sees) -> Result<(), SqlError> {
        if sees == Sees::Both {
            return Ok(());
        }
        let mut qualifier = Qualifier {
            names: *self,
            sees,
            depth: 0,
        };
        match expr.visit(&mut qualifier) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(*error),
        }
    }
}

/// A name of the side that a clause does not see.
pub(super) fn not_there(name: &str, hidden: &str, seen: &str) -> SqlError {
    SqlError::Engine {
        message: format!(
            "column {name} is not there in this clause of MERGE: no row of {hidden} matched"
        ),
        sqlstate: "42703",
        kind: ErrorKind::Invalid,
        hint: Some(format!("such a clause sees the columns of {seen} only")),
    }
}

struct Qualifier<'a> {
    names: Names<'a>,
    sees: Sees,
    depth: usize,
}

impl Qualifier<'_> {
    fn seen(&self) -> (&str, &BTreeSet<String>) {
        match self.sees {
            Sees::Target => (self.names.target, self.names.target_columns),
            Sees::Source | Sees::Both => (self.names.source, self.names.source_columns),
        }
    }

    fn hidden(&self) -> (&str, &BTreeSet<String>) {
        match self.sees {
            Sees::Target => (self.names.source, self.names.source_columns),
            Sees::Source | Sees::Both => (self.names.target, self.names.target_columns),
        }
    }

    fn qualified(&self, parts: &[Ident]) -> Result<Option<Vec<Ident>>, Box<SqlError>> {
        let (seen, columns) = self.seen();
        let (hidden, hidden_columns) = self.hidden();
        let Some(first) = parts.first().map(|ident| ident.value.as_str()) else {
            return Ok(None);
        };
        let is_qualifier = parts.len() > 1;
        if is_qualifier && first == seen {
            return Ok(None);
        }
        if columns.contains(first) {
            let mut qualified = vec![Ident::with_quote('"', seen)];
            qualified.extend_from_slice(parts);
            return Ok(Some(qualified));
        }
        if (is_qualifier && first == hidden) || hidden_columns.contains(first) {
            let names: Vec<&str> = parts.iter().map(|ident| ident.value.as_str()).collect();
            return Err(Box::new(not_there(&names.join("."), hidden, seen)));
        }
        Ok(None)
    }
}

impl VisitorMut for Qualifier<'_> {
    type Break = Box<SqlError>;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let qualified = match &*expr {
            Expr::Identifier(ident) => self.qualified(std::slice::from_ref(ident)),
            Expr::CompoundIdentifier(parts) => self.qualified(parts),
            _ => return ControlFlow::Continue(()),
        };
        match qualified {
            Ok(None) => {}
            Ok(Some(parts)) => *expr = Expr::CompoundIdentifier(parts),
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}
