# Targets for a fresh machine: `make train` trains a scheduler, `make test` runs the tests.
#
#   make train TORCH=torch       latest Torch (training runs on the CPU, since the networks are small)
#   make train PYTHON=python3.12 another interpreter (3.11 or newer)
#   make nightly                 checks that take too long for `make test`
#   make docs                    documentation site: open site/index.html, no server or network needed
#   make constraints             pin the currently installed versions

PYTHON ?= python3
pinned := $(shell grep '^torch==' constraints.txt)
TORCH ?= $(pinned)
TRACE ?= philly

python := .venv/bin/python
installed := .venv/.installed
installed_docs := .venv/.installed_docs
# Two --quiet flags: errors only.
pip := $(python) -m pip --quiet --quiet --disable-pip-version-check
# On all cores, unlike pip; like pip, it ignores templates that are not valid Python.
bytecode := $(python) -m compileall -q -q -j 0 .venv/lib || true

# Another Torch than the pinned one installs its own dependencies; other packages keep their pinned versions.
ifeq ($(TORCH),$(pinned))
of_torch := --constraint constraints.txt
of_rest := constraints.txt
else
of_torch :=
of_rest := .venv/constraints.txt
endif

# Keep bytecode, whatever the shell sets: otherwise each process would compile all sources.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: train test nightly docs lint format constraints clean

train: $(installed)
	$(python) train_agent.py --trace $(TRACE)

test: $(installed)
	$(python) -m pytest --numprocesses auto

nightly: $(installed)
	$(python) -m pytest --numprocesses auto -m slow
	$(python) -m benchmarks.per_window
	$(python) -m benchmarks.frozen_runs

docs: $(installed_docs)
	NO_MKDOCS_2_WARNING=1 $(python) -m mkdocs --quiet build --strict
	@echo "Written: site/index.html"

lint: $(installed)
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy

format: $(installed)
	$(python) -m ruff check --fix .
	$(python) -m ruff format .

# Torch is installed first and separately, so that its build can be chosen.
$(installed): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is older than 3.11: name a newer one, as in make PYTHON=python3.12"; exit 2; }
	@echo "Installing into .venv (once; several minutes where Torch has to be downloaded)"
	@test -x $(python) || $(PYTHON) -m venv .venv
	@$(pip) install --no-compile $(of_torch) "$(TORCH)"
	@$(python) -m pip freeze --exclude-editable | sed -E 's/( @ |==).*/==/; s/^/^/' > .venv/with_torch.txt
	@grep --invert-match --ignore-case --file .venv/with_torch.txt constraints.txt > .venv/constraints.txt || true
	@$(pip) install --no-compile --constraint $(of_rest) --editable ".[train,dev]"
	@$(bytecode)
	@touch $@

$(installed_docs): $(installed)
	@$(pip) install --no-compile --constraint $(of_rest) --editable ".[train,dev,docs]"
	@$(bytecode)
	@touch $@

# Local version labels (+cpu) and dependencies of some Torch builds are left out, since they depend on the platform.
constraints: $(installed_docs)
	$(python) -m pip freeze --exclude-editable | sed -E 's/\+[A-Za-z0-9.]+$$//' | grep -E '^[A-Za-z0-9._-]+==' \
		| grep -viE '^(nvidia|cuda|triton)' > .venv/versions.txt
	mv .venv/versions.txt constraints.txt
	touch $(installed) $(installed_docs)

clean:
	rm -rf .venv build site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
