//! Rules: the possible entries of the strict matrix, one per note of the specification.
//!
//! Invariant: a rule depends on the two operations that meet and on facts of the table.
//! Does not decide here: `decide` does, one function per rule.
//! Spec: docs/conflicts.md, "Strict matrix".

use crate::rule::rules;

rules! {
    /// What happens when our operation meets a committed one. Codes are those of the
    /// Lance digest; where one of its notes says two things by direction, it is two rules.
    Compatible "." "compatible",
    Retryable "R" "retryable",
    Incompatible "I" "incompatible",
    SameRows "a" "no common fragment: compatible. Otherwise retryable when the rows of either side are \
        not known (a change that only removes whole fragments counts so), when they changed the data \
        files of a common fragment or removed it, or when both delete or move the same rows; else a \
        rebase that unites the deletion vectors",
    SameFragments "b" "by fragment: a common one is retryable",
    SameRewrites "b2" "as `b`; besides, incompatible when they consumed sources or destinations of \
        transitions that ours adds to a tagged history, and retryable when both add to an untagged \
        fragment reuse index",
    InsertedKeys "c" "not looked at when ours has no key filter. Retryable when theirs has none, or other \
        key fields, or the filters may meet",
    ModifiedField "d" "retryable when the projection dropped a field that ours rewrites in place",
    Overlaid "e" "rewriting columns: retryable when the overlay is on a fragment and a field that ours \
        rewrote. Moving rows: retryable when it covers a moved row, or lies on a touched fragment and \
        our rows are not known",
    Overwritten "f" "retryable; incompatible when both set one configuration key",
    ConfigKeys "g" "incompatible when one side sets a configuration key that the other sets or deletes; \
        when ours changes metadata of schema or fields and theirs is an Overwrite; when both are \
        UpdateConfig and change one key of the table's metadata (or either replaces all of it), the \
        schema's metadata, or one field's",
    SameIndex "h" "retryable when both publish a user index of one name, or one system index; when one side \
        adds a segment to a name of which the other removes one; when both remove one segment and either \
        publishes a replacement under its name; when ours trims the tagged reuse index and theirs \
        touches that",
    IndexedMove "i" "retryable when the Rewrite consumed a covered fragment or a new index does not say what \
        it covers. Where the reuse index records the move: compatible, but for an n-gram index over a \
        consumed fragment and for a replacement of the reuse index (retryable; incompatible when mixed \
        with other indices). A trim of the tagged reuse index is compatible",
    IndexedMerge "j" "retryable when the index list has the MemWAL index, and on tagged tables when the Merge \
        removed or retyped an indexed field; else compatible (tagged: coverage follows the lineage)",
    IndexedReplacement "k" "retryable when a new index is on a replaced field; ours = CreateIndex on a tagged \
        table: a rebase, coverage follows the lineage",
    MovedIndex "l" "theirs replaced the reuse index: a rebase where ours adds to it (else compatible), \
        incompatible when mixed with other indices. Otherwise ours deferred: retryable for a row-id \
        index on a table with stable row ids, a new index of unknown coverage, a group partly covered. \
        Ours eager: retryable for unknown coverage or a covered fragment of ours",
    Generations "m" "the first shard of theirs that ours records too decides: incompatible when the committed \
        generation is not below ours, else retryable; no common shard: compatible",
    MergesGenerations "n1" "a rebase when ours publishes the MemWAL index, else incompatible",
    PublishedGenerations "n2" "rule `m` on the generations of the MemWAL index that theirs publishes, if it does",
    TargetRemoved "o" "a target that theirs removed: incompatible for a replacement, retryable for an \
        overlay; changed deletion vectors are compatible",
    TargetUpdated "p" "incompatible when a target was removed; retryable when rows moved out of a target or \
        our field was rewritten in it",
    ReplacedField "q" "incompatible when the projection dropped a field that ours replaces",
    SameCells "r" "retryable when both replace one field of one fragment",
    OverlaidMove "s" "retryable when a target was removed, or when a covered row moved out of a target (or \
        may have); columns rewritten in place are compatible, the overlay is the newer value",
    SameBase "t" "incompatible when both add one non-zero id, one name or one path",
    UnknownOperation "u" "incompatible: an operation that this version does not know",
    IndexedUpdate "w" "compatible; where an indexed field was rewritten in a covered fragment a rebase: the \
        fragment leaves the coverage of the new index",
    Nullability "x" "looked at first: retryable when the schema change does not assert that it preserves \
        nullability, in either order",
    SchemaMetadata "y" "looked at first, either order: when the UpdateConfig changes metadata of schema or \
        fields, retryable against a Merge, incompatible against a Restore",
}
