//! How deep the tree of a query may be, told from its tokens before it is built.
//!
//! Invariant: no tree is built that is deeper than the limit; what is counted is never less than the
//! depth. A chain `a + b + c` and `q UNION r UNION s` is as deep as it is long, and neither the
//! engine nor the drop of its trees guards every descent.
//! Does not: count brackets, which the engine's parser does; save a stack of 2 MB of a build without
//! optimisation, which ends at some hundreds already.
//! Spec: docs/sql/errors.md, 54001.

use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Word};

use crate::error::SqlError;

/// How deep a tree may be.
pub(super) const DEPTH_MAX: usize = 1000;
/// What a set operation or a join adds to it: the engine takes more of the stack for a plan than
/// for an expression.
const OF_PLAN: usize = 2;
/// Names in a path such as `a.b.c`, at most.
const PATH_MAX: usize = 100;

/// What stands between two brackets, or CASE and END, as far as it is read.
#[derive(Debug, Default)]
struct Level {
    is_case: bool,
    /// Whether a comma joins tables.
    in_from: bool,
    /// Set operations and joins.
    plans: usize,
    /// The greatest depth of the expressions that have ended.
    ended: usize,
    /// AND and OR of the present expression.
    logic: usize,
    /// The greatest depth of its operands that have ended.
    operand: usize,
    /// Other operators in the present operand.
    operators: usize,
    /// The greatest depth in the brackets of the present operand.
    inside: usize,
}

impl Level {
    fn depth_of_operand(&self) -> usize {
        self.operand.max(self.operators + self.inside)
    }

    fn depth_of_expression(&self) -> usize {
        self.logic + self.depth_of_operand()
    }

    fn depth(&self) -> usize {
        self.ended.max(self.depth_of_expression()) + self.plans * OF_PLAN
    }

    fn end_operand(&mut self) {
        self.operand = self.depth_of_operand();
        (self.operators, self.inside) = (0, 0);
    }

    fn end_expression(&mut self) {
        self.ended = self.ended.max(self.depth_of_expression());
        (self.logic, self.operand, self.operators, self.inside) = (0, 0, 0, 0);
    }
}

/// Refuses what is too deep.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let mut outer: Vec<Level> = Vec::new();
    let mut level = Level::default();
    let mut path = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        path = match &token.token {
            Token::Period => path + 1,
            Token::Word(_) => path,
            _ => 0,
        };
        if path > PATH_MAX {
            let what = format!("a name has more than {PATH_MAX} parts");
            return Err(too_deep(what, token.span.start));
        }
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                // A chain of subscripts is one of operators.
                level.operators += usize::from(token.token == Token::LBracket);
                outer.push(std::mem::take(&mut level));
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                while level.is_case && !outer.is_empty() {
                    close(&mut level, &mut outer);
                }
                close(&mut level, &mut outer);
            }
            Token::Comma => {
                level.end_expression();
                level.plans += usize::from(level.in_from);
            }
            Token::Word(word) if word.quote_style.is_none() => {
                let near = Near { tokens, at };
                if near.before(&Token::Period) {
                    continue;
                }
                if is(word, "case") {
                    outer.push(std::mem::take(&mut level));
                    level.is_case = true;
                } else if is(word, "end") && level.is_case {
                    close(&mut level, &mut outer);
                } else {
                    level.word(word, near);
                }
            }
            Token::Word(_) | Token::Period => {}
            token if is_operand(token) => {}
            _ => level.operators += 1,
        }
        if level.depth() > DEPTH_MAX {
            let what = format!(
                "operators, set operations and joins nest deeper than {DEPTH_MAX} (a chain of \
                 operators is as deep as it is long, and one of set operations or joins {OF_PLAN} \
                 times that)"
            );
            return Err(too_deep(what, token.span.start));
        }
    }
    Ok(())
}

