#!/usr/bin/env python3
"""House rules that no compiler checks. Exits 1 and lists what breaks them.

- every .rs file begins with a `//!` header and has at most 700 lines of code
- one version of each of arrow, parquet, object_store and datafusion in Cargo.lock
- crate arrows point down; the pure crate depends on ids and bitmaps only; the query engine is
  named by `sql` and above only
- pages and sections of docs/ that the code names exist
- nothing left open in the code, ASCII sources, no path of a home folder, no registry host

The exceptions are a list that may only shrink.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINES_MAX = 700
SINGLE = ("arrow", "arrow-array", "arrow-schema", "parquet", "object_store", "datafusion", "sqlparser")
# crate -> the workspace crates it may name
ARROWS = {
    "tarndb-types": set(),
    "tarndb-storage": {"tarndb-types"},
    "tarndb-log": {"tarndb-types", "tarndb-storage"},
    "tarndb-txn": {"tarndb-types"},
    "tarndb-table": {"tarndb-types", "tarndb-storage", "tarndb-log", "tarndb-txn"},
    "tarndb-delta": {"tarndb-types", "tarndb-storage", "tarndb-log", "tarndb-txn", "tarndb-table"},
    "tarndb-db": {"tarndb-types", "tarndb-storage", "tarndb-log", "tarndb-txn", "tarndb-table", "tarndb-delta"},
    "tarndb-bench": {"tarndb-types", "tarndb-storage", "tarndb-txn", "tarndb-table", "tarndb-delta", "tarndb-db"},
    "tarndb-sql": {"tarndb-types", "tarndb-storage", "tarndb-log", "tarndb-txn", "tarndb-table", "tarndb-delta",
                   "tarndb-db"},
    "tarndb": {"tarndb-types", "tarndb-storage", "tarndb-log", "tarndb-txn", "tarndb-table", "tarndb-delta",
               "tarndb-db", "tarndb-sql"},
    "tarndb-cli": {"tarndb"},
}
PURE = {"tarndb-txn": {"tarndb-types", "roaring"}, "tarndb-types": {"uuid"}}
ENGINE = {"tarndb-sql", "tarndb", "tarndb-cli"}
# Reads the expressions that a table's rules hold; the parser brings no engine with it.
PARSES_RULES = "tarndb-table"
OPEN_WORDS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|\btodo!\(|\bunimplemented!\(|#\[ignore")
HOME = re.compile(r"/(home/[a-z]|root/|Users/[A-Za-z])")
REGISTRY_WORDS = ("crates" + ".io", "pypi" + ".org", "npmjs" + ".org", "deb.debian" + ".org")
DOC_REFERENCE = re.compile(r'(docs/[a-z0-9/_-]+\.md)((?:(?:,| and) "[^"\n]+")*)')
TEXT = {".rs", ".py", ".sh", ".md", ".toml", ".yml", ".sql", ".slt", ""}
EXCEPTIONS = set()


def tracked():
    """The files of the working copy that git knows or would add."""
    out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                         capture_output=True, text=True, check=True).stdout
    return [path for path in map(ROOT.joinpath, out.splitlines()) if path.is_file()]


def code_lines(text):
    """Lines before an inline test module."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("#[cfg(test)]") and lines[number + 1:number + 2] != [] \
                and lines[number + 1].rstrip().endswith("{"):
            return number
    return len(lines)


def rust_file(path, text):
    if not text.startswith("//!"):
        yield "has no //! header"
    is_test = "tests" in path.relative_to(ROOT).parts or path.name == "tests.rs"
    if not is_test and code_lines(text) > LINES_MAX:
        yield f"has {code_lines(text)} lines of code (at most {LINES_MAX})"


def any_text(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        if path != Path(__file__).resolve() and path.name != "LICENSE":
            found = OPEN_WORDS.search(line)
            if found and path.suffix in {".rs", ".py", ".sh"}:
                yield f"line {number}: left open: {found.group()}"
            if HOME.search(line):
                yield f"line {number}: a path of one machine"
            if any(word in line for word in REGISTRY_WORDS) and path.name != "Cargo.lock":
                yield f"line {number}: names a registry host"
        if path.suffix in {".rs", ".py", ".sh"} and not line.isascii():
            yield f"line {number}: not ASCII"


def manifests():
    """(crate, normal dependencies, test dependencies) of each crate."""
    for path in sorted(ROOT.glob("crates/*/Cargo.toml")):
        manifest = tomllib.loads(path.read_text())
        normal = set(manifest.get("dependencies", {}))
        for target in manifest.get("target", {}).values():
            normal |= set(target.get("dependencies", {}))
        yield manifest["package"]["name"], normal, set(manifest.get("dev-dependencies", {}))


def crate_rules():
    for name, normal, _ in manifests():
        ours = {d for d in normal if d == "tarndb" or d.startswith("tarndb-")}
        if name not in ARROWS:
            yield f"{name}: not in the list of crate arrows (scripts/tidy.py)"
        elif ours - ARROWS[name]:
            yield f"{name}: may not name {', '.join(sorted(ours - ARROWS[name]))}"
        if name in PURE and normal - PURE[name]:
            yield f"{name}: may depend on {', '.join(sorted(PURE[name]))} only, not {', '.join(sorted(normal - PURE[name]))}"
        engine = {d for d in normal if d.startswith("datafusion")}
        if name != PARSES_RULES:
            engine |= normal & {"sqlparser"}
        if engine and name not in ENGINE:
            yield f"{name}: only sql and above may name {', '.join(sorted(engine))}"


def references(path, text):
    """Pages of the documentation that a source file names must exist, with the section it names."""
    for page, sections in DOC_REFERENCE.findall(text):
        target = ROOT / page
        if not target.is_file():
            yield f"names a page that does not exist: {page}"
            continue
        headings = {line.lstrip("#").strip().strip("`") for line in target.read_text().splitlines()
                    if line.startswith("#")}
        for section in re.findall(r'"([^"]+)"', sections):
            if section not in headings:
                yield f"names a section that does not exist: {page}, \"{section}\""


def lock_rules():
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    for name in SINGLE:
        versions = sorted(p["version"] for p in lock["package"] if p["name"] == name)
        if len(versions) > 1:
            yield f"Cargo.lock: {name} in {len(versions)} versions: {', '.join(versions)}"


def findings():
    files = tracked()
    for path in files:
        if path.suffix not in TEXT or path.name == "Cargo.lock":
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        rules = [*any_text(path, text)] + ([*rust_file(path, text), *references(path, text)] if path.suffix == ".rs" else [])
        for rule in rules:
            yield f"{path.relative_to(ROOT)}: {rule}"
    yield from crate_rules()
    yield from lock_rules()
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", ".ci/run"):
        if not (ROOT / name).is_file():
            yield f"{name}: missing"


def main():
    found = [text for text in findings() if text not in EXCEPTIONS]
    for text in found:
        print(f"tidy: {text}")
    print(f"tidy: {len(tracked())} files looked at, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
