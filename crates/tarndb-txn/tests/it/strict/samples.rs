//! Operations of every kind, several per kind: what the tests of the whole matrix run over.

use tarndb_txn::strict::index::{MEM_WAL_INDEX, REUSE_INDEX};
use tarndb_txn::strict::{
    Base, ConfigChange, FieldId, Generation, IndexChange, KeyFilter, KeySet, LanceOp,
    MetadataChange, Remap, Rewrite, TableFacts,
};
use tarndb_types::Uuid;

use super::legend;
use super::sample::{
    PLAIN, TAGGED, delete, delete_whole, fragments, index, names, overlay, removed, replacement,
    rewrite, rewrite_column, rewrite_rows, schema, segment, undecoded, update, without_rows,
};

/// Tables with every combination of facts that a rule asks for.
pub(super) const TABLES: [TableFacts; 3] = [
    PLAIN,
    TAGGED,
    TableFacts {
        stable_row_ids: true,
        tagged_reuse: false,
    },
];

pub(super) fn bloom(bitmap: &[u8]) -> KeySet {
    KeySet::Bloom {
        bitmap: bitmap.to_vec(),
        num_bits: 8,
        items: 1,
        probability: 0.01_f64.to_bits(),
    }
}

pub(super) fn upsert(fragment: u64, offsets: &[u64], field: i32, keys: KeySet) -> LanceOp {
    let mut change = rewrite_rows(fragment, offsets);
    change.keys = Some(KeyFilter {
        fields: vec![FieldId(field)],
        keys,
    });
    update(change)
}

pub(super) fn generations(entries: &[(u128, u64)]) -> Vec<Generation> {
    let entries = entries.iter();
    entries
        .map(|(shard, generation)| Generation {
            shard: Uuid::from_u128(*shard),
            generation: *generation,
        })
        .collect()
}

pub(super) fn update_with_generations(entries: &[(u128, u64)]) -> LanceOp {
    let mut change = rewrite_rows(9, &[0]);
    change.generations = generations(entries);
    update(change)
}

pub(super) fn reuse_index(trims: bool) -> LanceOp {
    let mut entry = segment(20, REUSE_INDEX, 0, &[]);
    entry.fields.clear();
    LanceOp::CreateIndex(IndexChange {
        added: vec![entry],
        removed: vec![removed(19, REUSE_INDEX)],
        trims_reuse: trims,
        generations: Vec::new(),
    })
}

/// A trim that leaves nothing of the reuse index.
pub(super) fn reuse_index_emptied() -> LanceOp {
    LanceOp::CreateIndex(IndexChange {
        removed: vec![removed(19, REUSE_INDEX)],
        trims_reuse: true,
        ..IndexChange::default()
    })
}

pub(super) fn mixed_reuse_index() -> LanceOp {
    let mut op = reuse_index(false);
    if let LanceOp::CreateIndex(change) = &mut op {
        change.added.push(segment(21, "mixed", 1, &[7]));
    }
    op
}

pub(super) fn mem_wal_index(entries: &[(u128, u64)]) -> LanceOp {
    let mut entry = segment(30, MEM_WAL_INDEX, 0, &[]);
    entry.fields.clear();
    LanceOp::CreateIndex(IndexChange {
        added: vec![entry],
        generations: generations(entries),
        ..IndexChange::default()
    })
}

pub(super) fn uncovered_index() -> LanceOp {
    let mut entry = segment(22, "uncovered", 1, &[]);
    entry.coverage = None;
    index(vec![entry], vec![])
}

pub(super) fn ngram_index(coverage: &[u64]) -> LanceOp {
    let mut entry = segment(23, "grams", 1, coverage);
    entry.is_ngram = true;
    index(vec![entry], vec![])
}

pub(super) fn tagged_rewrite(group: &[u64], transitions: &[u64]) -> LanceOp {
    LanceOp::Rewrite(Rewrite {
        groups: vec![fragments(group)],
        remap: Remap::Deferred,
        transitions: fragments(transitions),
    })
}

pub(super) fn base(id: u32, name: Option<&str>, path: &str) -> LanceOp {
    LanceOp::UpdateBases(vec![Base {
        id,
        name: name.map(str::to_owned),
        path: path.to_owned(),
    }])
}

