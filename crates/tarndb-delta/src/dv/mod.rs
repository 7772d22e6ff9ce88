//! Deletion vectors: descriptors, where their bytes are, reading and storing them.
//!
//! Invariant: a vector is returned only when version, size, checksum, magic number and
//! cardinality are all right; a vector file is complete in the store before its name is told.
//! Spec: Delta PROTOCOL, "Deletion Vectors".
//!
//! ```text
//! file:  version u8 = 1 | { size u32 BE | data | crc32(data) u32 BE }...
//! ```

pub(crate) mod bitmap;
pub(crate) mod z85;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use tarndb_storage::{Path, Store};
use tarndb_table::{DvDescriptor, DvStorage, RowSet};
use tarndb_types::Uuid;

use crate::action::DeletionVector;
use crate::error::DeltaError;
use crate::path;

const FILE_VERSION: u8 = 1;
const FRAME_BYTES: usize = 8;
/// Offsets are 32-bit; far below that, a file stays pleasant to fetch.
const FILE_BYTES_MAX: usize = 256 << 20;

/// The descriptor of an action as the table model spells it.
pub(crate) fn to_descriptor(vector: &DeletionVector) -> Result<DvDescriptor, DeltaError> {
    let storage = match vector.storage_type.as_str() {
        "i" => DvStorage::Inline,
        "u" => DvStorage::Relative,
        "p" => DvStorage::Absolute,
        other => {
            return Err(DeltaError::BadDeletionVector {
                file: vector.path_or_inline_dv.clone(),
                offset: vector.offset.unwrap_or(0).into(),
                reason: format!("unknown storage type {other:?}"),
            });
        }
    };
    Ok(DvDescriptor {
        storage,
        path_or_inline: vector.path_or_inline_dv.clone(),
        offset: vector.offset,
        size_in_bytes: vector.size_in_bytes,
        cardinality: vector.cardinality,
    })
}

/// A descriptor as an action spells it.
pub(crate) fn from_descriptor(descriptor: &DvDescriptor) -> DeletionVector {
    let storage_type = match descriptor.storage {
        DvStorage::Inline => "i",
        DvStorage::Relative => "u",
        DvStorage::Absolute => "p",
    };
    DeletionVector {
        storage_type: storage_type.to_owned(),
        path_or_inline_dv: descriptor.path_or_inline.clone(),
        offset: descriptor.offset,
        size_in_bytes: descriptor.size_in_bytes,
        cardinality: descriptor.cardinality,
    }
}

fn bad(file: &str, offset: i64, reason: impl Into<String>) -> DeltaError {
    DeltaError::BadDeletionVector {
        file: file.to_owned(),
        offset,
        reason: reason.into(),
    }
}

/// Path of a `u` vector's file below the table root.
pub(crate) fn relative_file(text: &str) -> Result<String, DeltaError> {
    let malformed = || bad(text, 0, "malformed file id");
    let split = text.len().checked_sub(20).ok_or_else(malformed)?;
    let (prefix, id) = text.split_at_checked(split).ok_or_else(malformed)?;
    let id = z85::decode(id)
        .and_then(|id| Uuid::from_slice(&id).ok())
        .ok_or_else(malformed)?;
    let name = format!("deletion_vector_{}.bin", id.hyphenated());
    Ok(if prefix.is_empty() {
        name
    } else {
        format!("{prefix}/{name}")
    })
}

/// Reads a stored vector.
///
/// # Errors
/// `BadDeletionVector` when a check fails, `PathOutsideTable`.
///
/// # Cost
/// One ranged GET; none for an inline vector.
pub(crate) async fn load(
    store: &Store,
    location: &Path,
    descriptor: &DvDescriptor,
) -> Result<RowSet, DeltaError> {
    let (file, offset, data) = match descriptor.storage {
        DvStorage::Inline => ("inline".to_owned(), 0, inline_data(descriptor)?),
        DvStorage::Relative | DvStorage::Absolute => file_data(store, location, descriptor).await?,
    };
    let rows = bitmap::deserialize(&data).map_err(|reason| bad(&file, offset, reason))?;
    let expected = u64::try_from(descriptor.cardinality).unwrap_or(u64::MAX);
    if rows.len() != expected {
        let reason = format!("it holds {} rows, the log says {expected}", rows.len());
        return Err(bad(&file, offset, reason));
    }
    Ok(rows)
}

fn inline_data(descriptor: &DvDescriptor) -> Result<Bytes, DeltaError> {
    let mut data =
        z85::decode(&descriptor.path_or_inline).ok_or_else(|| bad("inline", 0, "not Z85 text"))?;
    let size = usize::try_from(descriptor.size_in_bytes).unwrap_or(usize::MAX);
    if size > data.len() || data.len() - size >= 4 {
        let reason = format!("it holds {} bytes, the log says {size}", data.len());
        return Err(bad("inline", 0, reason));
    }
    data.truncate(size);
    Ok(data.into())
}

