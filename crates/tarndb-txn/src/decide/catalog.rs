//! Rules about schemas, names and places of tables.
//!
//! Invariant: names compare without regard to case; places compare by path segment, so that
//! `a/b` lies in `a` and `ab` does not.
//! Does not judge changes of the same table by its identity; the table matrix does.
//! Spec: docs/conflicts.md, "Catalog".

use super::Outcome;
use crate::aspect::CatalogAspect;
use crate::effects::CatalogEffect;
use crate::matrix::Matrix;
use crate::reason::Reason;
use crate::rule::Rule;

/// Our catalog change against theirs.
pub(crate) fn changes(matrix: &Matrix, ours: &CatalogEffect, theirs: &CatalogEffect) -> Outcome {
    match matrix.catalog_rule(CatalogAspect::of(ours), CatalogAspect::of(theirs)) {
        Some(Rule::Compatible) => Outcome::Compatible,
        Some(Rule::Rebase) => Outcome::Rebase,
        Some(Rule::SameSchemaName) => same_schema_name(ours, theirs),
        Some(Rule::InSchema) => in_schema(ours, theirs),
        Some(Rule::SameTableName) => same_table_name(ours, theirs),
        Some(Rule::SharesFiles) => shares_files(ours, theirs),
        Some(Rule::SameTag) => same_tag(ours, theirs),
        Some(Rule::SameView) => same_view(ours, theirs),
        _ => Outcome::Conflict(Reason::IdTaken),
    }
}

/// A name that we looked up against their change.
pub(crate) fn lookup(matrix: &Matrix, schema: &str, name: &str, theirs: &CatalogEffect) -> Outcome {
    let aspect = CatalogAspect::of(theirs);
    match matrix.catalog_rule(CatalogAspect::NameRead, aspect) {
        Some(Rule::Compatible) => return Outcome::Compatible,
        Some(Rule::Rebase) => return Outcome::Rebase,
        _ => {}
    }
    let is_ours = |s: &str, n: &str| same(s, schema) && same(n, name);
    let changed = match theirs {
        CatalogEffect::CreateSchema { name } | CatalogEffect::DropSchema { name } => {
            same(name, schema)
        }
        CatalogEffect::CreateTable { schema, name, .. }
        | CatalogEffect::DropTable { schema, name, .. }
        | CatalogEffect::CreateView { schema, name }
        | CatalogEffect::DropView { schema, name } => is_ours(schema, name),
        CatalogEffect::RenameTable {
            schema,
            from,
            to_schema,
            to,
            ..
        } => is_ours(schema, from) || is_ours(to_schema, to),
        CatalogEffect::CreateTag { .. } | CatalogEffect::DropTag { .. } => false,
    };
    if !changed {
        return Outcome::Compatible;
    }
    Outcome::Conflict(Reason::NameChanged {
        schema: schema.to_owned(),
        name: name.to_owned(),
        change: aspect.name(),
    })
}

fn same(a: &str, b: &str) -> bool {
    a == b || a.to_lowercase() == b.to_lowercase()
}

/// Schemas in which a change happens; a rename has two.
fn schemas(effect: &CatalogEffect) -> Vec<&str> {
    match effect {
        CatalogEffect::CreateSchema { name } | CatalogEffect::DropSchema { name } => vec![name],
        CatalogEffect::CreateTable { schema, .. }
        | CatalogEffect::DropTable { schema, .. }
        | CatalogEffect::CreateView { schema, .. }
        | CatalogEffect::DropView { schema, .. } => vec![schema],
        CatalogEffect::RenameTable {
            schema, to_schema, ..
        } => vec![schema, to_schema],
        CatalogEffect::CreateTag { .. } | CatalogEffect::DropTag { .. } => Vec::new(),
    }
}

fn common_schema(ours: &CatalogEffect, theirs: &CatalogEffect) -> Option<String> {
    let theirs = schemas(theirs);
    let ours = schemas(ours).into_iter();
    ours.filter(|schema| theirs.iter().any(|other| same(schema, other)))
        .map(str::to_owned)
        .next()
}

fn same_schema_name(ours: &CatalogEffect, theirs: &CatalogEffect) -> Outcome {
    common_schema(ours, theirs).map_or(Outcome::Compatible, |schema| {
        Outcome::Conflict(Reason::SchemaChanged { schema })
    })
}

