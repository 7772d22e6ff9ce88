#!/usr/bin/env bash
# The long forms of the kill, concurrency, memory and speed tests; prints the figures.
#
# usage: scripts/soak.sh [SECTION ..]     all sections unless some are named:
#        kills processes stores faults memory random bad_input commits algebra
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$HOME/.cache/tarndb/target}
unset TARNDB_DB RUST_LOG
wanted=${*:-kills processes stores faults memory random bad_input commits algebra}
failed=0

run() {
    local section=$1
    shift
    [[ " $wanted " == *" $section "* ]] || return 0
    printf '\n=== %s: %s\n' "$section" "$*"
    "$@" || { echo "--- $section: FAILED"; failed=1; }
}

python=$(scripts/setup_venv.sh) || exit 1
if [ -z "${TARNDB_BIN:-}" ]; then
    cargo build --workspace --bins --examples || exit 1
    export TARNDB_BIN=$CARGO_TARGET_DIR/debug/tarndb
fi

run commits "$python" scripts/bench_commits.py commits=200 rounds=5
run kills "$python" scripts/kill_loop.py kills=200 each=10 seed=2024
run paused "$python" scripts/paused_processes.py
run native_paused "$python" scripts/native_paused.py
run processes "$python" scripts/eight_processes.py processes=8 updates=200
run processes "$python" scripts/compaction_race.py processes=8 updates=100 rewrites=20
run processes "$python" scripts/upsert_race.py processes=16 keys=20
for vectors in 0 1; do
    run processes "$python" scripts/native_processes.py commits=1000 vectors=$vectors
done
run stores env PYTHON="$python" "$python" scripts/emulators.py run -- scripts/test_stores.sh long
for seed in 1 2 3; do
    run faults "$python" scripts/fault_processes.py processes=4 transactions=1000 least=30 seed=$seed
done
run faults env TARNDB_FAULT_SEEDS=20 cargo test --workspace --test it fault_kinds
run memory "$python" scripts/memory_import.py limit_mb=64
run random env TARNDB_INTEROP_STATEMENTS=300 "$python" tests/interop/run.py random_statements
run bad_input "$python" scripts/bad_input.py
run algebra env TARNDB_SOAK_CASES=20000 CARGO_TARGET_DIR="$CARGO_TARGET_DIR/txn" \
    cargo test -p tarndb-txn --test it laws

[ $failed = 0 ] && echo "soak: everything passed"
exit $failed
