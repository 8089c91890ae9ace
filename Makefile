# "make help" lists what there is.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO     ?= go
BIN    := $(CURDIR)/bin
CACHE  := $(CURDIR)/.cache
TOOLS  := $(CACHE)/bin
MODULE := github.com/sluicehq/sluice

KAFKA_VERSION    := 4.4.0
KAFKA_OLD        := 4.2.0
GOLANGCI_VERSION := v2.15.0
GOFUMPT_VERSION  := v0.12.0
GATEWAY_VERSION  := v1.8.0

# What programs say about themselves. The build does not rely on Go's own stamp, which some environments turn off.
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT  := $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS := -X $(MODULE)/internal/version.version=$(VERSION) -X $(MODULE)/internal/version.commit=$(COMMIT)

# Modules inside the repository that have a go.mod of their own.
SUBMODULES = $(patsubst %/go.mod,%,$(shell git ls-files -co --exclude-standard -- '*/go.mod'))

# A test binary may wait for its turn to run a broker; see test/kafkatest.
TEST_TIMEOUT ?= 30m
FUZZ_TIME    ?= 10s

export PATH := $(TOOLS):$(PATH)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## bin/sluice, and all plugins into bin/plugins
	@mkdir -p $(BIN)
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/sluice ./cmd/sluice
	@scripts/build-plugins '$(LDFLAGS)'

.PHONY: demo
demo: build ## see it work: embedded broker, sample orders, three sinks; ends by itself
	$(BIN)/sluice dev --for 20s configs/quickstart.hcl

# Tests that count allocations, which the race detector adds to.
ALLOC_TESTS := ./internal/abi ./pluginapi/template ./sharetask ./sharetask/sharegroup ./sharetask/sharegroup/recordbatch

.PHONY: test
test: services ## the tests, with the services this machine has (test-deps installs all)
	$(GO) test -race -timeout $(TEST_TIMEOUT) ./...
	$(GO) test -run Alloc $(ALLOC_TESTS)
	@for dir in $(SUBMODULES); do echo "$(GO) test -race ./... in $$dir"; (cd $$dir && $(GO) test -race -timeout $(TEST_TIMEOUT) ./...); done

.PHONY: check
check: lint-tools ## format, lint, import direction, tidy, guest build
	@unformatted=$$(gofumpt -l $$(git ls-files -co --exclude-standard -- '*.go')); \
	  if [[ -n $$unformatted ]]; then echo "run gofumpt -w on:"; echo "$$unformatted"; exit 1; fi
	$(GO) mod tidy -diff
	golangci-lint run ./...
	GOOS=wasip1 GOARCH=wasm golangci-lint run ./pluginapi/guest
	$(GO) test ./test/imports
	GOOS=wasip1 GOARCH=wasm $(GO) build ./pluginapi ./pluginapi/data ./pluginapi/template ./pluginapi/guest
	@for dir in $(SUBMODULES); do echo "checking $$dir"; (cd $$dir && $(GO) mod tidy -diff && \
	  if grep -qs 'sluice/pluginapi/guest"' *.go; then export GOOS=wasip1 GOARCH=wasm; fi; golangci-lint run ./...); done

.PHONY: format
format: lint-tools ## rewrite the Go files as check wants them
	golangci-lint fmt ./...

.PHONY: test-deps
test-deps: packages kafka-libs versitygw lint-tools ## install all that the tests use: Debian packages (root), Kafka's jars, tools

.PHONY: fuzz
fuzz: ## each fuzz test for FUZZ_TIME (10s)
	@for package in $$($(GO) list ./...); do \
	  for name in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
	    echo "$$package $$name"; $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZ_TIME) $$package; \
	  done; done

# What to measure: bulk, sink5, sink50, slow, refused, tasks, workers, latency, idle; see docs/benchmarks.md. BENCH_FLAGS are those of test/bench.
SCENARIOS   ?= bulk
RECORDS     ?= 1300000
ROUNDS      ?= 5
BENCH_FLAGS ?=

