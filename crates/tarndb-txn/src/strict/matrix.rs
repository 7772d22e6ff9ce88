//! The strict matrix: for each operation of ours and each of theirs, the rules to look at.
//!
//! Invariant: written once, here, row by row as in the digest of the specification. The rules of
//! a cell are looked at in order; the first that conflicts decides. Asymmetries are listed with
//! their reasons in [`ASYMMETRIES`]; no other is allowed.
//! Does not interpret rules; `decide` does.
//! Spec: docs/conflicts.md, "Strict matrix".

use super::kind::LanceKind;
use super::rule::Rule;

/// The rules of a pair, in the order in which they are looked at.
pub type Cell = &'static [Rule];

const KINDS: usize = LanceKind::ALL.len();

/// A rule set over pairs of operations.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Rows are ours, columns theirs, both in the order of [`LanceKind::ALL`].
    cells: [[Cell; KINDS]; KINDS],
}

impl Matrix {
    /// The rules for our operation against theirs. Every pair has some.
    #[must_use]
    pub fn rules(&self, ours: LanceKind, theirs: LanceKind) -> Cell {
        let row = self.cells.get(ours as usize);
        row.and_then(|row| row.get(theirs as usize))
            .copied()
            .unwrap_or(UNK)
    }

    /// The same matrix with one entry changed: tests plant bugs with it.
    #[must_use]
    pub fn with(mut self, ours: LanceKind, theirs: LanceKind, rules: Cell) -> Self {
        let row = self.cells.get_mut(ours as usize);
        if let Some(cell) = row.and_then(|row| row.get_mut(theirs as usize)) {
            *cell = rules;
        }
        self
    }
}

const __: Cell = &[Rule::Compatible];
const R_: Cell = &[Rule::Retryable];
const I_: Cell = &[Rule::Incompatible];
const A_: Cell = &[Rule::SameRows];
const B_: Cell = &[Rule::SameFragments];
const B2: Cell = &[Rule::SameRewrites];
const C_: Cell = &[Rule::InsertedKeys];
const CA: Cell = &[Rule::InsertedKeys, Rule::SameRows];
const E_: Cell = &[Rule::Overlaid];
const F_: Cell = &[Rule::Overwritten];
const G_: Cell = &[Rule::ConfigKeys];
const H_: Cell = &[Rule::SameIndex];
const II: Cell = &[Rule::IndexedMove];
const J_: Cell = &[Rule::IndexedMerge];
const K_: Cell = &[Rule::IndexedReplacement];
const L_: Cell = &[Rule::MovedIndex];
const M_: Cell = &[Rule::Generations];
const N1: Cell = &[Rule::MergesGenerations];
const N2: Cell = &[Rule::PublishedGenerations];
const O_: Cell = &[Rule::TargetRemoved];
const P_: Cell = &[Rule::TargetUpdated];
const RR: Cell = &[Rule::SameCells];
const S_: Cell = &[Rule::OverlaidMove];
const T_: Cell = &[Rule::SameBase];
const W_: Cell = &[Rule::IndexedUpdate];
const X_: Cell = &[Rule::Nullability];
const XD: Cell = &[Rule::Nullability, Rule::ModifiedField];
const XQ: Cell = &[Rule::Nullability, Rule::ReplacedField];
const XR: Cell = &[Rule::Nullability, Rule::Retryable];
const Y_: Cell = &[Rule::SchemaMetadata];
const UNK: Cell = &[Rule::UnknownOperation];