/// Ends a level: the one around it has it inside.
fn close(level: &mut Level, outer: &mut Vec<Level>) {
    let depth = level.depth() + 1;
    *level = outer.pop().unwrap_or_default();
    level.inside = level.inside.max(depth);
}

/// The neighbours of a word.
#[derive(Clone, Copy)]
struct Near<'a> {
    tokens: &'a [TokenWithSpan],
    at: usize,
}

impl Near<'_> {
    fn before(&self, token: &Token) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        before.is_some_and(|before| before.token == *token)
    }

    fn word(&self, at: Option<usize>, text: &str) -> bool {
        let token = at.and_then(|at| self.tokens.get(at));
        matches!(token.map(|token| &token.token), Some(Token::Word(word)) if is(word, text))
    }

    /// Whether an operand, or nothing, ends before: only there is a word a clause's, not a column
    /// that is called so.
    fn ends_operand(&self) -> bool {
        let Some(before) = self.at.checked_sub(1).and_then(|at| self.tokens.get(at)) else {
            return true;
        };
        match &before.token {
            Token::Word(word) => !is_one(word, OPERATORS) && !is_one(word, &["and", "or", "xor"]),
            Token::Mul => {
                let at = self.at.checked_sub(2);
                let first = |word: &&str| self.word(at, word);
                let token = at
                    .and_then(|at| self.tokens.get(at))
                    .map(|token| &token.token);
                matches!(token, Some(Token::Comma | Token::Period))
                    || ["select", "distinct", "all"].iter().any(first)
            }
            token => is_operand(token) || matches!(token, Token::LParen | Token::LBracket),
        }
    }

    fn word_before(&self, text: &str) -> bool {
        self.word(self.at.checked_sub(1), text)
    }

    fn word_behind(&self, text: &str) -> bool {
        self.word(self.at.checked_add(1), text)
    }
}

impl Level {
    /// A word that joins, begins an expression, or neither.
    fn word(&mut self, word: &Word, near: Near<'_>) {
        let is_clause = near.ends_operand();
        if is_one(word, &["and", "or", "xor"]) {
            self.end_operand();
            self.logic += 1;
        } else if is_one(word, &["union", "except", "intersect", "minus"]) {
            self.end_expression();
            self.in_from = false;
            self.plans += 1;
        } else if is(word, "join") {
            self.end_expression();
            self.plans += 1;
        } else if is(word, "from") && !near.word_before("distinct") {
            self.in_from = true;
            if is_clause {
                self.end_expression();
            }
        } else if !is_clause {
            self.operators += usize::from(is_one(word, OPERATORS));
        } else if is_one(word, &["select", "where", "having"])
            || (is_one(word, &["group", "order"]) && near.word_behind("by"))
        {
            self.end_expression();
            self.in_from = false;
        } else if is(word, "on") || (self.is_case && is_one(word, &["when", "then", "else"])) {
            self.end_expression();
        } else if is_one(word, OPERATORS) {
            self.operators += 1;
        }
    }
}

/// Operators that are words.
const OPERATORS: &[&str] = &[
    "is", "not", "in", "like", "ilike", "similar", "between", "collate", "at", "div", "rlike",
    "regexp", "overlaps", "operator", "isnull", "notnull",
];

fn is_operand(token: &Token) -> bool {
    matches!(
        token,
        Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::Placeholder(_)
            | Token::RParen
            | Token::RBracket
            | Token::RBrace
    )
}

fn is(word: &Word, text: &str) -> bool {
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text)
}

fn is_one(word: &Word, texts: &[&str]) -> bool {
    texts.iter().any(|text| is(word, text))
}

fn too_deep(what: String, at: Location) -> SqlError {
    SqlError::Engine {
        message: format!(
            "the statement is too complex: {what}; at line {}, column {}",
            at.line, at.column
        ),
        sqlstate: "54001",
        kind: tarndb_db::ErrorKind::Invalid,
        hint: Some("write IN (..) or VALUES instead of a chain, or several statements".to_owned()),
    }
}
