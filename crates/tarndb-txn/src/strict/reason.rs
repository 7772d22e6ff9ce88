//! Reasons: the point at which two Lance operations meet, in words a person can act on.
//!
//! Invariant: the reason alone says whether running again is right, so a verdict and its
//! explanation cannot disagree.
//! Does not name the table or the transactions; `Conflict` does.
//! Spec: docs/conflicts.md, "Strict rules".

use std::fmt;

use tarndb_types::Uuid;

use super::operation::{FieldId, FragmentId};
use super::sample::Sample;
use crate::rows::RowSample;

/// Fragments at issue.
pub type Fragments = Sample<FragmentId>;

/// Fields at issue, by id.
pub type Fields = Sample<FieldId>;

/// Rows of one fragment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FragmentRows {
    /// The fragment.
    pub fragment: FragmentId,
    /// Its rows, by physical offset.
    pub rows: RowSample,
}

impl fmt::Display for FragmentRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of fragment {}", self.rows, self.fragment)
    }
}

/// A sample with its noun in front, in the plural where there are several.
struct Named<'a, T>(&'static str, &'a Sample<T>);

impl<T: fmt::Display> fmt::Display for Named<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.1.count == 1 { "" } else { "s" };
        write!(f, "{}{plural} {}", self.0, self.1)
    }
}

/// Metadata that both sides change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetadataOf {
    /// A key of the table's; `None`: one side replaces all of it.
    Table(Option<String>),
    /// The schema's.
    Schema,
    /// A field's.
    Field(FieldId),
}

/// What two base paths have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BaseClash {
    /// The id.
    Id(u32),
    /// The name.
    Name(String),
    /// The path.
    Path(String),
}

/// Why two operations cannot both be as they are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// They changed what ours was computed from.
    Preempted,
    /// The two never go together.
    Excluded,
    /// Both delete or move the same rows.
    SameRows {
        /// The rows.
        rows: Sample<FragmentRows>,
    },
    /// Both change rows of the same fragments, and which is not known.
    RowsUnknown {
        /// The fragments.
        fragments: Fragments,
        /// Ours are not known.
        by_us: bool,
    },
    /// They wrote new data files for fragments whose rows ours changes.
    FilesChanged {
        /// The fragments.
        fragments: Fragments,
    },
    /// They removed fragments that ours changes.
    FragmentsRemoved {
        /// The fragments.
        fragments: Fragments,
    },
    /// They removed fragments whose columns ours replaces.
    TargetsRemoved {
        /// The fragments.
        fragments: Fragments,
    },
    /// They moved rows out of, or rewrote a field of, fragments whose columns ours replaces.
    TargetsChanged {
        /// The fragments.
        fragments: Fragments,
    },
    /// Both change the same fragments.
    SameFragments {
        /// The fragments.
        fragments: Fragments,
    },
    /// They consumed fragments of transitions that ours adds to the reuse index.
    TransitionsConsumed {
        /// The fragments.
        fragments: Fragments,
    },
    /// Both replace the fragment reuse index.
    ReuseReplaced,
    /// Both may have inserted one key.
    SameKeys,
    /// Whether both inserted one key cannot be told.
    KeysUnknown,
    /// They dropped fields that ours rewrites.
    FieldsDropped {
        /// The fields.
        fields: Fields,
    },
    /// They dropped fields whose files ours replaces.
    ReplacedFieldsDropped {
        /// The fields.
        fields: Fields,
    },
    /// Both write the same fields of the same fragments.
    SameCells {
        /// The fragments.
        fragments: Fragments,
    },
    /// An overlay covers rows that the other side moves.
    OverlaidRows {
        /// The rows.
        rows: Sample<FragmentRows>,
    },
    /// They replaced the data too.
    Overwritten,
    /// Both set one configuration key, or one deletes it.
    ConfigKey {
        /// The key.
        key: String,
    },
    /// Both change one piece of metadata.
    SameMetadata {
        /// Which.
        of: MetadataOf,
    },
    /// Metadata of schema or fields against another schema.
    MetadataBesideSchema {
        /// The other side is a Merge, which can be made again.
        merge: bool,
    },
    /// Both publish an index of one name.
    IndexName {
        /// The name.
        name: String,
    },
    /// One side adds a segment to an index of which the other removes one.
    IndexRemoved {
        /// The name.
        name: String,
    },
    /// Both remove one segment and one side replaces it.
    SegmentReplaced {
        /// The name.
        name: String,
        /// The segment.
        segment: Uuid,
    },
    /// Fragments that an index covers were moved.
    CoverageMoved {
        /// The index.
        index: String,
        /// The fragments.
        fragments: Fragments,
    },
    /// An index does not say what it covers.
    CoverageUnknown {
        /// The index.
        index: String,
    },
    /// A group of a compaction is partly inside an index.
    CoverageSplit {
        /// The index.
        index: String,
        /// The fragments inside.
        fragments: Fragments,
    },
    /// An index by stable row id cannot be read through the reuse index.
    RowIdIndex {
        /// The index.
        index: String,
    },
    /// The fragment reuse index was replaced together with other indices.
    ReuseMixed,
    /// A schema change beside the MemWAL index.
    MemWalSchema,
    /// Fields of a new index were removed or retyped.
    IndexedFieldsGone {
        /// The fields.
        fields: Fields,
    },
    /// Fields of a new index were replaced.
    IndexedFieldsReplaced {
        /// The fields.
        fields: Fields,
    },
    /// Both record a generation of one shard.
    Generation {
        /// The shard.
        shard: Uuid,
        /// Our generation.
        ours: u64,
        /// The generation committed.
        theirs: u64,
    },
    /// Both add one base.
    Base {
        /// What they have in common.
        clash: BaseClash,
    },
    /// A schema change may make NOT NULL what the other side left null.
    Nullability {
        /// The schema change is ours.
        by_us: bool,
    },
    /// An operation that this version does not know.
    Unknown {
        /// Its number.
        number: u32,
        /// It is ours.
        by_us: bool,
    },
}

