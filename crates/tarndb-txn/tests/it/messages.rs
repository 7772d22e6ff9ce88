//! Messages: what a person reads when two transactions meet.
//!
//! Invariant: both operations, version, transaction and the thing at issue are named.
//! Spec: docs/conflicts.md, "Verdicts".

use expect_test::{Expect, expect};
use tarndb_txn::{
    Answer, CatalogEffect, Committed, ConfigEffect, Effects, Evidence, Isolation, KeySet,
    Operation, OverwriteKind, Read, Removal, RowMap, SchemaEffect, Source, TableEffects, Touched,
    judge, questions, row_map_needed, rows_needed,
};
use tarndb_types::{DbVersion, TxnId, Uuid};

use crate::model::id;

fn effects(table: TableEffects) -> Effects {
    Effects {
        tables: [(id(1), table)].into(),
        ..Effects::default()
    }
}

fn deletion(operation: Operation, files: &[(&str, std::ops::Range<u64>)]) -> TableEffects {
    let touched = files
        .iter()
        .map(|(file, rows)| ((*file).to_owned(), Touched::Rows(rows.clone().collect())));
    TableEffects {
        operation: Some(operation),
        deletions: touched.collect(),
        ..TableEffects::default()
    }
}

#[track_caller]
fn check(ours: &Effects, theirs: Effects, expected: Expect) {
    check_with(ours, theirs, None, expected);
}

/// `answer`: to the questions that there are.
#[track_caller]
fn check_with(ours: &Effects, theirs: Effects, answer: Option<Answer>, expected: Expect) {
    let mut evidence = Evidence::none();
    if let (Some(answer), Some(our), Some(their)) =
        (answer, ours.tables.get(&id(1)), theirs.tables.get(&id(1)))
    {
        for question in questions(our, their, ours.isolation) {
            evidence.note(id(1), question, answer.clone());
        }
    }
    let theirs = Committed {
        version: DbVersion(42),
        txn: TxnId(Uuid::from_u128(7)),
        effects: theirs,
        evidence,
    };
    let verdict = judge(ours, &theirs);
    let text = verdict.conflict().map_or_else(
        || "no conflict".to_owned(),
        |conflict| conflict.describe(conflict.table.map(|_| "main.t")),
    );
    expected.assert_eq(&text.replace(": ", ":\n").replace("; ", ";\n"));
}

