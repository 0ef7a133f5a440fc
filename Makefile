# Two commands from a fresh clone: `make demo` and `make test`. Both make .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS := .venv-docs
LOWEST := .venv-lowest

.PHONY: demo test quick lowest docs lint types imports pytest format setup clean

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

# One torch thread per process: the tests run side by side, and small tensors gain nothing from more.
# With worksteal the tests of a file mostly stay in one process, which makes their fixtures once.
pytest: setup
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist worksteal

# In about a minute: without the slow tests (those marked, and all of e2e, plugins and reliability), and
# without running the pages of the documentation.
quick: setup
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist worksteal -m 'not slow' --ignore tests/docs

# All but the documentation with the oldest versions that pyproject.toml promises.
# Old packages use what newer ones deprecate, which is no fault of ours.
lowest: $(LOWEST)/.installed
	OMP_NUM_THREADS=1 $(LOWEST)/bin/pytest -n auto --ignore tests/docs \
		-W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site goes to site/; `python3 -m http.server -d site` shows it with its search.
# The variable silences an advertisement.
docs: $(DOCS)/.installed
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet --strict

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

# The site is made from sources and needs neither torch nor the package.
$(DOCS)/.installed: docs/requirements.txt constraints.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --constraint constraints.txt --requirement docs/requirements.txt
	touch $@

$(LOWEST)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(LOWEST)
	sed -n '/^dependencies/,/^]/s/^ *"\([^>]*\)>=\(.*\)",/\1==\2/p' pyproject.toml > $(LOWEST)/lowest.txt
	grep -E '^(pytest|pytest-xdist|hypothesis)==' constraints.txt >> $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python -m pip install --quiet --constraint $(LOWEST)/lowest.txt \
		--editable . pytest pytest-xdist hypothesis
	touch $@

clean:
	rm -rf $(VENV) $(DOCS) $(LOWEST) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache site

# Outside the suite: sdist and wheel, each installed into an empty environment, with a small demo.
.PHONY: package

package:
	PYTHON=$(PYTHON) .ci/package

# The numbers of README and tutorial, and the pictures, from commands that are run anew; half an hour.
.PHONY: pages

pages: setup
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python docs/refresh_pages.py README.md docs/tutorial.md docs/gallery.md
	$(BIN)/metadrift demo
	$(BIN)/python docs/make_pictures.py runs/demo-0.05

# Outside the suite: a long stream, and many damaged files for every reader.
.PHONY: soak fuzz torture

soak: setup
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/soak.py --steps 100000 --cycle --plugins --out .bench/soak

fuzz: setup
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/fuzz_readers.py --cases 25000 --out .bench/fuzz

# Some 400 hostile trials: kills, full disks, damaged and hostile files; about half an hour, as root, who
# may mount small disks. It goes on where it was stopped, and puts its table into docs/reliability.md.
torture: setup
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/torture --docs docs/reliability.md

# How many small wrong changes of the code the tests notice; some hours. It goes on where it was stopped.
.PHONY: mutants

mutants: setup
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/mutants.py --sample 300

# Every speed and size as a ratio, on a machine with nothing else to do; under an hour. It puts its
# tables into docs/performance.md.
.PHONY: bench

bench: setup
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/bench.py --docs docs/performance.md

# docs/results.md from measured comparisons: COMPARISONS=benchmarks/measured/NAME make results
.PHONY: results

results: setup
	$(BIN)/python docs/make_results.py $(COMPARISONS)

# A comparison of benchmarks/results: GRID=full-5shot DATA=FOLDER_OF_PACKS make measure. Long ones may be
# measured in parts: finished runs are kept in benchmarks/measured, and the same command goes on.
# WITH holds more words for the command, such as --plugin for a grid that names code.
.PHONY: measure

measure: setup
	METADRIFT_DATA=$(DATA) $(BIN)/metadrift compare --grid benchmarks/results/$(GRID).toml \
		--out benchmarks/measured --name $(GRID) $(WITH)
