//! The keys of a MERGE: columns of the table that ON sets equal to values of the source.
//!
//! Invariant: a pair of rows that ON matches has equal keys; where the types of the two sides
//! do not compare as the column's own values do, there is no key. Rows without a match may have
//! any.
//! Does not: filter rows; it only says where to look, and what others must not add meanwhile.
//! Spec: docs/sql/merge.md, "Which files are read", "Concurrent merges".

use std::sync::Arc;

use arrow::compute::{
    CastOptions, SortOptions, cast_with_options, concat, filter, is_not_null, sort,
};
use arrow_array::{Array as _, ArrayRef, RecordBatch};
use arrow_schema::DataType as ArrowType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable as _, Join, Operator, lit};
use tarndb_table::{Field, Schema};

use crate::name::fold;
use crate::provider::prune::has_subquery;
use crate::provider::sought::SortedKeys;

/// A column of the table and the value of the source that it must equal.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    /// The place of the column.
    pub(super) place: usize,
    pub(super) field: Field,
    column: Expr,
    /// Over the columns of the source.
    pub(super) source: Expr,
}

/// The keys of a join whose right side is the table.
pub(super) fn pairs(join: &Join, schema: &Schema) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    let on = join.on.iter().map(|(left, right)| (left, right));
    let filter = join.filter.as_ref().map(split_conjunction);
    let equal = filter.into_iter().flatten().filter_map(|expr| match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if *op == Operator::Eq => {
            Some((left.as_ref(), right.as_ref()))
        }
        _ => None,
    });
    for (one, other) in on.chain(equal) {
        let pair = pair(join, schema, one, other).or_else(|| pair(join, schema, other, one));
        if let Some(pair) = pair
            && pairs.iter().all(|known| known.place != pair.place)
        {
            pairs.push(pair);
        }
    }
    pairs
}

fn pair(join: &Join, schema: &Schema, column: &Expr, source: &Expr) -> Option<Pair> {
    let Expr::Column(named) = column else {
        return None;
    };
    let place = join.right.schema().maybe_index_of_column(named)?;
    let field = schema.fields.get(place)?;
    let used = source.column_refs();
    let is_of_source = |column: &&datafusion::common::Column| {
        join.left.schema().maybe_index_of_column(column).is_some()
    };
    if used.is_empty()
        || !used.iter().all(is_of_source)
        || source.is_volatile()
        || has_subquery(source)
    {
        return None;
    }
    let given = source.get_type(join.left.schema().as_ref()).ok()?;
    comparable(&field.data_type.to_arrow(), &given).then(|| Pair {
        place,
        field: field.clone(),
        column: column.clone(),
        source: source.clone(),
    })
}

/// What a type's values compare as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Boolean,
    Integer,
    Decimal,
    Float,
    Text,
    Binary,
    Date,
    Instant,
    LocalTime,
}

fn kind(data_type: &ArrowType) -> Option<Kind> {
    Some(match data_type {
        ArrowType::Boolean => Kind::Boolean,
        other if other.is_integer() => Kind::Integer,
        ArrowType::Decimal128(..) => Kind::Decimal,
        ArrowType::Float32 | ArrowType::Float64 => Kind::Float,
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => Kind::Text,
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => Kind::Binary,
        ArrowType::Date32 => Kind::Date,
        ArrowType::Timestamp(_, Some(_)) => Kind::Instant,
        ArrowType::Timestamp(_, None) => Kind::LocalTime,
        _ => return None,
    })
}

/// Whether equal values stay equal when the source's are cast to the column's type.
fn comparable(column: &ArrowType, source: &ArrowType) -> bool {
    match (kind(column), kind(source)) {
        (Some(Kind::Decimal), Some(Kind::Integer))
        | (Some(Kind::Integer), Some(Kind::Decimal))
        | (Some(Kind::Float), Some(Kind::Integer | Kind::Decimal)) => true,
        (Some(column), Some(source)) => column == source,
        _ => false,
    }
}

/// The keys of a source that was read.
#[derive(Debug, Default)]
pub(super) struct SourceKeys {
    /// Without NULL, ascending; columns whose order bounds of files do not follow are left out.
    pub(super) sorted: Vec<SortedKeys>,
    /// Columns that are NULL in rows of the source, and in how many.
    pub(super) nulls: Vec<(String, usize)>,
}

/// Computes the keys of all rows of the source.
pub(super) fn of_rows(
    pairs: &[Pair],
    batches: &[RecordBatch],
    source: &DFSchema,
    state: &SessionState,
) -> Result<SourceKeys> {
    let mut keys = SourceKeys::default();
    for pair in pairs {
        let data_type = pair.field.data_type.to_arrow();
        let expr = state.create_physical_expr(pair.source.clone(), source)?;
        let mut nulls = 0;
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for batch in batches {
            let given = expr.evaluate(batch)?.into_array(batch.num_rows())?;
            nulls += given.logical_null_count();
            let options = CastOptions {
                safe: true,
                ..CastOptions::default()
            };
            let cast = cast_with_options(&given, &data_type, &options)?;
            arrays.push(filter(&cast, &is_not_null(&cast)?)?);
        }
        if nulls > 0 {
            keys.nulls.push((pair.field.name.clone(), nulls));
        }
        // Bounds of floats leave NaN out, which equals itself here.
        if matches!(kind(&data_type), Some(Kind::Float | Kind::Boolean) | None) {
            continue;
        }
        let all: Vec<_> = arrays.iter().map(AsRef::as_ref).collect();
        let all = match all.is_empty() {
            true => arrow_array::new_empty_array(&data_type),
            false => concat(&all)?,
        };
        keys.sorted.push(SortedKeys {
            column: fold(&pair.field.name),
            values: sort(&all, Some(SortOptions::default()))?,
        });
    }
    Ok(keys)
}

/// ON with the smallest and the largest key, for what has bounds inside the files.
pub(super) fn bounded(mut join: Join, pairs: &[Pair], keys: &[SortedKeys]) -> Result<Join> {
    let mut bounds = Vec::new();
    for keys in keys {
        let is_of = |pair: &&Pair| fold(&pair.field.name) == keys.column;
        let (Some(pair), Some(last)) = (pairs.iter().find(is_of), keys.values.len().checked_sub(1))
        else {
            continue;
        };
        let bound = |at| ScalarValue::try_from_array(&keys.values, at);
        bounds.push(pair.column.clone().gt_eq(lit(bound(0)?)));
        bounds.push(pair.column.clone().lt_eq(lit(bound(last)?)));
    }
    join.filter = conjunction(join.filter.into_iter().chain(bounds));
    Ok(join)
}

/// The source's schema for expressions over its rows, with the names that the join has.
pub(super) fn source_schema(join: &Join) -> Arc<DFSchema> {
    Arc::clone(join.left.schema())
}
