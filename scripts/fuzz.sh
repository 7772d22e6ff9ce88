#!/usr/bin/env bash
# Fuzzes what is read from other writers: commit lines, checkpoints, deletion vectors, the hint,
# schema JSON.
#
# usage: scripts/fuzz.sh [SECONDS_PER_TARGET] [TARGET ..]        600 seconds, all targets
#
# Needs cargo-fuzz (cargo install cargo-fuzz) and takes minutes to build the first time. The seeds
# come from the acceptance set where it is there. New inputs are kept in $TARNDB_FUZZ_CORPUS, a folder outside the checkout; a crash
# ends the run and names the input.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
seconds=${1:-600}
shift || true
targets=${*:-commit_lines checkpoint deletion_vector last_checkpoint schema_json}
corpus=${TARNDB_FUZZ_CORPUS:-$HOME/.cache/tarndb/fuzz-corpus}
export CARGO_TARGET_DIR=${TARNDB_FUZZ_TARGET:-$HOME/.cache/tarndb/t-fuzz}
# The sanitizer's flags need it on a stable compiler.
export RUSTC_BOOTSTRAP=1

command -v cargo-fuzz >/dev/null || { echo "cargo-fuzz was not found: cargo install cargo-fuzz"; exit 1; }
fixtures=$root/../shared/fixtures/delta
[ -d "$fixtures" ] || echo "SKIPPED: no seeds from the acceptance set, it is not at $fixtures"

# seeds TARGET: files that a fuzzer would take long to find, under names of their content.
seeds() {
    local folder=$corpus/$1-seeds pattern
    mkdir -p "$folder"
    case $1 in
        commit_lines) pattern='[0-9]*.json' ;;
        checkpoint) pattern='*.checkpoint*.parquet' ;;
        deletion_vector) pattern='deletion_vector_*.bin' ;;
        last_checkpoint) pattern='_last_checkpoint' ;;
        schema_json) pattern='[0-9]*0.json' ;;
    esac
    [ -d "$fixtures" ] || return 0
    find "$fixtures" -name "$pattern" -size -64k -print0 | while IFS= read -r -d '' file; do
        local name
        name=$(sha1sum <"$file" | cut -c1-16)
        case $1 in
            # The target takes three bytes before the file: kind and offset.
            deletion_vector) { printf '\001\000\001'; cat "$file"; } >"$folder/$name" ;;
            schema_json) python3 "$root/scripts/schema_of.py" "$file" >"$folder/$name" || rm -f "$folder/$name" ;;
            *) cp "$file" "$folder/$name" ;;
        esac
    done
}

cd "$root/fuzz"
for target in $targets; do
    mkdir -p "$corpus/$target"
    seeds "$target"
    echo "=== $target: $seconds s, $(find "$corpus/$target-seeds" -type f | wc -l) seeds"
    cargo fuzz run "$target" "$corpus/$target" "$corpus/$target-seeds" -- \
        -max_total_time="$seconds" -max_len=65536 -timeout=20 -rss_limit_mb=2048 -malloc_limit_mb=1024 \
        -print_final_stats=1 -verbosity=0
done
