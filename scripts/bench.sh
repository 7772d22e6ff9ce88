#!/usr/bin/env bash
# The figures of docs/performance.md, measured in a release build of the harness.
#
# usage: scripts/bench.sh [SECTION ..]     all sections unless some are named:
#        retries goodput group reading stream open merge dml tpch
#
# One line of JSON per measurement on stdout. The harness needs no query engine: its build takes
# minutes the first time, in a target folder of its own; merge, dml and tpch build the program too.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export CARGO_TARGET_DIR=${TARNDB_BENCH_TARGET:-$HOME/.cache/tarndb/t-release}
wanted=${*:-retries goodput group reading stream open merge dml tpch}

if [ -z "${TARNDB_BENCH_BIN:-}" ]; then
    nice -n 10 cargo build --quiet --release -p tarndb-bench >&2
    export TARNDB_BENCH_BIN=$CARGO_TARGET_DIR/release/tarndb-bench
fi

run() {
    local section=$1
    shift
    [[ " $wanted " == *" $section "* ]] || return 0
    printf '\n=== %s: %s (load %s)\n' "$section" "${*##*/}" "$(cut -d' ' -f1 /proc/loadavg)" >&2
    "$@"
}

run retries "$TARNDB_BENCH_BIN" goodput mode=virtual seconds=1000000 transactions=100
run goodput "$TARNDB_BENCH_BIN" goodput mode=real seconds=10
run group "$TARNDB_BENCH_BIN" group mode=real clients=1,32,1,32 seconds=10
run reading "$TARNDB_BENCH_BIN" reading mode=real files=16,64,16,64
if [[ " $wanted " == *" stream "* ]]; then
    python=$(scripts/setup_venv.sh bench)
    run stream "$python" scripts/bench_streaming.py
fi
if [[ " $wanted " == *" open "* ]]; then
    # The clients of the interop suite: deltalake and DuckDB's delta extension.
    python=$(scripts/setup_venv.sh)
    run open "$python" scripts/bench_open.py
fi
# The rest needs the query engine: a release build, once some 20 minutes on two cores.
with_engine() {
    [ -n "${TARNDB_BIN:-}" ] && [ -n "${TARNDB_QUERIES_BIN:-}" ] && return
    nice -n 10 cargo build --quiet --release -p tarndb-cli -p tarndb-sql --bins --examples >&2
    export TARNDB_BIN=${TARNDB_BIN:-$CARGO_TARGET_DIR/release/tarndb}
    export TARNDB_QUERIES_BIN=${TARNDB_QUERIES_BIN:-$CARGO_TARGET_DIR/release/examples/queries}
}
if [[ " $wanted " == *" merge "* ]]; then
    with_engine
    python=$(scripts/setup_venv.sh)
    run merge "$python" scripts/bench_merge.py
fi
if [[ " $wanted " == *" dml "* ]]; then
    with_engine
    python=$(scripts/setup_venv.sh bench)
    run dml "$python" scripts/bench_dml.py
fi
if [[ " $wanted " == *" tpch "* ]]; then
    with_engine
    # DuckDB's tpch extension is among the clients of the interop suite.
    python=$(scripts/setup_venv.sh)
    run tpch "$python" scripts/bench_tpch.py
fi
