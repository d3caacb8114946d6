# Every command of the project. `make` alone explains them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
CHECKED := operator tests e2e tools

# `make images` (elsewhere than in the lab): the tool, the name, and the Python of the Containerfile's BASE.
CONTAINER_TOOL ?= $(firstword $(shell command -v podman docker buildah) podman)
IMAGE ?= nodeupgrade:dev
IMAGE_PYTHON ?= 3.13
MACHINES ?= $(shell uname -m)

# `make bench` and `make e2e-faults`: the container runtime of the lab's nodes.
RUNTIME ?= containerd

# `make release`: the image without a tag, where the files will be, and for which machines.
REPOSITORY ?= registry.example.com/nodeupgrade
TAG ?= $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
RELEASE_URL ?= https://example.com/nodeupgrade/v$(TAG)
PLATFORMS ?= linux/amd64,linux/arm64

# Where this is set, every process would compile every module anew: half of the time until the first test.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv setup lint lint-imports test test-fast test-whole e2e e2e-slow soak e2e-faults e2e-preflight e2e-layouts e2e-kubeadm e2e-machines e2e-conformance demo tour bench images wheels checks crds history oracle proto proto-check lock clean manifests release chart measured metrics rbac sign publish version notes pictures bench-fleet model

help: ## Explain the commands
	@printf 'nodeupgrade: upgrade kubelets in place, without restarting a single container\n\n'
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nStart with `make demo` or `make test`: both set up what they need, on Debian or Ubuntu, as root.\n'
	@printf 'Caches live in $${NODEUPGRADE_LAB_CACHE:-/var/cache/nodeupgrade-lab} and may be deleted at any time.\n'

# --- set-up ------------------------------------------------------------------------------------------------------

venv: .venv/.complete ## Create .venv with exactly the locked tools

.venv/.complete: requirements-dev.lock pyproject.toml tools/make-venv
	@tools/make-venv .venv

setup: venv ## Install what this machine lacks for the lab (as root), or say what is missing
	@$(BIN)/python -m e2e.lab doctor $(if $(filter 0,$(shell id -u)),--install)

# --- checks ------------------------------------------------------------------------------------------------------

lint: venv lint-imports proto-check ## Check style, types, the architecture's contracts and generated code
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/mypy $(CHECKED)

lint-imports: venv
	$(BIN)/lint-imports

test-fast: venv ## Run the tests that need neither root nor a node (seven minutes on two idle cores)
	$(PYTEST) -n auto --dist=worksteal -m "not real and not e2e and not slow" tests

test-whole: venv ## Try every interruption, failure, power cut and edit, of which the other tests try a part
	NODEUPGRADE_WHOLE=1 $(PYTEST) -n auto --dist=worksteal --timeout=1800 -m "not e2e and not slow" tests/crash tests/scenario tests/contract/kube

test: venv ## Run everything this machine can run; says what it skips and why
	@$(BIN)/python -m tools.run_tests

e2e: setup ## Run the end-to-end tests on real nodes (root; builds Kubernetes once)
	$(PYTEST) -v -m "e2e and not slow" --durations=15 e2e

e2e-slow: setup ## Run the end-to-end tests that take longest, which all others leave out (as root)
	$(PYTEST) -v -m "e2e and slow" --durations=15 e2e

e2e-faults: setup ## Break upgrades on a real node in every way that is known, and print how each ended (some six hours)
	@$(BIN)/python -m e2e.faults --runtime $(RUNTIME)

soak: setup ## Swap kubelets on real nodes drawn at random until something is not as it must be (SOAK="--seed 7 --nodes 3")
	@$(BIN)/python -m e2e.soak $(SOAK)

e2e-preflight: setup ## Make every hazard that preflight knows on a real node, and print what it says (an hour)
	@$(BIN)/python -m e2e.preflight

e2e-layouts: setup ## Upgrade nodes as clouds and installers lay them out, there and back twice, and print how each ended (an hour)
	@$(BIN)/python -m e2e.layouts

e2e-kubeadm: setup ## Upgrade clusters that kubeadm made, beside what else people do with it, and print how each ended (an hour)
	@$(BIN)/python -m e2e.kubeadm

e2e-machines: venv ## Upgrade virtual machines, cut their power, reboot them, change their clocks, and print how each ended (hours)
	@$(BIN)/python -m e2e.lab doctor --machines $(if $(filter 0,$(shell id -u)),--install)
	@$(BIN)/python -m e2e.machines

e2e-conformance: setup ## Run upstream's NodeConformance on a node that was upgraded in place, beside a fresh one (an hour)
	@$(BIN)/python -m e2e.conformance

demo: setup ## Show it live: a naive swap restarts everything, ours restarts nothing
	@$(BIN)/python -m e2e.demo

tour: venv ## Show planner, engine and command line over forty simulated nodes, in two minutes (no root, nothing built)
	@$(BIN)/python -m tools.tour

model: venv ## Search both small worlds of the model for orders of steps and events that break a rule, to the end (minutes)
	@$(BIN)/python -m tests.model --world one --disturbances $(DISTURBANCES) --all
	@$(BIN)/python -m tests.model --world two --disturbances $(DISTURBANCES) --all
DISTURBANCES ?= 1
model: export PYTHONPATH = operator:.