impl Reason {
    /// Running the operation again on the new version is right.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Preempted
            | Self::SameRows { .. }
            | Self::RowsUnknown { .. }
            | Self::FilesChanged { .. }
            | Self::FragmentsRemoved { .. }
            | Self::TargetsChanged { .. }
            | Self::SameFragments { .. }
            | Self::ReuseReplaced
            | Self::SameKeys
            | Self::KeysUnknown
            | Self::FieldsDropped { .. }
            | Self::SameCells { .. }
            | Self::OverlaidRows { .. }
            | Self::Overwritten
            | Self::MetadataBesideSchema { merge: true }
            | Self::IndexName { .. }
            | Self::IndexRemoved { .. }
            | Self::SegmentReplaced { .. }
            | Self::CoverageMoved { .. }
            | Self::CoverageUnknown { .. }
            | Self::CoverageSplit { .. }
            | Self::RowIdIndex { .. }
            | Self::MemWalSchema
            | Self::IndexedFieldsGone { .. }
            | Self::IndexedFieldsReplaced { .. }
            | Self::Nullability { .. } => true,
            Self::Generation { ours, theirs, .. } => *theirs < *ours,
            Self::Excluded
            | Self::TargetsRemoved { .. }
            | Self::TransitionsConsumed { .. }
            | Self::ReplacedFieldsDropped { .. }
            | Self::ConfigKey { .. }
            | Self::SameMetadata { .. }
            | Self::MetadataBesideSchema { merge: false }
            | Self::ReuseMixed
            | Self::Base { .. }
            | Self::Unknown { .. } => false,
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Excluded => {
                "open the table's new version and decide whether the change still applies"
            }
            Self::TargetsRemoved { .. } => "leave those fragments out",
            Self::TransitionsConsumed { .. } => "plan the compaction anew on the new version",
            Self::ReplacedFieldsDropped { .. } => "leave those fields out",
            Self::ConfigKey { .. }
            | Self::SameMetadata { .. }
            | Self::MetadataBesideSchema { merge: false } => {
                "read the present values and decide which should stand"
            }
            Self::ReuseMixed => "commit the fragment reuse index alone",
            Self::Generation { ours, theirs, .. } if *theirs >= *ours => {
                "that generation is superseded; read the state of the shard"
            }
            Self::Base { .. } => "use the base that is there, or another id, name and path",
            Self::Unknown { by_us: false, .. } => "upgrade, or write with a version that knows it",
            Self::Unknown { by_us: true, .. } => "it cannot be committed",
            Self::RowsUnknown { by_us: true, .. } => {
                "run it again on the new version, and give the rows affected so that deletions can be united"
            }
            _ => "run it again on the new version",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Preempted => f.write_str("what it was computed from has changed"),
            Self::Excluded => f.write_str("the one cannot follow the other"),
            Self::Overwritten => f.write_str("both replace the data of the table"),
            Self::ReuseReplaced => f.write_str("both replace the fragment reuse index"),
            Self::SameKeys => f.write_str("both may have inserted the same key"),
            Self::KeysUnknown => f.write_str(
                "whether both inserted the same key cannot be told from what they recorded",
            ),
            Self::ReuseMixed => {
                f.write_str("the fragment reuse index is replaced together with other indices")
            }
            Self::MemWalSchema => {
                f.write_str("the schema changes beside the write-ahead log's index")
            }
            Self::Nullability { by_us } => write!(
                f,
                "the schema change {} may make NOT NULL what the other side left null",
                if *by_us { "here" } else { "committed" }
            ),
            Self::Unknown { number, .. } => {
                write!(f, "operation number {number} is not known to this version")
            }
            Self::Generation {
                shard,
                ours,
                theirs,
            } => write!(
                f,
                "shard {shard} is recorded at generation {ours} here and {theirs} there"
            ),
            Self::Base { clash } => match clash {
                BaseClash::Id(id) => write!(f, "both add a base with id {id}"),
                BaseClash::Name(name) => write!(f, "both add a base named {name:?}"),
                BaseClash::Path(path) => write!(f, "both add a base at {path:?}"),
            },
            _ => self.fmt_content(f),
        }
    }
}

