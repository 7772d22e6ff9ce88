//! Cases: random transactions, small enough to collide often.
//!
//! Invariant: a transaction's intents do not get into each other's way.
//! Spec: docs/conflicts.md, "Proof".

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::model::{Act, Intent, Name, Rewrite, Rows, Target};

pub(crate) type Txn = Vec<Intent>;

pub(crate) fn name(schema: &str, table: &str) -> Name {
    (schema.to_owned(), table.to_owned())
}

fn table_name() -> impl Strategy<Value = Name> {
    prop_oneof![
        5 => Just(name("s", "a")),
        1 => Just(name("s", "b")),
        2 => Just(name("s", "e")),
    ]
}

fn new_name() -> impl Strategy<Value = Name> {
    prop::sample::select(vec![name("s", "c"), name("r", "a"), name("s", "b")])
}

fn rows() -> impl Strategy<Value = Rows> {
    prop_oneof![
        4 => (1_i64..9, 0_i64..3).prop_map(|(modulo, rest)| Rows::Where { modulo, rest }),
        // Small values: rows that were appended meanwhile.
        1 => (0_i64..5).prop_map(|rest| Rows::Where { modulo: 1000, rest }),
    ]
}

fn rewrite() -> impl Strategy<Value = Rewrite> {
    let mapped = prop::bool::weighted(0.9);
    (any::<u8>(), 1..4_usize, any::<bool>(), mapped).prop_map(|(pick, parts, permuted, mapped)| {
        Rewrite {
            pick,
            parts,
            permuted,
            mapped,
        }
    })
}

/// Keys of rows that are there, and of some that are not.
fn keys() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(prop_oneof![2 => 0_i64..5, 1 => 100_i64..108], 1..4)
}

/// Changes of data of a single table.
pub(crate) fn data() -> impl Strategy<Value = Act> {
    let beside = prop_oneof![3 => Just(vec![]), 1 => prop::collection::vec(0_i64..5, 1..2)];
    let new = || prop::collection::vec(-1_i64..5, 0..3);
    prop_oneof![
        4 => (keys(), beside).prop_map(|(keys, beside)| Act::Upsert(keys, beside)),
        3 => (rows(), new()).prop_map(|(rows, values)| Act::OverwriteWhere(rows, values)),
        2 => prop::collection::vec(-1_i64..5, 1..3).prop_map(Act::Append),
        1 => Just(Act::AppendCount(name("s", "b"))),
        4 => rows().prop_map(Act::Delete),
        3 => (rows(), prop::sample::select(vec![1, -1000])).prop_map(|(r, by)| Act::Update(r, by)),
        2 => rows().prop_map(Act::CopyDelete),
        2 => prop::collection::vec(0_i64..5, 0..3).prop_map(Act::Overwrite),
        1 => Just(Act::OverwriteFromSelf),
        6 => rewrite().prop_map(Act::Compact),
        1 => prop::sample::select(vec!["p", "q"]).prop_map(|f| Act::ReplaceTable(f.to_owned())),
    ]
}

fn definition() -> impl Strategy<Value = Act> {
    let column =
        (0..2_u8, 0..2_u8, prop::bool::weighted(0.7)).prop_map(|(name, kind, nullable)| {
            let (name, type_text) = (format!("c{name}"), format!("type{kind}"));
            Act::AddColumn {
                name,
                type_text,
                nullable,
            }
        });
    let comment = (
        prop::option::of(Just("v".to_owned())),
        prop::option::of("[xy]"),
    )
        .prop_map(|(column, text)| Act::Comment(column, text));
    let set = prop::sample::select(vec![
        ("user.x", "1"),
        ("user.x", "2"),
        ("user.y", "1"),
        ("delta.appendOnly", "true"),
        ("delta.enableDeletionVectors", "true"),
        ("delta.enableDeletionVectors", "false"),
        ("delta.constraints.c", "v >= 0"),
        ("delta.constraints.c", "v > -1"),
        ("tarndb.deletionVectors", "off"),
    ]);
    let feature = prop::sample::select(vec!["deletionVectors", "timestampNtz", "onlyPositive"]);
    let drop = prop::sample::select(vec!["w", "c0"]);
    let widen = prop::sample::select(vec!["w", "c0"]);
    let rename = prop::sample::select(vec![("w", "x"), ("w", "c0"), ("c0", "w")]);
    prop_oneof![
        3 => column,
        1 => drop.prop_map(|name| Act::DropColumn(name.to_owned())),
        1 => rename.prop_map(|(from, to)| Act::RenameColumn(from.to_owned(), to.to_owned())),
        1 => widen.prop_map(|name| Act::Widen(name.to_owned(), "decimal".to_owned())),
        2 => comment,
        4 => set.prop_map(|(key, value)| Act::Set(key.to_owned(), value.to_owned())),
        1 => prop::sample::select(vec!["user.x", "delta.appendOnly"])
            .prop_map(|key| Act::Unset(key.to_owned())),
        2 => feature.prop_map(|name| Act::Raise(name.to_owned())),
    ]
}

fn intent() -> impl Strategy<Value = Intent> {
    let on_table = |act: BoxedStrategy<Act>| (table_name(), act);
    let on_new = |act: Act| (new_name(), Just(act));
    let app = ("[de]", 1_i64..3).prop_map(|(app, version)| Act::App(app, version));
    let schema = prop::sample::select(vec![
        (name("q", ""), Act::CreateSchema),
        (name("r", ""), Act::DropSchema),
        (name("s", ""), Act::DropSchema),
    ]);
    prop_oneof![
        8 => on_table(data().boxed()),
        6 => on_table(definition().boxed()),
        1 => on_table(app.boxed()),
        1 => on_table(Just(Act::Drop).boxed()),
        2 => on_table(new_name().prop_map(Act::Rename).boxed()),
        1 => on_new(Act::Create),
        1 => schema,
    ]
    .prop_map(|(name, act)| Intent {
        target: Target::Name(name),
        act,
    })
}

/// Up to three intents that do not get into each other's way, data before definitions.
pub(crate) fn txn() -> impl Strategy<Value = Txn> {
    prop::collection::vec(intent(), 1..4).prop_map(|mut intents| {
        let slot = |intent: &Intent| match &intent.act {
            Act::AddColumn { nullable: true, .. }
            | Act::DropColumn(_)
            | Act::RenameColumn(..)
            | Act::Widen(..) => 1,
            Act::Comment(..) => 2,
            Act::Set(..) | Act::Unset(_) => 3,
            Act::Raise(_) => 4,
            Act::App(..) => 5,
            Act::Rename(_) | Act::Create => 6,
            Act::Drop | Act::CreateSchema | Act::DropSchema => 7,
            _ => 0,
        };
        intents.sort_by_key(slot);
        let alone = |i: &Intent| slot(i) == 7 || matches!(i.act, Act::AppendCount(_));
        if let Some(index) = intents.iter().position(alone) {
            return vec![intents.swap_remove(index)];
        }
        let mut taken = BTreeSet::new();
        intents.retain(|i| taken.insert((format!("{:?}", i.target), slot(i))));
        intents
    })
}
