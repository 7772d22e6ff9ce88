//! `ConvertError`: why a folder of Parquet files is not made a table.
//!
//! Invariant: nothing was written when there is one; it names the file.
//! Spec: docs/format/native.md, "Converting".

use parquet::errors::ParquetError;

/// Why a folder was not converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// There is nothing to convert.
    #[error("no file ends in .parquet below {location}")]
    NoFiles {
        /// The folder.
        location: String,
    },
    /// A file's folders are not those of the partition columns.
    #[error(
        "the folders of a file are not those of the partition columns (name all of them, from the \
         outermost, with their types): file={file}, expected={expected}"
    )]
    Folders {
        /// The file.
        file: String,
        /// The folders that it should have.
        expected: String,
    },
    /// A folder's value is not one of its column's type.
    #[error(
        "a folder names no value of its column: file={file}, column={column}, value={value}, type={data_type}"
    )]
    Value {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// What the folder says.
        value: String,
        /// The type that was given.
        data_type: String,
    },
    /// A file cannot be read.
    #[error(
        "the file is no Parquet file that can be read (move it away to convert the others): file={file}"
    )]
    Footer {
        /// The file.
        file: String,
        /// What the Parquet reader said.
        source: ParquetError,
    },
    /// A column has a type that a Delta table cannot have.
    #[error(
        "a column has a type that no Delta table has: file={file}, column={column}, type={data_type}"
    )]
    Unsupported {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// Its type.
        data_type: String,
    },
    /// A column has different types in different files.
    #[error(
        "a column has another type in another file: column={column}, file={file}, type={one}, elsewhere={other}"
    )]
    Types {
        /// The column.
        column: String,
        /// The file.
        file: String,
        /// Its type there.
        one: String,
        /// Its type elsewhere.
        other: String,
    },
}