fn replaces_table_metadata() -> LanceOp {
    LanceOp::UpdateConfig(ConfigChange {
        table: Some(MetadataChange {
            replaces: true,
            ..MetadataChange::default()
        }),
        ..ConfigChange::default()
    })
}

/// The operations, labelled.
pub(super) fn samples() -> Vec<(&'static str, LanceOp)> {
    let mut samples: Vec<_> = legend::operations().into_iter().collect();
    samples.extend(data_samples());
    samples.extend(index_samples());
    samples.extend([
        ("retype_2", LanceOp::Merge(schema(true, &[2]))),
        ("drop_2", LanceOp::Project(schema(true, &[2]))),
        (
            "overwrite_k",
            LanceOp::Overwrite {
                config: names(&["k"]),
            },
        ),
        ("table_metadata_all", replaces_table_metadata()),
        ("reserve", LanceOp::ReserveFragments),
        ("clone", LanceOp::Clone),
        (
            "wal_s1_g4",
            LanceOp::UpdateMemWalState(generations(&[(1, 4)])),
        ),
        (
            "wal_s1_g5",
            LanceOp::UpdateMemWalState(generations(&[(1, 5)])),
        ),
        ("wal_s2", LanceOp::UpdateMemWalState(generations(&[(2, 1)]))),
        ("base_id", base(7, None, "p7")),
        ("base_path", base(7, None, "extra")),
        ("unknown", LanceOp::Unknown { number: 150 }),
    ]);
    samples
}

fn data_samples() -> Vec<(&'static str, LanceOp)> {
    vec![
        ("delete_rows_f0", delete(0, &[0, 1])),
        ("delete_undecoded_f0", undecoded(delete(0, &[3]))),
        ("delete_whole_f0_rows", delete_whole(&[0])),
        ("update_known_f0", update(rewrite_rows(0, &[2]))),
        ("update_known_f1", update(rewrite_rows(1, &[2]))),
        (
            "update_undecoded_f0",
            undecoded(update(rewrite_rows(0, &[3]))),
        ),
        ("update_column_x_f0_rows", update(rewrite_column(0, 2))),
        ("upsert_f1_key_a", upsert(1, &[0], 0, bloom(&[1]))),
        ("upsert_f2_key_a", upsert(2, &[0], 0, bloom(&[1]))),
        ("upsert_f3_key_b", upsert(3, &[0], 0, bloom(&[2]))),
        ("upsert_other_field", upsert(3, &[0], 1, bloom(&[2]))),
        ("update_s1_g4", update_with_generations(&[(1, 4)])),
        ("update_s1_g5", update_with_generations(&[(1, 5)])),
        ("replace_x_f2", replacement(2, 2)),
        ("overlay_x_f0_row2", overlay(0, 2, &[2])),
        ("overlay_x_f0_row3", overlay(0, 2, &[3])),
        ("overlay_id_f1", overlay(1, 0, &[0])),
        (
            "rewrite_f0_f1_deferred",
            rewrite(&[&[0, 1]], Remap::Deferred),
        ),
        ("rewrite_f2_deferred", rewrite(&[&[2]], Remap::Deferred)),
        ("rewrite_f2_tagged", tagged_rewrite(&[2], &[2, 0])),
    ]
}

fn index_samples() -> Vec<(&'static str, LanceOp)> {
    vec![
        (
            "index_x_f0",
            index(vec![segment(4, "x_f0", 2, &[0])], vec![]),
        ),
        (
            "index_append_old",
            index(vec![segment(5, "old_idx", 2, &[3])], vec![]),
        ),
        ("index_uncovered", uncovered_index()),
        ("index_ngram_f0", ngram_index(&[0])),
        ("reuse_index", reuse_index(false)),
        ("reuse_trim", reuse_index(true)),
        ("reuse_emptied", reuse_index_emptied()),
        ("reuse_drop", index(vec![], vec![removed(19, REUSE_INDEX)])),
        ("reuse_mixed", mixed_reuse_index()),
        ("wal_index", mem_wal_index(&[(1, 5)])),
        ("wal_index_low", mem_wal_index(&[(1, 3)])),
        ("delete_unknown_rows_f0", without_rows(delete(0, &[2]))),
    ]
}
