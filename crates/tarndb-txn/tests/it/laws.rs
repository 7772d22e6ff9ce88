//! Laws: what the algebra lets pass is what running one after the other would give.
//!
//! Invariant: cases come from proptest's deterministic generator or are enumerated; a failing
//! case is printed with its intents.
//! Spec: docs/conflicts.md, "Proof".

use std::collections::BTreeSet;

use expect_test::expect;
use proptest::prelude::*;
use tarndb_txn::aspect::Aspect;
use tarndb_txn::matrix::{MANAGED, Matrix};
use tarndb_txn::rule::Rule;
use tarndb_txn::{Committed, Effects, Isolation, TableEffects, Verdict, judge, judge_by};
use tarndb_types::{DbVersion, TxnId, Uuid};

use crate::model::{Act, Change, Db, Intent, Name, Rows, Target, as_committed};

type Txn = Vec<Intent>;

fn name(schema: &str, table: &str) -> Name {
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

fn data() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => prop::collection::vec(-1_i64..5, 1..3).prop_map(Act::Append),
        1 => Just(Act::AppendCount(name("s", "b"))),
        4 => rows().prop_map(Act::Delete),
        3 => (rows(), prop::sample::select(vec![1, -1000])).prop_map(|(r, by)| Act::Update(r, by)),
        2 => rows().prop_map(Act::CopyDelete),
        2 => prop::collection::vec(0_i64..5, 0..3).prop_map(Act::Overwrite),
        1 => Just(Act::OverwriteFromSelf),
        2 => Just(Act::Compact),
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
    prop_oneof![
        3 => column,
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
fn txn() -> impl Strategy<Value = Txn> {
    prop::collection::vec(intent(), 1..4).prop_map(|mut intents| {
        let slot = |intent: &Intent| match &intent.act {
            Act::AddColumn { nullable: true, .. } => 1,
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

fn committed(version: u64, effects: &Effects) -> Committed {
    let txn = TxnId(Uuid::from_u128(u128::from(version)));
    Committed {
        version: DbVersion(version),
        txn,
        effects: as_committed(effects),
        evidence: tarndb_txn::Evidence::none(),
    }
}

/// A transaction planned on the sample, or `None` when it cannot even run alone.
fn planned(base: &Db, txn: &Txn, tag: u64, isolation: Isolation) -> Option<(Txn, Change)> {
    let txn: Txn = match isolation {
        // A statement that found no rows has done nothing, whatever happens to the table.
        Isolation::Snapshot => {
            let pinned = txn
                .iter()
                .map(|i| base.pin(i))
                .collect::<Result<Vec<_>, _>>()
                .ok()?;
            pinned.into_iter().filter(|i| !i.is_nothing()).collect()
        }
        Isolation::Serializable => txn.clone(),
    };
    let mut change = base.plan(&txn, tag * 10).ok()?;
    change.effects.isolation = isolation;
    let alone = base.commit(&change, false).ok()?;
    assert_eq!(
        alone.view(),
        base.run(&txn, tag).ok()?.view(),
        "the model disagrees with itself"
    );
    Some((txn, change))
}

fn passes(verdict: &Verdict) -> Option<bool> {
    match verdict {
        Verdict::Compatible => Some(false),
        Verdict::Rebase => Some(true),
        Verdict::Retryable(_) | Verdict::Incompatible(_) => None,
    }
}

/// Puts `change` onto `head` as the verdict says and compares with running it there.
fn agrees(head: &Db, txn: &Txn, tag: u64, change: &Change, rebase: bool) -> Result<Db, String> {
    let applied = head.commit(change, rebase)?;
    let run = head
        .run(txn, tag)
        .map_err(|why| format!("running it again fails: {why}"))?;
    if applied.view() == run.view() {
        Ok(applied)
    } else {
        Err(format!(
            "applied {:#?}\nbut running gives {:#?}",
            applied.view(),
            run.view()
        ))
    }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_passes_equals_running_second_after_first(
        first in txn(), second in txn(), third in txn(), serializable: bool,
    ) {
        let isolation = if serializable { Isolation::Serializable } else { Isolation::Snapshot };
        let base = Db::sample();
        let mut head = base.clone();
        let mut log: Vec<Committed> = Vec::new();
        for (tag, txn) in (1..).zip([&first, &second, &third]) {
            let Some((txn, change)) = planned(&base, txn, tag, isolation) else { continue };
            let verdict = log.iter().fold(Verdict::Compatible, |verdict, theirs| {
                verdict.strictest(judge(&change.effects, theirs))
            });
            if let Some(rebase) = passes(&verdict) {
                head = agrees(&head, &txn, tag, &change, rebase)
                    .map_err(|why| TestCaseError::fail(format!("{verdict:?}: {why}")))?;
                log.push(committed(tag, &change.effects));
            }
        }
    }

    #[test]
    fn what_passes_in_both_orders_commutes(first in txn(), second in txn()) {
        let base = Db::sample();
        let a = planned(&base, &first, 1, Isolation::Snapshot);
        let b = planned(&base, &second, 2, Isolation::Snapshot);
        let (Some((_, a)), Some((_, b))) = (a, b) else { return Ok(()) };
        let ab = passes(&judge(&b.effects, &committed(1, &a.effects)));
        let ba = passes(&judge(&a.effects, &committed(2, &b.effects)));
        if let (Some(ab), Some(ba)) = (ab, ba) {
            let ab = base.commit(&a, false).and_then(|db| db.commit(&b, ab)).unwrap();
            let ba = base.commit(&b, false).and_then(|db| db.commit(&a, ba)).unwrap();
            prop_assert_eq!(ab.view(), ba.view());
        }
    }

    #[test]
    fn verdict_is_the_strictest_of_its_parts(ours in txn(), theirs in txn(), serializable: bool) {
        let isolation = if serializable { Isolation::Serializable } else { Isolation::Snapshot };
        let base = Db::sample();
        let ours = planned(&base, &ours, 1, isolation);
        let theirs = planned(&base, &theirs, 2, Isolation::Snapshot);
        let (Some((_, ours)), Some((_, theirs))) = (ours, theirs) else { return Ok(()) };
        let theirs = committed(2, &theirs.effects);
        let whole = judge(&ours.effects, &theirs);
        let mut verdicts = Vec::new();
        for ours in split(&ours.effects) {
            for part in split(&theirs.effects) {
                verdicts.push(judge(&ours, &Committed { effects: part, ..theirs.clone() }));
            }
        }
        let strictest = |verdicts: &mut dyn Iterator<Item = &Verdict>| {
            verdicts.cloned().fold(Verdict::Compatible, Verdict::strictest)
        };
        let forwards = strictest(&mut verdicts.iter());
        prop_assert_eq!(&forwards, &strictest(&mut verdicts.iter().rev()));
        prop_assert_eq!(whole.strictness(), forwards.strictness());
    }
}

/// Effects with one thing each. What an overwrite brings stays with it.
fn split(effects: &Effects) -> Vec<Effects> {
    let isolation = effects.isolation;
    let mut parts = Vec::new();
    for (id, table) in &effects.tables {
        let operation = table.operation;
        let mut singles: Vec<TableEffects> = Vec::new();
        let empty = || TableEffects {
            operation,
            ..TableEffects::default()
        };
        if table.overwrite.is_some() {
            let (adds, deletions) = (table.adds, table.deletions.clone());
            let (removes, overwrite) = (table.removes.clone(), table.overwrite.clone());
            singles.push(TableEffects {
                adds,
                deletions,
                removes,
                overwrite,
                ..empty()
            });
        } else {
            singles.push(TableEffects {
                adds: table.adds,
                ..empty()
            });
            for (file, touched) in &table.deletions {
                let deletions = [(file.clone(), touched.clone())].into();
                singles.push(TableEffects {
                    deletions,
                    ..empty()
                });
            }
            for (file, removal) in &table.removes {
                let removes = [(file.clone(), *removal)].into();
                singles.push(TableEffects { removes, ..empty() });
            }
        }
        let schema = table.schema.iter();
        singles.extend(schema.map(|s| TableEffects {
            schema: vec![s.clone()],
            ..empty()
        }));
        let config = table.config.iter();
        singles.extend(config.map(|c| TableEffects {
            config: vec![c.clone()],
            ..empty()
        }));
        singles.push(TableEffects {
            created: table.created,
            ..empty()
        });
        singles.push(TableEffects {
            app_txns: table.app_txns.clone(),
            ..empty()
        });
        singles.push(TableEffects {
            read: table.read.clone(),
            ..empty()
        });
        let of_table = singles.into_iter().map(|single| Effects {
            tables: [(*id, single)].into(),
            isolation,
            ..Effects::default()
        });
        parts.extend(of_table);
    }
    let catalog = effects.catalog.iter();
    parts.extend(catalog.map(|effect| Effects {
        catalog: vec![effect.clone()],
        isolation,
        ..Effects::default()
    }));
    parts.extend(effects.names_read.iter().map(|name| Effects {
        names_read: [name.clone()].into(),
        isolation,
        ..Effects::default()
    }));
    parts
}

/// A pair for which some way of applying the second after the first is wrong.
#[derive(Debug)]
struct Trap {
    ours: Effects,
    theirs: Committed,
    /// Wrong when written as planned, wrong when rebased.
    wrong: [bool; 2],
}

/// One of each kind of intent, on one table.
fn acts(table: &Name) -> Vec<Act> {
    let text = str::to_owned;
    let one = |id: u64| Rows::Ids([id].into());
    let column = |name: &str, type_text: &str, nullable| Act::AddColumn {
        name: text(name),
        type_text: text(type_text),
        nullable,
    };
    let set = |key: &str, value: &str| Act::Set(text(key), text(value));
    let comment =
        |column: Option<&str>, value: Option<&str>| Act::Comment(column.map(text), value.map(text));
    vec![
        Act::Append(vec![1]),
        Act::Append(vec![-1]),
        Act::AppendCount(table.clone()),
        Act::Delete(Rows::Where { modulo: 1, rest: 0 }),
        Act::Delete(Rows::Ids((100..103).collect())),
        Act::Delete(one(100)),
        Act::Delete(one(101)),
        Act::Delete(one(104)),
        Act::Update(one(100), 1),
        Act::Update(one(101), -1000),
        Act::CopyDelete(one(100)),
        Act::CopyDelete(one(101)),
        Act::Overwrite(vec![1]),
        Act::Overwrite(vec![-1]),
        Act::OverwriteFromSelf,
        Act::Compact,
        Act::ReplaceTable(text("p")),
        Act::ReplaceTable(text("q")),
        column("c", "long", true),
        column("c", "string", true),
        column("c", "long", false),
        column("d", "long", true),
        column("d", "string", false),
        comment(None, Some("x")),
        comment(None, Some("y")),
        comment(Some("v"), Some("x")),
        comment(Some("v"), None),
        set("user.x", "1"),
        set("user.x", "2"),
        set("user.y", "1"),
        Act::Unset(text("user.x")),
        set("delta.appendOnly", "true"),
        set("delta.enableDeletionVectors", "true"),
        set("delta.enableDeletionVectors", "false"),
        set("delta.constraints.c", "v >= 0"),
        set("delta.constraints.c", "v > -1"),
        set("tarndb.deletionVectors", "off"),
        Act::Raise(text("deletionVectors")),
        Act::Raise(text("timestampNtz")),
        Act::Raise(text("onlyPositive")),
        Act::Raise(text("somethingElse")),
        Act::App(text("app"), 1),
        Act::App(text("app"), 2),
        Act::Drop,
        Act::Rename(name("s", "c")),
        Act::Rename(name("r", "a")),
    ]
}

/// Every pair of [`acts`] that goes wrong in some way: on a table with rows and on an empty one,
/// at both levels.
fn traps() -> Vec<Trap> {
    let base = Db::sample();
    let mut traps = Vec::new();
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        for table in [name("s", "a"), name("s", "e")] {
            let plan = |act: &Act, tag| {
                let target = Target::Name(table.clone());
                planned(
                    &base,
                    &vec![Intent {
                        target,
                        act: act.clone(),
                    }],
                    tag,
                    isolation,
                )
            };
            let acts = acts(&table);
            let firsts: Vec<_> = acts.iter().filter_map(|act| plan(act, 1)).collect();
            let seconds: Vec<_> = acts.iter().filter_map(|act| plan(act, 2)).collect();
            for (_, first) in &firsts {
                let head = base.commit(first, false).unwrap();
                for (txn, second) in &seconds {
                    let wrong =
                        [false, true].map(|rebase| agrees(&head, txn, 2, second, rebase).is_err());
                    let (ours, theirs) = (second.effects.clone(), committed(1, &first.effects));
                    if wrong[0] {
                        traps.push(Trap {
                            ours,
                            theirs,
                            wrong,
                        });
                    }
                }
            }
        }
    }
    traps
}

impl Trap {
    /// The matrix lets the pair pass in a way that is wrong.
    fn catches(&self, matrix: &Matrix) -> bool {
        passes(&judge_by(matrix, &self.ours, &self.theirs))
            .is_some_and(|rebase| self.wrong[usize::from(rebase)])
    }
}

/// Each entry of the matrix is weakened in turn. The model notices all but those listed, which
/// are policy, or demand of the table what the model does not:
/// - replaced and dropped: a change would survive, or vanish with, something it has not seen;
/// - required, feature and obeyed beside deletes and moves: rows that go or stay as they were
///   break nothing in the model, where no property makes a delete or a move carry anything;
/// - rename beside definitions: the model keeps names outside of definitions;
/// - reads of definitions: the model's queries do not depend on them.
#[test]
fn weakened_entry_is_noticed_by_the_model() {
    let traps = traps();
    let escaped: Vec<_> = traps.iter().filter(|trap| trap.catches(&MANAGED)).collect();
    assert!(escaped.is_empty(), "{escaped:#?}");
    let mut unnoticed = String::new();
    for ours in Aspect::ALL.iter().copied() {
        for theirs in Aspect::committed() {
            let rule = MANAGED.rule(ours, theirs).unwrap();
            if matches!(rule, Rule::Compatible | Rule::IdTaken) {
                continue;
            }
            let weak = MANAGED.clone().with(ours, theirs, Rule::Compatible);
            if !traps.iter().any(|trap| trap.catches(&weak)) {
                unnoticed += &format!("{} / {}: {}\n", ours.name(), theirs.name(), rule.code());
            }
        }
    }
    expect![[r#"
        adds rows / overwrites: over
        adds rows / widens column: widened
        deletes rows / adds NOT NULL column: required
        deletes rows / widens column: widened
        deletes rows / replaces schema: replaced
        deletes rows / raises obeyed feature: feature
        drops files / adds NOT NULL column: required
        drops files / widens column: widened
        drops files / replaces schema: replaced
        drops files / raises obeyed feature: feature
        moves files / adds NOT NULL column: required
        moves files / widens column: widened
        moves files / replaces schema: replaced
        moves files / sets obeyed property: obeyed
        moves files / raises obeyed feature: feature
        overwrites / widens column: widened
        adds nullable column / drops column: column
        adds nullable column / renames column: column
        adds nullable column / widens column: column
        adds nullable column / renames table: rebase
        adds NOT NULL column / deletes rows: required
        adds NOT NULL column / drops files: required
        adds NOT NULL column / moves files: required
        adds NOT NULL column / drops column: column
        adds NOT NULL column / renames column: column
        adds NOT NULL column / widens column: column
        adds NOT NULL column / renames table: rebase
        drops column / adds nullable column: column
        drops column / adds NOT NULL column: column
        drops column / drops column: column
        drops column / renames column: column
        drops column / widens column: column
        drops column / comments: column
        drops column / replaces schema: replaced
        drops column / sets free property: rebase
        drops column / sets obeyed property: rebase
        drops column / raises free feature: rebase
        drops column / raises obeyed feature: rebase
        drops column / drops table: dropped
        drops column / renames table: rebase
        renames column / adds nullable column: column
        renames column / adds NOT NULL column: column
        renames column / drops column: column
        renames column / renames column: column
        renames column / widens column: column
        renames column / comments: column
        renames column / replaces schema: replaced
        renames column / sets free property: rebase
        renames column / sets obeyed property: rebase
        renames column / raises free feature: rebase
        renames column / raises obeyed feature: rebase
        renames column / drops table: dropped
        renames column / renames table: rebase
        widens column / adds rows: widened
        widens column / deletes rows: widened
        widens column / drops files: widened
        widens column / moves files: widened
        widens column / overwrites: widened
        widens column / adds nullable column: column
        widens column / adds NOT NULL column: column
        widens column / drops column: column
        widens column / renames column: column
        widens column / widens column: column
        widens column / comments: rebase
        widens column / replaces schema: replaced
        widens column / sets free property: rebase
        widens column / sets obeyed property: rebase
        widens column / raises free feature: rebase
        widens column / raises obeyed feature: rebase
        widens column / drops table: dropped
        widens column / renames table: rebase
        comments / drops column: column
        comments / renames column: column
        comments / widens column: rebase
        comments / renames table: rebase
        replaces schema / deletes rows: replaced
        replaces schema / drops files: replaced
        replaces schema / moves files: replaced
        replaces schema / adds nullable column: replaced
        replaces schema / adds NOT NULL column: replaced
        replaces schema / drops column: replaced
        replaces schema / renames column: replaced
        replaces schema / widens column: replaced
        replaces schema / replaces schema: schema
        replaces schema / renames table: rebase
        sets free property / drops column: rebase
        sets free property / renames column: rebase
        sets free property / widens column: rebase
        sets free property / renames table: rebase
        sets obeyed property / deletes rows: binds
        sets obeyed property / drops files: binds
        sets obeyed property / moves files: binds
        sets obeyed property / drops column: rebase
        sets obeyed property / renames column: rebase
        sets obeyed property / widens column: rebase
        sets obeyed property / renames table: rebase
        raises free feature / drops column: rebase
        raises free feature / renames column: rebase
        raises free feature / widens column: rebase
        raises free feature / renames table: rebase
        raises obeyed feature / deletes rows: feature
        raises obeyed feature / drops files: feature
        raises obeyed feature / moves files: feature
        raises obeyed feature / drops column: rebase
        raises obeyed feature / renames column: rebase
        raises obeyed feature / widens column: rebase
        raises obeyed feature / renames table: rebase
        drops table / adds rows: dropped
        drops table / deletes rows: dropped
        drops table / drops files: dropped
        drops table / moves files: dropped
        drops table / overwrites: dropped
        drops table / adds nullable column: dropped
        drops table / adds NOT NULL column: dropped
        drops table / drops column: dropped
        drops table / renames column: dropped
        drops table / widens column: dropped
        drops table / comments: dropped
        drops table / replaces schema: dropped
        drops table / sets free property: dropped
        drops table / sets obeyed property: dropped
        drops table / raises free feature: dropped
        drops table / raises obeyed feature: dropped
        drops table / renames table: renamed
        drops table / sets application id: dropped
        renames table / adds nullable column: rebase
        renames table / adds NOT NULL column: rebase
        renames table / drops column: rebase
        renames table / renames column: rebase
        renames table / widens column: rebase
        renames table / comments: rebase
        renames table / replaces schema: rebase
        renames table / sets free property: rebase
        renames table / sets obeyed property: rebase
        renames table / raises free feature: rebase
        renames table / raises obeyed feature: rebase
        renames table / renames table: renamed
        relies on keys / adds rows: keys
        relies on keys / overwrites: over
        relies on keys / drops column: uses
        relies on keys / renames column: uses
        relies on keys / widens column: uses
        relies on keys / replaces schema: replaced
        relies on keys / drops table: dropped
        overwrites by predicate / adds rows: matching
        overwrites by predicate / deletes rows: touched
        overwrites by predicate / drops files: touched
        overwrites by predicate / moves files: touched
        overwrites by predicate / overwrites: over
        overwrites by predicate / adds NOT NULL column: required
        overwrites by predicate / drops column: uses
        overwrites by predicate / renames column: uses
        overwrites by predicate / widens column: widened
        overwrites by predicate / replaces schema: replaced
        overwrites by predicate / sets obeyed property: obeyed
        overwrites by predicate / raises obeyed feature: feature
        overwrites by predicate / drops table: dropped
        reads (serializable) / adds nullable column: read
        reads (serializable) / adds NOT NULL column: read
        reads (serializable) / drops column: read
        reads (serializable) / renames column: read
        reads (serializable) / widens column: read
        reads (serializable) / replaces schema: read
        reads (serializable) / creates table: read
        reads (serializable) / drops table: read
        reads (serializable) / renames table: read
    "#]]
    .assert_eq(&unnoticed);
}