#[test]
fn same_rows_are_sampled_and_counted() {
    let ours = effects(deletion(
        Operation::Update,
        &[("a.parquet", 0..9), ("b.parquet", 3..4)],
    ));
    let theirs = effects(deletion(
        Operation::Delete,
        &[("a.parquet", 2..20), ("b.parquet", 3..4)],
    ));
    check(
        &ours,
        theirs,
        expect![[r#"
        UPDATE of main.t conflicts with DELETE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        both delete or update rows 2, 3, 4, 5, 6 and 2 more of file a.parquet, row 3 of file b.parquet;
        run the transaction again on the new snapshot"#]],
    );
    let many: Vec<_> = ["a", "b", "c", "d", "e"].map(|file| (file, 0..1)).into();
    let both = effects(deletion(Operation::Delete, &many));
    check(
        &both,
        both.clone(),
        expect![[r#"
        DELETE of main.t conflicts with DELETE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        both delete or update row 0 of file a, row 0 of file b, row 0 of file c and 2 more files;
        run the transaction again on the new snapshot"#]],
    );
}

#[test]
fn files_are_named_when_rows_are_not_known() {
    let ours = effects(deletion(Operation::Update, &[("a.parquet", 0..9)]));
    let with = |removal| {
        effects(TableEffects {
            removes: [("a.parquet".to_owned(), removal)].into(),
            ..TableEffects::default()
        })
    };
    check(
        &ours,
        with(Removal::Deleted),
        expect![[r#"
            UPDATE of main.t conflicts with DELETE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
            this transaction deletes or updates rows of file a.parquet, dropped meanwhile;
            run the transaction again on the new snapshot"#]],
    );
    check(
        &ours,
        with(Removal::Moved),
        expect![[r#"
            UPDATE of main.t conflicts with OPTIMIZE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
            this transaction deletes or updates rows of file a.parquet, compacted meanwhile without a row map;
            run the transaction again on the new snapshot"#]],
    );
    check(
        &with(Removal::Moved),
        ours.clone(),
        expect![[r#"
            OPTIMIZE of main.t conflicts with UPDATE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
            this transaction compacts, without a row map, file a.parquet, of which rows were deleted meanwhile;
            run the transaction again on the new snapshot"#]],
    );
    let whole = effects(TableEffects {
        deletions: [("a.parquet".to_owned(), Touched::WholeFile)].into(),
        ..TableEffects::default()
    });
    check(
        &ours,
        whole,
        expect![[r#"
        UPDATE of main.t conflicts with DELETE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        both change file a.parquet, which cannot be told apart by row (copy-on-write);
        run the transaction again on the new snapshot"#]],
    );
}

#[test]
fn definitions_name_both_sides() {
    let schema = |effect| {
        effects(TableEffects {
            schema: vec![effect],
            ..TableEffects::default()
        })
    };
    let config = |effect| {
        effects(TableEffects {
            config: vec![effect],
            ..TableEffects::default()
        })
    };
    let column = |type_text: &str, nullable| {
        let (name, type_text) = ("c".to_owned(), type_text.to_owned());
        schema(SchemaEffect::AddColumn {
            name,
            type_text,
            nullable,
        })
    };
    check(
        &column("long", true),
        column("string", false),
        expect![[r#"
            ADD COLUMNS of main.t conflicts with ADD COLUMNS committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
            column c is now c string NOT NULL, not c long;
            look at what is there now and decide whether the change is still wanted"#]],
    );
    let comment = |column: Option<&str>, text: Option<&str>| {
        let (column, text) = (column.map(str::to_owned), text.map(str::to_owned));
        schema(SchemaEffect::SetComment { column, text })
    };
    check(
        &comment(Some("c"), Some("mine")),
        comment(Some("c"), None),
        expect![[r#"
            SET TBLPROPERTIES of main.t conflicts with SET TBLPROPERTIES committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
            the comment of column c is now unset, not "mine";
            look at what is there now and decide whether the change is still wanted"#]],
    );
    let set = |key: &str, value: &str| {
        config(ConfigEffect::Set {
            key: key.to_owned(),
            value: value.to_owned(),
        })
    };
    check(
        &set("user.x", "1"),
        set("user.x", "2"),
        expect![[r#"
            SET TBLPROPERTIES of main.t conflicts with SET TBLPROPERTIES committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
            the property user.x is now "2", not "1";
            look at what is there now and decide whether the change is still wanted"#]],
    );
    let append = effects(TableEffects {
        operation: Some(Operation::Append),
        adds: true,
        ..TableEffects::default()
    });
    check(
        &append,
        set("delta.constraints.c", "v > 0"),
        expect![[r#"
        WRITE of main.t conflicts with SET TBLPROPERTIES committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        the property delta.constraints.c, which writers must obey, was changed beside data written;
        run the transaction again on the new snapshot"#]],
    );
    let take = |mark: i64| {
        config(ConfigEffect::TakeIdentity {
            column: "id".into(),
            mark,
        })
    };
    check(
        &take(7),
        take(7),
        expect![[r#"
            SET TBLPROPERTIES of main.t conflicts with SET TBLPROPERTIES committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
            values of the identity column id were given out that these rows have too;
            run the transaction again on the new snapshot"#]],
    );
    check(
        &append,
        column("long", false),
        expect![[r#"
            WRITE of main.t conflicts with ADD COLUMNS committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
            column c became NOT NULL, and the rows written may lack it;
            run the transaction again on the new snapshot"#]],
    );
    check(
        &append,
        config(ConfigEffect::AddFeature { name: "new".into() }),
        expect![[r#"
            WRITE of main.t conflicts with SET TBLPROPERTIES committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
            the table feature new, which writers must obey, was raised beside data written;
            run the transaction again on the new snapshot"#]],
    );
    check(
        &append,
        schema(SchemaEffect::Replace {
            fingerprint: "p".into(),
        }),
        expect![[r#"
            WRITE of main.t conflicts with REPLACE TABLE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
            the table's schema was replaced;
            run the transaction again on the new snapshot"#]],
    );
}

#[test]
fn whole_tables_and_ids() {
    let append = TableEffects {
        operation: Some(Operation::Append),
        adds: true,
        app_txns: [("loader".to_owned(), 8)].into(),
        ..TableEffects::default()
    };
    let ours = effects(append.clone());
    check(
        &ours,
        effects(TableEffects {
            dropped: true,
            ..TableEffects::default()
        }),
        expect![[r#"
            WRITE of main.t conflicts with DROP TABLE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
            the table was dropped;
            look at what is there now and decide whether the change is still wanted"#]],
    );
    let other = [("loader".to_owned(), 9)].into();
    check(
        &ours,
        effects(TableEffects {
            app_txns: other,
            ..append.clone()
        }),
        expect![[r#"
            WRITE of main.t conflicts with WRITE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
            application transaction loader is committed at 9 (this one carries 8);
            go on after the committed version, this one is already in the table"#]],
    );
    let overwrite = |source_read_target| {
        let overwrite = Some(OverwriteKind::All { source_read_target });
        effects(TableEffects {
            overwrite,
            ..TableEffects::default()
        })
    };
    check(
        &ours,
        overwrite(false),
        expect![[r#"
        WRITE of main.t conflicts with OVERWRITE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        the data of the table was replaced;
        run the transaction again on the new snapshot"#]],
    );
    check(
        &overwrite(true),
        effects(append),
        expect![[r#"
        OVERWRITE of main.t conflicts with WRITE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        the new data was computed from this table, and the table's data has changed;
        run the transaction again on the new snapshot"#]],
    );
    let mut reads = effects(TableEffects {
        read: Some(Read::All),
        ..TableEffects::default()
    });
    reads.isolation = Isolation::Serializable;
    check(
        &reads,
        ours,
        expect![[r#"
        READ of main.t conflicts with WRITE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        this transaction read the table (serializable), and theirs adds rows;
        run the transaction again on the new snapshot"#]],
    );
}

#[test]
fn catalog_names_schema_and_name() {
    let create = |number, name: &str, location: &str| {
        let (name, location) = (name.to_owned(), location.to_owned());
        let effect = CatalogEffect::CreateTable {
            id: id(number),
            schema: "main".into(),
            name,
            location,
            shares: Vec::new(),
        };
        Effects {
            catalog: vec![effect],
            ..Effects::default()
        }
    };
    check(
        &create(1, "t", "x"),
        create(2, "T", "y"),
        expect![[r#"
        CREATE TABLE of main.t conflicts with CREATE TABLE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        the name main.t is taken;
        choose another one, or use the table that is there now"#]],
    );
    check(
        &create(1, "t", "x"),
        create(2, "u", "x/y"),
        expect![[r#"
        CREATE TABLE of main.t conflicts with CREATE TABLE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        the place x is taken by a table at x/y;
        choose another one, or use the table that is there now"#]],
    );
    let drop = CatalogEffect::DropSchema {
        name: "main".into(),
    };
    let drop = Effects {
        catalog: vec![drop],
        ..Effects::default()
    };
    check(
        &create(1, "t", "x"),
        drop.clone(),
        expect![[r#"
        CREATE TABLE of main.t conflicts with DROP SCHEMA committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        the schema main was dropped;
        look at what is there now and decide whether the change is still wanted"#]],
    );
    let create_schema = CatalogEffect::CreateSchema {
        name: "Main".into(),
    };
    let create_schema = Effects {
        catalog: vec![create_schema],
        ..Effects::default()
    };
    check(
        &create_schema,
        drop,
        expect![[r#"
        CREATE SCHEMA conflicts with DROP SCHEMA committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        the schema Main was created or dropped;
        look at what is there now and decide whether the change is still wanted"#]],
    );
    let lookup = Effects {
        names_read: [("main".to_owned(), "t".to_owned())].into(),
        isolation: Isolation::Serializable,
        ..Effects::default()
    };
    check(
        &lookup,
        create(2, "T", "y"),
        expect![[r#"
        READ of main.t conflicts with CREATE TABLE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        this transaction looked up the name main.t (serializable), and theirs creates table;
        run the transaction again on the new snapshot"#]],
    );
}

#[test]
fn only_common_files_with_unknown_rows_need_decoding() {
    let ours = deletion(Operation::Delete, &[("a", 0..1), ("b", 0..1), ("c", 0..1)]);
    let unknown = |files: &[&str]| TableEffects {
        deletions: files
            .iter()
            .map(|file| ((*file).to_owned(), Touched::WholeFile))
            .collect(),
        ..TableEffects::default()
    };
    let mut theirs = unknown(&["a", "d"]);
    theirs
        .deletions
        .extend(deletion(Operation::Delete, &[("b", 0..1)]).deletions);
    let needed: Vec<_> = rows_needed(&ours, &theirs).into_iter().collect();
    assert_eq!(needed, ["a"]);
    // Copy-on-write of ours conflicts whatever their rows are.
    assert!(rows_needed(&unknown(&["a"]), &theirs).is_empty());
}

#[test]
fn operation_names_read_back() {
    for operation in Operation::ALL {
        assert_eq!(operation.name().parse(), Ok(*operation));
    }
    expect!["not an operation known to this version: name=\"x\""]
        .assert_eq(&"x".parse::<Operation>().unwrap_err().to_string());
}

fn append() -> TableEffects {
    TableEffects {
        operation: Some(Operation::Append),
        adds: true,
        ..TableEffects::default()
    }
}

fn upsert(hashes: &[u64], covers_adds: bool) -> TableEffects {
    let hashes = hashes.iter().copied().collect();
    TableEffects {
        operation: Some(Operation::Upsert),
        adds: true,
        keys: KeySet::of(vec!["id".into(), "day".into()], &hashes, covers_adds),
        ..TableEffects::default()
    }
}

#[test]
fn keys_name_what_was_found_or_why_nobody_looked() {
    let ours = effects(upsert(&[1, 2], true));
    let yes = Answer::Yes("id = 7, day = 2 in file p.parquet".into());
    let unknown = Answer::Unknown("12 MB of added rows are over the budget of 8 MB".into());
    check_with(
        &ours,
        effects(append()),
        Some(Answer::No),
        expect!["no conflict"],
    );
    check_with(
        &ours,
        effects(append()),
        Some(yes),
        expect![[r#"
        MERGE of main.t conflicts with WRITE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        rows with keys (id, day) of this transaction were added meanwhile:
        id = 7, day = 2 in file p.parquet;
        run the transaction again on the new snapshot"#]],
    );
    check_with(
        &ours,
        effects(append()),
        Some(unknown),
        expect![[r#"
        MERGE of main.t conflicts with WRITE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        rows were added meanwhile that may have keys (id, day) of this transaction:
        12 MB of added rows are over the budget of 8 MB;
        run the transaction again on the new snapshot"#]],
    );
    check(
        &ours,
        effects(append()),
        expect![[r#"
        MERGE of main.t conflicts with WRITE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        rows were added meanwhile that may have keys (id, day) of this transaction:
        nobody looked at these rows;
        run the transaction again on the new snapshot"#]],
    );
    check(&ours, effects(upsert(&[3], true)), expect!["no conflict"]);
    check(
        &ours,
        effects(upsert(&[2, 3], true)),
        expect![[r#"
        MERGE of main.t conflicts with MERGE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        rows with keys (id, day) of this transaction were added meanwhile:
        1 key that both wrote or looked for;
        run the transaction again on the new snapshot"#]],
    );
    check(
        &ours,
        effects(upsert(&[3], false)),
        expect![[r#"
        MERGE of main.t conflicts with MERGE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        rows were added meanwhile that may have keys (id, day) of this transaction:
        nobody looked at these rows;
        run the transaction again on the new snapshot"#]],
    );
}

#[test]
fn overwrites_and_reads_name_predicate_and_match() {
    let overwrite = |file| {
        let mut table = deletion(Operation::Overwrite, &[(file, 0..2)]);
        table.overwrite = Some(OverwriteKind::Where {
            predicate: "day = 2".into(),
            source_read_target: false,
        });
        table.adds = true;
        effects(table)
    };
    let yes = Answer::Yes("day = 2 in file p.parquet".into());
    let unknown = Answer::Unknown("its predicate cannot be evaluated here".into());
    let ours = overwrite("a.parquet");
    check_with(
        &ours,
        effects(append()),
        Some(yes.clone()),
        expect![[r#"
            OVERWRITE of main.t conflicts with WRITE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
            rows were added meanwhile where day = 2, which this transaction replaces:
            day = 2 in file p.parquet;
            run the transaction again on the new snapshot"#]],
    );
    check_with(
        &ours,
        effects(append()),
        Some(unknown.clone()),
        expect![[r#"
            OVERWRITE of main.t conflicts with WRITE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
            rows were added meanwhile, perhaps where day = 2, which this transaction replaces:
            its predicate cannot be evaluated here;
            run the transaction again on the new snapshot"#]],
    );
    let delete = effects(deletion(Operation::Delete, &[("a.parquet", 7..8)]));
    check(
        &ours,
        delete,
        expect![[r#"
        OVERWRITE of main.t conflicts with DELETE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        this transaction replaces rows of file a.parquet, in which rows were deleted or moved meanwhile;
        run the transaction again on the new snapshot"#]],
    );
    let mut reads = effects(TableEffects {
        read: Some(Read::Rows {
            predicates: vec!["day = 2".into()],
        }),
        ..TableEffects::default()
    });
    reads.isolation = Isolation::Serializable;
    check_with(
        &reads,
        effects(append()),
        Some(yes),
        expect![[r#"
        READ of main.t conflicts with WRITE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        this transaction read rows (serializable) that changed, theirs adds rows:
        day = 2 in file p.parquet;
        run the transaction again on the new snapshot"#]],
    );
    check_with(
        &reads,
        effects(append()),
        Some(unknown),
        expect![[r#"
        READ of main.t conflicts with WRITE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        this transaction read rows (serializable) that may have changed, theirs adds rows:
        its predicate cannot be evaluated here;
        run the transaction again on the new snapshot"#]],
    );
    check_with(
        &reads,
        effects(append()),
        Some(Answer::No),
        expect!["no conflict"],
    );
}

#[test]
fn changed_columns_name_both_changes() {
    let schema = |effect| {
        effects(TableEffects {
            schema: vec![effect],
            ..TableEffects::default()
        })
    };
    let drop = || schema(SchemaEffect::DropColumn { name: "c".into() });
    let rename = schema(SchemaEffect::RenameColumn {
        from: "C".into(),
        to: "d".into(),
    });
    let widen = || {
        schema(SchemaEffect::Widen {
            column: "c".into(),
            type_text: "bigint".into(),
        })
    };
    check(
        &rename,
        drop(),
        expect![[r#"
        CHANGE COLUMNS of main.t conflicts with CHANGE COLUMNS committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        column c is now dropped, not C renamed to d;
        look at what is there now and decide whether the change is still wanted"#]],
    );
    check(
        &drop(),
        widen(),
        expect![[r#"
        CHANGE COLUMNS of main.t conflicts with CHANGE COLUMNS committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        column c is now widened to bigint, not dropped;
        look at what is there now and decide whether the change is still wanted"#]],
    );
    check(
        &effects(append()),
        widen(),
        expect![[r#"
        WRITE of main.t conflicts with CHANGE COLUMNS committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        the type of column c was widened beside data written;
        run the transaction again on the new snapshot"#]],
    );
    check(
        &effects(upsert(&[1], true)),
        drop(),
        expect![[r#"
        MERGE of main.t conflicts with CHANGE COLUMNS committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        the column c, on which a key or predicate of this transaction may rely, is now dropped;
        run the transaction again on the new snapshot"#]],
    );
}

#[test]
fn row_map_that_lacks_the_rows_names_them() {
    let ours = effects(deletion(Operation::Delete, &[("a.parquet", 0..2)]));
    let mut moved = TableEffects {
        removes: [("a.parquet".to_owned(), Removal::Moved)].into(),
        ..TableEffects::default()
    };
    assert!(row_map_needed(&ours.tables[&id(1)], &moved));
    moved.row_map = Some(std::sync::Arc::new(RowMap {
        sources: vec![Source {
            path: "a.parquet".into(),
            vector: None,
        }],
        targets: Vec::new(),
    }));
    check(
        &ours,
        effects(moved),
        expect![[r#"
        DELETE of main.t conflicts with OPTIMIZE committed in version 42 by transaction 00000000-0000-0000-0000-000000000007:
        theirs compacts, with a row map that lacks them, rows 0, 1 of file a.parquet, deleted or updated by the other;
        run the transaction again on the new snapshot"#]],
    );
}
