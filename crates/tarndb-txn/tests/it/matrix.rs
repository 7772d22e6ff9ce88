//! The whole matrix, printed; completeness; both directions compared.
//!
//! Invariant: expectations are the reviewed policy: a change of one is a change of behaviour.
//! Spec: docs/conflicts.md, "Matrix".

use std::collections::BTreeSet;
use std::sync::Arc;

use expect_test::expect;
use tarndb_txn::aspect::{Aspect, CatalogAspect};
use tarndb_txn::matrix::{ASYMMETRIES, MANAGED};
use tarndb_txn::rule::Rule;
use tarndb_txn::{
    CatalogEffect, Committed, ConfigEffect, Effects, Isolation, KeySet, OverwriteKind, Read,
    Removal, RowMap, RowSet, Run, SchemaEffect, Source, TableEffects, Target, Touched, Verdict,
    judge,
};
use tarndb_types::{DbVersion, TxnId, Uuid};

use crate::model::id;

/// Rows of texts as columns, the last of each row not padded.
fn columns(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter()
            .filter_map(move |row| row.get(column))
            .map(String::len)
    };
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = width(column).max().unwrap_or(0);
            format!("{cell:width$}")
        });
        text += cells.collect::<Vec<_>>().join(" ").trim_end();
        text += "\n";
    }
    text
}

