# `make lab` and `make test` are all that a newcomer needs; `make` alone lists the rest.

SHELL := /bin/sh
.NOTPARALLEL:
.DEFAULT_GOAL := help

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
TOUR := notebooks/01_tour.ipynb
VIEW := nbgrad/widgets
BUILD := build
# Extra flags for JupyterLab, such as LAB_FLAGS=--no-browser; PYTHON and CHROMIUM are read the same way by the scripts.
LAB_FLAGS ?=
# JupyterLab refuses to run as root unless told that this is meant; in a container it usually is.
ROOT_FLAG = $(if $(filter 0,$(shell id -u)),--allow-root)

# $(call step,name,command): says what runs, how long it took, and fails where the command fails.
step = @echo "== $(1)"; start=$$(date +%s); $(2) || exit $$?; echo "   $(1): $$(( $$(date +%s) - start )) s"

.PHONY: help setup lab demo test tools lint types unit frontend notebooks save browser clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ---------------------------------------------------------------------------------------------------- use

setup: $(STAMP) ## make .venv and install nbgrad into it (PYTHON=... picks the interpreter)

lab: setup ## open JupyterLab on the tour
	@$(PY) -m jupyterlab $(ROOT_FLAG) --LabApp.default_url=/lab/tree/$(TOUR) $(LAB_FLAGS)

demo: setup ## run the tour without a screen and write one self-contained HTML page
	@$(PY) tools/demo.py $(TOUR) $(BUILD)/tour.html

# The stamp is younger than the two files that say what to install: then there is nothing to do.
$(STAMP): pyproject.toml constraints.txt
	@python=$$(tools/find_python.sh) || exit 1; \
	[ -x $(PY) ] || { echo "making $(VENV) with $$("$$python" -V)"; "$$python" -m venv $(VENV); } || exit 1; \
	echo "installing nbgrad and what it needs into $(VENV) (torch is large: this takes minutes)"; \
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[lab,test]"
	@touch $@

# -------------------------------------------------------------------------------------------------- check

test: tools setup lint types unit frontend notebooks browser ## run every check, in the order of how fast it fails
	@echo "all checks passed"

tools: # says what the tests lack on this machine before anything is installed
	@python=$$(tools/find_python.sh) || exit 1; "$$python" tools/check_tools.py

lint: setup ## ruff, and the direction of imports
	$(call step,ruff,$(PY) -m ruff check --quiet . && $(PY) -m ruff format --check --quiet .)
	$(call step,imports,$(VENV)/bin/lint-imports --no-logo)

types: setup ## mypy --strict
	$(call step,types,$(PY) -m mypy)

unit: setup ## the tests that need no browser
	$(call step,unit,$(PY) -m pytest -q -m "not browser")

frontend: setup $(VIEW)/node_modules/.package-lock.json ## types of the TypeScript, and the bundle is that of the sources
	$(call step,front-end types,npm --prefix $(VIEW) run --silent check)
	$(call step,bundle freshness,$(PY) tools/check_bundle.py)

# npm writes this file last, so it is npm's own stamp.
$(VIEW)/node_modules/.package-lock.json: $(VIEW)/package.json $(VIEW)/package-lock.json
	$(call step,npm ci,npm ci --prefix $(VIEW) --silent)
	@touch $@

notebooks: setup ## run the notebooks again and compare every output with the saved one
	$(call step,notebooks,$(PY) -m pytest -q --nbval --nbval-current-env --nbval-sanitize-with=tests/nbval.cfg \
		--nbval-cell-timeout=60 notebooks/)

save: setup ## run the notebooks and save them with their outputs, as the notebooks check wants them
	$(call step,save,$(PY) -m jupyter nbconvert --to notebook --execute --inplace --log-level=WARN \
		--NotebookClient.store_widget_state=False --NotebookClient.record_timing=False \
		--NotebookClient.extra_arguments=--log-level=ERROR notebooks/*.ipynb)

browser: setup ## the notebooks in JupyterLab and headless Chromium; screenshots in build/screenshots
	$(call step,browser,$(PY) -m pytest -q -m browser)

clean: ## remove what was built, but not .venv
	@rm -rf $(BUILD) dist *.egg-info $(VIEW)/node_modules .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
