//! `Files` against a plain map, packed and not.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::deletion_vector::{Deletion, DvDescriptor, DvStorage};
use crate::stats::{ColumnStats, Statistics};

#[derive(Debug)]
struct Rows;

impl Complete for Rows {
    fn complete(&self, file: &mut DataFile, statistics: StatsNeeded<'_>) {
        let rows = file.raw_stats.as_deref().and_then(|text| text.parse().ok());
        let columns = ["a", "b"].map(|name| vec![name.to_owned()]);
        let is_needed = |path: &Vec<String>| match statistics {
            StatsNeeded::Columns(names) => names.contains(&path[0]),
            _ => true,
        };
        let columns = columns.into_iter().filter(is_needed);
        let parsed = rows.map(|rows| Statistics {
            num_records: Some(rows),
            columns: columns.map(|path| (path, ColumnStats::default())).collect(),
            ..Statistics::default()
        });
        file.stats = parsed
            .filter(|_| statistics != StatsNeeded::None)
            .map(Arc::new);
    }
}

/// A file that differs in every part from its neighbours.
fn file(number: u64) -> DataFile {
    let path = format!("p={}/f {number}.parquet", number % 3);
    let deletion = match number % 5 {
        0 => Deletion::Stored(DvDescriptor {
            storage: DvStorage::Inline,
            path_or_inline: format!("dv{number}"),
            offset: None,
            size_in_bytes: 4,
            cardinality: 1,
        }),
        _ => Deletion::None,
    };
    let value = (!number.is_multiple_of(7)).then(|| (number % 3).to_string());
    DataFile {
        raw_path: match number % 2 {
            0 => path.replace(' ', "%20"),
            _ => path.clone(),
        },
        path,
        partition_values: BTreeMap::from([("p".to_owned(), value)]),
        size_bytes: 100 + number,
        modification_time_ms: number as i64,
        stats: None,
        raw_stats: (!number.is_multiple_of(4)).then(|| number.to_string()),
        deletion,
        base_row_id: number.is_multiple_of(2).then_some(number as i64 * 10),
        default_row_commit_version: number.is_multiple_of(3).then_some(7),
        tags: number
            .is_multiple_of(11)
            .then(|| ("tag".to_owned(), number.to_string()))
            .into_iter()
            .collect(),
        // One run has one provider, the others have several.
        clustering_provider: (number < 1024 || number.is_multiple_of(13))
            .then(|| "liquid".to_owned()),
        held: None,
        beside: None,
    }
}

fn completed(number: u64) -> DataFile {
    let mut file = file(number);
    Rows.complete(&mut file, StatsNeeded::All);
    file
}

fn packed(numbers: Range<u64>) -> Files {
    let mut packer = Packer::default();
    for number in numbers {
        packer.push(file(number)).unwrap();
    }
    Files::packed(Arc::new(packer.finish().unwrap().unwrap()), Arc::new(Rows))
}

#[test]
fn what_is_unpacked_equals_what_was_packed() {
    // Two full runs and a part of a third.
    let count = 2 * 1024 + 17;
    let files = packed(0..count);
    assert_eq!(files.len() as u64, count);
    for (number, found) in files.values().enumerate() {
        assert_eq!(*found, completed(number as u64));
    }
    for (number, found) in files.without_statistics().enumerate() {
        assert_eq!(*found, file(number as u64));
    }
    for number in [0, 1, 1023, 1024, 1025, 2047, 2048, count - 1] {
        let path = file(number).path;
        assert!(files.contains_key(&path));
        assert_eq!(*files.get(&path).unwrap(), completed(number));
    }
    assert!(!files.contains_key("p=0/f 1.parquet"));
    let bytes: u64 = (0..count).map(|number| 100 + number).sum();
    assert_eq!(files.size_bytes(), bytes);
}

#[test]
fn files_are_judged_by_the_columns_asked_for_and_kept_ones_are_complete() {
    let mut files = packed(0..2 * 1024 + 17);
    for number in [3, 2000] {
        let mut new = completed(number);
        new.size_bytes = 9;
        files.insert(Arc::new(new));
    }
    files.remove(&file(4).path);
    let is_wanted = |file: &Arc<DataFile>| file.size_bytes % 100 == 9;
    let expected: Vec<_> = files.values().filter(is_wanted).collect();
    let mut seen = 0;
    let columns = ["a".to_owned()];
    let found: Result<_, ()> = files.matching(&columns, |some| {
        for file in some.iter().filter(|file| file.size_bytes != 9) {
            let names = file.stats.iter().flat_map(|stats| stats.columns.keys());
            assert!(names.flatten().all(|name| name == "a"), "{}", file.path);
        }
        seen += some.len();
        Ok(some.iter().map(is_wanted).collect())
    });
    assert_eq!(found.unwrap(), expected);
    assert!(expected.len() > 20);
    assert_eq!(seen, files.len());
    // No answer keeps a file.
    let all: Result<_, ()> = files.matching(&columns, |_| Ok(Vec::new()));
    assert_eq!(all.unwrap(), files.values().collect::<Vec<_>>());
    assert_eq!(files.matching(&columns, |_| Err("no")), Err("no"));
}

#[test]
fn two_files_of_one_path_are_not_packed() {
    let mut packer = Packer::default();
    for number in [1, 2, 3, 2, 4] {
        packer.push(file(number)).unwrap();
    }
    assert_eq!(packer.finish().unwrap().unwrap_err(), file(2).path);
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    Remove(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0_u64..60).prop_map(Step::Insert),
        (0_u64..60).prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn files_equal_a_plain_map(base in 0_u64..40, steps in steps()) {
        let mut files = packed(0..base);
        let mut model: BTreeMap<String, DataFile> =
            (0..base).map(|number| (file(number).path, completed(number))).collect();
        for step in steps {
            match step {
                Step::Insert(number) => {
                    let mut new = completed(number);
                    new.size_bytes = 9;
                    model.insert(new.path.clone(), new.clone());
                    files.insert(Arc::new(new));
                }
                Step::Remove(number) => {
                    let path = file(number).path;
                    prop_assert_eq!(files.remove(&path), model.remove(&path).is_some());
                }
            }
            prop_assert_eq!(files.len(), model.len());
            prop_assert_eq!(files.is_empty(), model.is_empty());
        }
        let found: BTreeMap<String, DataFile> = files
            .values()
            .map(|file| (file.path.clone(), file.as_ref().clone()))
            .collect();
        prop_assert_eq!(&found, &model);
        let mut paths: Vec<String> = files.paths().collect();
        paths.sort();
        prop_assert_eq!(paths, model.keys().cloned().collect::<Vec<_>>());
        let bytes: u64 = model.values().map(|file| file.size_bytes).sum();
        prop_assert_eq!(files.size_bytes(), bytes);
        for number in 0..60 {
            let path = file(number).path;
            let found = files.get(&path);
            prop_assert_eq!(found.as_deref(), model.get(&path));
        }
        let loose: Files = model.values().cloned().map(Arc::new).collect();
        prop_assert_eq!(&files, &loose);
        prop_assert_eq!(&loose, &files);
    }
}
