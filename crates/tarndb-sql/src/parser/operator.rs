//! Operators that the tokenizer of the engine runs together with a sign behind them.
//!
//! Invariant: as in PostgreSQL, an operator of several characters ends in `+` or `-` only when
//! it also has one of `~ ! @ # % ^ & | ?` and the backtick; so `id<-5` compares with -5.
//! Does not: know which operators exist.

use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

/// Characters with which an operator may end in a sign.
const KEEP_SIGN: &[char] = &['~', '!', '@', '#', '%', '^', '&', '|', '`', '?'];

/// The token, or the operator and the signs that it was run together with.
pub(super) fn without_signs(token: TokenWithSpan) -> Vec<TokenWithSpan> {
    let Token::CustomBinaryOperator(text) = &token.token else {
        return vec![token];
    };
    let operator = text.trim_end_matches(['+', '-']);
    // Two minus signs begin a comment, which nobody should read over.
    if text.contains(KEEP_SIGN) || text.contains("--") || operator.len() == text.len() {
        return vec![token];
    }
    let Some(plain) = plain(operator) else {
        return vec![token];
    };
    let at = |offset: usize| Location {
        line: token.span.start.line,
        column: token.span.start.column + u64::try_from(offset).unwrap_or(0),
    };
    let mut tokens = vec![TokenWithSpan {
        token: plain,
        span: Span::new(token.span.start, at(operator.len())),
    }];
    for (offset, sign) in text.char_indices().skip(operator.len()) {
        let sign = match sign {
            '-' => Token::Minus,
            _ => Token::Plus,
        };
        tokens.push(TokenWithSpan {
            token: sign,
            span: Span::new(at(offset), at(offset + 1)),
        });
    }
    tokens
}

fn plain(operator: &str) -> Option<Token> {
    Some(match operator {
        "<" => Token::Lt,
        ">" => Token::Gt,
        "<=" => Token::LtEq,
        ">=" => Token::GtEq,
        "<>" => Token::Neq,
        "<<" => Token::ShiftLeft,
        ">>" => Token::ShiftRight,
        _ => return None,
    })
}
