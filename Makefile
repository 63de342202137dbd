# `make lab` and `make test` are all that a newcomer needs; `make` alone lists the rest.

# The checks start hundreds of processes: later ones use the bytecode of earlier ones, even if the shell forbids it.
unexport PYTHONDONTWRITEBYTECODE
# Another environment may be active: IPython would warn of it in every shell that a test opens.
unexport VIRTUAL_ENV

SHELL := /bin/sh
ifndef TOGETHER
.NOTPARALLEL:
endif
.DEFAULT_GOAL := help

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
# The stamp of an environment with only the packages that a lab needs, without checkers and tests.
LAB := $(VENV)/.lab
# If everything is installed, a lab needs nothing else.
READY = $(if $(wildcard $(STAMP)),$(STAMP),$(LAB))
# An environment beside .venv, with other people's packages. It also sees the packages of .venv.
MODELS := .venv-models
# Another such environment, with packages for builds and tests that a lab does not need: site, graders, marimo, engines, hub.
MORE := .venv-more
TOUR := notebooks/00_tour.ipynb
VIEW := nbgrad/widgets
BUILD := build
CORE := nbgrad/core
# This file is written last when the core is compiled in place.
COMPILED := $(CORE)/compiled.json
DECLARED := $(wildcard $(CORE)/*/*.pxd)
WRITTEN_IN_C := $(wildcard $(CORE)/*/*.[ch] $(CORE)/*/*/*.[ch])
# Where there is ccache, a clone compiles the core again in seconds.
ifneq ($(shell command -v ccache 2>/dev/null),)
export CC := ccache $(CC)
endif
# The number of processes that compile the core, and of those that run the tests.
JOBS ?= 2
# The number of processes for tests in a browser: half of the time they wait for a kernel or a page.
WAITING = $(shell echo $$((3 * $(JOBS) / 2)))
# `make wheels` builds for those of these Pythons that are installed.
PYTHONS ?= python3.11 python3.12 python3.13
# Extra flags for JupyterLab, such as LAB_FLAGS=--no-browser; PYTHON and CHROMIUM are read the same way by the scripts.
LAB_FLAGS ?=
# JupyterLab refuses to run as root unless told that this is meant; in a container it usually is.
ROOT_FLAG = $(if $(filter 0,$(shell id -u)),--allow-root)

# The environment has a LANGUAGE of its own on many systems, which is not meant here.
ifeq ($(origin LANGUAGE),environment)
LANGUAGE :=
endif
# The flag of the tools that write lessons, and the folder of those in another language.
SPEAKING = $(if $(LANGUAGE),--language $(LANGUAGE))
OTHER = $(if $(LANGUAGE),$(LANGUAGE)/)

# $(call step,name,command): says what runs, how long it took, and fails where the command fails.
step = @echo "== $(1)"; start=$$(date +%s); $(2) || exit $$?; echo "   $(1): $$(( $$(date +%s) - start )) s"

.PHONY: help setup compile lab demo pages slides kit site write course translations images wheels opdb sweep doctor bench models models-small quick test together whole minimum tools lint types unit frontend notebooks more browser clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ---------------------------------------------------------------------------------------------------- use

setup: $(STAMP) ## make .venv and install nbgrad into it (PYTHON=... picks the interpreter)

compile: $(COMPILED) ## compile the core in place, if there is a C compiler

# Without a compiler this file is not made, and nothing is compiled.
$(COMPILED): setup.py $(CORE)/compilation.py $(DECLARED) $(DECLARED:.pxd=.py) $(WRITTEN_IN_C) | setup
	$(call step,compile,$(PY) setup.py --quiet build_ext --inplace --force --parallel $(JOBS))

lab: $(READY) ## open JupyterLab on the tour
	@$(PY) -m jupyterlab $(ROOT_FLAG) --LabApp.default_url=/lab/tree/$(TOUR) $(LAB_FLAGS)

demo: $(READY) ## run the tour without a screen and write one self-contained HTML page
	@$(PY) -m tools.demo $(TOUR) $(BUILD)/tour.html

pages: $(READY) ## write every lesson as one HTML page that needs no kernel: build/pages/student and build/pages/solutions (LESSONS='04 08' names some, LANGUAGE=de writes them in German to build/pages/de)
	@$(STILL) $(PY) -m tools.pages $(SPEAKING) $(BUILD)/pages/$(OTHER)student $(LESSONS)
	@$(STILL) $(PY) -m tools.pages $(SPEAKING) --solutions $(BUILD)/pages/$(OTHER)solutions $(LESSONS)

