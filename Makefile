# A target makes the environment that it needs the first time, in the versions of the lock: $(VENV) for development, and for the demo a
# small one with nothing but what it runs. Nothing else has to be installed beforehand than Python >= 3.11, make and git. PYTHON, VENV
# and DEMO_VENV can be given on the command line.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEMO_VENV ?= .venv-demo
SOURCES := dds_core adapters/dds_adapters migrations/dds_migrations cli/dds_commands lab/dds_lab lab/dds_whatif lab/dds_lab_commands
CHECKED := $(SOURCES) tests benchmarks $(wildcard examples)
DEMO   := demo.out
WORKERS ?= auto
# Tests that go by the clock mostly wait: more of them at a time than there are cores.
WAITING ?= 6
# One Python for all: what this shell has set must not leak into tests or benchmarks. Without bytecode every start of Python would
# compile all it imports, and tests start many.
unexport PYTHONPATH PYTHONSTARTUP PYTHONWARNINGS PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo demo-nodes test test-all soak e2e bench study docs lint format fingerprint lock image chart clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

INSTALL = $(@D)/bin/python -m pip install --quiet --disable-pip-version-check
define EMPTY_VENV
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
  echo "make: $(PYTHON) is not Python 3.11 or newer: install one, or name it: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
@$(PYTHON) -m venv --clear $(@D) || { \
  echo "make: $(PYTHON) cannot make a virtual environment: install its venv module (python3-venv on Debian)" >&2; exit 1; }
@echo "installing the locked versions into $(@D)"
endef

$(READY): requirements-dev.lock pyproject.toml lab/pyproject.toml
	$(EMPTY_VENV)
	@$(INSTALL) --require-hashes --requirement requirements-dev.lock
	@$(INSTALL) --no-deps --no-build-isolation --editable . --editable ./lab
	@touch $@

$(DEMO_VENV)/.ready: requirements-dev.lock pyproject.toml lab/pyproject.toml
	$(EMPTY_VENV)
	@cut -d' ' -f1 requirements-dev.lock > $(@D)/versions.txt # pip hashes nothing that is editable
	@$(INSTALL) --constraint $(@D)/versions.txt hatchling editables
	@$(INSTALL) --constraint $(@D)/versions.txt --no-build-isolation --editable . --editable ./lab
	@touch $@

demo: $(DEMO_VENV)/.ready ## a claim served beside a simulated cluster: attach, hand-over, bound, released, detached; then verified
	@$(DEMO_VENV)/bin/python examples/demo/run.py $(DEMO)

demo-nodes: $(DEMO_VENV)/.ready ## device or server? beside a simulated Cluster Autoscaler, on virtual time
	@$(DEMO_VENV)/bin/python examples/demo/nodes.py

lint: $(READY) ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict $(CHECKED)

format: $(READY) ## let ruff sort imports and lay out the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

