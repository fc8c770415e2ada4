# Everything from a fresh clone: `make serve` serves a model, `make test` checks the whole repository.

PYTHON ?= python3
MODEL ?= smollm2-135m
ARGS ?=
PYTEST_ARGS ?=

BIN := .venv/bin
STAMP := .venv/installed

# Two threads that spin at barriers starve each other on a shared machine; the tests need no speed.
export OMP_NUM_THREADS ?= 1
export NUMBA_NUM_THREADS ?= 1

.PHONY: help venv serve test test-long lint format docs bench clean
.DEFAULT_GOAL := help

help:
	@echo "make serve [MODEL=name] [ARGS='--port 9000']   set up, fetch the model, serve it"
	@echo "make test  [PYTEST_ARGS='-k chat']             set up, lint, type-check, run the tests with coverage"
	@echo "make test-long [PYTEST_ARGS=...]               the tests marked long, minutes: every chunking, many random loads"
	@echo "make lint | format | docs                      check style and types | rewrite style | generated pages"
	@echo "make bench [ARGS='--url URL']                  measure a running server"
	@echo "make venv | clean                              set up | remove what was set up"

venv: $(STAMP)

# Installed again only when the project file changes. The torch that pip finds decides between CPU and CUDA.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Isotherm needs Python 3.11 or newer; name one with make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[engine,dev]'
	@touch $@

# Serving uses the cores: the engine chooses its thread count, the limit for tests must not reach it.
serve: $(STAMP)
	$(BIN)/isotherm models fetch $(MODEL)
	env -u OMP_NUM_THREADS -u NUMBA_NUM_THREADS $(BIN)/isotherm serve $(MODEL) $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest --cov --cov-report=term:skip-covered $(PYTEST_ARGS)

# A -m here replaces the one in pyproject.toml. A run without one test of them is a mistake, and pytest says so.
test-long: $(STAMP)
	$(BIN)/pytest -m long $(PYTEST_ARGS)

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)
	$(BIN)/python docs/reference/generate.py

bench: $(STAMP)
	env -u OMP_NUM_THREADS -u NUMBA_NUM_THREADS $(BIN)/isotherm bench serve $(ARGS)

clean:
	rm -rf .venv .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
