//! Changes of the definition of tables by path, and the features that they bring.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use tarndb_delta::{
    ConflictKind, DeltaState, NativeError, NativeTable, NativeTarget, Reads, open_native,
};
use tarndb_storage::Store;
use tarndb_table::rules::{Identity, constraint_key};
use tarndb_table::*;

use crate::native::{append, definition, delete, kind, lines, memory, values};

fn path(name: &str) -> ColumnPath {
    ColumnPath::new(vec![name.to_owned()]).unwrap()
}

fn rename(column: &str, to: &str) -> MetadataChange {
    MetadataChange::RenameColumn {
        column: path(column),
        to: to.to_owned(),
    }
}

fn set(key: &str, value: &str) -> MetadataChange {
    MetadataChange::SetProperty {
        key: key.to_owned(),
        value: value.to_owned(),
    }
}

fn constraint(name: &str, expression: &str) -> MetadataChange {
    MetadataChange::Rule(RuleChange::AddConstraint {
        name: name.to_owned(),
        expression: expression.to_owned(),
    })
}

async fn table(store: &Store, properties: &[(&str, &str)]) -> NativeTable {
    let created = NativeTable::create(store, definition(properties, false)).await;
    created.unwrap()
}

/// One column of numbers.
fn numbers(column: &str, values: &[i64]) -> RecordBatch {
    let array: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    RecordBatch::try_from_iter_with_nullable([(column, array, true)]).unwrap()
}

async fn append_only(
    table: &mut NativeTable,
    column: &str,
    values: &[i64],
) -> Result<u64, NativeError> {
    let rows = futures::stream::iter([Ok::<_, TableError>(numbers(column, values))]);
    let written = table.write_columns(&[column], rows).await?;
    let commit = table
        .append(written, BTreeMap::new(), Reads::Nothing)
        .await?;
    Ok(commit.unwrap().version.0)
}

#[tokio::test]
async fn columns_are_renamed_dropped_and_added_without_a_file_written_anew() {
    for mode in ["none", "name", "id"] {
        let store = memory();
        let mut table = table(&store, &[("delta.columnMapping.mode", mode)]).await;
        append(&mut table, &[(1, 5), (2, 5)]).await.unwrap();
        let files: Vec<String> = table.state().unwrap().files.paths().collect();
        let drop = MetadataChange::DropColumn { column: path("p") };
        let changes = vec![rename("a", "b"), drop];
        table.change_metadata(changes).await.unwrap();
        let p = Field::new("p", DataType::Long, true);
        table
            .change_metadata(vec![MetadataChange::AddColumn(p.into())])
            .await
            .unwrap();
        let state = open_native(&store, NativeTarget::Latest).await.unwrap();
        let names: Vec<&str> = state
            .schema
            .fields
            .iter()
            .map(|f| f.name.as_str())
            .collect();
        assert_eq!(names, ["b", "p"], "{mode}");
        assert_eq!(state.files.paths().collect::<Vec<_>>(), files);
        append_only(&mut table, "b", &[3]).await.unwrap();
        delete(&store, &mut table, &[1]).await.unwrap();
        table.compact(1 << 30).await.unwrap().unwrap();
        assert_eq!(values(&store).await, [2, 3], "{mode}");
        let state = table.state().unwrap();
        let file = state.files.values().next().unwrap();
        let b = &state.schema.fields[0];
        // By the name that the column has in files.
        let stats = file.stats.clone().unwrap();
        assert!(
            stats
                .columns
                .contains_key(&vec![b.stored_name().to_owned()])
        );
        assert_eq!(mode == "none", b.stored_name() == "a");
        // Re-added, it has nothing of the one before.
        assert_ne!(state.schema.fields[1].stored_name(), "p", "{mode}");
    }
}

