//! The conflict matrix: for each aspect of ours and each of theirs, one rule.
//!
//! Invariant: written once, here. Verdicts, tests and docs/conflicts.md are derived from it.
//! Asymmetries are listed with their reasons in [`ASYMMETRIES`]; no other is allowed.
//! Does not interpret rules; `decide` does.
//! Spec: docs/conflicts.md, "Matrix".

use crate::aspect::{Aspect, CatalogAspect};
use crate::rule::Rule;

/// A rule set: tables against tables, catalog against catalog.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Rows are ours, in the order of [`Aspect::ALL`]; columns are theirs, in the same order
    /// without those that are only ours.
    tables: [[Rule; TABLE_COLUMNS]; TABLE_ROWS],
    /// The same over [`CatalogAspect::ALL`].
    catalog: [[Rule; CATALOG_COLUMNS]; CATALOG_ROWS],
}

const TABLE_ROWS: usize = Aspect::ALL.len();
const TABLE_COLUMNS: usize = TABLE_ROWS - Aspect::OURS_ONLY.len();
const CATALOG_ROWS: usize = CatalogAspect::ALL.len();
const CATALOG_COLUMNS: usize = CATALOG_ROWS - 1;

impl Matrix {
    /// The rule for our aspect against theirs; `None` where theirs cannot be.
    #[must_use]
    pub fn rule(&self, ours: Aspect, theirs: Aspect) -> Option<Rule> {
        self.tables
            .get(ours as usize)?
            .get(theirs as usize)
            .copied()
    }

    /// The rule for catalog aspects; `None` where theirs is a look-up.
    #[must_use]
    pub fn catalog_rule(&self, ours: CatalogAspect, theirs: CatalogAspect) -> Option<Rule> {
        self.catalog
            .get(ours as usize)?
            .get(theirs as usize)
            .copied()
    }

    /// The same matrix with one entry changed: tests plant bugs with it.
    #[must_use]
    pub fn with(mut self, ours: Aspect, theirs: Aspect, rule: Rule) -> Self {
        let row = self.tables.get_mut(ours as usize);
        if let Some(cell) = row.and_then(|row| row.get_mut(theirs as usize)) {
            *cell = rule;
        }
        self
    }
}

use Rule::{
    AddedKeys as KEYS, AddedMatching as MATC, BindsExisting as BIND, ColumnUsed as USES,
    ColumnsReplaced as CREP, Compatible as ____, Dropped as DROP, IdTaken as ID__,
    InSchema as INSC, NameRead as LOOK, ObeyedFeature as FEAT, ObeyedKey as OBEY,
    Overwritten as OVER, OverwrittenMove as MOOT, ReadChanged as READ, Rebase as RB__,
    Renamed as RNAM, RequiredColumn as REQ_, RowMap as MAP_, RowsRead as RROW, SameAppTxn as APP_,
    SameColumn as COL_, SameComment as TEXT, SameFiles as FILE, SameKey as KEY_, SameRows as ROWS,
    SameSchema as SCH_, SameSchemaName as SAME, SameTableName as NAME, SameTag as TAG_,
    SameView as VIEW, SchemaReplaced as REPL, SharesFiles as SHAR, TakesHead as HEAD,
    TouchedFiles as TOUC, Widened as WIDE,
};