bench: setup ## Measure the start of the command line, hashing, and how long a node is without a kubelet, against the floor
	@$(BIN)/python bench/first_look.py
	@$(BIN)/python bench/hash_speed.py
	@$(BIN)/python bench/shield_cost.py
	@$(BIN)/python bench/preflight_cost.py
	@$(BIN)/python -m e2e.bench --runtime $(RUNTIME)

bench-fleet: setup ## Measure a rollout over up to 5,000 nodes on a real API server, beside the ideal (hours; less: FLEET="--nodes 500")
	@$(BIN)/python -m e2e.bench_fleet $(FLEET)

# --- artefacts ---------------------------------------------------------------------------------------------------

images: wheels ## Build the container image (IMAGE=, CONTAINER_TOOL=, BASE=, IMAGE_PYTHON=)
	$(CONTAINER_TOOL) build --tag $(IMAGE) $(if $(BASE),--build-arg=BASE=$(BASE)) --file Containerfile .

wheels: venv ## Collect the image's packages into wheels/, hashes checked
	rm -rf wheels
	$(BIN)/python -m tools.wheels --python $(IMAGE_PYTHON) $(addprefix --machine=,$(MACHINES)) wheels

manifests: venv ## Write install.yaml and cleanup.yaml into dist/ (REPOSITORY=, TAG= or DIGEST=)
	@$(BIN)/python -m tools.release.manifests --image $(REPOSITORY) --tag $(TAG) $(if $(DIGEST),--digest $(DIGEST)) dist

release: MACHINES = x86_64 aarch64
release: wheels ## Make a release in dist/: image (BASE=…@sha256:…), install.yaml, chart, plugin, SBOM, checksums (RELEASE_FLAGS=)
	rm -rf dist
	@$(BIN)/python -m tools.release --image $(REPOSITORY) --url $(RELEASE_URL) $(if $(SOURCE),--source $(SOURCE)/) --platforms $(PLATFORMS) --tool $(CONTAINER_TOOL) $(RELEASE_FLAGS) dist

# What only a release does. It needs skopeo and cosign, the key (COSIGN_KEY), and rights to push; it builds nothing and
# runs nothing of what was built.
sign:
	python3 -m tools.release.signing dist

publish:
	@printf '%s' "$$REGISTRY_PASSWORD" | skopeo login --username "$$REGISTRY_USER" --password-stdin $(firstword $(subst /, ,$(REPOSITORY)))
	skopeo copy --all --preserve-digests --digestfile=image-digest oci-archive:dist/nodeupgrade-$(TAG)-image.tar docker://$(REPOSITORY):$(TAG)
	$(if $(COSIGN_KEY),cosign sign --yes --key $(COSIGN_KEY) $(REPOSITORY)@$$(cat image-digest),@echo 'SKIPPED  signature of the image: COSIGN_KEY is not set')
	rm -f image-digest

version:
	@echo $(TAG)

# The section of TAG in CHANGELOG.md; links lead into SOURCE, if it is given.
notes:
	@awk -v tag='$(TAG)' '/^## / {on = $$2 == tag; next} on {print; found = 1} END {exit !found}' CHANGELOG.md | sed 's|](docs/|]($(if $(SOURCE),$(SOURCE)/)docs/|g'

chart: venv ## Generate the Helm chart from the manifests
	$(BIN)/python -m tools.generate_chart

measured: venv ## Generate docs/measured/README.md and its plots from the data beside it
	$(BIN)/python -m tools.generate_measured

metrics: venv ## Generate docs/generated/metrics.md and the Grafana dashboard
	$(BIN)/python -m tools.generate_metrics
	$(BIN)/python -m tools.generate_dashboard

rbac: venv ## Generate docs/generated/rbac.md from the roles of the manifests and the reasons beside their rules
	$(BIN)/python -m tools.generate_rbac

oracle: venv ## Ask a Kubernetes release itself what its kubelet computes (VERSION=1.38.0; builds it, minutes)
	@$(BIN)/python -m tools.oracle $(VERSION)

proto: venv ## Generate the committed protobuf modules from their .proto files
	$(BIN)/python tools/generate_protobuf.py

crds: venv ## Generate the CustomResourceDefinitions from operator/nodeupgrade/api
	$(BIN)/python -m tools.generate_crds

checks: venv ## Generate docs/generated/preflight.md from the checks
	$(BIN)/python -m tools.generate_checks

pictures: venv ## Record the pictures of README.md from the tour's cluster
	@$(BIN)/python -m tools.pictures

history: venv ## Generate docs/generated/kubelet-history.md from the tables of what changed between kubelets
	$(BIN)/python -m tools.generate_history

proto-check: venv
	$(BIN)/python tools/generate_protobuf.py --check

lock: venv ## Resolve pyproject.toml into the lock files (UPGRADE=--upgrade for newer versions)
	$(BIN)/uv pip compile pyproject.toml --extra operator $(RESOLVE) -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml --constraint requirements.lock $(RESOLVE) -o requirements-cli.lock
	$(BIN)/uv pip compile pyproject.toml --extra operator --group dev $(RESOLVE) -o requirements-dev.lock
RESOLVE = --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet $(UPGRADE)

clean: ## Remove what the commands above left in the checkout (not the lab's cache)
	rm -rf build dist wheels .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find $(CHECKED) -name __pycache__ -type d -prune -exec rm -rf {} +
