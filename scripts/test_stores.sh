#!/usr/bin/env bash
# The demonstration, the kill loop and eight processes on buckets instead of a folder.
#
# usage: emulators.py run -- test_stores.sh short|long
#
# TARNDB_TEST_S3_URL and TARNDB_TEST_AZURE_URL say where, TARNDB_BIN names the binary and
# PYTHON the Python with the pinned clients. Only clients are killed, never an emulator.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
form=${1:-short}
case $form in
    short) kills=4 updates=3 ;;
    long) kills=100 updates=50 ;;
    *) echo "not a form: $form (short, long)"; exit 2 ;;
esac
python=${PYTHON:-python3}
failed=0

run() {
    echo "--- $*"
    "$@" || { echo "--- FAILED: $*"; failed=1; }
}

demo() {
    local log
    log=$(mktemp)
    "$TARNDB_BIN" --db "$1" demo >"$log" 2>&1 || { cat "$log"; return 1; }
    tail -n 2 "$log"
    rm "$log"
}

for base in "$TARNDB_TEST_S3_URL" "$TARNDB_TEST_AZURE_URL"; do
    base=$base/$form-$$
    run demo "$base/demo"
    run "$python" scripts/kill_loop.py kills=$kills base="$base"
    run "$python" scripts/eight_processes.py processes=8 updates=$updates base="$base"
done
exit $failed
