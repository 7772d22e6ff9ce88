//! The operations of the measured matrix, built as its legend describes them.
//!
//! Fragments 0, 1 and 2 hold ids 0..11, four rows each; fragment 3 one row; fields id (0), name
//! (1), x (2); index `old_idx` on x; configuration k=0.

use std::collections::BTreeMap;

use tarndb_txn::strict::{Base, ConfigChange, FieldId, LanceOp, MetadataChange, Remap};

use super::sample::{
    delete, delete_whole, index, names, removed, replacement, rewrite, rewrite_column,
    rewrite_rows, schema, segment, update, without_rows,
};

const OLD_INDEX: u128 = 1;

fn config(change: impl FnOnce(&mut ConfigChange)) -> LanceOp {
    let mut config = ConfigChange::default();
    change(&mut config);
    LanceOp::UpdateConfig(config)
}

fn metadata(key: &str) -> MetadataChange {
    MetadataChange {
        keys: names(&[key]),
        replaces: false,
    }
}

/// Operation by its name in the legend.
pub(super) fn operations() -> BTreeMap<&'static str, LanceOp> {
    let all = &[0, 1, 2, 3];
    let same_name = index(
        vec![segment(3, "old_idx", 2, all)],
        vec![removed(OLD_INDEX, "old_idx")],
    );
    let base = Base {
        id: 0,
        name: Some("extra".to_owned()),
        path: "extra".to_owned(),
    };
    [
        ("append", LanceOp::Append),
        ("delete_f0", without_rows(delete(0, &[1]))),
        ("delete_f1", without_rows(delete(1, &[1]))),
        ("delete_row_id0_f0", delete(0, &[0])),
        ("delete_row_id3_f0", delete(0, &[3])),
        ("delete_whole_f0", without_rows(delete_whole(&[0]))),
        (
            "update_rows_f0",
            without_rows(update(rewrite_rows(0, &[2]))),
        ),
        (
            "update_rows_f1",
            without_rows(update(rewrite_rows(1, &[2]))),
        ),
        (
            "update_column_x_f0",
            without_rows(update(rewrite_column(0, 2))),
        ),
        (
            "update_column_id_f1",
            without_rows(update(rewrite_column(1, 0))),
        ),
        ("data_replacement_x_f0", replacement(0, 2)),
        ("data_replacement_id_f0", replacement(0, 0)),
        ("data_replacement_x_f1", replacement(1, 2)),
        ("rewrite_f0_f1", rewrite(&[&[0, 1]], Remap::Eager)),
        ("rewrite_f2_f3", rewrite(&[&[2, 3]], Remap::Eager)),
        ("merge_nullable", LanceOp::Merge(schema(true, &[]))),
        ("merge_required", LanceOp::Merge(schema(false, &[]))),
        ("overwrite", LanceOp::Overwrite { config: names(&[]) }),
        ("restore_v1", LanceOp::Restore),
        ("update_config_k", config(|c| c.upserted = names(&["k"]))),
        (
            "update_config_other",
            config(|c| c.upserted = names(&["other"])),
        ),
        (
            "update_config_delete_k",
            config(|c| c.deleted = names(&["k"])),
        ),
        (
            "table_metadata_t",
            config(|c| c.table = Some(metadata("t"))),
        ),
        (
            "schema_metadata",
            config(|c| c.schema = Some(metadata("s"))),
        ),
        (
            "field_metadata_0",
            config(|c| c.fields = [(FieldId(0), metadata("f"))].into()),
        ),
        ("drop_column_name", LanceOp::Project(schema(true, &[1]))),
        ("rename_column", LanceOp::Project(schema(true, &[]))),
        ("tighten_x", LanceOp::Project(schema(false, &[]))),
        (
            "create_index_id",
            index(vec![segment(2, "id_idx", 0, all)], vec![]),
        ),
        ("create_index_x_same_name", same_name),
        (
            "drop_index_old",
            index(vec![], vec![removed(OLD_INDEX, "old_idx")]),
        ),
        ("add_bases", LanceOp::UpdateBases(vec![base])),
    ]
    .into()
}