slides: $(READY) ## write a deck of slides for every lesson: build/slides, HTML that needs no network, and PDF with Chromium (LESSONS='04 08' names some, LANGUAGE=de writes them in German to build/slides/de)
	@$(STILL) $(PY) -m tools.slides $(SPEAKING) $(BUILD)/slides/$(OTHER) $(LESSONS)

kit: setup $(MORE)/.installed ## write build/kit, all that computers without a network need, with the documents: docs/teaching.md (SOLUTIONS=1 adds those of the lessons, LANGUAGE=de has the lessons in German)
	@$(STILL) $(MORE)/bin/python -m tools.site $(BUILD)/kit-site $(if $(SOLUTIONS),,--open) $(SITE_FLAGS)
	@$(STILL) $(PY) -m tools.kit $(SPEAKING) $(BUILD)/kit --docs $(BUILD)/kit-site $(if $(SOLUTIONS),--solutions)

# If a stamp is younger than the two files that say what to install, there is nothing to do. compileall runs here because
# pip would write the bytecode of 11,000 modules one by one, also of tests that never run. A template that is no Python
# file gets no bytecode. JupyterLab would ask in its first minute whether it may fetch news.
$(STAMP) $(LAB): pyproject.toml constraints.txt
	@python=$$(tools/find_python.sh) || exit 1; \
	[ -x $(PY) ] || { echo "making $(VENV) with $$("$$python" -V)"; "$$python" -m venv $(VENV); } || exit 1; \
	echo "installing nbgrad and what it needs into $(VENV) (torch is large: this takes minutes)"; \
	$(PY) -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e ".[$(EXTRAS)]" || exit 1; \
	$(PY) -m jupyter labextension disable @jupyterlab/apputils-extension:announcements || exit 1; \
	$(PY) -m compileall -qq -j $(JOBS) -x '/tests/' $(VENV)/lib || true
	@touch $@

$(STAMP): EXTRAS := lab,test
$(LAB): EXTRAS := lab

$(MORE)/.installed: pyproject.toml constraints.txt tools/environment.py | setup
	$(call step,packages for the site and graders and marimo and engines and trainers and the hub,$(PY) -m tools.environment $(MORE) site grading marimo parallel trainers hub)
	@touch $@

# ------------------------------------------------------------------------------------------------- write

site: setup $(MORE)/.installed ## build the documents as a site that needs no network: build/site (the lessons run; SITE_FLAGS=--saved leaves that out)
	$(call step,site,$(STILL) $(MORE)/bin/python -m tools.site $(SITE_FLAGS))

write: setup ## write what is made from the code: the stubs that editors read, TypeScript and CSS from Python
	@NBGRAD_COMPILED=0 $(PY) tools/write.py

course: setup ## write the lessons from notebooks/source: the student's copies, and the solutions with their outputs (LESSONS='04 08' names some, LANGUAGE=de writes them in German to build/course/de)
	$(call step,course,$(STILL) $(PY) -m tools.course $(SPEAKING) $(LESSONS))

translations: setup ## bring the translations in step with the lessons and the code, and say what is missing
	@$(PY) -m tools.translate

images: setup ## write the pictures of the documentation anew, docs/images: after a change of the front end
	@$(PY) -m tools.write_images

wheels: ## build a wheel for every Python of PYTHONS that is there, into dist/
	@for python in $(PYTHONS); do rm -rf $(BUILD)/lib* $(BUILD)/bdist*; \
		"$$python" -c '' 2>/dev/null || { echo "no $$python here"; continue; }; \
		"$$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist . || exit 1; \
	done; ls dist/*.whl

# ------------------------------------------------------------------------------------------------ measure

opdb: setup ## compare with torch's own op database, every sample: build/opdb.md (OPDB_FLAGS=... names entries)
	@$(PY) -m tools.opdb $(OPDB_FLAGS)

sweep: setup ## run random cases of all kinds for half an hour (SWEEP_FLAGS='--minutes 5 indices' changes that)
	@$(PY) -m tools.sweep $(SWEEP_FLAGS)

# The table of the benchmarks says which peers there are: it names those that do not install here.
doctor: setup compile ## what the findings detect, name and locate in programs with published faults (DOCTOR_FLAGS='kept --host loop' chooses)
	$(call step,doctor,$(PY) -m tests.doctor $(DOCTOR_FLAGS))

bench: setup ## time nbgrad next to torch and other engines, as ratios: build/bench.md (BENCH_FLAGS=... names cases)
	@$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]" \
		|| echo "not every peer installs here: the table names those that are missing"
	@$(PY) -m benchmarks $(BENCH_FLAGS)

