#!/usr/bin/env bash
# Every test of the project in its short form; what `make test` and CI run.
#
# usage: scripts/test.sh [SECTION ..]     all sections unless some are named:
#        tidy lints rust stores examples demo interop kills durability processes faults memory bad_input
#
# From a machine with Rust and Python 3.11 it installs what else it needs: the pinned Python
# clients into an environment outside the checkout, and with apt, as root, a linker or Python
# where there is none. All builds share one target folder outside the checkout and always take
# the whole workspace: a single package would choose other features and build everything again.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$HOME/.cache/tarndb/target}
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}
if [ -n "${CI:-}" ]; then
    export CARGO_INCREMENTAL=0
fi
# The tests must not depend on a database, an option or a log filter of the caller's.
unset TARNDB_DB RUST_LOG
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TARNDB_TALLY=$scratch/tally
touch "$TARNDB_TALLY"

wanted=${*:-tidy lints rust stores examples demo interop kills durability processes faults memory bad_input}
failures=()
started=$SECONDS

wants() { [[ " $wanted " == *" $1 "* ]]; }

heading() { printf '\n=== %s (at %d s)\n' "$1" $((SECONDS - started)); }

# step NAME COMMAND..: runs it, notes a failure, goes on.
step() {
    local name=$1 begun=$SECONDS
    shift
    if "$@"; then
        echo "--- $name: ok ($((SECONDS - begun)) s)"
    else
        echo "--- $name: FAILED ($((SECONDS - begun)) s)"
        failures+=("$name")
        return 1
    fi
}

# need COMMAND PACKAGE: installs the package when the command is missing and apt can be used.
need() {
    command -v "$1" >/dev/null 2>&1 && return
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "installing $2 for $1"
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$2" >/dev/null && return
    fi
    echo "needed and not found: $1 (package $2)"
    return 1
}

rust_tests() {
    if cargo nextest --version >/dev/null 2>&1; then
        cargo nextest run --workspace --no-fail-fast --status-level fail --final-status-level fail \
            --show-progress none
    else
        cargo test --workspace --lib --bins --tests --no-fail-fast
    fi
}

# Runs each example of the facade in an empty folder of its own.
examples() {
    local source name folder bad=0
    for source in crates/tarndb/examples/*.rs; do
        name=$(basename "$source" .rs)
        folder=$(mktemp -d)
        echo "example $name"
        if ! (cd "$folder" && "$CARGO_TARGET_DIR/debug/examples/$name") >"$folder.log" 2>&1; then
            echo "example $name failed:"
            cat "$folder.log"
            bad=1
        fi
        rm -rf "$folder" "$folder.log"
    done
    return $bad
}

demo() {
    if "$TARNDB_BIN" demo >"$scratch/demo.log" 2>&1; then
        tail -n 2 "$scratch/demo.log"
    else
        cat "$scratch/demo.log"
        return 1
    fi
}

# python SCRIPT ARGUMENT..: with the pinned clients.
python() { "$python" "$@"; }

finish() {
    heading "summary"
    if [ ${#failures[@]} -gt 0 ]; then
        printf 'FAILED: %s\n' "${failures[@]}"
    else
        echo "all sections passed: $wanted"
    fi
    echo "took $((SECONDS - started)) s"
    awk '{ passed += $1; failed += $2 } END { printf "%d passed, %d failed\n", passed, failed }' "$TARNDB_TALLY"
    [ ${#failures[@]} -eq 0 ]
    exit
}

need git git || exit 1
need cc gcc || exit 1
command -v cargo >/dev/null 2>&1 || { echo "cargo was not found: install Rust 1.95 or newer"; exit 1; }
echo "$(rustc --version), target folder $CARGO_TARGET_DIR, $(nproc) cores"

heading "python environment"
python=$(scripts/setup_venv.sh) || { echo "the Python environment could not be made"; exit 1; }
echo "$python"

if wants tidy; then
    heading "tidy"
    step tidy python scripts/tidy.py
fi

if wants lints; then
    heading "formatting and lints"
    step fmt cargo fmt --all --check
    step clippy cargo clippy --quiet --workspace --all-targets -- -D warnings
fi

if [[ " $wanted " =~ \ (rust|stores|examples|demo|interop|kills|durability|processes|faults|memory|bad_input)\  ]]; then
    heading "build"
    step build cargo build --workspace --all-targets || finish
    # A name of our own: another checkout may build into the same folder meanwhile.
    if [ -z "${TARNDB_BIN:-}" ]; then
        ln "$CARGO_TARGET_DIR/debug/tarndb" "$scratch/tarndb" 2>/dev/null \
            || cp "$CARGO_TARGET_DIR/debug/tarndb" "$scratch/tarndb" || exit 1
        export TARNDB_BIN=$scratch/tarndb
    fi
fi

if wants rust; then
    heading "unit and integration tests"
    step "rust tests" rust_tests
    heading "documentation tests"
    step doctests cargo test --workspace --doc
fi

if wants stores; then
    heading "object stores: emulators of S3 and Azure"
    # Fails when they cannot be installed; without them these tests skip themselves.
    step stores python scripts/emulators.py run -- cargo test --workspace --test it -- emulated_
    heading "object stores: demo, kills and processes on S3 and Azure"
    step "stores in use" env PYTHON="$python" "$python" scripts/emulators.py run -- scripts/test_stores.sh short
fi

if wants examples; then
    heading "examples"
    step examples examples
fi

if wants demo; then
    heading "demo"
    step demo demo
fi

if wants interop; then
    heading "other engines: DuckDB and deltalake"
    step interop python tests/interop/run.py
fi

if wants kills; then
    heading "kill -9"
    step "kill loop" python scripts/kill_loop.py kills=20
fi

if wants durability; then
    heading "durability: system calls before an acknowledgement"
    if need strace strace; then
        step durability python scripts/strace_fsync.py
    else
        failures+=("strace")
    fi
fi

if wants processes; then
    heading "eight processes"
    step processes python scripts/eight_processes.py processes=8 updates=25
    heading "eight processes beside a compaction"
    step "compaction race" python scripts/compaction_race.py processes=8 updates=25 rewrites=5
    heading "sixteen processes upserting the same new keys"
    step "upsert race" python scripts/upsert_race.py processes=16 keys=2
    heading "processes that are stopped at each step for longer than anything is kept"
    step "paused processes" python scripts/paused_processes.py most=1
    heading "four processes, two of deltalake, on one table by path"
    step "native table" python scripts/native_processes.py commits=200
    heading "processes on a table by path that are stopped for longer than anything is kept"
    step "native paused" python scripts/native_paused.py most=3
fi

if wants faults; then
    heading "four processes over a store that misbehaves"
    step faults python scripts/fault_processes.py processes=4 transactions=240 least=30
fi

if wants memory; then
    heading "memory of an import"
    step memory python scripts/memory_import.py limit_mb=16
fi

if wants bad_input; then
    heading "bad input"
    step "bad input" python scripts/bad_input.py
fi

finish
