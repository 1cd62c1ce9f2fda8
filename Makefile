# Everything on a fresh machine: `make train` learns a scheduler, `make test` runs the tests.
#
#   make train TORCH=torch       the newest Torch, with GPU support where the index offers it
#   make train PYTHON=python3.12 another interpreter (3.11 or newer)

PYTHON ?= python3
TORCH ?= torch==2.13.0
TRACE ?= philly

python := .venv/bin/python
installed := .venv/.installed
# Twice quiet: errors only.
pip := $(python) -m pip --quiet --quiet --disable-pip-version-check

.PHONY: train test lint format clean

train: $(installed)
	$(python) train_agent.py --trace $(TRACE)

test: $(installed)
	$(python) -m pytest --numprocesses auto

lint: $(installed)
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy

format: $(installed)
	$(python) -m ruff check --fix .
	$(python) -m ruff format .

# Torch goes first and by itself, so that its build can be chosen; the rest then finds it in place.
$(installed): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is older than 3.11: name a newer one, as in make PYTHON=python3.12"; exit 2; }
	@echo "Installing into .venv (once; several minutes where Torch has to be downloaded)"
	@test -x $(python) || $(PYTHON) -m venv .venv
	@$(pip) install "$(TORCH)"
	@$(pip) install --editable ".[dev]"
	@touch $@

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