/// Rules of tables that the database manages.
#[rustfmt::skip]
pub static MANAGED: Matrix = Matrix {
    tables: [
        // theirs:        adds  dels  drop  move  over  +col  +co!  -col  ~col  wide  +nn   -nn   text  schm  prop  pro!  feat  fea!  make  drop  name  app
        /* adds      */ [____, ____, ____, ____, OVER, ____, REQ_, ____, ____, WIDE, REQ_, ____, ____, REPL, ____, OBEY, ____, FEAT, ID__, DROP, ____, ____],
        /* deletes   */ [____, ROWS, ROWS, MAP_, OVER, ____, REQ_, ____, ____, WIDE, ____, ____, ____, REPL, ____, OBEY, ____, FEAT, ID__, DROP, ____, ____],
        /* drops     */ [____, ROWS, ROWS, MAP_, OVER, ____, REQ_, ____, ____, WIDE, ____, ____, ____, REPL, ____, OBEY, ____, FEAT, ID__, DROP, ____, ____],
        /* moves     */ [____, MAP_, MAP_, FILE, MOOT, ____, REQ_, ____, ____, ____, ____, ____, ____, REPL, ____, OBEY, ____, FEAT, ID__, DROP, ____, ____],
        /* overwrite */ [HEAD, HEAD, HEAD, RB__, OVER, ____, REQ_, ____, ____, WIDE, REQ_, ____, ____, REPL, ____, OBEY, ____, FEAT, ID__, DROP, ____, ____],
        /* +col      */ [____, ____, ____, ____, ____, COL_, COL_, COL_, COL_, COL_, COL_, COL_, RB__, REPL, RB__, RB__, RB__, RB__, ID__, DROP, RB__, ____],
        /* +col!     */ [REQ_, REQ_, REQ_, REQ_, REQ_, COL_, COL_, COL_, COL_, COL_, COL_, COL_, RB__, REPL, RB__, RB__, RB__, RB__, ID__, DROP, RB__, ____],
        /* -col      */ [____, ____, ____, ____, ____, COL_, COL_, COL_, COL_, COL_, COL_, COL_, COL_, REPL, RB__, RB__, RB__, RB__, ID__, DROP, RB__, ____],
        /* ~col      */ [____, ____, ____, ____, ____, COL_, COL_, COL_, COL_, COL_, COL_, COL_, COL_, REPL, RB__, RB__, RB__, RB__, ID__, DROP, RB__, ____],
        /* widen     */ [WIDE, WIDE, WIDE, ____, WIDE, COL_, COL_, COL_, COL_, COL_, COL_, COL_, RB__, REPL, RB__, RB__, RB__, RB__, ID__, DROP, RB__, ____],
        /* +nn       */ [REQ_, ____, ____, ____, REQ_, COL_, COL_, COL_, COL_, COL_, COL_, COL_, RB__, REPL, RB__, RB__, RB__, RB__, ID__, DROP, RB__, ____],
        /* -nn       */ [____, ____, ____, ____, ____, COL_, COL_, COL_, COL_, COL_, COL_, COL_, RB__, REPL, RB__, RB__, RB__, RB__, ID__, DROP, RB__, ____],
        /* text      */ [____, ____, ____, ____, ____, RB__, RB__, COL_, COL_, RB__, RB__, RB__, TEXT, CREP, RB__, RB__, RB__, RB__, ID__, DROP, RB__, ____],
        /* schema    */ [REPL, REPL, REPL, REPL, REPL, REPL, REPL, REPL, REPL, REPL, REPL, REPL, CREP, SCH_, RB__, RB__, RB__, RB__, ID__, DROP, RB__, ____],
        /* prop      */ [____, ____, ____, ____, ____, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, KEY_, KEY_, RB__, RB__, ID__, DROP, RB__, ____],
        /* prop!     */ [BIND, BIND, BIND, BIND, BIND, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, KEY_, KEY_, RB__, RB__, ID__, DROP, RB__, ____],
        /* feat      */ [____, ____, ____, ____, ____, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, ID__, DROP, RB__, ____],
        /* feat!     */ [FEAT, FEAT, FEAT, FEAT, FEAT, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, ID__, DROP, RB__, ____],
        /* create    */ [ID__, ID__, ID__, ID__, ID__, ID__, ID__, ID__, ID__, ID__, ID__, ID__, ID__, ID__, ID__, ID__, ID__, ID__, ID__, ID__, ID__, ID__],
        /* drop      */ [DROP, DROP, DROP, DROP, DROP, DROP, DROP, DROP, DROP, DROP, DROP, DROP, DROP, DROP, DROP, DROP, DROP, DROP, ID__, DROP, RNAM, DROP],
        /* rename    */ [____, ____, ____, ____, ____, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, RB__, ID__, RNAM, RNAM, ____],
        /* app       */ [____, ____, ____, ____, ____, ____, ____, ____, ____, ____, ____, ____, ____, ____, ____, ____, ____, ____, ID__, DROP, ____, APP_],
        /* keys      */ [KEYS, ____, ____, ____, OVER, ____, ____, USES, USES, USES, ____, ____, ____, REPL, ____, ____, ____, ____, ID__, DROP, ____, ____],
        /* where     */ [MATC, TOUC, TOUC, TOUC, OVER, ____, REQ_, USES, USES, WIDE, REQ_, ____, ____, REPL, ____, OBEY, ____, FEAT, ID__, DROP, ____, ____],
        /* read      */ [RROW, RROW, RROW, ____, RROW, READ, READ, READ, READ, READ, ____, ____, ____, READ, ____, ____, ____, ____, READ, READ, READ, ____],
    ],
    catalog: [
        // theirs:           +sch  -sch  +tab  -tab  name  +view -view +tag  -tag
        /* +schema      */ [SAME, SAME, ____, ____, ____, ____, ____, ____, ____],
        /* -schema      */ [SAME, SAME, INSC, INSC, INSC, INSC, INSC, ____, ____],
        /* +table       */ [____, INSC, NAME, SHAR, NAME, NAME, ____, ____, ____],
        /* -table       */ [____, INSC, SHAR, ____, ____, ____, ____, ____, ____],
        /* rename       */ [____, INSC, NAME, ____, NAME, NAME, ____, ____, ____],
        /* +view        */ [____, INSC, NAME, ____, NAME, NAME, ____, ____, ____],
        /* -view        */ [____, INSC, ____, ____, ____, ____, VIEW, ____, ____],
        /* +tag         */ [____, ____, ____, ____, ____, ____, ____, TAG_, TAG_],
        /* -tag         */ [____, ____, ____, ____, ____, ____, ____, TAG_, TAG_],
        /* looks up     */ [____, LOOK, LOOK, LOOK, LOOK, LOOK, LOOK, ____, ____],
    ],
};

