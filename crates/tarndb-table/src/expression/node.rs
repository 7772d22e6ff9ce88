//! The typed tree of an expression.
//!
//! Invariant: every node has the type that Spark gives it; the arguments of a comparison or an
//! arithmetic operation have one type already, so that evaluation decides nothing.
//! Spec: docs/expressions.md.

use crate::prune::Comparison;
use crate::schema::DataType;
use crate::stats::Scalar;

/// A node with its type.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Typed {
    pub(super) node: Node,
    pub(super) data_type: DataType,
}

/// What a node does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// A column: its place in the schema, then that of a field inside it, and so on.
    Column(Vec<usize>),
    /// A constant; `None` is NULL.
    Literal(Option<Scalar>),
    /// The time of the statement.
    Now,
    Not(Box<Typed>),
    And(Box<Typed>, Box<Typed>),
    Or(Box<Typed>, Box<Typed>),
    Compare(Comparison, Box<Typed>, Box<Typed>),
    /// Equal, or both NULL; never NULL itself.
    SameAs(Box<Typed>, Box<Typed>),
    IsNull(Box<Typed>),
    /// Whether a boolean is exactly that, NULL being neither.
    Is(bool, Box<Typed>),
    In(Box<Typed>, Vec<Typed>),
    Like(Box<Typed>, String),
    Arithmetic(Arithmetic, Box<Typed>, Box<Typed>),
    Negate(Box<Typed>),
    Cast(Box<Typed>),
    /// Conditions with their values, and the value without any.
    Case(Vec<(Typed, Typed)>, Box<Typed>),
    /// The first that is not NULL.
    Coalesce(Vec<Typed>),
    Call(Function, Vec<Typed>),
}

/// Arithmetic of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    /// Of doubles.
    Divide,
    /// With the sign of the dividend.
    Remainder,
}

/// A part of a date or timestamp, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DatePart {
    Year,
    Quarter,
    Month,
    Day,
    DayOfWeek,
    DayOfYear,
    Hour,
    Minute,
    Second,
}

/// To what a date or timestamp is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
}

/// A piece of a pattern of `date_format`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Text(char),
}

/// A function of the allow-list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Part(DatePart),
    /// Of a timestamp or a date, keeping the type.
    Truncate(Unit),
    DateFormat(Vec<Piece>),
    Substring,
    Upper,
    Lower,
    Trim {
        left: bool,
        right: bool,
    },
    Length,
    Concat,
    Abs,
    Ceil,
    Floor,
    /// To so many digits behind the point.
    Round(u8),
}

impl Typed {
    pub(super) fn new(node: Node, data_type: DataType) -> Self {
        Self { node, data_type }
    }

    pub(super) fn boolean(node: Node) -> Self {
        Self::new(node, DataType::Boolean)
    }

    /// Calls `see` for this node and all below it.
    pub(super) fn visit(&self, see: &mut dyn FnMut(&Self)) {
        see(self);
        match &self.node {
            Node::Column(_) | Node::Literal(_) | Node::Now => {}
            Node::Not(a)
            | Node::IsNull(a)
            | Node::Is(_, a)
            | Node::Like(a, _)
            | Node::Negate(a)
            | Node::Cast(a) => a.visit(see),
            Node::And(a, b)
            | Node::Or(a, b)
            | Node::Compare(_, a, b)
            | Node::SameAs(a, b)
            | Node::Arithmetic(_, a, b) => {
                a.visit(see);
                b.visit(see);
            }
            Node::In(a, list) => {
                a.visit(see);
                list.iter().for_each(|item| item.visit(see));
            }
            Node::Case(branches, last) => {
                for (condition, value) in branches {
                    condition.visit(see);
                    value.visit(see);
                }
                last.visit(see);
            }
            Node::Coalesce(list) | Node::Call(_, list) => {
                list.iter().for_each(|item| item.visit(see));
            }
        }
    }
}
