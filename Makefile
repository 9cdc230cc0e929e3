# A fresh machine needs Python (3.11 or newer, with venv), make and the package index; its tests also Chromium, which
# they show pages to, and pdflatex, which sets their formulas.

PYTHON ?= python3
VENV := .venv
PEER := .venv-peer
TORCH := .venv-torch
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip --disable-pip-version-check install

# SymPy remembers 1000 results of each of its functions: thousands of programs in one process evict each other's
MANY_FORMULAS := SYMPY_CACHE_SIZE=20000

# Two test processes on two cores: each keeps to one thread, in BLAS and in compiled kernels.  Each takes files as they
# stand, half of them at first ("worksteal"): tests of one file share what it derives, and two processes would derive it twice
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1

# Arrays of up to 32 MB come from memory that a process keeps: a new mapping for each spends a tenth of the time of tests
# that draw networks on page faults
KEPT_MEMORY := MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=1073741824 MALLOC_ARENA_MAX=1

PYTEST := $(ONE_THREAD) $(KEPT_MEMORY) $(MANY_FORMULAS) $(RUN) -m pytest -n 2 --dist worksteal

# Compiled sources are kept, also where the environment says no: tests start some forty processes, and each would compile
# the package
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-long test-all test-torch lint lint-rules lint-layout lint-types format derivations calibrate fuzz attack worlds kills soak mutants particles paths bench bench-kernels bench-trainer bench-training browser tex site packages packages-lowest notebooks clean

