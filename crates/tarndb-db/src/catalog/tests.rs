//! Replay of actions, names and locations.

use std::collections::BTreeMap;
use std::sync::Arc;

use tarndb_table::codec::Entry;
use tarndb_types::{DatabaseId, DbVersion, TableId, TableVersion, TimestampMs, TxnId, Uuid};

use super::{Catalog, encode_name, location_for};
use crate::invariants::{Violation, check_catalog, check_location, locations_overlap};
use crate::record::{Action, EntryBody, Record, RecordTxn, TableEntryAction};

pub(crate) fn table(n: u128) -> TableId {
    TableId(Uuid::from_u128(n))
}

pub(crate) fn record(version: u64, actions: Vec<Action>) -> Record {
    let timestamp = TimestampMs(1000 + version as i64);
    let txn = RecordTxn {
        id: TxnId(Uuid::from_u128(u128::from(version) + 1)),
        read_version: DbVersion(version.saturating_sub(1)),
        timestamp,
        isolation: "snapshot".into(),
        operation: "TEST".into(),
        user_metadata: BTreeMap::new(),
        actions,
    };
    Record {
        version: DbVersion(version),
        timestamp,
        writer: String::new(),
        reader_features: Vec::new(),
        writer_features: Vec::new(),
        txns: vec![txn],
        size_bytes: 0,
    }
}

pub(crate) fn create(n: u128, name: &str, location: &str) -> Action {
    Action::CreateTable {
        id: table(n),
        schema: "main".into(),
        name: name.into(),
        format: "delta".into(),
        location: location.into(),
        bases: Vec::new(),
    }
}

pub(crate) fn entry(n: u128, version: u64) -> Action {
    let version = TableVersion(version);
    let body = EntryBody::Inline(Arc::new(Entry {
        version,
        lines: Vec::new(),
    }));
    Action::Entry(TableEntryAction {
        format: "delta".into(),
        table: table(n),
        version,
        body,
        notes: None,
        files: BTreeMap::new(),
    })
}

pub(crate) fn genesis() -> Catalog {
    let id = DatabaseId(Uuid::from_u128(9));
    let actions = vec![
        Action::CreateDatabase { id, format: 1 },
        Action::CreateSchema {
            name: "main".into(),
        },
    ];
    Catalog::genesis(&record(0, actions)).unwrap()
}

/// A catalog with table 1 at version 2, as of version 3.
pub(crate) fn one_table() -> Catalog {
    let mut catalog = genesis();
    for (version, actions) in [
        (1, vec![create(1, "Orders", "main/Orders"), entry(1, 0)]),
        (2, vec![entry(1, 1)]),
        (3, vec![entry(1, 2)]),
    ] {
        catalog = catalog.apply(&record(version, actions)).unwrap();
    }
    catalog
}

#[track_caller]
fn check(actions: Vec<Action>, expected: Violation) {
    let found = one_table().apply(&record(4, actions)).unwrap_err();
    assert_eq!(found, expected);
}

#[test]
fn tables_are_found_without_case_and_keep_theirs() {
    let catalog = one_table();
    let found = catalog.find("MAIN", "oRDERS").unwrap();
    assert_eq!(
        (found.name.as_str(), found.version),
        ("Orders", TableVersion(2))
    );
    assert_eq!(found.position(TableVersion(1)), Some(DbVersion(2)));
    assert_eq!(found.unpublished(), 3);
    assert_eq!(catalog.tables_in("Main").len(), 1);
    check_catalog(&catalog).unwrap();
}