impl Reason {
    /// Reasons about fragments, rows, fields, indices and keys.
    fn fmt_content(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameRows { rows } => write!(f, "both delete or move {rows}"),
            Self::OverlaidRows { rows } => write!(f, "an overlay covers moved {rows}"),
            Self::RowsUnknown { fragments, by_us } => write!(
                f,
                "both change {}, and the rows changed {} are not known",
                fragment(fragments),
                if *by_us { "here" } else { "there" }
            ),
            Self::FilesChanged { fragments } => {
                write!(f, "they wrote new data files for {}", fragment(fragments))
            }
            Self::FragmentsRemoved { fragments } | Self::TargetsRemoved { fragments } => {
                write!(f, "they removed {}", fragment(fragments))
            }
            Self::TargetsChanged { fragments } => {
                write!(
                    f,
                    "they rewrote rows or fields that are replaced in {}",
                    fragment(fragments)
                )
            }
            Self::SameFragments { fragments } => write!(f, "both change {}", fragment(fragments)),
            Self::TransitionsConsumed { fragments } => {
                write!(
                    f,
                    "they consumed {}, whose move is recorded here",
                    fragment(fragments)
                )
            }
            Self::SameCells { fragments } => {
                write!(f, "both write the same fields of {}", fragment(fragments))
            }
            Self::FieldsDropped { fields } | Self::ReplacedFieldsDropped { fields } => {
                write!(f, "they dropped {}", field(fields))
            }
            Self::IndexedFieldsGone { fields } => {
                write!(
                    f,
                    "the schema change removes or retypes indexed {}",
                    field(fields)
                )
            }
            Self::IndexedFieldsReplaced { fields } => {
                write!(f, "the replacement is of indexed {}", field(fields))
            }
            Self::ConfigKey { key } => write!(f, "both change the configuration key {key:?}"),
            Self::SameMetadata { of } => match of {
                MetadataOf::Table(Some(key)) => {
                    write!(f, "both change the table metadata key {key:?}")
                }
                MetadataOf::Table(None) => f.write_str("one side replaces all table metadata"),
                MetadataOf::Schema => f.write_str("both change the schema's metadata"),
                MetadataOf::Field(id) => write!(f, "both change the metadata of field {id}"),
            },
            Self::MetadataBesideSchema { .. } => {
                f.write_str("one side changes metadata of a schema that the other replaces")
            }
            _ => self.fmt_index(f),
        }
    }

    /// Reasons about indices.
    fn fmt_index(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IndexName { name } => write!(f, "both publish an index named {name:?}"),
            Self::IndexRemoved { name } => write!(
                f,
                "one side adds a segment to index {name:?}, the other removes one"
            ),
            Self::SegmentReplaced { name, segment } => {
                write!(
                    f,
                    "both remove segment {segment} of index {name:?}, one to replace it"
                )
            }
            Self::CoverageMoved { index, fragments } => write!(
                f,
                "a compaction moved {}, which index {index:?} covers",
                fragment(fragments)
            ),
            Self::CoverageUnknown { index } => {
                write!(f, "which fragments index {index:?} covers is not known")
            }
            Self::CoverageSplit { index, fragments } => write!(
                f,
                "index {index:?} covers {} but not all that is compacted with it",
                fragment(fragments)
            ),
            Self::RowIdIndex { index } => write!(
                f,
                "index {index:?} stores row ids, which a deferred compaction cannot translate"
            ),
            // The rest is above.
            _ => Ok(()),
        }
    }
}

const fn fragment(sample: &Fragments) -> Named<'_, FragmentId> {
    Named("fragment", sample)
}

const fn field(sample: &Fields) -> Named<'_, FieldId> {
    Named("field", sample)
}