help:  ## list what can be made
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):[^#]*## */  make \1\t/' | expand -t 22

demo: $(VENV)/.plot  ## derive, print, plot and check a program whose dot-ket matters; writes demo/
	$(RUN) -m tplimits.demo demo

test: $(VENV)/.dev browser tex  ## the tests that take a moment each: the package's, its docstrings', the documents'
	$(PYTEST) -m "not long"

test-long: $(VENV)/.dev browser tex  ## the other tests, which draw many networks or integrate for long
	$(PYTEST) -m long

test-all: $(VENV)/.dev browser tex  ## every test, long ones too
	$(PYTEST)

test-torch: $(TORCH)/.made  ## the import of PyTorch models, in an environment of its own (5 GB)
	$(ONE_THREAD) $(KEPT_MEMORY) $(TORCH)/bin/python -m pytest -n 2 --dist worksteal -p no:cacheprovider tests/torch tplimits/torch

lint: lint-rules lint-layout lint-types  ## ruff and mypy

lint-rules: $(VENV)/.dev
	$(RUN) -m ruff check --output-format concise .

lint-layout: $(VENV)/.dev
	$(RUN) -m ruff format --check --quiet .

lint-types: $(VENV)/.dev
	$(RUN) -m mypy

format: $(VENV)/.dev  ## let ruff sort the imports and lay out the code
	$(RUN) -m ruff check --select I --fix .
	$(RUN) -m ruff format .

derivations: $(VENV)/.dev  ## run every worked derivation, two at a time; each ends in a comparison and a check
	@ls derivations/[0-9]*.py | $(ONE_THREAD) xargs -P 2 -I {} sh -c \
		'found=0; told=$$($(RUN) {} 2>&1) || found=1; printf "== %s\n%s\n" {} "$$told"; exit $$found'

calibrate: $(VENV)/.dev  ## how often check rejects true limits and finds wrong ones, over 200 seeds
	$(ONE_THREAD) $(RUN) benchmarks/calibrate.py

N ?= 1000
START ?= 0
fuzz: $(VENV)/.dev  ## N random programs from seed START (REGIME=width|kernels|depth|training) against finite width; resumes
	$(ONE_THREAD) PYTHONPATH=tests/support $(RUN) -m fuzz --count $(N) --start $(START) $(if $(REGIME),--regime $(REGIME))

ATTACKS ?= 3000
attack: $(VENV)/.dev  ## ATTACKS hostile files, names, arguments and command lines from seed START; resumes
	$(ONE_THREAD) PYTHONPATH=tests/support $(RUN) -m attack --count $(ATTACKS) --start $(START)

worlds: $(VENV)/.dev  ## no home, a read-only one, another user's installation, full disks: the same numbers
	PYTHONPATH=. $(RUN) tests/support/worlds.py

kills: $(VENV)/.dev  ## signal 9 at 50 moments of a checkpoint, a recording, a compilation and Gram tiles: the same bits
	@rm -rf build/kills && mkdir -p build
	$(ONE_THREAD) PYTHONPATH=.:tests/support $(RUN) tests/support/kills.py build/kills/runs 0 50
	@mkdir -p build/kills/gram
	$(ONE_THREAD) PYTHONPATH=.:tests/support $(RUN) tests/support/killing.py build/kills/gram 0 50

soak: $(VENV)/.dev  ## memory of one process over 5000 different programs, derived and evaluated
	$(ONE_THREAD) PYTHONPATH=. $(RUN) tests/support/soak.py 5000 500

mutants: $(VENV)/.dev  ## 300 planted bugs, and whether the tests that run through them notice; resumes
	$(ONE_THREAD) $(RUN) tests/support/mutants.py map
	$(ONE_THREAD) $(RUN) tests/support/mutants.py run

particles: $(VENV)/.dev  ## how fast errors of particles fall, whether stated ones are honest, how quiet white ones are
	$(ONE_THREAD) $(RUN) benchmarks/particles.py

paths: $(VENV)/.dev  ## paths of the shaped-attention SDE beside the usual NumPy routes
	$(ONE_THREAD) $(RUN) benchmarks/covariance.py

bench: $(VENV)/.dev  ## times of import, derivation and evaluation
	$(ONE_THREAD) $(RUN) -m pytest benchmarks/test_speed.py --benchmark-only -p no:xdist

bench-trainer: $(VENV)/.dev  ## compiled training beside loops fused by hand
	$(ONE_THREAD) $(RUN) benchmarks/trainer.py

bench-training: $(VENV)/.dev  ## CPU time of training limits beside the average of finite networks, and its growth
	$(ONE_THREAD) $(RUN) benchmarks/training.py

bench-kernels: $(VENV)/.dev $(PEER)/.made  ## NNGP and NTK beside Neural Tangents, which gets an environment of its own; resumes; tables of docs/
	$(ONE_THREAD) $(RUN) benchmarks/kernels.py --peer $(PEER)/bin/python; found=$$?; \
		$(ONE_THREAD) $(RUN) benchmarks/large_kernels.py && $(RUN) benchmarks/kernel_pages.py && exit $$found

BROWSERS := chromium chromium-browser google-chrome-stable google-chrome chrome
browser:  ## install Debian's Chromium, unless there is a browser that tests can show pages to
	@for name in $(BROWSERS); do command -v $$name >/dev/null && exit 0; done; \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null \
		|| { echo "tests show pages to Chromium: install it"; exit 1; }

tex:  ## install Debian's pdflatex with amsmath, unless there is one, for the tests that set formulas
	@command -v pdflatex >/dev/null && exit 0; \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends texlive-latex-recommended; } >/dev/null \
		|| { echo "tests set formulas with pdflatex: install texlive-latex-recommended"; exit 1; }

packages: tex  ## wheel and sdist, twice the same; in fresh environments of python3.11 to 3.13, with the first steps run
	.ci/packages

packages-lowest: tex  ## the same with the oldest dependencies that are allowed
	.ci/packages lowest

notebooks: $(VENV)/.dev  ## run docs/notebooks and keep what they show
	$(RUN) docs/notebooks/run.py

site: $(VENV)/.dev  ## the documents as pages in build/site: no server, nothing loaded, every link checked
	$(RUN) docs/site/build.py build/site

clean:  ## remove the environment and what the commands above wrote
	rm -rf $(VENV) $(PEER) $(TORCH) demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks

$(RUN):
	$(PYTHON) -m venv $(VENV)

# stamps: the environment is made again only when what it installs has changed
$(VENV)/.plot: pyproject.toml | $(RUN)
	$(PIP) -e '.[plot]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(RUN)
	$(PIP) -e '.[dev]'
	touch $@ $(VENV)/.plot

$(TORCH)/.made: pyproject.toml
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip --disable-pip-version-check install -e '.[torch-dev]'
	touch $@

$(PEER)/.made: benchmarks/requirements_peer.txt
	$(PYTHON) -m venv $(PEER)
	$(PEER)/bin/python -m pip --disable-pip-version-check install -r $<
	touch $@
