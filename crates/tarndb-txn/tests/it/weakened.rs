//! Planted bugs of the matrix: each entry weakened in turn, and what the model makes of it.
//!
//! Invariant: an entry that the model does not notice is listed with its reason.
//! Spec: docs/conflicts.md, "Proof".

use expect_test::expect;
use tarndb_txn::aspect::Aspect;
use tarndb_txn::matrix::{MANAGED, Matrix};
use tarndb_txn::rule::Rule;
use tarndb_txn::{Committed, Effects, Isolation, judge_by, rebase};

use crate::cases::name;
use crate::history::{agrees, committed, passes, planned};
use crate::model::{Act, Db, Intent, Name, Rewrite, Rows, Target};

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
    let rows = |modulo, rest| Rows::Where { modulo, rest };
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
        Act::Delete(rows(1, 0)),
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
        Act::Compact(Rewrite::ALL),
        Act::Compact(Rewrite {
            mapped: false,
            ..Rewrite::ALL
        }),
        Act::Compact(Rewrite {
            pick: 2,
            parts: 2,
            ..Rewrite::ALL
        }),
        Act::Upsert(vec![1, 2], vec![]),
        Act::Upsert(vec![2, 101], vec![]),
        Act::Upsert(vec![3], vec![1]),
        Act::OverwriteWhere(rows(1000, 1), vec![1]),
        Act::OverwriteWhere(rows(2, 1), vec![]),
        Act::DropColumn(text("w")),
        Act::RenameColumn(text("w"), text("x")),
        Act::Widen(text("w"), text("decimal")),
        Act::Widen(text("w"), text("string")),
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
                let theirs = committed(1, &first.effects, &base);
                for (txn, second) in &seconds {
                    let rebased = second.with(rebase(second.effects.clone(), &theirs));
                    let wrong = [(second, false), (&rebased, true)]
                        .map(|(change, rebase)| agrees(&head, txn, 2, change, rebase).is_err());
                    let (ours, theirs) = (second.effects.clone(), theirs.clone());
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
/// - two changes of one column: the later would win, without a word;
/// - keys and dropped files beside overwrites, dropped tables and properties: they come with
///   added or deleted rows, whose entries decide as well;
/// - widened, and uses: the model's values have one type, its keys and predicates one column;
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
        adds rows / sets NOT NULL: required
        deletes rows / adds NOT NULL column: required
        deletes rows / widens column: widened
        deletes rows / replaces schema: replaced
        deletes rows / raises obeyed feature: feature
        drops files / overwrites: over
        drops files / adds NOT NULL column: required
        drops files / widens column: widened
        drops files / replaces schema: replaced
        drops files / sets obeyed property: obeyed
        drops files / raises obeyed feature: feature
        drops files / drops table: dropped
        moves files / adds NOT NULL column: required
        moves files / replaces schema: replaced
        moves files / sets obeyed property: obeyed
        moves files / raises obeyed feature: feature
        overwrites / widens column: widened
        overwrites / sets NOT NULL: required
        adds nullable column / sets NOT NULL: column
        adds nullable column / drops NOT NULL: column
        adds nullable column / renames table: rebase
        adds NOT NULL column / deletes rows: required
        adds NOT NULL column / drops files: required
        adds NOT NULL column / moves files: required
        adds NOT NULL column / sets NOT NULL: column
        adds NOT NULL column / drops NOT NULL: column
        adds NOT NULL column / renames table: rebase
        drops column / drops column: column
        drops column / widens column: column
        drops column / sets NOT NULL: column
        drops column / drops NOT NULL: column
        drops column / renames table: rebase
        renames column / renames column: column
        renames column / sets NOT NULL: column
        renames column / drops NOT NULL: column
        renames column / renames table: rebase
        widens column / adds rows: widened
        widens column / deletes rows: widened
        widens column / drops files: widened
        widens column / overwrites: widened
        widens column / widens column: column
        widens column / sets NOT NULL: column
        widens column / drops NOT NULL: column
        widens column / renames table: rebase
        sets NOT NULL / adds rows: required
        sets NOT NULL / overwrites: required
        sets NOT NULL / adds nullable column: column
        sets NOT NULL / adds NOT NULL column: column
        sets NOT NULL / drops column: column
        sets NOT NULL / renames column: column
        sets NOT NULL / widens column: column
        sets NOT NULL / sets NOT NULL: column
        sets NOT NULL / drops NOT NULL: column
        sets NOT NULL / comments: rebase
        sets NOT NULL / replaces schema: replaced
        sets NOT NULL / sets free property: rebase
        sets NOT NULL / sets obeyed property: rebase
        sets NOT NULL / raises free feature: rebase
        sets NOT NULL / raises obeyed feature: rebase
        sets NOT NULL / drops table: dropped
        sets NOT NULL / renames table: rebase
        drops NOT NULL / adds nullable column: column
        drops NOT NULL / adds NOT NULL column: column
        drops NOT NULL / drops column: column
        drops NOT NULL / renames column: column
        drops NOT NULL / widens column: column
        drops NOT NULL / sets NOT NULL: column
        drops NOT NULL / drops NOT NULL: column
        drops NOT NULL / comments: rebase
        drops NOT NULL / replaces schema: replaced
        drops NOT NULL / sets free property: rebase
        drops NOT NULL / sets obeyed property: rebase
        drops NOT NULL / raises free feature: rebase
        drops NOT NULL / raises obeyed feature: rebase
        drops NOT NULL / drops table: dropped
        drops NOT NULL / renames table: rebase
        comments / sets NOT NULL: rebase
        comments / drops NOT NULL: rebase
        comments / renames table: rebase
        replaces schema / deletes rows: replaced
        replaces schema / drops files: replaced
        replaces schema / moves files: replaced
        replaces schema / adds nullable column: replaced
        replaces schema / adds NOT NULL column: replaced
        replaces schema / drops column: replaced
        replaces schema / renames column: replaced
        replaces schema / widens column: replaced
        replaces schema / sets NOT NULL: replaced
        replaces schema / drops NOT NULL: replaced
        replaces schema / replaces schema: schema
        replaces schema / renames table: rebase
        sets free property / sets NOT NULL: rebase
        sets free property / drops NOT NULL: rebase
        sets free property / renames table: rebase
        sets obeyed property / deletes rows: binds
        sets obeyed property / drops files: binds
        sets obeyed property / moves files: binds
        sets obeyed property / sets NOT NULL: rebase
        sets obeyed property / drops NOT NULL: rebase
        sets obeyed property / renames table: rebase
        raises free feature / sets NOT NULL: rebase
        raises free feature / drops NOT NULL: rebase
        raises free feature / renames table: rebase
        raises obeyed feature / deletes rows: feature
        raises obeyed feature / drops files: feature
        raises obeyed feature / moves files: feature
        raises obeyed feature / sets NOT NULL: rebase
        raises obeyed feature / drops NOT NULL: rebase
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
        drops table / sets NOT NULL: dropped
        drops table / drops NOT NULL: dropped
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
        renames table / sets NOT NULL: rebase
        renames table / drops NOT NULL: rebase
        renames table / comments: rebase
        renames table / replaces schema: rebase
        renames table / sets free property: rebase
        renames table / sets obeyed property: rebase
        renames table / raises free feature: rebase
        renames table / raises obeyed feature: rebase
        renames table / renames table: renamed
        relies on keys / overwrites: over
        relies on keys / drops column: uses
        relies on keys / renames column: uses
        relies on keys / widens column: uses
        relies on keys / replaces schema: replaced
        relies on keys / drops table: dropped
        overwrites by predicate / drops column: uses
        overwrites by predicate / renames column: uses
        overwrites by predicate / widens column: widened
        overwrites by predicate / sets NOT NULL: required
        overwrites by predicate / raises obeyed feature: feature
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
