# The chores of the project. `make demo` and `make test` work from a clean clone.

# One build folder outside the checkout, so that every clone and every chore share it.
export CARGO_TARGET_DIR ?= $(HOME)/.cache/tarndb/target

TARNDB := $(CARGO_TARGET_DIR)/debug/tarndb

.PHONY: help build demo clean-demo test soak bench lint

help:
	@echo "make demo        build, then show the database at work on real data"
	@echo "make test        every test: unit, integration, other engines, kills (short forms)"
	@echo "make soak        the long forms of the kill and concurrency tests, with figures"
	@echo "make bench       figures of docs/performance.md, in a release build (SECTIONS=.., else all)"
	@echo "make lint        formatting and lints, as in CI"
	@echo "make build       build everything (development profile) into $(CARGO_TARGET_DIR)"
	@echo "make clean-demo  remove the demo's kept database (make demo KEEP=FOLDER)"

build:
	cargo build --workspace

# KEEP=FOLDER leaves the demo's database there.
demo: build
	$(TARNDB) demo $(if $(KEEP),--keep "$(KEEP)")

clean-demo:
	@test -n "$(KEEP)" || { echo "say which: make clean-demo KEEP=FOLDER"; exit 2; }
	@test -d "$(KEEP)/_tarndb" || { echo "not a database: $(KEEP)"; exit 2; }
	rm -r "$(KEEP)"

test:
	scripts/test.sh

soak:
	scripts/soak.sh

bench:
	scripts/bench.sh $(SECTIONS)

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