/// Rules of native Lance tables.
#[rustfmt::skip]
pub static STRICT: Matrix = Matrix {
    cells: [
        // theirs:  App Del Upd Ovw Idx Rwr Mrg Prj Rst Rsv Cln Cfg Rep Ovl MemW Bas Unk
        /* App  */ [__, __, __, I_, __, __, X_, X_, I_, __, __, __, __, __, I_, __, UNK],
        /* Del  */ [__, A_, A_, I_, __, B_, R_, __, I_, __, __, __, B_, __, I_, __, UNK],
        /* Upd  */ [C_, A_, CA, I_, __, B_, XR, XD, I_, __, __, __, B_, E_, M_, __, UNK],
        /* Ovw  */ [__, __, __, F_, __, __, __, __, __, __, __, G_, __, __, I_, __, UNK],
        /* Idx  */ [__, __, W_, I_, H_, II, J_, __, I_, __, __, __, K_, __, N1, __, UNK],
        /* Rwr  */ [__, B_, B_, I_, L_, B2, R_, __, I_, __, __, __, B_, B_, __, __, UNK],
        /* Mrg  */ [XR, R_, XR, I_, J_, R_, R_, I_, I_, __, __, Y_, XR, XR, I_, __, UNK],
        /* Prj  */ [X_, __, X_, I_, __, __, R_, R_, I_, __, __, __, X_, X_, I_, __, UNK],
        /* Rst  */ [__, __, __, __, __, __, __, __, __, __, __, Y_, __, __, I_, __, UNK],
        /* Rsv  */ [__, __, __, I_, __, __, __, __, I_, __, __, __, __, __, __, __, UNK],
        /* Cln  */ [__, __, __, __, __, __, __, __, __, __, __, __, __, __, __, __, __],
        /* Cfg  */ [__, __, __, G_, __, __, Y_, __, Y_, __, __, G_, __, __, __, __, UNK],
        /* Rep  */ [__, O_, P_, I_, K_, B_, XR, XQ, I_, __, __, __, RR, __, I_, __, UNK],
        /* Ovl  */ [__, O_, S_, I_, __, B_, XR, X_, I_, __, __, __, __, __, I_, __, UNK],
        /* MemW */ [I_, I_, M_, I_, N2, __, I_, I_, I_, __, I_, __, I_, I_, M_, __, UNK],
        /* Bas  */ [__, __, __, __, __, __, __, __, __, __, __, __, __, __, __, T_, __],
        /* Unk  */ [UNK, UNK, UNK, UNK, UNK, UNK, UNK, UNK, UNK, UNK, UNK, UNK, UNK, UNK, UNK, UNK, UNK],
    ],
};

/// A pair whose outcome depends on who committed first, and why.
#[derive(Clone, Copy, Debug)]
pub struct Asymmetry {
    /// One operation.
    pub first: LanceKind,
    /// The other (the same where two of one kind differ).
    pub second: LanceKind,
    /// Why the order matters.
    pub why: &'static str,
}

const REPLACING: &str = "an Overwrite that comes second replaces whatever is there; what comes second \
    would change data that it has not seen";
const RESTORING: &str = "a Restore goes over nearly everything; little goes over a Restore, which has \
    put other data and another schema in place";
const SCHEMA_LIST: &str = "a Merge carries the list of all fragments as it read them, so it can never come \
    second to a change of them; the other side can, where its files fit the new schema";
const SCHEMA_OVER_PROJECT: &str = "a Merge brings the whole schema as it read it and would undo the \
    projection; a Project is computed again from the merged schema";
const ROWS_OF_OURS: &str = "rows affected and files as read are known of ours only: a committed \
    transaction does not store them";
const ALIGNED: &str = "a replaced column stays aligned with rows that are deleted in place, so it may come \
    second; a deletion that comes second was computed from the old files";
const FILES_OF_ROWS: &str = "deletions and moves that come second were computed from the old column file; \
    a replacement that comes second only minds rows moved out and its own fields";
const INERT: &str = "an overlay of a deleted row is inert, so a deletion may come second; an overlay that \
    comes second must not lose its fragment";
const NEWER_VALUE: &str = "an overlay that comes second is the newer value of a rewritten column; an update \
    that comes second was computed without the overlay";
const KEYS_OF_OURS: &str = "a filter of inserted keys guards the transaction that carries it: an insertion \
    without one that was committed first may hold the same key, one that comes second does not ask";
const DROPPED_FIELD: &str = "a projection that comes second drops what it drops; a change of a field that \
    was dropped first would bring back files of a field that is gone";
const COVERAGE: &str = "a new index that comes second gives up fragments whose field was rewritten; an update \
    that comes second takes them from the index when it is built";
const MOVES_AND_INDEX: &str = "an index that comes second can keep the old fragments where the reuse index \
    records their move; a Rewrite that comes second has to move coverage that it did not know";
const LINEAGE: &str = "on a tagged table an index that comes second withdraws coverage along the lineage; a \
    replacement that comes second conflicts with the index";
const LINEAGE_OF_MERGE: &str = "on a tagged table an index that comes second withdraws coverage along the lineage; \
    a Merge that comes second withdraws it when it is built";
