//! Identity columns: numbers that the table gives out.
//!
//! Invariant: values are `start + k * step` beyond the high water mark in the direction of the
//! step, so that none is given out twice; the mark moves in the commit that writes the values.
//! Does not: keep two transactions from the same values; their marks are in conflict
//! (`tarndb-txn`).
//! Spec: Delta PROTOCOL, "Identity Columns".

use std::collections::BTreeMap;

use serde_json::Value;

use super::error::RuleError;
use crate::schema::{DataType, Field};

/// First value.
pub const IDENTITY_START: &str = "delta.identity.start";
/// Distance between values.
pub const IDENTITY_STEP: &str = "delta.identity.step";
/// The furthest value given out.
pub const IDENTITY_MARK: &str = "delta.identity.highWaterMark";
/// Whether rows may bring their own values.
pub const IDENTITY_EXPLICIT: &str = "delta.identity.allowExplicitInsert";

/// An identity column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// First value.
    pub start: i64,
    /// Distance between values, not 0.
    pub step: i64,
    /// The furthest value given out.
    pub mark: Option<i64>,
    /// BY DEFAULT: rows may bring their own values, which do not move the mark.
    pub explicit: bool,
}

/// What a writer took from an identity column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityUse {
    /// The column.
    pub column: String,
    /// The mark before.
    pub before: Option<i64>,
    /// The mark afterwards.
    pub after: i64,
}

impl Identity {
    /// The identity that a column's metadata holds.
    ///
    /// # Errors
    /// [`RuleError::IllegalRule`].
    pub fn of(field: &Field) -> Result<Option<Self>, RuleError> {
        let illegal = |reason: &str| RuleError::IllegalRule {
            rule: format!("identity column {}", field.name),
            reason: reason.to_owned(),
        };
        let keys = [IDENTITY_START, IDENTITY_STEP];
        if !keys.iter().any(|key| field.metadata.contains_key(*key)) {
            return Ok(None);
        }
        let number = |key: &str| match field.metadata.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_i64() {
                Some(number) => Ok(Some(number)),
                None => Err(illegal(&format!("{key} is not a whole number"))),
            },
        };
        let identity = Self {
            start: number(IDENTITY_START)?.ok_or_else(|| illegal("it has no start"))?,
            step: number(IDENTITY_STEP)?.ok_or_else(|| illegal("it has no step"))?,
            mark: number(IDENTITY_MARK)?,
            explicit: field.metadata.get(IDENTITY_EXPLICIT) == Some(&Value::Bool(true)),
        };
        if identity.step == 0 {
            return Err(illegal("its step is 0"));
        }
        if field.data_type != DataType::Long {
            return Err(illegal("it is not a BIGINT"));
        }
        Ok(Some(identity))
    }

    /// The metadata of a new identity column.
    pub fn metadata(&self) -> BTreeMap<String, Value> {
        let mut metadata: BTreeMap<String, Value> = [
            (IDENTITY_START.to_owned(), Value::from(self.start)),
            (IDENTITY_STEP.to_owned(), Value::from(self.step)),
            (IDENTITY_EXPLICIT.to_owned(), Value::from(self.explicit)),
        ]
        .into();
        if let Some(mark) = self.mark {
            metadata.insert(IDENTITY_MARK.to_owned(), Value::from(mark));
        }
        metadata
    }

    /// The next value; `None` when none is left.
    pub fn next(&self) -> Option<i64> {
        let (start, step) = (i128::from(self.start), i128::from(self.step));
        let Some(mark) = self.mark.map(i128::from) else {
            return Some(self.start);
        };
        // A mark need not be one of the values.
        let beyond = if step > 0 {
            mark >= start
        } else {
            mark <= start
        };
        if !beyond {
            return Some(self.start);
        }
        let steps = (mark - start) / step + 1;
        i64::try_from(start + steps * step).ok()
    }

    /// Whether `mark` is further than this one's.
    pub fn is_beyond(&self, mark: i64) -> bool {
        match self.mark {
            None => true,
            Some(own) if self.step > 0 => mark > own,
            Some(own) => mark < own,
        }
    }

    /// The next `count` values, after which the mark stands at the last of them.
    ///
    /// # Errors
    /// [`RuleError::IdentityExhausted`].
    pub fn take(&mut self, count: usize, column: &str) -> Result<Vec<i64>, RuleError> {
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            let next = self.next().ok_or_else(|| RuleError::IdentityExhausted {
                column: column.to_owned(),
                last: self.mark.map_or_else(String::new, |mark| mark.to_string()),
            })?;
            self.mark = Some(next);
            values.push(next);
        }
        Ok(values)
    }
}
