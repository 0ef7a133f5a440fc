# Two commands from a fresh clone: `make demo` and `make test`. Both make .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test docs lint types imports pytest format setup clean

demo: setup
	$(BIN)/metadrift demo

test: lint types imports pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports

# One torch thread a process: the tests run side by side, and small tensors gain nothing from more.
pytest: setup
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site goes to site/; `python3 -m http.server -d site` shows it with its search.
# The variable silences an advertisement.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache site

# Outside the suite: a long stream, and many damaged files for every reader.
.PHONY: soak fuzz

soak: setup
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/soak.py --steps 50000 --out .bench/soak

fuzz: setup
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/fuzz_readers.py --cases 25000 --out .bench/fuzz

# Every speed and size as a ratio, on a machine with nothing else to do; about half an hour.
.PHONY: bench

bench: setup
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/bench.py

# docs/results.md from measured comparisons: COMPARISONS=comparisons/NAME make results
.PHONY: results

results: setup
	$(BIN)/python docs/make_results.py $(COMPARISONS)