#[tokio::test]
async fn constraint_and_not_null_look_at_the_rows_and_stop_others_rows() {
    let store = memory();
    let mut one = table(&store, &[("delta.enableDeletionVectors", "true")]).await;
    append(&mut one, &[(1, 1), (2, 1)]).await.unwrap();
    append(&mut one, &[(3, 1)]).await.unwrap();
    let refused = one.change_metadata(vec![constraint("big", "a > 1")]).await;
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("CHECK constraint big"), "{text}");
    delete(&store, &mut one, &[1]).await.unwrap();
    let mut other = NativeTable::open(&store).await.unwrap();
    append(&mut other, &[(0, 1)]).await.unwrap();
    // Those rows were not looked at.
    let lost = one.change_metadata(vec![constraint("big", "a > 1")]).await;
    assert_eq!(kind(lost.unwrap_err()), ConflictKind::Append);
    delete(&store, &mut other, &[0]).await.unwrap();
    one.refresh().await.unwrap();
    one.change_metadata(vec![constraint("big", "a > 1")])
        .await
        .unwrap();
    // And what others wrote before it was made is not added.
    let lost = append(&mut other, &[(0, 1)]).await;
    assert_eq!(kind(lost.unwrap_err()), ConflictKind::Protocol);

    let not_null = |column| MetadataChange::SetNullable {
        column: path(column),
        nullable: false,
    };
    append_only(&mut one, "a", &[7]).await.unwrap();
    let refused = one.change_metadata(vec![not_null("p")]).await;
    assert!(refused.unwrap_err().to_string().contains('p'));
    delete(&store, &mut one, &[7]).await.unwrap();
    let (mark, before) = (
        append_only(&mut one, "a", &[8]).await.unwrap(),
        one.version(),
    );
    assert_eq!(mark, before.unwrap().0);
    one.change_metadata(vec![not_null("a")]).await.unwrap();
    let state = one.state().unwrap();
    assert!(!state.schema.fields[0].nullable);
    assert!(constraint_key(&state.properties, "BIG").is_some());
    let drop = RuleChange::DropConstraint {
        name: "big".to_owned(),
    };
    let drop = MetadataChange::Rule(drop);
    one.change_metadata(vec![drop]).await.unwrap();
    append(&mut one, &[(0, 1)]).await.unwrap();
}

#[tokio::test]
async fn column_with_null_in_a_deleted_row_stays_nullable_until_it_is_compacted() {
    let store = memory();
    let mut table = table(&store, &[("delta.enableDeletionVectors", "true")]).await;
    append(&mut table, &[(1, 1)]).await.unwrap();
    append_only(&mut table, "a", &[2, 3]).await.unwrap();
    delete(&store, &mut table, &[2]).await.unwrap();
    table.compact(1 << 30).await.unwrap().unwrap();
    append_only(&mut table, "a", &[4]).await.unwrap();
    let not_null = || {
        let change = MetadataChange::SetNullable {
            column: path("p"),
            nullable: false,
        };
        vec![change]
    };
    assert!(table.change_metadata(not_null()).await.is_err());
    let definition = definition(&[("delta.enableDeletionVectors", "true")], false);
    let store = memory();
    let mut table = NativeTable::create(&store, definition).await.unwrap();
    append(&mut table, &[(1, 1)]).await.unwrap();
    let two: ArrayRef = Arc::new(Int64Array::from(vec![2, 3]));
    let p: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(1)]));
    let rows = RecordBatch::try_from_iter_with_nullable([("a", two, true), ("p", p, true)]);
    let rows = futures::stream::iter([Ok::<_, TableError>(rows.unwrap())]);
    let written = table.write(rows).await.unwrap();
    let added = table.append(written, BTreeMap::new(), Reads::Nothing).await;
    added.unwrap();
    delete(&store, &mut table, &[2]).await.unwrap();
    let refused = table.change_metadata(not_null()).await.unwrap_err();
    assert!(
        matches!(refused, NativeError::NullInDeletedRow { .. }),
        "{refused}"
    );
    table.compact(1 << 30).await.unwrap().unwrap();
    table.change_metadata(not_null()).await.unwrap();
}

fn with_identity(explicit: bool) -> TableDefinition {
    let identity = Identity {
        start: 10,
        step: 10,
        mark: None,
        explicit,
    };
    let mut id = Field::new("id", DataType::Long, true);
    id.metadata.extend(identity.metadata());
    let mut definition = definition(&[], false);
    definition.schema = Schema::new(vec![id, Field::new("a", DataType::Long, true)]);
    definition
}