IMPORTS := tests/project/test_import_rules.py
RUN := $(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m "not full and not soak"

# The import rules run first: they say most in one line. Coverage is measured where it is asserted: of dds_core, by its own tests.
test: lint ## lint, types, import rules, every test that need not wait (docs/testing.md)
	$(BIN)/pytest -q $(IMPORTS)
	$(RUN) --cov --cov-report=term:skip-covered tests/core
	$(RUN) --ignore tests/core --ignore $(IMPORTS)

test-all: test ## and what goes by the clock, kills processes, draws many examples
	$(RUN) -n $(WAITING) --dist loadgroup -m "full and not soak" --ignore tests/realtime/program tests/realtime tests/browser
	$(RUN) -m "full and not soak" tests/realtime/program
	$(RUN) -m "(full or drawn) and not soak" --hypothesis-profile large --ignore tests/realtime --ignore tests/browser

soak: $(READY) ## the tests that take longer than `make test-all` may
	$(BIN)/pytest -m soak --hypothesis-profile anew --timeout 7200 --durations 20 tests

bench: $(READY) ## measure side by side with other libraries; writes docs/performance.md
	$(BIN)/python -m benchmarks

study: $(READY) ## the tables of docs/study.md, from the traces in the folder TRACES
	$(BIN)/python -m benchmarks.study $(TRACES)

e2e: $(READY) ## the lab and dds on a real control plane, from the binaries in the folder KUBE_ASSETS (docs/testing.md)
	$(BIN)/pytest -q -m "" tests/e2e $(E2E)

fingerprint: $(READY) ## say anew which code decides, after a change to rules or folds
	@$(BIN)/python -m tests.core.purity.fingerprint

docs: $(READY) ## the docs as a site, site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# pip finds the versions, uv their hashes. One line a package; those of the image come first, so that it is the top of the file.
HASHED = .venv-lock/uv/bin/uv pip compile --quiet --python .venv-lock/bin/python --generate-hashes --no-header --no-annotate
LINES := sed -e ':a' -e '/\\$$/{' -e N -e 's/ *\\\n */ /' -e ba -e '}'
lock: ## make requirements-dev.lock anew from both pyproject.toml
	@rm -rf .venv-lock && $(PYTHON) -m venv .venv-lock && $(PYTHON) -m venv .venv-lock/uv
	@.venv-lock/bin/python -m pip install --quiet --upgrade pip
	@.venv-lock/uv/bin/python -m pip install --quiet uv
	@.venv-lock/bin/python -m pip install --quiet --editable . --editable ./lab --group dev
	@.venv-lock/bin/python -m pip freeze --all --exclude pip --exclude-editable > .venv-lock/versions.txt
	@printf 'hatchling\neditables\n' | $(HASHED) pyproject.toml - --extra autoscaler --extra postgres -c .venv-lock/versions.txt \
	  > .venv-lock/image.txt && $(LINES) -i .venv-lock/image.txt
	@$(HASHED) --no-deps .venv-lock/versions.txt > .venv-lock/all.txt && $(LINES) -i .venv-lock/all.txt
	@{ echo "# Exact versions with the hashes of their files, made by 'make lock' (Python 3.11, Linux). First what the image has:"; \
	   cat .venv-lock/image.txt; echo "# For development alone:"; \
	   grep -vxFf .venv-lock/image.txt .venv-lock/all.txt; } > requirements-dev.lock
	@rm -rf .venv-lock

# Image and chart for the registry that the caller names: make image chart REGISTRY=registry.example/team
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' dds_core/__init__.py)
BUILDER ?= docker buildx build --sbom=true --provenance=mode=max --push
# The image that ours is based on; its digest is looked up if docker buildx is there, else give PYTHON_IMAGE=python:TAG@sha256:...
PYTHON_TAG := $(shell sed -n 's/^ARG PYTHON=//p' deploy/Containerfile)
PYTHON_IMAGE ?= $(PYTHON_TAG)@$(shell docker buildx imagetools inspect $(PYTHON_TAG) --format '{{.Manifest.Digest}}' 2>/dev/null)
# The repository that the image and the chart are made from; optional.
SOURCE ?=

image: ## build and push the image to REGISTRY, with SBOM and provenance; BUILDER='podman build' builds without
	@test -n "$(REGISTRY)" || { echo "make: name a registry: make image REGISTRY=registry.example/team" >&2; exit 1; }
	@case "$(PYTHON_IMAGE)" in *@sha256:?*) ;; *) \
	  echo "make: the digest of $(PYTHON_TAG) cannot be looked up: give PYTHON_IMAGE=$(PYTHON_TAG)@sha256:..." >&2; exit 1 ;; esac
	$(BUILDER) --file deploy/Containerfile --build-arg PYTHON=$(PYTHON_IMAGE) --build-arg SOURCE=$(SOURCE) \
	  --tag $(REGISTRY)/dds:$(VERSION) .

chart: $(READY) ## package the chart for REGISTRY into dist/; with PUSH=1 push it to oci://REGISTRY
	@test -n "$(REGISTRY)" || { echo "make: name a registry: make chart REGISTRY=registry.example/team" >&2; exit 1; }
	@$(BIN)/python deploy/package.py "$(REGISTRY)" $(VERSION) $(if $(SOURCE),--source "$(SOURCE)") $(if $(PUSH),--push)

clean: ## remove the environments and everything that was made
	rm -rf $(VENV) $(DEMO_VENV) $(DEMO) bench.out build dist site .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