async fn file_data(
    store: &Store,
    location: &Path,
    descriptor: &DvDescriptor,
) -> Result<(String, i64, Bytes), DeltaError> {
    let relative = match descriptor.storage {
        DvStorage::Absolute => path::table_path(&descriptor.path_or_inline)?,
        _ => relative_file(&descriptor.path_or_inline)?,
    };
    let key = path::data_key(location, &relative)?;
    // The text of the specification lets an absent offset mean 0, which is the version byte.
    let offset = descriptor.offset.unwrap_or(1);
    let at = i64::from(offset);
    let fail = |reason: String| bad(key.as_ref(), at, reason);
    let start = u64::try_from(offset).map_err(|_| fail("negative offset".to_owned()))?;
    let size =
        usize::try_from(descriptor.size_in_bytes).map_err(|_| fail("negative size".to_owned()))?;
    // The version byte is fetched with the data when it lies just before it.
    let from = if start == 1 { 0 } else { start };
    let end = start + u64::try_from(size + FRAME_BYTES).unwrap_or(0);
    let bytes = store.get_range(&key, from..end).await?;
    let frame = if from == 0 && start == 1 {
        if bytes.first() != Some(&FILE_VERSION) {
            return Err(fail(format!("file version {:?} is not 1", bytes.first())));
        }
        bytes.slice(1..)
    } else {
        bytes
    };
    let data = unframe(&frame, size).map_err(fail)?;
    Ok((key.to_string(), at, data))
}

/// The data of `size | data | crc`, checked.
fn unframe(frame: &Bytes, size: usize) -> Result<Bytes, String> {
    if frame.len() != size + FRAME_BYTES {
        return Err(format!(
            "the file ends early, {} bytes are there",
            frame.len()
        ));
    }
    let (head, rest) = frame.split_first_chunk::<4>().ok_or("no size field")?;
    let stated = u32::from_be_bytes(*head);
    if usize::try_from(stated).ok() != Some(size) {
        return Err(format!("the file says {stated} bytes, the log says {size}"));
    }
    let (data, crc) = rest.split_last_chunk::<4>().ok_or("no checksum")?;
    if crc32fast::hash(data) != u32::from_be_bytes(*crc) {
        return Err("checksum mismatch".to_owned());
    }
    Ok(frame.slice(4..4 + size))
}

/// Stores vectors in the order given: those of at most `inline_bytes_max` bytes inline, the
/// others together in a new file in the table's root.
///
/// # Cost
/// One PUT per 256 MiB of vectors that are not inline.
pub(crate) async fn store(
    store: &Store,
    location: &Path,
    rows: &[Arc<RowSet>],
    inline_bytes_max: usize,
) -> Result<Vec<DvDescriptor>, DeltaError> {
    let mut descriptors = Vec::with_capacity(rows.len());
    let mut file = VectorFile::new(store.context().uuid());
    for rows in rows {
        let data = bitmap::serialize(rows);
        let cardinality = i64::try_from(rows.len()).unwrap_or(i64::MAX);
        let size_in_bytes =
            i32::try_from(data.len()).map_err(|_| bad("new", 0, "larger than 2 GiB"))?;
        if data.len() <= inline_bytes_max {
            descriptors.push(DvDescriptor {
                storage: DvStorage::Inline,
                path_or_inline: z85::encode(&data),
                offset: None,
                size_in_bytes,
                cardinality,
            });
            continue;
        }
        if !file.is_empty() && file.bytes.len() + data.len() > FILE_BYTES_MAX {
            let full = std::mem::replace(&mut file, VectorFile::new(store.context().uuid()));
            full.put(store, location).await?;
        }
        descriptors.push(DvDescriptor {
            storage: DvStorage::Relative,
            path_or_inline: z85::encode(file.id.as_bytes()),
            offset: Some(file.push(&data, size_in_bytes)),
            size_in_bytes,
            cardinality,
        });
    }
    if !file.is_empty() {
        file.put(store, location).await?;
    }
    Ok(descriptors)
}

/// A vector file being filled.
struct VectorFile {
    id: Uuid,
    bytes: Vec<u8>,
}

impl VectorFile {
    fn new(id: Uuid) -> Self {
        Self {
            id,
            bytes: vec![FILE_VERSION],
        }
    }

    fn is_empty(&self) -> bool {
        self.bytes.len() == 1
    }

    /// Appends one vector; returns its offset.
    fn push(&mut self, data: &[u8], size_in_bytes: i32) -> i32 {
        let offset = i32::try_from(self.bytes.len()).unwrap_or(i32::MAX);
        self.bytes.extend(size_in_bytes.to_be_bytes());
        self.bytes.extend_from_slice(data);
        self.bytes.extend(crc32fast::hash(data).to_be_bytes());
        offset
    }

    async fn put(self, store: &Store, location: &Path) -> Result<(), DeltaError> {
        let name = format!("deletion_vector_{}.bin", self.id.hyphenated());
        let key = path::data_key(location, &name)?;
        Ok(store.put(&key, self.bytes.into()).await?)
    }
}