/// A pair whose rule depends on who committed first, and why that is right.
#[derive(Clone, Copy, Debug)]
pub struct Asymmetry {
    /// One aspect.
    pub first: Aspect,
    /// The other.
    pub second: Aspect,
    /// Why the order matters.
    pub why: &'static str,
}

const REPLACING: &str = "an overwrite that comes second replaces whatever is there; a change of \
    data that comes second would survive a replacement it has not seen";
const MOVING: &str = "an overwrite that comes second replaces the moved rows too; a compaction \
    that comes second has nothing left to move";
const BINDING: &str = "a property that comes second can let data be that was written before it, \
    where it binds later writers only; data that comes second must have obeyed it";
const RAISING: &str = "a statement that turns deletion vectors on by itself runs again when a user \
    has turned them off; a user who turns them off while a statement turns them on must decide";
const COPYING: &str = "a move that comes second carries away all rows of a file that is dropped; \
    a file dropped second was rewritten (copy-on-write), and its new form copied what moved";
const KEYED: &str = "an upsert that comes second must know every key that was added; rows that come \
    second to an upsert promise nothing about their keys";
const COVERED: &str = "key sets decide when that of the first covers all rows that it added; rows \
    beside it must be looked at, and only what comes second can";
const MATCHING: &str = "an overwrite by predicate that comes second must replace every row that \
    matches; rows that come second are new ones";
const TOUCHING: &str = "an overwrite by predicate that comes second replaces what it found in its \
    files; one that came first has deleted rows like any other, and deletions go by row";
const USING: &str = "a key or predicate that comes second may use a column that is no longer what \
    it was; one that came first is done with it";

/// Every allowed difference between the two directions.
pub static ASYMMETRIES: &[Asymmetry] = &[
    Asymmetry {
        first: Aspect::Adds,
        second: Aspect::Overwrite,
        why: REPLACING,
    },
    Asymmetry {
        first: Aspect::Deletes,
        second: Aspect::Overwrite,
        why: REPLACING,
    },
    Asymmetry {
        first: Aspect::Removes,
        second: Aspect::Overwrite,
        why: REPLACING,
    },
    Asymmetry {
        first: Aspect::Moves,
        second: Aspect::Overwrite,
        why: MOVING,
    },
    Asymmetry {
        first: Aspect::Adds,
        second: Aspect::ObeyedProperty,
        why: BINDING,
    },
    Asymmetry {
        first: Aspect::Deletes,
        second: Aspect::ObeyedProperty,
        why: BINDING,
    },
    Asymmetry {
        first: Aspect::Removes,
        second: Aspect::ObeyedProperty,
        why: BINDING,
    },
    Asymmetry {
        first: Aspect::Moves,
        second: Aspect::ObeyedProperty,
        why: BINDING,
    },
    Asymmetry {
        first: Aspect::Overwrite,
        second: Aspect::ObeyedProperty,
        why: BINDING,
    },
    Asymmetry {
        first: Aspect::Property,
        second: Aspect::ObeyedProperty,
        why: RAISING,
    },
    Asymmetry {
        first: Aspect::Adds,
        second: Aspect::Keys,
        why: KEYED,
    },
    Asymmetry {
        first: Aspect::Keys,
        second: Aspect::Keys,
        why: COVERED,
    },
    Asymmetry {
        first: Aspect::DropColumn,
        second: Aspect::Keys,
        why: USING,
    },
    Asymmetry {
        first: Aspect::RenameColumn,
        second: Aspect::Keys,
        why: USING,
    },
    Asymmetry {
        first: Aspect::Adds,
        second: Aspect::OverwriteWhere,
        why: MATCHING,
    },
    Asymmetry {
        first: Aspect::Deletes,
        second: Aspect::OverwriteWhere,
        why: TOUCHING,
    },
    Asymmetry {
        first: Aspect::Removes,
        second: Aspect::OverwriteWhere,
        why: TOUCHING,
    },
    Asymmetry {
        first: Aspect::Moves,
        second: Aspect::OverwriteWhere,
        why: TOUCHING,
    },
    Asymmetry {
        first: Aspect::Overwrite,
        second: Aspect::OverwriteWhere,
        why: REPLACING,
    },
    Asymmetry {
        first: Aspect::DropColumn,
        second: Aspect::OverwriteWhere,
        why: USING,
    },
    Asymmetry {
        first: Aspect::RenameColumn,
        second: Aspect::OverwriteWhere,
        why: USING,
    },
    Asymmetry {
        first: Aspect::ObeyedProperty,
        second: Aspect::OverwriteWhere,
        why: BINDING,
    },
    Asymmetry {
        first: Aspect::Removes,
        second: Aspect::Moves,
        why: COPYING,
    },
];