const WAL_STATE: &str = "an index list that comes second is not merged with a state of the write-ahead log \
    unless it publishes that index; the state may follow any other index";
const GENERATIONS: &str = "a generation that is not above the committed one is superseded for good, a higher \
    one may be tried again";
const WAL_ALONE: &str = "a Clone does not look at the state of the write-ahead log; that state is not rebased over a Clone";
const METADATA: &str = "an Overwrite that comes second takes only configuration keys along; metadata of \
    schema or fields that comes second refers to a schema that is gone";
const REUSE_TRIM: &str = "a trim that comes second conflicts with any other change of the reuse index; what \
    comes second to a trim conflicts only if it replaces that index";
const TRANSITIONS: &str = "transitions of ours whose fragments were consumed can never be added; fragments \
    that our transitions consume are only known of ours";
const UNKNOWN: &str = "a Clone or UpdateBases does not depend on the table's content; an operation that \
    is not known cannot be made";

const fn pair(first: LanceKind, second: LanceKind, why: &'static str) -> Asymmetry {
    Asymmetry { first, second, why }
}

use LanceKind as K;

/// Every allowed difference between the two directions.
#[rustfmt::skip]
pub static ASYMMETRIES: &[Asymmetry] = &[
    pair(K::Append, K::Overwrite, REPLACING),
    pair(K::Delete, K::Overwrite, REPLACING),
    pair(K::Update, K::Overwrite, REPLACING),
    pair(K::Overwrite, K::CreateIndex, REPLACING),
    pair(K::Overwrite, K::Rewrite, REPLACING),
    pair(K::Overwrite, K::Merge, REPLACING),
    pair(K::Overwrite, K::Project, REPLACING),
    pair(K::Overwrite, K::ReserveFragments, REPLACING),
    pair(K::Overwrite, K::DataReplacement, REPLACING),
    pair(K::Overwrite, K::DataOverlay, REPLACING),
    pair(K::Overwrite, K::UpdateConfig, METADATA),
    pair(K::Append, K::Restore, RESTORING),
    pair(K::Delete, K::Restore, RESTORING),
    pair(K::Update, K::Restore, RESTORING),
    pair(K::CreateIndex, K::Restore, RESTORING),
    pair(K::Rewrite, K::Restore, RESTORING),
    pair(K::Merge, K::Restore, RESTORING),
    pair(K::Project, K::Restore, RESTORING),
    pair(K::Restore, K::ReserveFragments, RESTORING),
    pair(K::Restore, K::DataReplacement, RESTORING),
    pair(K::Restore, K::DataOverlay, RESTORING),
    pair(K::Append, K::Merge, SCHEMA_LIST),
    pair(K::Merge, K::Project, SCHEMA_OVER_PROJECT),
    pair(K::Delete, K::Delete, ROWS_OF_OURS),
    pair(K::Delete, K::Update, ROWS_OF_OURS),
    pair(K::Update, K::Update, ROWS_OF_OURS),
    pair(K::Delete, K::DataReplacement, ALIGNED),
    pair(K::Update, K::DataReplacement, FILES_OF_ROWS),
    pair(K::Delete, K::DataOverlay, INERT),
    pair(K::Update, K::DataOverlay, NEWER_VALUE),
    pair(K::Append, K::Update, KEYS_OF_OURS),
    pair(K::Update, K::Project, DROPPED_FIELD),
    pair(K::Project, K::DataReplacement, DROPPED_FIELD),
    pair(K::Update, K::CreateIndex, COVERAGE),
    pair(K::CreateIndex, K::CreateIndex, REUSE_TRIM),
    pair(K::CreateIndex, K::Rewrite, MOVES_AND_INDEX),
    pair(K::CreateIndex, K::Merge, LINEAGE_OF_MERGE),
    pair(K::CreateIndex, K::DataReplacement, LINEAGE),
    pair(K::CreateIndex, K::UpdateMemWalState, WAL_STATE),
    pair(K::Update, K::UpdateMemWalState, GENERATIONS),
    pair(K::UpdateMemWalState, K::UpdateMemWalState, GENERATIONS),
    pair(K::Clone, K::UpdateMemWalState, WAL_ALONE),
    pair(K::Rewrite, K::Rewrite, TRANSITIONS),
    pair(K::Clone, K::Unknown, UNKNOWN),
    pair(K::UpdateBases, K::Unknown, UNKNOWN),
];
