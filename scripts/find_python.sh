# Sourced by the set-up scripts: the Python to make an environment with.

# python_at_hand: prints the first Python of 3.11 or newer, TARNDB_PYTHON before the others.
python_at_hand() {
    local candidate
    for candidate in ${TARNDB_PYTHON:-} python3.11 python3.12 python3.13 python3; do
        if command -v "$candidate" >/dev/null 2>&1 \
            && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    return 1
}
