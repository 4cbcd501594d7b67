# Everything that one does with this project. `make` alone explains itself.
#
#   PYTHON=python3.11   the interpreter that .venv is made from
#   VENV=.venv          where the environment lies
#   PYTEST_ARGS=...     more arguments for pytest
#   JOBS=2              how many processes run the tests
#   BROWSER=no          leave the browser tests out
#   TORCH_TESTS=...     files or folders of PyTorch's test/dynamo, for test-stand-in

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
JOBS ?= 2
BROWSER ?= yes
TORCH_TESTS ?=
STAND_IN_ARGS ?=

BIN := $(VENV)/bin
# The constraints name the tested torch; without them pip would take its newest release, several GB on Linux.
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
INSTALLED := $(VENV)/.installed
NATIVE := $(wildcard csrc/*.c csrc/*.cpp csrc/*.h)
PYTHON_FILES := ipy_dynwrap tests tools benchmarks

# Tests use what the machine has: no hub, no thread pool that survives a fork, no pip notice. Their models are small: more
# threads than one only wait for each other.
export OMP_NUM_THREADS := 1
export HF_HUB_OFFLINE := 1
export TRANSFORMERS_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false
export PIP_DISABLE_PIP_VERSION_CHECK := 1

ifeq ($(BROWSER),no)
  browser_ignore := --ignore=tests/browser
else
  browser := browser
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-native test-random test-stand-in test-js browser lint format bench bench-inspector wheel clean

help: ## Say what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-13s %s\n", $$1, $$2 }'

# One stamp for the environment and the build: the second `make test` starts at once.
$(INSTALLED): pyproject.toml constraints.txt CMakeLists.txt $(NATIVE)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) and building (some minutes the first time)"
	@$(PIP) install --upgrade pip
	@$(PIP) install -c constraints.txt --editable '.[test,dev]'
	@touch $@

demo: $(INSTALLED) ## Run notebooks/quickstart.ipynb in a real kernel; print the cache table and where the HTML report lies
	@$(BIN)/python tools/demo.py

test: $(INSTALLED) $(browser) ## Run every test, those in a browser included
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(browser_ignore) $(PYTEST_ARGS)

test-native: $(INSTALLED) ## Run the tests of the frame hook alone
	$(BIN)/python -m pytest tests/native $(PYTEST_ARGS)

test-random: $(INSTALLED) ## Compare random programs with eager, and count their compilations, for hours
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest tests/random --timeout=0 $(PYTEST_ARGS)

test-stand-in: $(INSTALLED) ## Run Dynamo's own tests, TORCH_TESTS=FOLDER, with torch.compile and with ours in its place
	@test -n "$(TORCH_TESTS)" || { echo "Say where they are: TORCH_TESTS=pytorch/test/dynamo, of the installed release."; exit 1; }
	@$(BIN)/python tools/stand_in.py $(STAND_IN_ARGS) $(TORCH_TESTS)

test-js: $(INSTALLED) ## Lint and test the widget's JavaScript, where there is npm
	@$(BIN)/python tools/test_js.py

browser: $(INSTALLED)
	@$(BIN)/python tools/browser.py

lint: $(INSTALLED) ## Check style and types; change nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(NATIVE)

format: $(INSTALLED) ## Format Python and C
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(NATIVE)

bench: $(INSTALLED) ## Measure what a routed call costs beside torch.compile's
	@$(BIN)/python benchmarks/routed_call.py

bench-inspector: $(INSTALLED) $(browser) ## Measure the inspector with 1,000 wrappers in a browser
	@$(BIN)/python benchmarks/inspector.py

wheel: $(INSTALLED) ## Build the sdist, a wheel from it, and try the wheel in an environment of its own
	@rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python tools/try_wheel.py dist

clean: ## Remove what was built, the environment included
	rm -rf $(VENV) build dist reports .mypy_cache .pytest_cache .ruff_cache
	find ipy_dynwrap -name '*.so' -delete
	find . -name __pycache__ -prune -exec rm -rf {} +
