# Everything a person types here; `make help` lists it. What a target needs it installs by scripts/need.

SHELL := /bin/sh
CARGO ?= cargo
export PATH := $(PATH):$(HOME)/.cargo/bin
# Where cargo puts what it builds, for what runs outside of cargo.
BUILT := $${CARGO_TARGET_DIR:-target}

.DEFAULT_GOAL := help
.PHONY: help demo build test check soak servers bench-sampler bench-exact bench-arming bench-trace bench-digest fuzz clean-cache

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | while IFS='|' read -r name what; do printf 'make %-14s %s\n' "$$name" "$$what"; done

demo: ## a throw-away PostgreSQL under load, and the screen on it
	@scripts/need demo
	$(CARGO) build --release
	@if [ "$$(id -u)" = 0 ]; then exec "$(BUILT)/release/pg_wait_tracer" demo; \
	elif command -v sudo >/dev/null; then \
	    echo 'sudo: reading the shared memory of a server takes root'; \
	    exec sudo env PGWT_CACHE="$$(scripts/cache)" "$(BUILT)/release/pg_wait_tracer" demo; \
	else echo 'make demo: reading the shared memory of a server takes root: run this as root' >&2; exit 1; fi

build: ## the program, optimised, in target/release
	@scripts/need build
	$(CARGO) build --release

test: ## everything that must hold: format, lints, the build without capture, all tests on real servers
	@scripts/need test
	@scripts/servers
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets -- -D warnings
	CLANG=/bin/false $(CARGO) build --no-default-features
	$(CARGO) test --doc
	@# A process for each test, or else one test after another: some look at the whole process they run in.
	@if $(CARGO) nextest --version >/dev/null 2>&1; then set -x; $(CARGO) nextest run --no-fail-fast; \
	else set -x; $(CARGO) test --no-fail-fast --lib --bins --tests -- --test-threads=1; fi

check: ## format and lints only
	@scripts/need build
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets -- -D warnings

soak: ## kill a recording daemon a hundred times under load: nothing older than a second may be lost
	@scripts/need test
	@scripts/servers
	PGWT_KILLS=$${PGWT_KILLS:-100} $(CARGO) test --test daemon -- --nocapture a_killed_daemon

servers: ## fetch PostgreSQL 13 to 18 for the tests
	@scripts/need servers
	@scripts/servers

bench-sampler: ## what sampling costs the server and itself
	@scripts/need test
	@scripts/servers
	$(CARGO) bench --bench sampler

bench-arming: ## how ticks keep time while windows on 500 backends open and close
	@scripts/need test
	@scripts/servers
	$(CARGO) bench --bench arming

bench-trace: ## what a recording costs: bytes, write rate, cold reads, questions, memory
	@scripts/need test
	@scripts/servers
	$(CARGO) bench --bench trace

bench-exact: ## what exact and blocking windows cost the server
	@scripts/need test
	@scripts/servers
	$(CARGO) bench --bench exact

fuzz: ## damaged recordings read for SECONDS (600): no panic, hang, waste or wrong number
	@scripts/need build
	$(CARGO) run --example fuzz_codec -- $${SECONDS:-600}

bench-digest: ## what digests make of wide windows over a recording, and what they cost
	@scripts/need build
	$(CARGO) bench --bench digest

clean-cache: ## remove what was fetched or built once, outside of the clone
	@cache=$$(scripts/cache) && rm -rf "$$cache/servers" "$$cache/templates" "$$cache/target" && echo "removed servers, templates and target in $$cache"