#[test]
fn each_invariant_has_its_violation() {
    let (schema, name) = ("main".to_owned(), "ORDERS".to_owned());
    check(
        vec![create(2, "ORDERS", "main/x"), entry(2, 0)],
        Violation::NameTaken { schema, name },
    );
    let taken = |location: &str, other: &str| Violation::LocationTaken {
        location: location.into(),
        other: other.into(),
    };
    for location in ["main/Orders", "main/ORDERS", "main", "main/orders/x"] {
        check(
            vec![create(2, "x", location), entry(2, 0)],
            taken(location, "main/orders"),
        );
    }
    check(
        vec![create(2, "x", "main/x")],
        Violation::TableWithoutVersion { table: table(2) },
    );
    check(
        vec![entry(1, 4)],
        Violation::TableVersionNotConsecutive {
            table: table(1),
            expected: TableVersion(3),
            found: TableVersion(4),
        },
    );
    check(
        vec![entry(7, 0)],
        Violation::TableMissing { table: table(7) },
    );
    check(
        vec![Action::DropTable { id: table(7) }],
        Violation::TableMissing { table: table(7) },
    );
    let name = "main".to_owned();
    check(
        vec![Action::DropSchema { name: name.clone() }],
        Violation::SchemaNotEmpty {
            name: name.clone(),
            tables: 1,
        },
    );
    check(
        vec![Action::CreateSchema { name: name.clone() }],
        Violation::SchemaExists { name },
    );
    check(
        vec![
            Action::DropTable { id: table(1) },
            create(1, "x", "main/x"),
            entry(1, 0),
        ],
        Violation::TableIdReused { table: table(1) },
    );
    check(
        vec![
            Action::DropTable { id: table(1) },
            create(2, "x", "main/Orders"),
            entry(2, 0),
        ],
        taken("main/Orders", "main/orders"),
    );
}

#[test]
fn records_must_follow_one_another() {
    let catalog = one_table();
    let gap = catalog.apply(&record(5, vec![entry(1, 3)])).unwrap_err();
    assert!(matches!(gap, Violation::VersionNotConsecutive { .. }));
    let mut late = record(4, vec![entry(1, 3)]);
    late.timestamp = catalog.timestamp();
    late.txns[0].timestamp = catalog.timestamp();
    assert!(matches!(
        catalog.apply(&late),
        Err(Violation::TimestampNotGrowing { .. })
    ));
    let mut other = record(4, vec![entry(1, 3)]);
    other.timestamp = TimestampMs(9999);
    assert!(matches!(
        catalog.apply(&other),
        Err(Violation::TimestampNotLast { .. })
    ));
    let mut empty = record(4, Vec::new());
    empty.txns.clear();
    assert!(matches!(
        catalog.apply(&empty),
        Err(Violation::NoTransaction)
    ));
    let mut twice = record(4, Vec::new());
    twice.txns.push(twice.txns[0].clone());
    assert!(matches!(
        catalog.apply(&twice),
        Err(Violation::TransactionTwice { .. })
    ));
    let again = vec![Action::CreateDatabase {
        id: catalog.database(),
        format: 1,
    }];
    let again = catalog.apply(&record(4, again)).unwrap_err();
    assert!(matches!(again, Violation::MisplacedCreation { .. }));
}

#[test]
fn publishing_moves_forward_only_and_drops_old_positions() {
    let mut catalog = one_table();
    catalog.note_published(table(1), TableVersion(1));
    catalog.note_published(table(1), TableVersion(0));
    catalog.note_published(table(1), TableVersion(9));
    assert_eq!(
        catalog.table(table(1)).unwrap().published,
        Some(TableVersion(1))
    );
    for version in 4..600 {
        catalog = catalog
            .apply(&record(version, vec![entry(1, version - 1)]))
            .unwrap();
    }
    catalog.note_published(table(1), TableVersion(590));
    let entry = catalog.table(table(1)).unwrap();
    assert_eq!(entry.position(TableVersion(591)), Some(DbVersion(592)));
    assert_eq!(entry.position(TableVersion(100)), None);
    assert_eq!(entry.unpublished(), 8);
    assert!(catalog.same_content(&{
        let mut other = catalog.clone();
        other.note_published(table(1), TableVersion(595));
        other
    }));
}

#[test]
fn locations_are_encoded_and_checked() {
    assert_eq!(encode_name("a b/c"), "a%20b%2Fc");
    assert_eq!(encode_name("_x"), "%5Fx");
    assert_eq!(encode_name(".."), "%2E.");
    let (plain, unique) = location_for("main", "t", table(0xabcd_ef01));
    assert_eq!(
        (plain.as_str(), unique.as_str()),
        ("main/t", "main/t-abcdef01")
    );
    for bad in [
        "",
        "/a",
        "a/",
        "a//b",
        "../a",
        "a/..",
        "_tarndb/x",
        ".x/a",
        "c:/a",
        "a\\b",
        "a\nb",
    ] {
        assert!(check_location(bad).is_err(), "{bad:?}");
    }
    assert!(locations_overlap("a/b", "A/B") && locations_overlap("a", "a/b"));
    assert!(!locations_overlap("a/b", "a/bc") && !locations_overlap("a/b", "a/c"));
}