#[test]
fn whole_matrix_of_tables() {
    let mut rows = vec![vec![String::new()]];
    rows[0].extend((1..=Aspect::committed().count()).map(|n| n.to_string()));
    for (number, ours) in (1..).zip(Aspect::ALL.iter().copied()) {
        let mut row = vec![format!("{number} {}", ours.name())];
        row.extend(
            Aspect::committed().map(|theirs| MANAGED.rule(ours, theirs).unwrap().code().to_owned()),
        );
        rows.push(row);
    }
    expect![[r#"
                                   1         2         3         4        5         6        7        8        9        10       11       12       13      14       15      16      17      18      19   20      21      22
        1 adds rows                .         .         .         .        over      .        required .        .        widened  required .        .       replaced .       obeyed  .       feature id   dropped .       .
        2 deletes rows             .         rows      rows      map      over      .        required .        .        widened  .        .        .       replaced .       obeyed  .       feature id   dropped .       .
        3 drops files              .         rows      rows      map      over      .        required .        .        widened  .        .        .       replaced .       obeyed  .       feature id   dropped .       .
        4 moves files              .         map       map       files    moot      .        required .        .        .        .        .        .       replaced .       obeyed  .       feature id   dropped .       .
        5 overwrites               head      head      head      rebase   over      .        required .        .        widened  required .        .       replaced .       obeyed  .       feature id   dropped .       .
        6 adds nullable column     .         .         .         .        .         column   column   column   column   column   column   column   rebase  replaced rebase  rebase  rebase  rebase  id   dropped rebase  .
        7 adds NOT NULL column     required  required  required  required required  column   column   column   column   column   column   column   rebase  replaced rebase  rebase  rebase  rebase  id   dropped rebase  .
        8 drops column             .         .         .         .        .         column   column   column   column   column   column   column   column  replaced rebase  rebase  rebase  rebase  id   dropped rebase  .
        9 renames column           .         .         .         .        .         column   column   column   column   column   column   column   column  replaced rebase  rebase  rebase  rebase  id   dropped rebase  .
        10 widens column           widened   widened   widened   .        widened   column   column   column   column   column   column   column   rebase  replaced rebase  rebase  rebase  rebase  id   dropped rebase  .
        11 sets NOT NULL           required  .         .         .        required  column   column   column   column   column   column   column   rebase  replaced rebase  rebase  rebase  rebase  id   dropped rebase  .
        12 drops NOT NULL          .         .         .         .        .         column   column   column   column   column   column   column   rebase  replaced rebase  rebase  rebase  rebase  id   dropped rebase  .
        13 comments                .         .         .         .        .         rebase   rebase   column   column   rebase   rebase   rebase   text    columns  rebase  rebase  rebase  rebase  id   dropped rebase  .
        14 replaces schema         replaced  replaced  replaced  replaced replaced  replaced replaced replaced replaced replaced replaced replaced columns schema   rebase  rebase  rebase  rebase  id   dropped rebase  .
        15 sets free property      .         .         .         .        .         rebase   rebase   rebase   rebase   rebase   rebase   rebase   rebase  rebase   key     key     rebase  rebase  id   dropped rebase  .
        16 sets obeyed property    binds     binds     binds     binds    binds     rebase   rebase   rebase   rebase   rebase   rebase   rebase   rebase  rebase   key     key     rebase  rebase  id   dropped rebase  .
        17 raises free feature     .         .         .         .        .         rebase   rebase   rebase   rebase   rebase   rebase   rebase   rebase  rebase   rebase  rebase  rebase  rebase  id   dropped rebase  .
        18 raises obeyed feature   feature   feature   feature   feature  feature   rebase   rebase   rebase   rebase   rebase   rebase   rebase   rebase  rebase   rebase  rebase  rebase  rebase  id   dropped rebase  .
        19 creates table           id        id        id        id       id        id       id       id       id       id       id       id       id      id       id      id      id      id      id   id      id      id
        20 drops table             dropped   dropped   dropped   dropped  dropped   dropped  dropped  dropped  dropped  dropped  dropped  dropped  dropped dropped  dropped dropped dropped dropped id   dropped renamed dropped
        21 renames table           .         .         .         .        .         rebase   rebase   rebase   rebase   rebase   rebase   rebase   rebase  rebase   rebase  rebase  rebase  rebase  id   renamed renamed .
        22 sets application id     .         .         .         .        .         .        .        .        .        .        .        .        .       .        .       .       .       .       id   dropped .       app
        23 relies on keys          keys      .         .         .        over      .        .        uses     uses     uses     .        .        .       replaced .       .       .       .       id   dropped .       .
        24 overwrites by predicate matching  touched   touched   touched  over      .        required uses     uses     widened  required .        .       replaced .       obeyed  .       feature id   dropped .       .
        25 reads (serializable)    rows read rows read rows read .        rows read read     read     read     read     read     .        .        .       read     .       .       .       .       read read    read    .
    "#]].assert_eq(&columns(&rows));
}

#[test]
fn whole_matrix_of_the_catalog() {
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(CatalogAspect::committed().map(|theirs| theirs.name().to_owned()));
    for ours in CatalogAspect::ALL.iter().copied() {
        let mut row = vec![ours.name().to_owned()];
        row.extend(CatalogAspect::committed().map(|theirs| {
            MANAGED
                .catalog_rule(ours, theirs)
                .unwrap()
                .code()
                .to_owned()
        }));
        rows.push(row);
    }
    expect![[r#"
                                     creates schema drops schema creates table drops table renames table creates view drops view creates tag drops tag
        creates schema               same           same         .             .           .             .            .          .           .
        drops schema                 same           same         inside        inside      inside        inside       inside     .           .
        creates table                .              inside       name          shares      name          name         .          .           .
        drops table                  .              inside       shares        .           .             .            .          .           .
        renames table                .              inside       name          .           name          name         .          .           .
        creates view                 .              inside       name          .           name          name         .          .           .
        drops view                   .              inside       .             .           .             .            view       .           .
        creates tag                  .              .            .             .           .             .            .          tag         tag
        drops tag                    .              .            .             .           .             .            .          tag         tag
        looks up name (serializable) .              lookup       lookup        lookup      lookup        lookup       lookup     .           .
    "#]].assert_eq(&columns(&rows));
}

#[test]
fn no_pair_is_missing_and_no_rule_is_idle() {
    let mut used = BTreeSet::new();
    for ours in Aspect::ALL.iter().copied() {
        for theirs in Aspect::committed() {
            let rule = MANAGED.rule(ours, theirs);
            assert!(
                rule.is_some(),
                "no rule for {} / {}",
                ours.name(),
                theirs.name()
            );
            used.extend(rule);
        }
    }
    for ours in CatalogAspect::ALL.iter().copied() {
        for theirs in CatalogAspect::committed() {
            let rule = MANAGED.catalog_rule(ours, theirs);
            assert!(
                rule.is_some(),
                "no rule for {} / {}",
                ours.name(),
                theirs.name()
            );
            used.extend(rule);
        }
    }
    let idle: Vec<_> = Rule::ALL
        .iter()
        .filter(|rule| !used.contains(rule))
        .collect();
    assert!(
        idle.is_empty(),
        "rules without a place in the matrix: {idle:?}"
    );
}

fn rows(positions: &[u64]) -> Touched {
    Touched::Rows(positions.iter().copied().collect::<RowSet>())
}

fn table(change: impl FnOnce(&mut TableEffects)) -> TableEffects {
    let mut table = TableEffects::default();
    change(&mut table);
    table
}

fn deletes(file: &str, touched: Touched) -> TableEffects {
    table(|t| {
        t.deletions.insert(file.to_owned(), touched);
    })
}

fn removes(file: &str, removal: Removal) -> TableEffects {
    table(|t| {
        t.removes.insert(file.to_owned(), removal);
    })
}

fn overwrites(source_read_target: bool) -> TableEffects {
    table(|t| t.overwrite = Some(OverwriteKind::All { source_read_target }))
}

/// Moves `file`, whose rows 0 to 9 but row 3 it copies, to `file`+`file`.
fn compacts(file: &str) -> TableEffects {
    let run = |first, len| Run {
        source: 0,
        first,
        len,
    };
    let mut table = removes(file, Removal::Moved);
    table.row_map = Some(Arc::new(RowMap {
        sources: vec![Source {
            path: file.to_owned(),
            vector: None,
        }],
        targets: vec![Target {
            path: file.repeat(2),
            runs: vec![run(0, 3), run(4, 6)],
        }],
    }));
    table
}

fn upserts(hashes: &[u64], covers_adds: bool) -> TableEffects {
    let hashes = hashes.iter().copied().collect();
    table(|t| {
        t.adds = true;
        t.keys = KeySet::of(vec!["k".to_owned()], &hashes, covers_adds);
    })
}

/// Replaces rows 1 and 2 of `file`.
fn overwrites_where(file: &str, source_read_target: bool) -> TableEffects {
    let mut table = deletes(file, rows(&[1, 2]));
    table.adds = true;
    table.overwrite = Some(OverwriteKind::Where {
        predicate: "day = 1".to_owned(),
        source_read_target,
    });
    table
}

fn schema(effect: SchemaEffect) -> TableEffects {
    table(|t| t.schema.push(effect))
}

fn column(name: &str, type_text: &str, nullable: bool) -> TableEffects {
    let (name, type_text) = (name.to_owned(), type_text.to_owned());
    table(|t| {
        t.schema.push(SchemaEffect::AddColumn {
            name,
            type_text,
            nullable,
        })
    })
}

fn comment(column: Option<&str>, text: &str) -> TableEffects {
    let (column, text) = (column.map(str::to_owned), Some(text.to_owned()));
    table(|t| t.schema.push(SchemaEffect::SetComment { column, text }))
}

fn replaces(fingerprint: &str) -> TableEffects {
    let fingerprint = fingerprint.to_owned();
    table(|t| t.schema.push(SchemaEffect::Replace { fingerprint }))
}

fn sets(key: &str, value: &str) -> TableEffects {
    let (key, value) = (key.to_owned(), value.to_owned());
    table(|t| t.config.push(ConfigEffect::Set { key, value }))
}

fn raises(name: &str) -> TableEffects {
    table(|t| {
        t.config.push(ConfigEffect::AddFeature {
            name: name.to_owned(),
        })
    })
}

/// One or several concrete changes per aspect, with a label.
fn samples() -> Vec<(&'static str, Aspect, TableEffects)> {
    let app = |id: &str| {
        table(|t| {
            t.app_txns.insert(id.to_owned(), 1);
        })
    };
    vec![
        ("append", Aspect::Adds, table(|t| t.adds = true)),
        (
            "delete rows 1,2 of f",
            Aspect::Deletes,
            deletes("f", rows(&[1, 2])),
        ),
        (
            "delete rows 2,3 of f",
            Aspect::Deletes,
            deletes("f", rows(&[2, 3])),
        ),
        (
            "delete row 4 of f",
            Aspect::Deletes,
            deletes("f", rows(&[4])),
        ),
        (
            "delete row 1 of g",
            Aspect::Deletes,
            deletes("g", rows(&[1])),
        ),
        (
            "copy-on-write f",
            Aspect::Deletes,
            deletes("f", Touched::WholeFile),
        ),
        (
            "drop file f",
            Aspect::Removes,
            removes("f", Removal::Deleted),
        ),
        (
            "drop file g",
            Aspect::Removes,
            removes("g", Removal::Deleted),
        ),
        ("compact f", Aspect::Moves, removes("f", Removal::Moved)),
        ("compact g", Aspect::Moves, removes("g", Removal::Moved)),
        ("compact f, row map", Aspect::Moves, compacts("f")),
        ("overwrite", Aspect::Overwrite, overwrites(false)),
        ("overwrite from self", Aspect::Overwrite, overwrites(true)),
        ("add c long", Aspect::AddColumn, column("c", "long", true)),
        (
            "add c string",
            Aspect::AddColumn,
            column("c", "string", true),
        ),
        ("add C long", Aspect::AddColumn, column("C", "long", true)),
        ("add d long", Aspect::AddColumn, column("d", "long", true)),
        (
            "add c long NOT NULL",
            Aspect::AddRequired,
            column("c", "long", false),
        ),
        (
            "drop column c",
            Aspect::DropColumn,
            schema(SchemaEffect::DropColumn { name: "c".into() }),
        ),
        (
            "rename column C to d",
            Aspect::RenameColumn,
            schema(SchemaEffect::RenameColumn {
                from: "C".into(),
                to: "d".into(),
            }),
        ),
        (
            "widen c to long",
            Aspect::Widen,
            schema(SchemaEffect::Widen {
                column: "c".into(),
                type_text: "long".into(),
            }),
        ),
        (
            "widen e to long",
            Aspect::Widen,
            schema(SchemaEffect::Widen {
                column: "e".into(),
                type_text: "long".into(),
            }),
        ),
        (
            "set c NOT NULL",
            Aspect::Require,
            schema(SchemaEffect::SetNotNull { column: "c".into() }),
        ),
        (
            "drop NOT NULL of c",
            Aspect::Relax,
            schema(SchemaEffect::DropNotNull { column: "c".into() }),
        ),
        (
            "drop NOT NULL of c.d",
            Aspect::Relax,
            schema(SchemaEffect::DropNotNull {
                column: "c.d".into(),
            }),
        ),
        ("comment 'x'", Aspect::Comment, comment(None, "x")),
        ("comment 'y'", Aspect::Comment, comment(None, "y")),
        ("comment c 'x'", Aspect::Comment, comment(Some("c"), "x")),
        ("comment C 'y'", Aspect::Comment, comment(Some("C"), "y")),
        ("replace schema p", Aspect::ReplaceSchema, replaces("p")),
        ("replace schema q", Aspect::ReplaceSchema, replaces("q")),
        ("set user.x=1", Aspect::Property, sets("user.x", "1")),
        ("set user.x=2", Aspect::Property, sets("user.x", "2")),
        (
            "set enableDV=true",
            Aspect::Property,
            sets("delta.enableDeletionVectors", "true"),
        ),
        (
            "set enableDV=false",
            Aspect::ObeyedProperty,
            sets("delta.enableDeletionVectors", "false"),
        ),
        (
            "set mapping=name",
            Aspect::Property,
            sets("delta.columnMapping.mode", "name"),
        ),
        (
            "set copy-on-write",
            Aspect::ObeyedProperty,
            sets("tarndb.deletionVectors", "off"),
        ),
        (
            "set appendOnly",
            Aspect::ObeyedProperty,
            sets("delta.appendOnly", "true"),
        ),
        (
            "set constraint",
            Aspect::ObeyedProperty,
            sets("delta.constraints.c", "v > 0"),
        ),
        (
            "raise deletionVectors",
            Aspect::Feature,
            raises("deletionVectors"),
        ),
        ("raise unknown", Aspect::ObeyedFeature, raises("unknown")),
        ("create table", Aspect::Create, table(|t| t.created = true)),
        ("drop table", Aspect::Drop, table(|t| t.dropped = true)),
        ("rename table", Aspect::Rename, table(|t| t.renamed = true)),
        ("app id x", Aspect::AppTxn, app("x")),
        ("app id y", Aspect::AppTxn, app("y")),
        ("upsert keys 1,2", Aspect::Keys, upserts(&[1, 2], true)),
        ("upsert keys 3", Aspect::Keys, upserts(&[3], true)),
        ("upsert key 4, append", Aspect::Keys, upserts(&[4], false)),
        (
            "overwrite where in f",
            Aspect::OverwriteWhere,
            overwrites_where("f", false),
        ),
        (
            "same, from self",
            Aspect::OverwriteWhere,
            overwrites_where("f", true),
        ),
        ("read", Aspect::Read, table(|t| t.read = Some(Read::All))),
        (
            "read rows",
            Aspect::Read,
            table(|t| {
                let predicates = vec!["v > 1".to_owned()];
                t.read = Some(Read::Rows { predicates });
            }),
        ),
    ]
}

fn ours(table: &TableEffects) -> Effects {
    let isolation = Isolation::Serializable;
    Effects {
        tables: [(id(1), table.clone())].into(),
        isolation,
        ..Effects::default()
    }
}

fn theirs(effects: Effects) -> Committed {
    Committed {
        version: DbVersion(42),
        txn: TxnId(Uuid::from_u128(7)),
        effects,
        evidence: tarndb_txn::Evidence::none(),
    }
}

fn letter(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Compatible => ".",
        Verdict::Rebase => "b",
        Verdict::Retryable(_) => "R",
        Verdict::Incompatible(_) => "I",
    }
}

/// `.` compatible, `b` rebase, `R` retryable, `I` incompatible.
#[test]
fn every_pair_of_samples_has_the_expected_verdict() {
    let samples = samples();
    let covered: BTreeSet<_> = samples.iter().map(|(_, aspect, _)| *aspect).collect();
    assert!(Aspect::ALL.iter().all(|aspect| covered.contains(aspect)));
    let mut text = String::new();
    for (label, _, our) in &samples {
        let row: String = samples
            .iter()
            .filter(|(_, aspect, _)| *aspect != Aspect::Read)
            .map(|(_, _, their)| letter(&judge(&ours(our), &theirs(ours(their)))))
            .collect();
        text += &format!("{label:24} {row}\n");
    }
    expect![[r#"
        append                   ...........RR....R..RRR......RR......RR.RII........
        delete rows 1,2 of f     .RRb.RR.R.bRR....R..RR.......RR...R.RRR.RII......RR
        delete rows 2,3 of f     .RRb.RR.R.RRR....R..RR.......RR...R.RRR.RII......RR
        delete row 4 of f        .bbR.RR.R.bRR....R..RR.......RR...R.RRR.RII......bb
        delete row 1 of g        ....R..R.R.RR....R..RR.......RR...R.RRR.RII........
        copy-on-write f          .RRR.RR.R.RRR....R..RR.......RR...R.RRR.RII......RR
        drop file f              .RRR.RR.R.RRR....R..RR.......RR...R.RRR.RII......RR
        drop file g              ....R..R.R.RR....R..RR.......RR...R.RRR.RII........
        compact f                .RRR.RR.R.RII....R...........RR......RR.RII......RR
        compact g                ....R..R.R.II....R...........RR......RR.RII........
        compact f, row map       .bRb.Rb.R.RII....R...........RR......RR.RII......bb
        overwrite                bbbbbbbbbbbRR....R..RRR......RR......RR.RII...bbbbb
        overwrite from self      RRRRRRRRbbbRR....R..RRR......RR......RR.RII...RRRRR
        add c long               .............bIIbIIIIbIIIbbbbRRbbbbbbbbbbIIb.......
        add c string             .............IbIbIIIIbIIIbbbbRRbbbbbbbbbbIIb.......
        add C long               .............IIbbIIIIbIIIbbbbRRbbbbbbbbbbIIb.......
        add d long               .............bbbbbbIbbbbbbbbbRRbbbbbbbbbbIIb.......
        add c long NOT NULL      RRRRRRRRRRRRRIIIbbIIIbIIIbbbbRRbbbbbbbbbbIIb..RRRRR
        drop column c            .............IIIbIbIIbIIIbbIIRRbbbbbbbbbbIIb.......
        rename column C to d     .............IIIIIIbIbIIIbbIIRRbbbbbbbbbbIIb.......
        widen c to long          RRRRRRRR...RRIIIbIIIbbIIIbbbbRRbbbbbbbbbbIIb..RRRRR
        widen e to long          RRRRRRRR...RRbbbbbbbbbbbbbbbbRRbbbbbbbbbbIIb..RRRRR
        set c NOT NULL           R..........RRIIIbIIIIbbIIbbbbRRbbbbbbbbbbIIb..RRRRR
        drop NOT NULL of c       .............IIIbIIIIbIbIbbbbRRbbbbbbbbbbIIb.......
        drop NOT NULL of c.d     .............IIIbIIIIbIIbbbbbRRbbbbbbbbbbIIb.......
        comment 'x'              .............bbbbbbbbbbbbbIbbbbbbbbbbbbbbIIb.......
        comment 'y'              .............bbbbbbbbbbbbIbbbbbbbbbbbbbbbIIb.......
        comment c 'x'            .............bbbbbIIbbbbbbbbIRRbbbbbbbbbbIIb.......
        comment C 'y'            .............bbbbbIIbbbbbbbIbRRbbbbbbbbbbIIb.......
        replace schema p         RRRRRRRRRRRRRRRRRRRRRRRRRbbRRbIbbbbbbbbbbIIb..RRRRR
        replace schema q         RRRRRRRRRRRRRRRRRRRRRRRRRbbRRIbbbbbbbbbbbIIb..RRRRR
        set user.x=1             .............bbbbbbbbbbbbbbbbbbbIbbbbbbbbIIb.......
        set user.x=2             .............bbbbbbbbbbbbbbbbbbIbbbbbbbbbIIb.......
        set enableDV=true        .............bbbbbbbbbbbbbbbbbbbbbRbbbbbbIIb.......
        set enableDV=false       .............bbbbbbbbbbbbbbbbbbbbIbbbbbbbIIb.......
        set mapping=name         .............bbbbbbbbbbbbbbbbbbbbbbbbbbbbIIb.......
        set copy-on-write        .............bbbbbbbbbbbbbbbbbbbbbbbbbbbbIIb.......
        set appendOnly           .............bbbbbbbbbbbbbbbbbbbbbbbbbbbbIIb.......
        set constraint           RRRRRRRRRRRRRbbbbbbbbbbbbbbbbbbbbbbbbbbbbIIb..RRRRR
        raise deletionVectors    .............bbbbbbbbbbbbbbbbbbbbbbbbbbbbIIb.......
        raise unknown            RRRRRRRRRRRRRbbbbbbbbbbbbbbbbbbbbbbbbbbbbIIb..RRRRR
        create table             IIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIII
        drop table               IIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIII
        rename table             .............bbbbbbbbbbbbbbbbbbbbbbbbbbbbIII.......
        app id x                 .........................................II.I......
        app id y                 .........................................II..I.....
        upsert keys 1,2          R..........RR....RRRRRR......RR......RR.RII...R.RRR
        upsert keys 3            R..........RR....RRRRRR......RR......RR.RII....RRRR
        upsert key 4, append     R..........RR....RRRRRR......RR......RR.RII.....RRR
        overwrite where in f     RRRR.RR.R.RRR....RRRRRR......RR...R.RRR.RII...RRRRR
        same, from self          RRRRRRRRR.RRR....RRRRRR......RR...R.RRR.RII...RRRRR
        read                     RRRRRRRR...RRRRRRRRRRR.......RR..........RRR..RRRRR
        read rows                RRRRRRRR...RRRRRRRRRRR.......RR..........RRR..RRRRR
    "#]]
    .assert_eq(&text);
}

/// The aspect of a sample, and those that it has as well.
fn with_data(aspect: Aspect) -> Vec<Aspect> {
    match aspect {
        Aspect::Keys => vec![aspect, Aspect::Adds],
        Aspect::OverwriteWhere => vec![aspect, Aspect::Adds, Aspect::Deletes],
        _ => vec![aspect],
    }
}

#[test]
fn directions_differ_only_where_a_reason_is_given() {
    let signed = |a, b| {
        let pair = |(x, y)| ASYMMETRIES.iter().any(|s| s.first == x && s.second == y);
        pair((a, b)) || pair((b, a))
    };
    for first in Aspect::committed() {
        for second in Aspect::committed() {
            let same = MANAGED.rule(first, second) == MANAGED.rule(second, first);
            assert!(
                same || signed(first, second),
                "unsigned asymmetry of rules: {} / {}",
                first.name(),
                second.name()
            );
        }
    }
    let mut seen = BTreeSet::new();
    for (label, first, one) in &samples() {
        for (other_label, second, other) in &samples() {
            if [*first, *second].contains(&Aspect::Read) {
                continue;
            }
            let there = judge(&ours(one), &theirs(ours(other))).strictness();
            let back = judge(&ours(other), &theirs(ours(one))).strictness();
            if there != back {
                let mut pairs = with_data(*first).into_iter();
                assert!(
                    pairs.any(|a| with_data(*second).into_iter().any(|b| signed(a, b))),
                    "unsigned asymmetry: {label} / {other_label}"
                );
                seen.insert((*first, *second));
            }
        }
    }
    for signature in ASYMMETRIES {
        let pair = (signature.first, signature.second);
        assert!(seen.contains(&pair), "a signature for nothing: {pair:?}");
    }
    for first in CatalogAspect::committed() {
        for second in CatalogAspect::committed() {
            let there = MANAGED.catalog_rule(first, second);
            assert_eq!(
                there,
                MANAGED.catalog_rule(second, first),
                "{first:?} / {second:?}"
            );
        }
    }
}

#[test]
fn reads_count_under_serializable_only() {
    let reads = table(|t| t.read = Some(Read::All));
    let appends = theirs(ours(&table(|t| t.adds = true)));
    let mut effects = ours(&reads);
    effects.names_read.insert(("s".into(), "t".into()));
    assert!(matches!(judge(&effects, &appends), Verdict::Retryable(_)));
    effects.isolation = Isolation::Snapshot;
    assert_eq!(judge(&effects, &appends), Verdict::Compatible);
}

fn in_catalog(effect: CatalogEffect) -> Effects {
    Effects {
        catalog: vec![effect],
        ..Effects::default()
    }
}

fn catalog_samples() -> Vec<(&'static str, Effects)> {
    let text = str::to_owned;
    let create = |number, schema: &str, name: &str, location: &str| CatalogEffect::CreateTable {
        id: id(number),
        schema: text(schema),
        name: text(name),
        location: text(location),
        shares: Vec::new(),
    };
    let rename = |number, schema: &str, from: &str, to_schema: &str, to: &str| {
        let (schema, from, to_schema, to) = (text(schema), text(from), text(to_schema), text(to));
        CatalogEffect::RenameTable {
            id: id(number),
            schema,
            from,
            to_schema,
            to,
        }
    };
    let clone = |number, name: &str, source| CatalogEffect::CreateTable {
        id: id(number),
        schema: text("main"),
        name: text(name),
        location: format!("main/{name}"),
        shares: vec![id(source)],
    };
    let detach = |number| CatalogEffect::DropTable {
        id: id(number),
        schema: text("q"),
        name: text("source"),
        detached: true,
    };
    let drop_table = |number, schema: &str, name: &str| CatalogEffect::DropTable {
        detached: false,
        id: id(number),
        schema: text(schema),
        name: text(name),
    };
    let create_view = |schema: &str, name: &str| CatalogEffect::CreateView {
        schema: text(schema),
        name: text(name),
    };
    let drop_view = |schema: &str, name: &str| CatalogEffect::DropView {
        schema: text(schema),
        name: text(name),
    };
    let create_tag = |name: &str| CatalogEffect::CreateTag { name: text(name) };
    let drop_tag = |name: &str| CatalogEffect::DropTag { name: text(name) };
    let replace_view = Effects {
        catalog: vec![drop_view("r", "v"), create_view("r", "v")],
        ..Effects::default()
    };
    let lookup = |schema: &str, name: &str| Effects {
        names_read: [(text(schema), text(name))].into(),
        isolation: Isolation::Serializable,
        ..Effects::default()
    };
    let write = Effects {
        tables: [(id(1), table(|t| t.adds = true))].into(),
        ..Effects::default()
    };
    vec![
        (
            "create schema s",
            in_catalog(CatalogEffect::CreateSchema { name: text("s") }),
        ),
        (
            "create schema S",
            in_catalog(CatalogEffect::CreateSchema { name: text("S") }),
        ),
        (
            "create schema r",
            in_catalog(CatalogEffect::CreateSchema { name: text("r") }),
        ),
        (
            "drop schema s",
            in_catalog(CatalogEffect::DropSchema { name: text("s") }),
        ),
        ("create s.t at t/a", in_catalog(create(10, "s", "t", "t/a"))),
        ("create S.T at t/b", in_catalog(create(11, "S", "T", "t/b"))),
        (
            "create s.u at t/a/x",
            in_catalog(create(12, "s", "u", "/t/a/x/")),
        ),
        (
            "create r.t at t/ab",
            in_catalog(create(13, "r", "t", "t/ab")),
        ),
        ("drop s.a (1)", in_catalog(drop_table(1, "s", "a"))),
        ("drop s.b (2)", in_catalog(drop_table(2, "s", "b"))),
        (
            "rename s.a (1) to s.t",
            in_catalog(rename(1, "s", "a", "s", "t")),
        ),
        (
            "rename s.b (2) to r.t",
            in_catalog(rename(2, "s", "b", "r", "t")),
        ),
        ("create view s.t", in_catalog(create_view("s", "t"))),
        ("create view r.V", in_catalog(create_view("r", "V"))),
        ("drop view R.v", in_catalog(drop_view("R", "v"))),
        ("replace view r.v", replace_view),
        ("create tag x", in_catalog(create_tag("x"))),
        ("drop tag X", in_catalog(drop_tag("X"))),
        ("create tag y", in_catalog(create_tag("y"))),
        ("clone of 50", in_catalog(clone(40, "c", 50))),
        ("clone of 51", in_catalog(clone(41, "d", 51))),
        ("detach 50", in_catalog(detach(50))),
        ("append to 1", write),
        ("look up s.a", lookup("s", "a")),
        ("look up s.t", lookup("s", "T")),
        ("look up r.v", lookup("r", "v")),
    ]
}

#[test]
fn every_pair_of_catalog_samples_has_the_expected_verdict() {
    let samples = catalog_samples();
    let mut text = String::new();
    for (label, our) in &samples {
        let row: String = samples
            .iter()
            .map(|(_, their)| letter(&judge(our, &theirs(their.clone()))))
            .collect();
        text += &format!("{label:24} {row}\n");
    }
    expect![[r#"
        create schema s          II.I......................
        create schema S          II.I......................
        create schema r          ..I.......................
        drop schema s            II.IIII.IIIII.............
        create s.t at t/a        ...IIII...I.I.............
        create S.T at t/b        ...III....I.I.............
        create s.u at t/a/x      ...II.I...................
        create r.t at t/ab       .......I...I..............
        drop s.a (1)             ...I....I.I...........I...
        drop s.b (2)             ...I.....I.I..............
        rename s.a (1) to s.t    ...III..I.I.I.............
        rename s.b (2) to r.t    ...I...I.I.I..............
        create view s.t          ...III....I.I.............
        create view r.V          .............I.I..........
        drop view R.v            ..............II..........
        replace view r.v         .............III..........
        create tag x             ................II........
        drop tag X               ................II........
        create tag y             ..................I.......
        clone of 50              ...................I.R....
        clone of 51              ....................I.....
        detach 50                ...................R.I....
        append to 1              ........I.................
        look up s.a              ...R....R.R...............
        look up s.t              ...RRR....R.R.............
        look up r.v              .............RRR..........
    "#]]
    .assert_eq(&text);
}
