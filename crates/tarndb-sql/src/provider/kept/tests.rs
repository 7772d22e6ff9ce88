//! Numbers of files.

use std::collections::BTreeMap;

use tarndb_table::Deletion;

use super::*;

fn file(path: &str) -> Arc<DataFile> {
    Arc::new(DataFile {
        path: path.to_owned(),
        raw_path: path.to_owned(),
        partition_values: BTreeMap::new(),
        size_bytes: 1,
        modification_time_ms: 1,
        stats: None,
        raw_stats: None,
        deletion: Deletion::None,
        base_row_id: None,
        default_row_commit_version: None,
        tags: BTreeMap::new(),
        clustering_provider: None,
        held: None,
        beside: None,
    })
}

#[test]
fn a_file_keeps_its_number_in_every_scan() {
    let kept = Kept::default();
    let numbers = |names: &[&str]| -> Vec<usize> {
        let files = names.iter().map(|name| file(name)).collect();
        let numbered = kept.number(files);
        numbered.into_iter().map(|(number, _)| number).collect()
    };
    assert_eq!(numbers(&["a", "b"]), [0, 1]);
    assert_eq!(numbers(&["c", "b", "a"]), [2, 1, 0]);
    let paths: Vec<_> = (0..4)
        .map(|number| kept.file(number).map(|file| file.path.clone()))
        .collect();
    assert_eq!(
        paths,
        [Some("a".into()), Some("b".into()), Some("c".into()), None]
    );
}
