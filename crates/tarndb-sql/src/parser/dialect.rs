//! The dialect of the engine's part of the grammar: PostgreSQL's, with a few doors opened.
//!
//! Invariant: whatever PostgreSQL's dialect accepts is accepted here, but for `f('name' VALUE x)`,
//! which no function takes; `dialect()` answers with PostgreSQL's type, because the engine's parser asks for it by type. The operand of
//! `IS DISTINCT FROM` ends where PostgreSQL ends it; the engine's parser takes all that follows.
//! Does not: parse statements; that is the rest of this module.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

/// PostgreSQL's grammar of queries and expressions plus `EXCLUDE`, `FROM` first, `ORDER BY ALL`,
/// names in backticks, `MAP {'k': v}`, `{'field': v}` and table versions (which the planner refuses by name rather than ignores).
#[derive(Debug, Default)]
pub(crate) struct TarnDialect(PostgreSqlDialect);

macro_rules! as_postgres {
    ($($name:ident),* $(,)?) => {
        $(fn $name(&self) -> bool { self.0.$name() })*
    };
}

impl Dialect for TarnDialect {
    fn dialect(&self) -> TypeId {
        self.0.dialect()
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        self.0.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        // Spark's quotes, for delta.`/path`.
        ch == '`' || self.0.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        self.0.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        self.0.is_identifier_part(ch)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        self.0.is_reserved_for_identifier(keyword)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        self.0.is_custom_operator_part(ch)
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        self.0.get_next_precedence(parser)
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        const EQUAL: &[Keyword] = &[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM];
        const DISTINCT: &[Keyword] = &[Keyword::IS, Keyword::DISTINCT, Keyword::FROM];
        let make = if parser.parse_keywords(EQUAL) {
            Expr::IsNotDistinctFrom
        } else if parser.parse_keywords(DISTINCT) {
            Expr::IsDistinctFrom
        } else {
            return self.0.parse_infix(parser, left, precedence);
        };
        let right = parser.parse_subexpr(self.prec_value(Precedence::Is));
        Some(right.map(|right| make(Box::new(left.clone()), Box::new(right))))
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        self.0.prec_value(precedence)
    }

    as_postgres!(
        supports_unicode_string_literal,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_named_fn_args_with_colon_operator,
        supports_nested_comments,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_array_typedef_with_brackets,
        supports_notnull_operator,
        supports_interval_options,
        supports_comma_separated_trim,
    );

    // With a whole expression for a name, every argument is read twice, and those inside it
    // twice again: time doubles with each level. Names of arguments are words here.
    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    fn support_map_literal_syntax(&self) -> bool {
        true
    }

    fn supports_dictionary_syntax(&self) -> bool {
        true
    }

    fn supports_select_wildcard_except(&self) -> bool {
        true
    }

    fn supports_select_wildcard_exclude(&self) -> bool {
        true
    }

    fn supports_from_first_select(&self) -> bool {
        true
    }

    fn supports_order_by_all(&self) -> bool {
        true
    }

    fn supports_table_versioning(&self) -> bool {
        true
    }

    fn supports_window_clause_named_window_reference(&self) -> bool {
        true
    }
}