#[tokio::test]
async fn identity_numbers_are_given_once_and_stop_only_who_takes_some_too() {
    let store = memory();
    let mut one = NativeTable::create(&store, with_identity(true))
        .await
        .unwrap();
    let protocol = &DeltaState::of(one.state().unwrap()).unwrap().protocol;
    assert_eq!(protocol.min_writer_version, 6);
    let mut other = NativeTable::open(&store).await.unwrap();
    let mut explicit = NativeTable::open(&store).await.unwrap();
    append_only(&mut one, "a", &[1, 2]).await.unwrap();
    let told = lines(&store, 1).await;
    assert!(
        told[0].contains(r#""delta.identity.schemaUpdate":"true""#),
        "{told:?}"
    );
    // It took the same numbers.
    let lost = append_only(&mut other, "a", &[3]).await;
    assert_eq!(kind(lost.unwrap_err()), ConflictKind::Metadata);
    other.refresh().await.unwrap();
    append_only(&mut other, "a", &[3]).await.unwrap();
    // Own numbers take none.
    append_only(&mut explicit, "id", &[77]).await.unwrap();
    assert_eq!(values(&store).await, [10, 20, 30, 77]);
    let written = {
        let rows = || futures::stream::iter([Ok::<_, TableError>(numbers("a", &[5]))]);
        let first = explicit.write_columns(&["a"], rows()).await.unwrap();
        let second = explicit.write_columns(&["a"], rows()).await.unwrap();
        [first, second]
    };
    let [first, second] = written;
    let added = explicit
        .append(first, BTreeMap::new(), Reads::Nothing)
        .await;
    added.unwrap();
    let stale = explicit
        .append(second, BTreeMap::new(), Reads::Nothing)
        .await;
    let text = stale.unwrap_err().to_string();
    assert!(text.contains("identity") || text.contains("id"), "{text}");
    assert_eq!(values(&store).await, [10, 20, 30, 40, 77]);
}

#[tokio::test]
async fn clustered_tables_have_statistics_of_their_columns_in_every_file() {
    let store = memory();
    let none = ("delta.dataSkippingNumIndexedCols", "0");
    let mut table = table(&store, &[none]).await;
    let by = MetadataChange::ClusterBy(vec![vec!["p".to_owned()]]);
    table.change_metadata(vec![by]).await.unwrap();
    append(&mut table, &[(1, 1), (2, 2)]).await.unwrap();
    delete(&store, &mut table, &[1]).await.unwrap();
    append(&mut table, &[(3, 3)]).await.unwrap();
    table.compact(1 << 30).await.unwrap().unwrap();
    let state = open_native(&store, NativeTarget::Latest).await.unwrap();
    for file in state.files.values() {
        let stats = file.stats.clone().unwrap();
        let columns: Vec<_> = stats.columns.keys().cloned().collect();
        assert_eq!(columns, [vec!["p".to_owned()]]);
    }
    let in_use = MetadataChange::DropFeature("clustering".to_owned());
    let refused = table.change_metadata(vec![in_use]).await.unwrap_err();
    assert!(refused.to_string().contains("CLUSTER BY NONE"), "{refused}");
    table
        .change_metadata(vec![MetadataChange::ClusterBy(Vec::new())])
        .await
        .unwrap();
    let drop = MetadataChange::DropFeature("clustering".to_owned());
    table.change_metadata(vec![drop]).await.unwrap();
}

#[tokio::test]
async fn feature_that_readers_know_goes_when_nothing_uses_it_and_protects_checkpoints() {
    let store = memory();
    let on = ("delta.enableDeletionVectors", "true");
    let mut table = table(&store, &[on]).await;
    append(&mut table, &[(1, 1), (2, 2)]).await.unwrap();
    delete(&store, &mut table, &[1]).await.unwrap();
    let drop = || vec![MetadataChange::DropFeature("deletionVectors".to_owned())];
    assert!(table.change_metadata(drop()).await.is_err());
    table
        .change_metadata(vec![set(on.0, "false")])
        .await
        .unwrap();
    table.compact(1 << 30).await.unwrap().unwrap();
    let dropped = table.change_metadata(drop()).await.unwrap();
    let state = table.state().unwrap();
    let protocol = &DeltaState::of(state).unwrap().protocol;
    assert_eq!(
        (protocol.min_reader_version, protocol.min_writer_version),
        (1, 7)
    );
    let key = "delta.requireCheckpointProtectionBeforeVersion";
    assert_eq!(state.properties[key], dropped.version.0.to_string());
    append(&mut table, &[(3, 3)]).await.unwrap();
    assert_eq!(values(&store).await, [2, 3]);
}
