# `make train` and `make test` set everything up on a machine that has only Python (>= 3.11), pip and make.
PYTHON ?= python3
JOBS ?= 2
ARGS ?=
PARITY ?= --optimize
BIN := .venv/bin
READY := .venv/.installed

# Some machines set this. Every process that a test starts would then compile the project's Python files again, and
# every pytest its tests.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install train test test-slow test-libraries test-parity test-pythons test-wheel test-gpu docs lint format bench bench-quick bench-peers kernels gpu-report build clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1	\2/' | expand -t 22

install: $(READY)  ## .venv with everything at the pinned versions

# The stamp makes a second call skip the install until a requirement changes. Modules are compiled at their first
# import: most of the installed ones are never imported.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check --no-compile -c constraints.txt -e ".[league,dev]"
	@touch $@

train: $(READY)  ## train Tag, then print the cross-play table; ARGS="--seed 1" adds options
	$(BIN)/gpu-envs train TagContinuous-v0 $(ARGS)

test: $(READY)  ## the quick tests; ARGS="-k tag" selects some
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --benchmark-disable $(ARGS)

# Exit 5 (no test selected) is no failure here.
# PARITY: options of the tests against originals; CI plays only recorded traces, without optimization.
test-slow: $(READY)  ## the tests that take longer, learning and a pretended GPU included
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "representative and slow and not gpu" $(ARGS) || [ $$? -eq 5 ]
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "slow and not representative and not learning and not gpu" --ignore tests/parity $(ARGS) || [ $$? -eq 5 ]
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m slow $(PARITY) tests/parity $(ARGS) || [ $$? -eq 5 ]
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m gpu --pretended-gpu $(ARGS) || [ $$? -eq 5 ]
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "learning and not gpu" --optimize $(ARGS) || [ $$? -eq 5 ]

# Environments stay in .nox/. ARGS="-s rllib" runs one session. The exit code is that of the sessions.
test-libraries: $(READY)  ## the tests with other RL libraries, in separate environments
	JOBS=$(JOBS) $(BIN)/python -m nox $(ARGS)

# pyenv starts only the versions that PYENV_VERSION lists, below and in bench-peers.
test-parity: $(READY)  ## environments against their originals, installed and in separate environments
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m slow --optimize tests/parity
	JOBS=$(JOBS) $(BIN)/python -m nox -t parity $(ARGS)

test-pythons: session-pythons  ## part of the quick tests, and the wheel, in newer installed versions of Python

# A session of noxfile.py.
session-%: $(READY)
	PYENV_VERSION="$$(pyenv versions --bare 2>/dev/null | paste -sd : -)" \
	JOBS=$(JOBS) $(BIN)/python -m nox -s $* $(ARGS)

test-wheel: $(READY)  ## the wheel with its dependencies in new environments of all installed versions of Python
	PYENV_VERSION="$$(pyenv versions --bare 2>/dev/null | paste -sd : -)" \
	$(BIN)/python -m nox -s wheel $(ARGS)

test-gpu: $(READY)  ## the tests that need a CUDA device
	$(BIN)/python -m pytest -m gpu --optimize $(ARGS)

docs: session-docs  ## build the site in out/docs, with the cells of its tutorials run, and check its links

lint: $(READY)  ## ruff (check and format), codespell, import-linter, pyright, share of typed public names
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/lint-imports
	$(BIN)/pyright
	$(BIN)/python -m tests.house.type_completeness

format: $(READY)  ## format every file with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Results and pictures go to out/bench, or out/bench-quick; benchmarks.pages.report --take brings them into the page.
BENCH = mkdir -p out/$@ && $(BIN)/python -m pytest benchmarks --benchmark-only --benchmark-group-by group \
	--benchmark-columns median,iqr,rounds --benchmark-json out/$@/pytest-benchmark.json

bench: $(READY)  ## throughput compared with other libraries and hardware bounds (15 minutes), in out/bench
	$(BENCH) $(ARGS)

bench-quick: $(READY)  ## a short run of the benchmarks (1 minute), in out/bench-quick
	$(BENCH) --quick $(ARGS)

bench-peers: $(READY)  ## install the compared libraries, each in its own environment under out/peers
	PYENV_VERSION="$$(pyenv versions --bare 2>/dev/null | paste -sd : -)" \
	$(BIN)/python -m benchmarks.peers.install $(ARGS)

# Needs no GPU. ARGS="--only SimpleTag-v0" records some.
kernels: $(READY)  ## record registers, stack and occupancy of all GPU kernels, in docs/kernels.md (5 minutes)
	$(BIN)/python -m nox -s ptxas -- record $(ARGS)

# Runs without .venv, in the Python that has torch for this machine's GPU. Installs nothing.
gpu-report:  ## tests and measurements on a GPU (8 minutes); PYTHON= chooses the Python, see docs/guides/gpu.md
	$(PYTHON) -m benchmarks.gpu $(ARGS)

build: $(READY)  ## sdist and wheel under dist/
	$(BIN)/python -m build

clean:  ## remove .venv, caches, build results and temporary files of tests; out/ stays
	rm -rf .venv .nox build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	rm -rf /dev/shm/pytest-of-"$$(id -un)"
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