fn in_schema(ours: &CatalogEffect, theirs: &CatalogEffect) -> Outcome {
    let by_us = matches!(ours, CatalogEffect::DropSchema { .. });
    common_schema(ours, theirs).map_or(Outcome::Compatible, |schema| {
        Outcome::Conflict(Reason::SchemaDropped { schema, by_us })
    })
}

/// The tag that a change creates or drops.
fn tag(effect: &CatalogEffect) -> Option<&str> {
    match effect {
        CatalogEffect::CreateTag { name } | CatalogEffect::DropTag { name } => Some(name),
        _ => None,
    }
}

fn same_tag(ours: &CatalogEffect, theirs: &CatalogEffect) -> Outcome {
    match (tag(ours), tag(theirs)) {
        (Some(ours), Some(theirs)) if same(ours, theirs) => {
            let name = ours.to_owned();
            Outcome::Conflict(Reason::TagChanged { name })
        }
        _ => Outcome::Compatible,
    }
}

fn same_view(ours: &CatalogEffect, theirs: &CatalogEffect) -> Outcome {
    match (ours, theirs) {
        (
            CatalogEffect::DropView { schema, name },
            CatalogEffect::DropView {
                schema: their_schema,
                name: their_name,
            },
        ) if same(schema, their_schema) && same(name, their_name) => {
            Outcome::Conflict(Reason::ViewChanged {
                schema: schema.clone(),
                name: name.clone(),
            })
        }
        _ => Outcome::Compatible,
    }
}

fn shares_files(ours: &CatalogEffect, theirs: &CatalogEffect) -> Outcome {
    let shared = |created: &CatalogEffect, dropped: &CatalogEffect| match (created, dropped) {
        (
            CatalogEffect::CreateTable { shares, .. },
            CatalogEffect::DropTable { id, detached, .. },
        ) => *detached && shares.contains(id),
        _ => false,
    };
    if shared(ours, theirs) {
        return Outcome::Conflict(Reason::SourceDetached { by_us: false });
    }
    if shared(theirs, ours) {
        return Outcome::Conflict(Reason::SourceDetached { by_us: true });
    }
    Outcome::Compatible
}

/// The name that a change takes, and the place when it takes one.
fn taken(effect: &CatalogEffect) -> Option<(&str, &str, Option<&str>)> {
    match effect {
        CatalogEffect::CreateTable {
            schema,
            name,
            location,
            ..
        } => Some((schema, name, Some(location))),
        CatalogEffect::RenameTable { to_schema, to, .. } => Some((to_schema, to, None)),
        CatalogEffect::CreateView { schema, name } => Some((schema, name, None)),
        CatalogEffect::CreateSchema { .. }
        | CatalogEffect::DropSchema { .. }
        | CatalogEffect::DropTable { .. }
        | CatalogEffect::DropView { .. }
        | CatalogEffect::CreateTag { .. }
        | CatalogEffect::DropTag { .. } => None,
    }
}

fn same_table_name(ours: &CatalogEffect, theirs: &CatalogEffect) -> Outcome {
    let (Some((our_schema, our_name, our_place)), Some((their_schema, their_name, their_place))) =
        (taken(ours), taken(theirs))
    else {
        return Outcome::Compatible;
    };
    if same(our_schema, their_schema) && same(our_name, their_name) {
        return Outcome::Conflict(Reason::NameTaken {
            schema: our_schema.to_owned(),
            name: our_name.to_owned(),
        });
    }
    match (our_place, their_place) {
        (Some(ours), Some(theirs)) if nested(ours, theirs) => {
            Outcome::Conflict(Reason::LocationTaken {
                ours: ours.to_owned(),
                theirs: theirs.to_owned(),
            })
        }
        _ => Outcome::Compatible,
    }
}

/// Equal places, or one inside the other.
fn nested(a: &str, b: &str) -> bool {
    let mut a = segments(a);
    let mut b = segments(b);
    loop {
        match (a.next(), b.next()) {
            (None, _) | (_, None) => return true,
            (Some(x), Some(y)) if x != y => return false,
            _ => {}
        }
    }
}

fn segments(place: &str) -> impl Iterator<Item = &str> {
    place.split('/').filter(|segment| !segment.is_empty())
}
