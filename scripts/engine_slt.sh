#!/usr/bin/env bash
# Runs the engine's own sqllogictest files for queries through TarnDB tables and prints what
# passed, failed and was skipped, with reasons; every failure goes to a report.
#
# usage: scripts/engine_slt.sh [WORD ..]      only files whose name holds one of the words
#
# The files come from the registry copy of the crate datafusion-sqllogictest, by cargo's ordinary
# client, into a scratch folder; they are never part of this repository. CREATE TABLE in them makes
# TarnDB tables in a database in memory, one per file.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
scratch=${TARNDB_ENGINE_SLT_SCRATCH:-$(mktemp -d)}
version=$(sed -n '/^name = "datafusion"$/{n;s/version = "\(.*\)"/\1/p}' "$root/Cargo.lock")

mkdir -p "$scratch/fetch/src"
cat > "$scratch/fetch/Cargo.toml" <<TOML
[package]
name = "fetch"
version = "0.0.0"
edition = "2021"

[dependencies]
datafusion-sqllogictest = "=$version"
TOML
: > "$scratch/fetch/src/lib.rs"
(cd "$scratch/fetch" && cargo fetch --quiet)
crate=$(cd "$scratch/fetch" && cargo metadata --format-version 1 --offline \
    | python3 -c 'import json, sys, os
packages = json.load(sys.stdin)["packages"]
print(next(os.path.dirname(p["manifest_path"]) for p in packages if p["name"] == "datafusion-sqllogictest"))')

# What is about queries; the others are about plans, external files, settings and the engine's DML.
files=(aggregate aggregates_topk alias array_query binary case cast coalesce cte decimal distinct_on
    expr functions group group_by grouping in_list intersection issue_17138 join_is_not_distinct_from
    join_limit_pushdown join_lists join_only joins lateral_join limit map math min_max negative_zero
    null_aware_anti_join nullif nvl nvl2 operator optimizer_group_by_constant order predicates qualify
    same_column_name_cross_join scalar select simplify_expr simplify_predicates sort_merge_join
    string_numeric_coercion strings struct subquery subquery_sort topk type_coercion union
    union_by_name unnest wildcard window window_topn)
chosen=$scratch/chosen
rm -rf "$chosen"
mkdir -p "$chosen"
for name in "${files[@]}"; do
    if [ $# -gt 0 ]; then
        wanted=0
        for word in "$@"; do [[ $name == *"$word"* ]] && wanted=1; done
        [ $wanted = 1 ] || continue
    fi
    source=$crate/test_files/$name.slt
    if [ -e "$source" ]; then cp "$source" "$chosen/"; fi
done
# Parts that files include.
cp "$crate"/test_files/*.slt.part "$chosen/" 2>/dev/null || true

export TARNDB_ENGINE_SLT=$chosen
export TARNDB_ENGINE_SLT_REPORT=${TARNDB_ENGINE_SLT_REPORT:-$scratch/failures.txt}
cd "$root"
cargo test -q -p tarndb-sql -p tarndb-cli --test it the_files_of_the_engine -- --nocapture
echo "failures: $TARNDB_ENGINE_SLT_REPORT"
