//! Any Delta table by path: no database, the table's own log decides.
//!
//! Invariant: what is read is that of the version read; what is written is committed by
//! put-if-absent of the next version, side by side with other engines.
//! Spec: Delta PROTOCOL; docs/format/native.md.
//!
//! - `open`: reading, by version or time.
//! - [`protocol`], [`permit`]: which tables may be written.

pub(crate) mod permit;
pub(crate) mod protocol;

mod open;

pub use open::{NativeTarget, open_native};
