# "make" alone lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
TOOL := go tool -modfile=tools/go.mod

# Packages and benchmarks to run, and how often: make bench PKG=./config/... BENCH=Hash BENCHTIME=1s
PKG ?= ./...
BENCH ?= .
BENCHTIME ?= 100x

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/nodemend, its part that runs on nodes, bin/nodemend-agent, and the plugin bin/kubectl-nodemend
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/nodemend ./cmd/nodemend
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -tags agent -o bin/nodemend-agent ./cmd/nodemend
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/kubectl-nodemend ./cmd/kubectl-nodemend

.PHONY: controlplane
controlplane: ## download the Kubernetes that tests run against, or build it (once, ten minutes or more)
	@test/controlplane/build

.PHONY: demo
demo: ## show nodes healed, repaired and fenced, in a local control plane; KEEP=1 leaves it running
	@echo "building nodemend"
	@$(MAKE) --no-print-directory --silent build
	@test/controlplane/build --without-kubelet
	@CGO_ENABLED=0 go build -trimpath -o bin/demo ./test/demo
	@bin/demo $(if $(KEEP),--keep)

.PHONY: recording
recording: ## run "make demo" and write the picture of it that README.md shows, docs/demo.svg
	go run ./test/recording -o docs/demo.svg -title "make demo: a node heals itself" -prompt "make demo" -- $(MAKE) --no-print-directory --silent demo

.PHONY: interop
interop: ## build the programs of others that Nodemend is tested beside, Cluster API and two Karpenters (once, some minutes)
	@test/interop/build

.PHONY: oldest
oldest: controlplane ## build the oldest Kubernetes that docs/support.md claims (once, ten minutes or more), for make test KUBERNETES=oldest
	@test/oldest/build

# Which tiers of tests to run, and against which Kubernetes: make test TIER=api KUBERNETES=oldest
TIER ?= unit,api,host
KUBERNETES ?= newest
ifeq (,$(filter newest oldest,$(KUBERNETES)))
$(error KUBERNETES is "$(KUBERNETES)", want newest or oldest; for any other set KUBEBUILDER_ASSETS to the directory of its programs)
endif

# What compares Kubernetes' packages, of the newest, with an API server word by word.
ofTheNewest := /(config/offline|test/apiserver)$$

INTEROP = $(if $(and $(findstring host,$(TIER)),$(filter ./... ./test/... ./test/interop%,$(PKG))),interop)

.PHONY: test
test: $(subst newest,controlplane,$(KUBERNETES)) $(INTEROP) ## run all tests in tiers: unit, api (a real API server), host (real programs of this machine); TIER, PKG and KUBERNETES choose
ifeq (oldest,$(KUBERNETES))
	KUBEBUILDER_ASSETS=$(CURDIR)/bin/oldest go run ./test/suite -tier $(TIER) $$(go list -tags integration $(PKG) | grep -vE '$(ofTheNewest)')
else
	go run ./test/suite -tier $(TIER) $(PKG)
endif

# Which end-to-end tests to run: make e2e RUN=Hardware E2E=./test/e2e/machine
# They mostly wait, so those that take longest go on beside each other.
E2E ?= ./test/e2e/machine ./test/e2e/node ./test/vm/... ./test/node/...
RUN ?= .

# The external-attacher and a CSI driver are of another module: the product needs neither.
.PHONY: csi
csi: # what attaches volumes in make e2e; a first build takes minutes
	@echo "building the external-attacher"
	@mkdir -p bin/csi
	@cd test/csi && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o ../../bin/csi/ . github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher

.PHONY: e2e
e2e: controlplane build csi ## break real nodes and machines and see them healed, as root on Debian; RUN and E2E choose
	go test -json -tags e2e -count 1 -p 2 -parallel 4 -timeout 30m -run "$(RUN)" $(E2E) | go run ./test/e2e/report

.PHONY: quiet
quiet: controlplane build ## watch a healthy node and a healthy machine for FOR=1h: the detector may raise no false alarm; what it says is kept in bin/quiet
	mkdir -p bin/quiet
	go test -v -tags e2e -count 1 -timeout 0 -run NoFalseAlarm ./test/e2e/node ./test/e2e/machine -quiet $(or $(FOR),1h) -quiet.out $(CURDIR)/bin/quiet

.PHONY: unit
unit: ## run the tests that need nothing but Go
	go test -race $(PKG)

.PHONY: bench
bench: controlplane ## run the benchmarks; BENCH=<regexp>, PKG=<packages> and BENCHTIME=<time or number>x choose
	go test -tags integration -run "^$$" -bench "$(BENCH)" -benchtime $(BENCHTIME) -benchmem $(PKG) | grep -v "no test files"

# How many runners are killed, and which moments: make kills KILLS=500 KILLSEED=1
KILLS ?= 500
KILLSEED ?= 0

