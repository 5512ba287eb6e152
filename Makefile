# make plate | test | lint | reference: each makes .venv and installs when that is needed, and again
# when pyproject.toml has changed. `make PYTHON=python3.12`, `make PIP_ARGS="..."` for pip's own options.
PYTHON ?= python3
PIP_ARGS ?=
VENV := .venv
INSTALL = $(VENV)/bin/python -m pip install --disable-pip-version-check $(PIP_ARGS)
REFUSAL = $(shell $(PYTHON) -I experiments/setup_check.py 2>&1 || echo "(PYTHON is $(PYTHON))")

.PHONY: plate reference test lint
.DELETE_ON_ERROR:

plate: $(VENV)/installed
	$(VENV)/bin/selfdraft plate

reference: $(VENV)/installed
	$(VENV)/bin/selfdraft plate --reference

test: $(VENV)/installed-test
	$(VENV)/bin/python -m pytest

lint: $(VENV)/installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

$(VENV)/installed: pyproject.toml
	$(if $(REFUSAL),$(error $(REFUSAL)))
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e .
	touch $@

$(VENV)/installed-%: $(VENV)/installed
	$(INSTALL) -e ".[$*]"
	touch $@
