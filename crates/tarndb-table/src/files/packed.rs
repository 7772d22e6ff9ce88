//! `Packed`: the files of a checkpoint, column by column, statistics compressed.
//!
//! Invariant: what is unpacked equals what was packed, parsed statistics aside; about 200 bytes
//! a file instead of several thousand.
//! Does not: know which files are still live.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::deletion_vector::Deletion;
use crate::fragment::DataFile;

/// Files of a run, which is compressed together.
const RUN_FILES: usize = 1024;
/// Fewer files than this are not worth packing.
pub const PACKED_MIN: usize = 4 * RUN_FILES;
/// Fast, and already a tenth of the text.
const COMPRESSION_LEVEL: i32 = 1;

/// Strings one after the other.
#[derive(Debug, Default)]
struct Texts {
    text: String,
    ends: Vec<u32>,
}

impl Texts {
    fn push(&mut self, text: &str) -> std::io::Result<()> {
        self.text.push_str(text);
        self.ends.push(end(self.text.len())?);
        Ok(())
    }

    fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    fn get(&self, row: usize) -> &str {
        text_at(&self.text, &self.ends, row)
    }
}

fn text_at<'t>(text: &'t str, ends: &[u32], row: usize) -> &'t str {
    let end = |row: usize| ends.get(row).map_or(0, |end| *end as usize);
    let start = row.checked_sub(1).map_or(0, end);
    text.get(start..end(row)).unwrap_or_default()
}

/// What only some files have.
#[derive(Clone, Debug, Default)]
struct Rare {
    raw_path: Option<String>,
    deletion: Deletion,
    tags: BTreeMap<String, String>,
    clustering_provider: Option<String>,
}

#[derive(Debug, Default)]
struct Run {
    paths: Texts,
    sizes: Vec<u64>,
    times: Vec<i64>,
    /// Number of the partition values in `values`.
    partitions: Vec<u32>,
    values: Vec<BTreeMap<String, Option<String>>>,
    /// Empty, or one of each kind for every file.
    row_ids: Vec<[Option<i64>; 2]>,
    rare: BTreeMap<u32, Rare>,
    /// Who clustered all files of the run, if it was one for all.
    clustering_provider: Option<String>,
    /// Ends of the statistics in the uncompressed text; empty where a file has none.
    stats_ends: Vec<u32>,
    stats_bytes: usize,
    stats_compressed: Vec<u8>,
}

impl Run {
    fn len(&self) -> usize {
        self.sizes.len()
    }

    /// The statistics texts, uncompressed.
    fn stats(&self) -> String {
        let bytes = zstd::bulk::decompress(&self.stats_compressed, self.stats_bytes);
        // What was compressed here cannot fail to come back; and without statistics files are
        // merely not pruned.
        let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        text.unwrap_or_default()
    }

    fn file(&self, row: usize, stats: &str) -> Option<DataFile> {
        let path = self.paths.get(row).to_owned();
        let number = u32::try_from(row).ok()?;
        let rare = self.rare.get(&number).cloned().unwrap_or_default();
        let value = self.partitions.get(row).map_or(0, |value| *value as usize);
        let [base_row_id, default_row_commit_version] =
            self.row_ids.get(row).copied().unwrap_or_default();
        let raw_stats = text_at(stats, &self.stats_ends, row);
        Some(DataFile {
            raw_path: rare.raw_path.unwrap_or_else(|| path.clone()),
            path,
            partition_values: self.values.get(value).cloned().unwrap_or_default(),
            size_bytes: *self.sizes.get(row)?,
            modification_time_ms: *self.times.get(row)?,
            stats: None,
            raw_stats: (!raw_stats.is_empty()).then(|| raw_stats.to_owned()),
            deletion: rare.deletion,
            base_row_id,
            default_row_commit_version,
            tags: rare.tags,
            clustering_provider: rare
                .clustering_provider
                .or_else(|| self.clustering_provider.clone()),
            held: None,
            beside: None,
        })
    }
}

/// Packed files, numbered in the order in which they were packed.
#[derive(Debug, Default)]
pub struct Packed {
    runs: Vec<Arc<Run>>,
    len: usize,
    /// Hash of each path with its number, by hash.
    index: Vec<(u64, u32)>,
}

impl Packed {
    /// The number of files.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of runs.
    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// The numbers that the files of a run have, if it is full.
    pub(super) fn range(run: usize) -> std::ops::Range<u32> {
        number(run, 0)..number(run + 1, 0)
    }

