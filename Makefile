# The habits of this project. `make test` and `make demo` need nothing but Python 3.11+ and make.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
UV     := $(shell command -v uv 2>/dev/null)

# Every command here starts many processes; each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup hooks demo test again check fmt faults spark simulate model soak bench lock typescript ui pictures reference walks report clean

help:
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## build the environment in .venv

$(STAMP): requirements.lock pyproject.toml
ifeq ($(UV),)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
else
	uv venv --quiet --allow-existing --python $(PYTHON) $(VENV)
	uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
endif
	@touch $(STAMP)

hooks: $(STAMP) ## check every commit: by pre-commit where it is installed, else by a hook that runs `make check`
ifneq ($(shell command -v pre-commit 2>/dev/null),)
	pre-commit install
else
	@hooks=$$(git rev-parse --git-path hooks) && mkdir -p "$$hooks" && \
	  printf '#!/bin/sh\nexec make check\n' > "$$hooks/pre-commit" && chmod +x "$$hooks/pre-commit" && \
	  echo "pre-commit is not installed; $$hooks/pre-commit runs make check"
endif

demo: $(STAMP) ## the main job on an example graph, which stays in demo.omni to be looked at
	rm -rf demo.omni
	$(BIN)/omnigraphdb demo demo.omni

test: $(STAMP) ## every test but the long soaks
	$(BIN)/python -m pytest -m "not soak" -n 2 --dist loadgroup --durations 30 --durations-min 5

again: $(STAMP) ## the tests that failed last, one after the other
	$(BIN)/python -m pytest -m "not soak" -n 0 --last-failed --last-failed-no-failures none

check: $(STAMP) ## format, lint, types, layers, and measures that may not grow
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/house.py --check tools/house_maxima.json

fmt: $(STAMP) ## rewrite the layout of the sources
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

faults: $(STAMP) ## the fault matrix alone
	$(BIN)/python -m pytest tests/faults -n 2 --dist loadgroup

spark: $(STAMP) ## everything on Spark, on a cluster of this machine too
	$(BIN)/python -m pytest -m spark tests/spark tests/substrate/test_spark.py --timeout 3600

simulate: $(STAMP) ## every order, fault and crash state that the default run tries, alone
	$(BIN)/python -m pytest tests/simulation -m "not soak" -n 2 --dist loadgroup

model: $(STAMP) ## check the models of the protocol, and that each guard is needed; needs npm
	$(BIN)/python -m pytest tests/simulation/test_model.py -n 2

soak: $(STAMP) ## the long runs; with PART=1/8 every eighth of them
	HYPOTHESIS_PROFILE=fresh SOAK_PART=$(PART) $(BIN)/python -m pytest -m soak --timeout 7200

bench: $(STAMP) ## every benchmark, ratios in one run
	@for file in bench/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

lock: ## pin what the environment needs, by hash and without addresses
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --group dev --extra spark --extra server --extra client --extra policy --extra mcp --extra analytics pyproject.toml requirements.build -o requirements.lock

typescript: $(STAMP) ## make and check the TypeScript client from the description of the server, and run its story
	clients/typescript/renew
	$(BIN)/python -m pytest tests/surfaces/test_typescript.py -n 0

ui: $(STAMP) ## build the explorer from ui/ with node and npm; the built page is committed
	cd ui && npm ci --no-audit --no-fund && npx svelte-check --threshold error && npx vite build
	$(BIN)/python -m tests.support.explorer_build

pictures: $(STAMP) ## take the pictures of the guide with a real browser
	EXPLORER_PICTURES=1 $(BIN)/python -m pytest tests/browser -m "not soak" -n 0

reference: $(STAMP) ## renew the tables of the reference that are made from the code
	$(BIN)/python -m tests.support.reference

walks: $(STAMP) ## renew the walks of the internals from real runs
	$(BIN)/python -m tests.support.walks

report: $(STAMP) ## sizes, import knots and the walk of a write, for reading
	$(BIN)/python -m tests.support.report
	$(BIN)/python tools/house.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
