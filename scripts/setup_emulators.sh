#!/usr/bin/env bash
# Installs the object-store emulators of the tests: ministack (S3) and azurite (Azure Blob).
#
# usage: scripts/setup_emulators.sh
# Prints the paths of ministack and of azurite-blob on its last two lines; the rest goes to
# stderr.
#
# They live outside the checkout (TARNDB_EMULATORS, else ~/.cache/tarndb/emulators) and are
# installed again only when their versions below change. One installer at a time. Where no
# package index can be reached, what was installed before still works.
# Both were chosen because their conditional writes have one winner under races; most others
# lie (docs/guide/storage.md, "Tested with").
set -euo pipefail

ministack_version=1.5.33
# Newer ones want Node 22.
azurite_version=3.35.0

folder=${TARNDB_EMULATORS:-$HOME/.cache/tarndb/emulators}
venv=$folder/venv
node_folder=$folder/node
ministack=$venv/bin/ministack
azurite=$node_folder/node_modules/.bin/azurite-blob

say() { echo "setup_emulators: $*" >&2; }

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

# shellcheck source=scripts/find_python.sh
source "$(dirname "${BASH_SOURCE[0]}")/find_python.sh"

find_python() {
    python_at_hand && return
    say "python 3.11 or newer is needed and was not found"
    return 1
}

install_ministack() {
    local python
    [ "$(cat "$venv/version" 2>/dev/null)" = "$ministack_version" ] && [ -x "$ministack" ] && return
    python=$(find_python)
    say "installing ministack $ministack_version"
    rm -rf "$venv"
    if ! "$python" -m venv "$venv" >&2; then
        can_apt || { say "$python has no usable venv module: install python3-venv"; return 1; }
        apt-get update -qq >&2 && apt-get install -y -qq python3-venv >&2
        rm -rf "$venv"
        "$python" -m venv "$venv" >&2
    fi
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        "ministack==$ministack_version" >&2
    echo "$ministack_version" >"$venv/version"
}

install_azurite() {
    [ "$(cat "$node_folder/version" 2>/dev/null)" = "$azurite_version" ] && [ -x "$azurite" ] && return
    if ! command -v npm >/dev/null 2>&1; then
        can_apt || { say "npm (Node 18 or newer) is needed and was not found"; return 1; }
        say "installing npm"
        apt-get update -qq >&2 && apt-get install -y -qq npm >&2
    fi
    say "installing azurite $azurite_version with Node $(node --version)"
    rm -rf "$node_folder"
    mkdir -p "$node_folder"
    npm install --prefix "$node_folder" --no-audit --no-fund --loglevel=error \
        "azurite@$azurite_version" >&2
    echo "$azurite_version" >"$node_folder/version"
}

mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
install_ministack
install_azurite
exec 9>&-

echo "$ministack"
echo "$azurite"
