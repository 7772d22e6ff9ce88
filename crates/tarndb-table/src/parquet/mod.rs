//! Data files: writing and reading Parquet.
//!
//! Spec: Delta PROTOCOL, "Data Files"; Apache Parquet format.

pub mod damage;
pub mod read;
pub mod write;
pub mod write_options;

pub(crate) mod upload;
