# Every target works on a fresh clone with Go alone: nothing is installed. Servers come from the command testenv
# (testenv/README.md), built into .cache.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c

MODULES := $(sort $(patsubst ./%,%,$(patsubst %/go.mod,%,$(shell find . -name go.mod -not -path './.*/*'))))
TOOLS := $(CURDIR)/.cache
TESTENV := $(TOOLS)/testenv

# each runs a command in every module, without the workspace: as a user of that module would.
each = for m in $(MODULES); do echo "== $$m: $(1)"; (cd "$$m" && GOWORK=off $(1)); done

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: testenv ## the flash sale example on real servers
	@cd examples && $(TESTENV) run -- go run ./flashsale $(ARGS)

.PHONY: test
test: testenv ## every test of every module, with the race detector, on real servers
	@$(TESTENV) run -- $(MAKE) --no-print-directory test-here

# test-here runs the tests on the servers that the environment names.
.PHONY: test-here
test-here:
	@$(call each,go test -race -count=1 -timeout=15m $(TESTFLAGS) ./...)

.PHONY: race
race: test ## the same: tests always run with the race detector

.PHONY: bench
bench: testenv ## the benchmarks of the backends (BENCH=regexp BENCHTIME=1s)
	@$(TESTENV) run -- go test -run '^$$' -bench '$(or $(BENCH),.)' -benchtime '$(or $(BENCHTIME),1s)' ./mysql/... ./mongo/...

.PHONY: build
build: ## every module on its own, and for macOS and Windows
	@$(call each,go build ./...)
	@$(call each,GOOS=darwin go build ./...)
	@$(call each,GOOS=windows go build ./...)

.PHONY: tidy
tidy: ## go mod tidy in every module
	@$(call each,go mod tidy)

.PHONY: testenv
testenv:
	@mkdir -p $(TOOLS)
	@cd testenv && GOWORK=off go build -o $(TESTENV) ./cmd/testenv
