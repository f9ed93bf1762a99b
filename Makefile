# `make check` is the quick part of ./scripts/test; run ./scripts/setup first.
BIN := .venv/bin
FORGE := node_modules/.bin/forge
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Two test processes with two threads each on two cores take three times as long.
export OMP_NUM_THREADS ?= 1

.PHONY: check lint types unit contracts format generated

check: lint types contracts unit

lint:
	scripts/find-keys
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(FORGE) fmt --check
	scripts/export-abi --check
	scripts/vectors --check

types:
	$(BIN)/mypy

contracts:
	$(FORGE) test
	$(FORGE) snapshot --check --match-contract Gas

unit:
	$(BIN)/pytest -n 2 --dist loadfile $(PYTEST_OPTIONS) tests/unit

format:
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(FORGE) fmt

# After a change of the contracts' interfaces or of the protocol's rules.
generated:
	$(FORGE) build
	scripts/export-abi
	scripts/vectors
	$(FORGE) snapshot --match-contract Gas