models: setup compile $(MODELS)/.all ## run programs of other people's packages, recorded and converted: tests/models/results.md, docs/models.md, build/models (MODELS_FLAGS=... names packages)
	@$(MODELS)/bin/python -m tests.models --write --pictures $(BUILD)/models $(MODELS_FLAGS)

$(MODELS)/.all: tests/models/all.txt
$(MODELS)/.small $(MODELS)/.all: tests/models/small.txt tests/models/install.py constraints.txt | setup
	@echo "installing other people's packages into $(MODELS)"
	@$(PY) -m tests.models.install $(MODELS) $(@F:.%=%)
	@touch $@

# -------------------------------------------------------------------------------------------------- check

quick: setup ## check what differs from the last commit in half a minute: lint, types, the nearest tests (QUICK_FLAGS=... asks for more)
	@$(PY) -m tools.quick $(QUICK_FLAGS)

test: tools setup lint together unit minimum models-small more notebooks browser ## run every check, in the order of how fast it fails
	@echo "all checks passed"

tools: # says what the tests lack on this machine before anything is installed
	@python=$$(tools/find_python.sh) || exit 1; "$$python" tools/check_tools.py

lint: setup ## ruff, and the direction of imports
	$(call step,ruff,$(PY) -m ruff check --quiet . && $(PY) -m ruff format --check --quiet .)
	$(call step,imports,$(VENV)/bin/lint-imports --no-logo)

types: setup ## mypy --strict
	$(call step,types,$(PY) -m mypy)

# Each of these keeps one processor busy: some check, and some install what later targets need.
together: setup
	@$(MAKE) --no-print-directory -j $(JOBS) TOGETHER=1 types frontend $(BUILD)/minimum/installed.txt $(MODELS)/.small $(MORE)/.installed

# A part of the tests marked `sampled` or `rotated` runs, half of what the marks say, and always the same:
# tests/sampling.py. A second run of the tests finds less, so it takes only some cases of an eighth of the test functions.
# `make whole` takes all cases, and changes one thing at a time.
unit: setup compile ## the tests that need no browser: on the compiled core; some on the plain one and as other processors run them
	$(call step,unit,NBGRAD_COMPILED=$(FIRST) $(UNIT) -m "not browser" --sampled --rarer 2)
	$(call step,unit (plain core and older processor),NBGRAD_COMPILED=0 $(OLDER) $(UNIT) -m $(AGAIN) $(SOME))
	$(call step,unit (AVX2 and two threads),$(AVX2) $(UNIT) -m $(AGAIN) $(SOME) $(KERNELS))

whole: tools setup compile ## the same with every case each time, the declared minima and the browser: more than an hour
	$(call step,unit,NBGRAD_COMPILED=$(FIRST) $(UNIT) -m "not browser")
	$(call step,unit (plain core),NBGRAD_COMPILED=0 $(UNIT) -m $(AGAIN))
	$(call step,unit (older processor),$(OLDER) $(UNIT) -m $(AGAIN))
	$(call step,unit (AVX2 and two threads),$(AVX2) $(UNIT) -m $(AGAIN))
	@$(MAKE) --no-print-directory minimum OLDEST=tests
	@$(MAKE) --no-print-directory notebooks TURNS=1
	@$(MAKE) --no-print-directory more MORE_TURNS=
	$(call step,browser,$(UNIT) -n $(WAITING) -m browser)

# nbval is for the notebooks, and takes seconds to import in every process. No test reads what pytest keeps of logging:
# to connect it with the forty loggers of torch takes a fifth of the time of a short test.
TESTS = -m pytest -q -p no:nbval -p no:logging --dist loadscope -n $(JOBS)
UNIT = $(PY) $(TESTS)
# Without a compiler the core is plain Python.
FIRST = $(shell [ -e $(COMPILED) ] && echo 1 || echo 0)
# The tests of sources, packages and pages have the same result each time: they run once.
AGAIN := "not browser and not once"
SOME := --functions 8 --sample 48
# The tests whose numbers depend on the kernels that a processor gets.
KERNELS := tests/core/test_rows.py tests/core/test_autocast.py tests/core/test_gemm.py tests/core/test_recurrent.py \
	tests/core/test_attention.py tests/core/test_convolution.py tests/core/test_pooling.py tests/core/test_linalg.py \
	tests/core/test_normalization.py tests/core/test_engine.py tests/nn/test_training.py tests/nn/test_blocks.py tests/optim
