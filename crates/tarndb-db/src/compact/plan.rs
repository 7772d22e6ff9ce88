//! Which files of a table are worth writing anew, and together with which others.
//!
//! Invariant: pure; a file is in at most one bin; the files of a bin are of one partition, in
//! the order in which they were written, so that rows written together stay together. Planning
//! what a plan made anew gives fewer files or nothing.
//! Does not read data files.
//! Spec: docs/guide/cli.md, "Compaction".

use std::collections::BTreeMap;
use std::sync::Arc;

use tarndb_table::DataFile;

use super::CompactOptions;

/// A file is small below this share of the target size.
const SMALL: (u64, u64) = (3, 4);

/// Files whose live rows go into new files together, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Bin {
    pub(crate) files: Vec<Arc<DataFile>>,
    /// About how many bytes their live rows take.
    pub(crate) live_bytes: u64,
}

/// How much one transaction rewrites at most, unless a single bin is larger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) bytes: u64,
    pub(crate) files: usize,
}

/// All bins that are worth it, by partition.
pub(crate) fn plan(
    files: impl Iterator<Item = Arc<DataFile>>,
    target_bytes: u64,
    options: &CompactOptions,
) -> Vec<Bin> {
    let mut partitions: BTreeMap<_, Vec<Arc<DataFile>>> = BTreeMap::new();
    for file in files.filter(|file| is_candidate(file, target_bytes, options)) {
        match partitions.get_mut(&file.partition_values) {
            Some(partition) => partition.push(file),
            None => {
                partitions.insert(file.partition_values.clone(), vec![file]);
            }
        }
    }
    let mut bins = Vec::new();
    for mut files in partitions.into_values() {
        files.sort_by(|a, b| {
            let order = |file: &DataFile| (file.modification_time_ms, file.path.clone());
            order(a).cmp(&order(b))
        });
        bins.extend(packed(files, target_bytes, options.group_files));
    }
    bins.retain(|bin| is_worth_it(bin, options));
    bins
}

/// A file that is in order already is small below this share only: how large sorted rows become is
/// known too late, and nothing should be put in order again and again.
const SMALL_CLUSTERED: u64 = 4;

/// All bins that a clustering puts in order, by partition: as large as one transaction may be, for
/// the larger the files that are sorted together, the narrower the new ones. Where files are
/// `marked`, those that bear the mark already, are large enough and have few deleted rows are
/// left as they are.
pub(crate) fn plan_clustered(
    files: impl Iterator<Item = Arc<DataFile>>,
    target_bytes: u64,
    options: &CompactOptions,
    limits: Limits,
    marked: bool,
) -> Vec<Bin> {
    let is_clustered = |file: &DataFile| marked && file.clustering_provider.is_some();
    let mut partitions: BTreeMap<_, Vec<Arc<DataFile>>> = BTreeMap::new();
    for file in files {
        let due = match is_clustered(&file) {
            true => {
                let small = file.size_bytes < target_bytes / SMALL_CLUSTERED;
                options.all || small || has_many_deleted(&file, options)
            }
            false => true,
        };
        if due {
            let partition = partitions.entry(file.partition_values.clone());
            partition.or_default().push(file);
        }
    }
    let mut bins = Vec::new();
    for mut files in partitions.into_values() {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        bins.extend(packed(files, limits.bytes, limits.files));
    }
    let is_due = |bin: &Bin| {
        let mut files = bin.files.iter();
        files.any(|file| !is_clustered(file)) || is_worth_it(bin, options)
    };
    bins.retain(is_due);
    bins
}

/// The first bins that fit one transaction; at least one if there is any.
pub(crate) fn first_group(bins: Vec<Bin>, limits: Limits) -> Vec<Bin> {
    let mut group: Vec<Bin> = Vec::new();
    let (mut bytes, mut files) = (0_u64, 0);
    for bin in bins {
        bytes = bytes.saturating_add(bin.live_bytes);
        files += bin.files.len();
        if !group.is_empty() && (bytes > limits.bytes || files > limits.files) {
            break;
        }
        group.push(bin);
    }
    group
}

fn is_candidate(file: &DataFile, target_bytes: u64, options: &CompactOptions) -> bool {
    let (numerator, denominator) = SMALL;
    let small = file.size_bytes < target_bytes / denominator * numerator;
    options.all || small || has_many_deleted(file, options)
}

fn has_many_deleted(file: &DataFile, options: &CompactOptions) -> bool {
    let deleted = file.deletion.cardinality();
    let Some(rows) = file.num_records() else {
        return false;
    };
    // Counts of rows are far below 2^53.
    deleted > 0 && deleted as f64 >= rows as f64 * options.max_deleted_fraction
}

/// Next-fit: it keeps the order, which best-fit would not.
fn packed(files: Vec<Arc<DataFile>>, target_bytes: u64, files_max: usize) -> Vec<Bin> {
    let mut bins: Vec<Bin> = Vec::new();
    let fits = |bin: &Bin, bytes: u64| {
        bin.live_bytes.saturating_add(bytes) <= target_bytes && bin.files.len() < files_max
    };
    for file in files {
        let bytes = live_bytes(&file);
        match bins.last_mut() {
            Some(bin) if fits(bin, bytes) => {
                bin.files.push(file);
                bin.live_bytes += bytes;
            }
            _ => bins.push(Bin {
                files: vec![file],
                live_bytes: bytes,
            }),
        }
    }
    bins
}

fn is_worth_it(bin: &Bin, options: &CompactOptions) -> bool {
    options.all
        || bin.files.len() >= options.min_files.max(2)
        || bin.files.iter().any(|file| has_many_deleted(file, options))
}

/// The share of a file's bytes that its live rows take, as if all rows were equal.
fn live_bytes(file: &DataFile) -> u64 {
    match (file.num_records(), file.live_rows()) {
        (Some(rows), Some(live)) if rows > 0 => {
            let share = u128::from(file.size_bytes) * u128::from(live) / u128::from(rows);
            u64::try_from(share).unwrap_or(file.size_bytes)
        }
        _ => file.size_bytes,
    }
}

#[cfg(test)]
mod tests;