.PHONY: kills
kills: controlplane ## kill the runner at random moments on a real systemd: each action is executed at most once, and ends
	go test -tags integration -race -v -count 1 -timeout 2h -run '^TestARunnerThatIsKilledAtRandom' ./runner -args -kills $(KILLS) -kill-seed $(KILLSEED)

# How long each fuzz target runs.
FUZZTIME ?= 20s

.PHONY: fuzz
fuzz: ## fuzz every parser for FUZZTIME each; what fails is kept in testdata/fuzz
	@test/fuzz $(FUZZTIME)

# Which runs of the simulation: so many seeds from the first one, or for so long.
# SEED tells the history of one, CHOICES that of a shrunk one.
FIRST ?= 1
SEEDS ?= $(if $(FOR),,2000)
SIMFLAGS = $(if $(SEED),-sim.seed $(SEED),$(if $(CHOICES),-sim.choices $(CHOICES),-sim.first $(FIRST) \
	$(if $(SEEDS),-sim.seeds $(SEEDS)) $(if $(FOR),-sim.for $(FOR)) -sim.out bin/sim))

.PHONY: sim
sim: ## search SEEDS seeds of the simulation from FIRST, or FOR=3m, for what breaks; SEED=n or CHOICES=file tells one run
	@go test -c -ldflags "-s -w" -o bin/sim.test ./test/sim
	@bin/sim.test -test.run '^TestSearch$$' $(SIMFLAGS)

# Which mutants, and how many seeds one may survive: make mutants MUTANTS=ledger SURVIVE=1000
MUTANTS ?= .
SURVIVE ?= 20000

.PHONY: mutants
mutants: ## break the product on purpose, one place after the other, and show how many seeds "make sim" takes to notice
	@go run ./test/sim/mutants -run "$(MUTANTS)" -seeds $(SURVIVE) -first $(FIRST)

.PHONY: generate
generate: ## write deepcopy functions, CRDs and docs/api.md from config/v1alpha1, and deploy/install.yaml from the chart
	$(TOOL) controller-gen object crd paths=./config/... output:crd:artifacts:config=deploy/chart/crds
	go run ./internal/crd/strict deploy/chart/crds/*.yaml
	go tool -modfile=tools/docs/go.mod crd-ref-docs --log-level=ERROR --source-path=config/v1alpha1 --config=tools/docs/config.yaml --renderer=markdown --output-path=docs/api.md
	tools/release/render deploy/chart >deploy/install.yaml

# The name of the image, without its tag.
IMAGE ?= ghcr.io/nodemend/nodemend

.PHONY: image
image: ## write the container image for amd64 and arm64 as an OCI archive into dist/, without a container engine
	@VERSION=$(VERSION) IMAGE=$(IMAGE) tools/release/build image

.PHONY: release
release: ## write all of a release into dist/: programs, image, chart, install.yaml, SBOM and checksums, signed if there is a COSIGN_PRIVATE_KEY
	@VERSION=$(VERSION) IMAGE=$(IMAGE) tools/release/build release

# The repository below which the chart of a release is.
CHARTS ?= ghcr.io/nodemend/charts

.PHONY: publish
publish: ## push image, signatures and chart of the release in dist/ to IMAGE and CHARTS
	@IMAGE=$(IMAGE) CHARTS=$(CHARTS) tools/release/publish

.PHONY: verify
verify: verify-tidy verify-format verify-generated lint ## check all that a reviewer should not have to

.PHONY: lint
lint: ## run go vet and golangci-lint, as .golangci.yml says
	go vet -tags integration,e2e ./...
	$(TOOL) golangci-lint run

.PHONY: verify-tidy
verify-tidy: # go.mod and go.sum are what "go mod tidy" writes
	go mod tidy -diff

.PHONY: verify-format
verify-format: # in all modules
	@unformatted=$$(git ls-files -co --exclude-standard -- '*.go' | xargs -r ls -d 2>/dev/null | xargs -r gofmt -l); \
	[ -z "$$unformatted" ] || { echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; }

# Generates in a copy of the tree, so that it neither changes files nor minds
# uncommitted ones.
.PHONY: verify-generated
verify-generated: # generated files are what "make generate" writes
	@copy=$$(mktemp -d); trap 'rm -rf "$$copy"' EXIT; \
	git ls-files -coz --exclude-standard | xargs -0r ls -d 2>/dev/null | tar -c -T - | tar -x -C "$$copy"; \
	git -C "$$copy" init --quiet; git -C "$$copy" add --all; \
	$(MAKE) --no-print-directory -C "$$copy" generate; \
	git -C "$$copy" add --all --intent-to-add; \
	git -C "$$copy" diff --exit-code || { echo "generated files are not up to date: run make generate"; exit 1; }

.PHONY: clean
clean: ## remove what was built, except Kubernetes, which is slow to build
	rm -rf bin/nodemend bin/nodemend-agent bin/kubectl-nodemend bin/demo dist cover.out