    /// The files of a run with their numbers.
    pub(super) fn run(&self, run: usize) -> impl Iterator<Item = (u32, DataFile)> + Send + '_ {
        let found = self.runs.get(run).map(|found| (found, found.stats()));
        let files = found.into_iter().flat_map(|(found, stats)| {
            (0..found.len()).map_while(move |row| found.file(row, &stats))
        });
        files
            .enumerate()
            .map(move |(row, file)| (number(run, row), file))
    }

    /// One file.
    pub(super) fn file(&self, number: u32) -> Option<DataFile> {
        let (run, row) = place(number);
        let run = self.runs.get(run)?;
        run.file(row, &run.stats())
    }

    /// All paths with the numbers of their files.
    pub(super) fn paths(&self) -> impl Iterator<Item = (u32, &str)> + Send + '_ {
        self.runs.iter().enumerate().flat_map(|(run, found)| {
            (0..found.len()).map(move |row| (number(run, row), found.paths.get(row)))
        })
    }

    /// Sizes of all files, in bytes.
    pub(super) fn sizes(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.runs.iter().enumerate().flat_map(|(run, found)| {
            let sizes = found.sizes.iter().enumerate();
            sizes.map(move |(row, bytes)| (number(run, row), *bytes))
        })
    }

    /// Size of one file, in bytes.
    pub(super) fn size(&self, number: u32) -> u64 {
        let (run, row) = place(number);
        let size = self.runs.get(run).and_then(|run| run.sizes.get(row));
        size.copied().unwrap_or(0)
    }

    /// The number of the file of a path.
    pub(super) fn find(&self, path: &str) -> Option<u32> {
        let wanted = hash(path);
        let first = self.index.partition_point(|(hash, _)| *hash < wanted);
        let same = self.index.iter().skip(first);
        let mut same = same.take_while(|(hash, _)| *hash == wanted);
        same.find(|(_, number)| self.path(*number) == Some(path))
            .map(|(_, number)| *number)
    }

    fn path(&self, number: u32) -> Option<&str> {
        let (run, row) = place(number);
        Some(self.runs.get(run)?.paths.get(row))
    }

    /// A path that two files have.
    fn double(&self) -> Option<&str> {
        let pairs = self.index.iter().zip(self.index.iter().skip(1));
        pairs
            .filter(|((first, _), (second, _))| first == second)
            .find_map(|((_, first), (_, second))| {
                let path = self.path(*first)?;
                (self.path(*second)? == path).then_some(path)
            })
    }

    fn hashes(&self) -> Vec<(u64, u32)> {
        let mut hashes: Vec<_> = self
            .paths()
            .map(|(number, path)| (hash(path), number))
            .collect();
        hashes.sort_unstable();
        hashes
    }
}

fn hash(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

fn number(run: usize, row: usize) -> u32 {
    u32::try_from(run * RUN_FILES + row).unwrap_or(u32::MAX)
}

fn place(number: u32) -> (usize, usize) {
    let number = number as usize;
    (number / RUN_FILES, number % RUN_FILES)
}

/// Packs files as they come.
#[derive(Clone, Debug, Default)]
pub struct Packer {
    waiting: Vec<DataFile>,
    runs: Vec<Arc<Run>>,
    len: usize,
}

impl Packer {
    /// Takes a file. Its parsed statistics are dropped: their text form counts.
    ///
    /// # Errors
    /// Compressing failed.
    pub fn push(&mut self, file: DataFile) -> std::io::Result<()> {
        self.waiting.push(file);
        self.len += 1;
        if self.waiting.len() == RUN_FILES {
            self.flush()?;
        }
        Ok(())
    }

    /// The number of files taken.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none was taken.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The files, packed; the inner error is a path that two of them have.
    ///
    /// # Errors
    /// Compressing failed.
    pub fn finish(mut self) -> std::io::Result<Result<Packed, String>> {
        self.flush()?;
        let mut packed = Packed {
            runs: self.runs,
            len: self.len,
            index: Vec::new(),
        };
        packed.index = packed.hashes();
        let double = packed.double().map(str::to_owned);
        Ok(double.map_or(Ok(packed), Err))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let mut run = Run::default();
        let mut stats = String::new();
        let mut values = BTreeMap::new();
        let track = |file: &DataFile| {
            file.base_row_id.is_some() || file.default_row_commit_version.is_some()
        };
        let tracks_rows = self.waiting.iter().any(track);
        let first = self.waiting.first();
        let provider = first.and_then(|file| file.clustering_provider.clone());
        let is_same = |file: &DataFile| file.clustering_provider == provider;
        run.clustering_provider = provider
            .clone()
            .filter(|_| self.waiting.iter().all(is_same));
        for (row, file) in self.waiting.drain(..).enumerate() {
            run.paths.push(&file.path)?;
            run.sizes.push(file.size_bytes);
            run.times.push(file.modification_time_ms);
            let next = values.len();
            let value = *values.entry(file.partition_values).or_insert(next);
            run.partitions
                .push(u32::try_from(value).unwrap_or(u32::MAX));
            if tracks_rows {
                run.row_ids
                    .push([file.base_row_id, file.default_row_commit_version]);
            }
            stats.push_str(file.raw_stats.as_deref().unwrap_or_default());
            run.stats_ends.push(end(stats.len())?);
            let rare = Rare {
                raw_path: (file.raw_path != file.path).then_some(file.raw_path),
                deletion: file.deletion,
                tags: file.tags,
                clustering_provider: file
                    .clustering_provider
                    .filter(|_| run.clustering_provider.is_none()),
            };
            let plain = rare.raw_path.is_none()
                && rare.deletion.is_none()
                && rare.tags.is_empty()
                && rare.clustering_provider.is_none();
            if !plain {
                run.rare.insert(end(row)?, rare);
            }
        }
        let mut by_number: Vec<_> = values.into_iter().map(|(value, at)| (at, value)).collect();
        by_number.sort_unstable_by_key(|(at, _)| *at);
        run.values = by_number.into_iter().map(|(_, value)| value).collect();
        run.stats_bytes = stats.len();
        run.stats_compressed = zstd::bulk::compress(stats.as_bytes(), COMPRESSION_LEVEL)?;
        run.paths.shrink();
        self.runs.push(Arc::new(run));
        Ok(())
    }
}

/// A place in a run's text.
fn end(place: usize) -> std::io::Result<u32> {
    u32::try_from(place).map_err(|_| std::io::Error::other("more than 4 GiB of text in a run"))
}
