#!/usr/bin/env bash
# Makes the Python environment of the interop tests or benchmarks, with pinned foreign clients.
#
# usage: scripts/setup_venv.sh [bench]
# Prints the path of the environment's python on its last line; everything else goes to stderr.
#
# The environment lives outside the checkout (TARNDB_VENV, else ~/.cache/tarndb/venv) and is
# made again only when tests/interop/requirements.txt changes (a stamp holds its hash). With
# `bench` it is the one of the benchmarks: bench/requirements.txt, and `-bench` after its name.
# Where no package index can be reached, a made environment still works.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
requirements="$root/tests/interop/requirements.txt"
venv=${TARNDB_VENV:-$HOME/.cache/tarndb/venv}
if [ "${1:-}" = bench ]; then
    requirements="$root/bench/requirements.txt"
    venv=$venv-bench
fi
stamp="$venv/requirements.sha256"
wanted=$(sha256sum <"$requirements" | cut -d' ' -f1)

say() { echo "setup_venv: $*" >&2; }

# shellcheck source=scripts/find_python.sh
source "$(dirname "${BASH_SOURCE[0]}")/find_python.sh"

find_python() {
    python_at_hand && return
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "no python3 here: installing it"
        apt-get update -qq >&2 && apt-get install -y -qq python3 python3-venv >&2
        echo python3
        return
    fi
    say "python 3.11 or newer is needed and was not found"
    exit 1
}

make_venv() {
    local python
    python=$(find_python)
    say "making $venv with $("$python" --version)"
    rm -rf "$venv"
    mkdir -p "$(dirname "$venv")"
    if ! "$python" -m venv "$venv" >&2; then
        # Debian ships the module without ensurepip in a package of its own.
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
            say "the venv module is incomplete: installing python3-venv"
            apt-get update -qq >&2 && apt-get install -y -qq python3-venv >&2
            rm -rf "$venv"
            "$python" -m venv "$venv" >&2
        else
            say "$python has no usable venv module: install python3-venv"
            exit 1
        fi
    fi
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --requirement "$requirements" >&2
    echo "$wanted" >"$stamp"
}

if [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ] || ! "$venv/bin/python" -c '' 2>/dev/null; then
    # One maker at a time: test runs of two checkouts share the environment.
    mkdir -p "$(dirname "$venv")"
    exec 9>"$venv.lock"
    flock 9
    if [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ]; then
        make_venv
    fi
    exec 9>&-
fi

# An extension's file is copied from its wheel to the user's DuckDB folder; nothing is downloaded.
# shellcheck disable=SC2046
"$venv/bin/python" - $(sed -n 's/^duckdb-extension-\([a-z]*\)==.*/\1/p' "$requirements") >&2 <<'PYTHON'
import sys

import duckdb

for name in sys.argv[1:]:
    try:
        duckdb.connect().execute(f"load {name}")
    except Exception:
        from duckdb_extensions import import_extension
        import_extension(name)
        duckdb.connect().execute(f"load {name}")
PYTHON

echo "$venv/bin/python"