# torch, MKL and oneDNN without AVX: sums are then taken in another order. So a number that a test or a lesson shows would
# be different on the computer of a reader or a teacher.
OLDER := ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE ONEDNN_MAX_CPU_ISA=SSE41
AVX2 := ATEN_CPU_CAPABILITY=avx2 MKL_CBWR=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 OMP_NUM_THREADS=2

minimum: setup $(BUILD)/minimum/installed.txt ## the tests of what other packages do, with the oldest versions that pyproject.toml declares
	$(call step,declared minima,PYTHONPATH=$(BUILD)/minimum $(UNIT) -m $(AGAIN) $(OLDEST))

$(BUILD)/minimum/installed.txt: pyproject.toml tools/minimum.py | setup
	@$(PY) -m tools.minimum $(BUILD)/minimum
	@touch $@

OLDEST ?= --sample 12 tests/core/test_torch_functions.py tests/core/test_graph.py tests/test_export.py tests/test_reprs.py tests/test_magics.py \
	tests/widgets/test_describe.py tests/widgets/test_positions.py tests/widgets/test_svg.py tests/widgets/test_view.py

models-small: setup compile $(MODELS)/.small ## some small ones of those programs
	$(call step,models,$(MODELS)/bin/python -m tests.models --small --quick --jobs $(JOBS))

frontend: setup $(VIEW)/node_modules/.package-lock.json ## types of the TypeScript, and the bundle is that of the sources
	$(call step,front-end types,npm --prefix $(VIEW) run --silent check)
	$(call step,bundle freshness,$(PY) tools/check_bundle.py)

# npm writes this file last, so it is npm's own stamp.
$(VIEW)/node_modules/.package-lock.json: $(VIEW)/package.json $(VIEW)/package-lock.json
	$(call step,npm ci,npm ci --prefix $(VIEW) --silent)
	@touch $@

# A tqdm bar shows a time, which differs from run to run. The saved lessons hold no script.
STILL := TQDM_DISABLE=1 NBGRAD_SCRIPT=0

notebooks: setup ## run half of the lessons: the solutions, whose outputs have to be the saved ones; and one in TURNS of the student's copies
	$(call step,notebooks,$(STILL) $(COMPARED) $(call turn,notebooks/solutions,$(HALF)))
	$(call step,notebooks as an older processor computes,$(OLDER) $(STILL) $(COMPARED) $(call turn,notebooks/solutions,$(TURNS)))
	$(call step,notebooks without answers,$(STILL) $(UNANSWERED) $(call turn,notebooks,$(TURNS)))

NBVAL = $(PY) -m pytest -q --nbval-current-env --nbval-sanitize-with=tests/nbval.cfg --nbval-cell-timeout=60 \
	--dist loadfile -n $(JOBS)
COMPARED = $(NBVAL) --nbval
# A student's copy has no saved outputs to compare with, so the check is only that every cell runs.
UNANSWERED = $(NBVAL) --nbval-lax
# $(call turn,folder,number): one in so many of its notebooks. TURNS=1 takes all.
TURNS := 6
HALF = $(if $(filter 1,$(TURNS)),1,2)
turn = $$($(PY) -m tests.sampling $(2) $(1)/*.ipynb)

more: setup $(MORE)/.installed ## what needs packages of their own: the site with saved pictures, graded hand-ins, marimo, ipyparallel, accelerate, trainers, a hub (MORE_TURNS= runs all)
	$(call step,site and graders and marimo and engines and trainers and hub,$(MORE)/bin/python $(TESTS) -n $(WAITING) -m more $(MORE_TURNS) $(IN_MORE))

# These tests wait for kernels half of their time. Half of the test functions run.
MORE_TURNS ?= --sampled --functions 2
IN_MORE := tests/test_site.py tests/course/test_grading.py tests/test_marimo.py tests/test_engines.py \
	tests/nn/parallel/test_accelerate.py tests/integrations/test_trainers.py tests/test_hub_running.py

browser: setup ## the notebooks in JupyterLab and headless Chromium, half of the test functions, an eighth of the long ones; screenshots in build/screenshots
	$(call step,browser,$(UNIT) -n $(WAITING) -m browser --sampled --sample 8 --functions 2)

clean: ## remove what was built, but not .venv
	@rm -rf $(COMPILED) $(CORE)/*/*.so $(CORE)/*/*/*.so $(CORE)/*/*.pyd $(CORE)/*/*/*.pyd
	@rm -rf $(BUILD) dist *.egg-info $(VIEW)/node_modules .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
