# Targets for a fresh machine: `make train` trains a scheduler, `make test` runs the tests.
#
#   make install                 install into .venv, nothing else
#   make train TORCH=torch       latest Torch (training runs on the CPU, since the networks are small)
#   make train PYTHON=python3.12 another interpreter (3.11 or newer)
#   make nightly                 checks that take too long for `make test`
#   make docs                    documentation site: open site/index.html, no server or network needed
#   make constraints             pin the currently installed versions
#   make lock                    lock these versions, with the hashes of their files
#   make sbom                    software bill of materials of the environment: sbom.json
#   make licences                licences of what is locked, in THIRD_PARTY.md

PYTHON ?= python3
pinned := $(shell grep '^torch==' constraints.txt)
TORCH ?= $(pinned)
TRACE ?= philly

python := .venv/bin/python
installed := .venv/.installed
installed_docs := .venv/.installed_docs
tools := .venv/tools/.installed
# Two --quiet flags: errors only.
pip := $(python) -m pip --quiet --quiet --disable-pip-version-check
# On all cores, unlike pip; like pip, it ignores templates that are not valid Python.
bytecode := $(python) -m compileall -q -q -j 0 .venv/lib || true

# The locked files are installed by their hashes, on every platform and Python. Torch follows by its version alone, since
# its builds differ. Another Torch than the pinned one brings versions of its own, so that only the rest keeps its pins.
locked := --no-compile --require-hashes --no-deps --requirement
own := --no-compile --no-deps --no-build-isolation --editable .

# Keep bytecode, whatever the shell sets: otherwise each process would compile all sources.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: train test install nightly docs lint format constraints lock sbom licences tools clean

train: $(installed)
	$(python) train_agent.py --trace $(TRACE)

test: $(installed)
	$(python) -m pytest --numprocesses auto

install: $(installed)

nightly: $(installed) $(tools)
	$(python) -m pytest --numprocesses auto -m slow
	$(python) -m benchmarks.per_window
	$(python) -m benchmarks.frozen_runs
	$(python) -m benchmarks.mutants
	.venv/tools/bin/python -m benchmarks.drawn_mutants
	$(python) -m benchmarks.trust
	$(python) -m benchmarks.bad_logs

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

$(installed): pyproject.toml constraints.txt requirements/develop.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is older than 3.11: name a newer one, as in make PYTHON=python3.12"; exit 2; }
	@echo "Installing into .venv (once; several minutes where Torch has to be downloaded)"
	@test -x $(python) || $(PYTHON) -m venv .venv
ifeq ($(TORCH),$(pinned))
	@$(pip) install $(locked) requirements/develop.txt
	@$(pip) install --no-compile --constraint constraints.txt "$(TORCH)"
	@$(pip) install $(own)
else
	@$(pip) install --no-compile "$(TORCH)"
	@$(python) -m pip freeze --exclude-editable | sed -E 's/( @ |==).*/==/; s/^/^/' > .venv/with_torch.txt
	@grep --invert-match --ignore-case --file .venv/with_torch.txt constraints.txt > .venv/constraints.txt || true
	@$(pip) install --no-compile --constraint .venv/constraints.txt --editable ".[train,dev]"
endif
	@$(bytecode)
	@touch $@

$(installed_docs): $(installed) requirements/docs.txt
ifeq ($(TORCH),$(pinned))
	@$(pip) install $(locked) requirements/docs.txt
else
	@$(pip) install --no-compile --constraint .venv/constraints.txt --editable ".[train,dev,docs]"
endif
	@$(bytecode)
	@touch $@

tools: $(tools)

$(tools): requirements/tools.txt
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip --quiet --quiet --disable-pip-version-check install $(locked) $<
	@touch $@

# Local version labels (+cpu) and dependencies of some Torch builds are left out, since they depend on the platform.
constraints: $(installed_docs)
	$(python) -m pip freeze --exclude-editable | sed -E 's/\+[A-Za-z0-9.]+$$//' | grep -E '^[A-Za-z0-9._-]+==' \
		| grep -viE '^(nvidia|cuda|triton)' > .venv/versions.txt
	mv .venv/versions.txt constraints.txt
	touch $(installed) $(installed_docs)

# One resolution for all platforms and Pythons; 3.11.5 is the oldest that the documentation's tools support. Torch and what
# only some of its builds require are left out.
lock := .venv/tools/bin/uv pip compile --quiet --universal --python-version 3.11.5 --generate-hashes --no-header --no-annotate \
	--excludes requirements/unlocked.in
lock: $(tools)
	$(lock) --constraint constraints.txt --extra train --extra dev pyproject.toml requirements/beside.in \
		--output-file requirements/develop.txt > /dev/null
	$(lock) --constraint constraints.txt --extra train --extra dev --extra docs pyproject.toml requirements/beside.in \
		--output-file requirements/docs.txt > /dev/null
	$(lock) requirements/tools.in --output-file requirements/tools.txt > /dev/null

sbom: $(installed) $(tools)
	.venv/tools/bin/cyclonedx-py environment --pyproject pyproject.toml --output-file sbom.json $(python)
	@echo "Written: sbom.json"

licences: $(installed_docs) $(tools)
	sed -i '/^| Name/,$$d' THIRD_PARTY.md
	.venv/tools/bin/pip-licenses --python $(python) --format markdown --order license --no-version \
		--ignore-packages gpu-cluster-gym pip | grep -viE '^\| (nvidia|cuda|triton)' | tr -s ' -' >> THIRD_PARTY.md

clean:
	rm -rf .venv build site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
