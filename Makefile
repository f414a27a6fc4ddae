# Every target sets up what it needs in $(VENV); `make demo` and `make test` work on a fresh machine.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
INSTALL := $(BIN)/python -m pip install --quiet

.PHONY: demo test test-slow test-gpu lint docs bench setup clean

demo: $(VENV)/core.stamp  ## train the [0,1] and [-1,1] twins on parity, print the table, write the plot
	$(BIN)/eigentrack demo

test: $(VENV)/dev.stamp  ## all tests but the slow ones
	$(BIN)/python -m pytest --numprocesses 2

test-slow: $(VENV)/slow.stamp  ## what takes minutes: the demo on five seeds, every preset at smoke, thousands of languages, Ray, lm-eval
	$(BIN)/python -m pytest -m slow --numprocesses 2

test-gpu: $(VENV)/dev.stamp  ## the kernels, the layers and the captured steps on a GPU, over all cores
	$(BIN)/python tests/on_gpu.py

lint: docs  ## format, lint, types, the direction of imports, and the documentation
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/dev.stamp  ## the documentation into build/site, with warnings as errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

bench: $(VENV)/dev.stamp  ## ratios against the peers, on this CPU
	$(BIN)/python benchmarks/cpu.py
	$(BIN)/python benchmarks/tasks.py

setup: $(VENV)/dev.stamp  ## everything for development, with the commit hooks
	$(BIN)/pre-commit install

$(VENV)/core.stamp: pyproject.toml constraints.txt
	@echo "setting up $(VENV) (once, about a minute) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(INSTALL) --editable .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/core.stamp
	@echo "adding the development tools and the peers to compare with ..."
	@$(INSTALL) --editable '.[dev]'
	@$(INSTALL) --no-deps fla-core==0.6.0
	@touch $@

$(VENV)/slow.stamp: $(VENV)/dev.stamp
	@$(INSTALL) --editable '.[cluster,eval]'
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