.PHONY: model
model: ## search everything that can happen to a record under exactly-once; two minutes, and 8 GB
	$(GO) test ./test/model -count=1 -v -timeout 4h -run '^TestNothingIsWrittenTwiceOrLost$$' -model-tasks 3 -model-attempts 2

.PHONY: bench
bench: services ## Sluice beside others on a real Kafka, SCENARIOS=bulk,...; writes docs/benchmarks.md
	$(GO) test ./test/bench -count=1 -v -timeout 12h -run '^TestBench$$' -scenarios $(SCENARIOS) -records $(RECORDS) -rounds $(ROUNDS) \
	  -write $(CURDIR)/docs/benchmarks.md $(BENCH_FLAGS)

.PHONY: bench-go
bench-go: services ## the Go benchmarks of all packages
	$(GO) test -run '^$$' -bench . -benchmem -timeout 60m ./...

# How long things break and the schedule's seed; CHAOS_FLAGS are those of test/chaos, such as -write (docs/chaos.md), -faults none, -keep.
# Exactly once, with many kills: CHAOS_FLAGS='-sink builtin:kafka -faults kills -every 2s -write' (docs/exactly-once-chaos.md).
DURATION    ?= 10m
SEED        ?= 1
CHAOS_FLAGS ?=

.PHONY: chaos
chaos: services ## break workers, brokers, target and links for DURATION by SEED, and account for every record
	$(GO) test ./test/chaos -count=1 -v -timeout 12h -run '^TestChaos$$' -duration $(DURATION) -seed $(SEED) $(CHAOS_FLAGS)

.PHONY: clean
clean: ## remove what was built; .cache (jars, tools) stays
	rm -rf $(BIN)

# --- what the targets above need ---

# The services that can be set up without root. A machine that lacks Java, Maven or a network still runs the other tests.
.PHONY: services
services:
	@for version in $(KAFKA_VERSION) $(KAFKA_OLD); do \
	  if [[ -e $(CACHE)/kafka/$$version/complete && -e $(CACHE)/kafka/$$version/broker.jsa ]]; then continue; fi; \
	  if command -v java >/dev/null && command -v mvn >/dev/null; then \
	    scripts/kafka-libs/fetch $$version || echo "no jars of Kafka $$version: its tests are skipped"; \
	  else echo "no java or no mvn: tests with a real Kafka are skipped (make test-deps)"; fi; done
	@$(MAKE) --no-print-directory versitygw || echo "no versitygw: its tests are skipped"

.PHONY: packages
packages:
	@scripts/install-packages

.PHONY: kafka-libs
kafka-libs: packages
	@scripts/kafka-libs/fetch $(KAFKA_VERSION)
	@scripts/kafka-libs/fetch $(KAFKA_OLD)

.PHONY: versitygw lint-tools
versitygw: $(TOOLS)/.versitygw-$(GATEWAY_VERSION)
lint-tools: $(TOOLS)/.golangci-lint-$(GOLANGCI_VERSION) $(TOOLS)/.gofumpt-$(GOFUMPT_VERSION)

# A marker per version: a new version here installs it, and the old marker goes.
define install
	@echo "installing $(1)@$(2)"
	@mkdir -p $(TOOLS) && rm -f $(TOOLS)/.$(notdir $(1))-*
	@GOBIN=$(TOOLS) GOOS= GOARCH= $(GO) install $(1)@$(2) && touch $@
endef

$(TOOLS)/.versitygw-$(GATEWAY_VERSION):
	$(call install,github.com/versity/versitygw/cmd/versitygw,$(GATEWAY_VERSION))

$(TOOLS)/.golangci-lint-$(GOLANGCI_VERSION):
	$(call install,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,$(GOLANGCI_VERSION))

$(TOOLS)/.gofumpt-$(GOFUMPT_VERSION):
	$(call install,mvdan.cc/gofumpt,$(GOFUMPT_VERSION))
