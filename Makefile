# Every target works on a fresh clone with Go alone: nothing is installed. Servers come from the command testenv
# (dev/testenv/README.md), built into .cache. The exception is model, which needs Spin and a C compiler.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c

MODULES := $(sort $(patsubst ./%,%,$(patsubst %/go.mod,%,$(shell find . -name go.mod -not -path './.*/*'))))
TOOLS := $(CURDIR)/.cache
TESTENV := $(TOOLS)/testenv

# each runs a command in every module that has packages, without the workspace: as a user of that module would. It goes
# on after a failure, and fails at the end.
each = rc=0; for m in $(MODULES); do ( cd "$$m"; export GOWORK=off; \
	[ -n "$$(go list ./... 2>/dev/null)" ] || exit 0; echo "== $$m"; $(1) ) || rc=1; done; exit $$rc

comma := ,

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## a flash sale on real servers: without a lock, with each kind of lock, holders killed and frozen (ARGS=-short)
	@dev/build dev/testenv ./cmd/testenv $(TESTENV)
	@dev/build examples ./flashsale $(TOOLS)/flashsale
	@$(TESTENV) run --servers mysql,mongo$(if $(findstring -mariadb,$(ARGS)),$(comma)mariadb) -- $(TOOLS)/flashsale $(ARGS)

.PHONY: test
test: testenv ## the short tier of every module's tests, on real servers (docs/quality/tests.md)
	@$(TESTENV) run -- $(MAKE) --no-print-directory test-here TESTFLAGS=-short BOUND=480s

.PHONY: test-long
test-long: testenv ## every test of every module, all of them with the race detector: an hour
	@$(TESTENV) run -- $(MAKE) --no-print-directory test-here

# test-here runs the tests on the servers that the environment names, two units at a time: they wait most of the time. It keeps what
# was run for .ci/skips. A test that failed is run again at the end, alone, and the slowest are named: see .ci/tools/reruns. BOUND is how
# long it should take on two quiet cores with a warm build cache; it says so beyond it.
UNITS := mysql root mongo cmd/rowlock $(filter-out . cmd/rowlock,$(MODULES))
.PHONY: test-here
test-here: $(TOOLS)/gotestsum $(TOOLS)/reruns
	@rm -rf $(TOOLS)/tests && mkdir -p $(TOOLS)/tests
	@begun=$$(date +%s); printf '%s\n' $(UNITS) | xargs -P 2 -I UNIT .ci/test-module UNIT $(TESTFLAGS); \
		$(TOOLS)/reruns -begun $$begun -bound $(or $(BOUND),0) $(TOOLS)/tests/*.json

.PHONY: nightly
nightly: ## proof, and what takes long: release, model, fuzz, test-long, mutations, verify, benchmarks, Docker; each also by .ci/run NAME
	@.ci/run nightly

.PHONY: bench
bench: testenv ## every number beside its floors and peers; SHORT=1: in a few minutes (ARGS="-only N1")
	@cd dev/bench && GOWORK=off go build -o $(TOOLS)/bench .
	@$(TESTENV) run -- $(TOOLS)/bench $(if $(SHORT),-short) $(ARGS)

.PHONY: charts
charts: ## the figures of docs/performance.md again, from the tables in dev/bench/results; measures nothing
	@cd dev/bench && GOWORK=off go build -o $(TOOLS)/bench .
	@$(TOOLS)/bench -redraw docs

.PHONY: gobench
gobench: testenv ## the Go benchmarks of engine and backends (SHORT=1: each once BENCH=regexp BENCHTIME=1s)
	@$(TESTENV) run -- go test $(if $(SHORT),-short) -run '^$$' -bench '$(or $(BENCH),.)' -benchtime '$(or $(BENCHTIME),$(if $(SHORT),1x,1s))' . ./enginetest ./memory ./mysql/... ./mongo/...

# Its own copy of time.Now lets the clients' wall clocks be stepped; where Go's is not as expected it goes without.
.PHONY: verify
verify: ## faults, histories and checkers on every server; SHORT=1: in five minutes (ARGS="-servers mysql -duration 1h")
	@mkdir -p $(TOOLS)
	@cd dev/verify && export GOWORK=off; if go run ./wallclock $(TOOLS)/wallclock; then \
		go build -overlay $(TOOLS)/wallclock/overlay.json -tags wallclock -o $(TOOLS)/verify .; else go build -o $(TOOLS)/verify .; fi
	@$(TOOLS)/verify $(if $(SHORT),-short) $(ARGS)

.PHONY: model
model: ## the formal models of the protocol, every state (SHORT=1 STORY=1 MODEL=names; needs spin and gcc)
	@dev/verify/model/run $(if $(SHORT),-short) $(if $(STORY),-story) $(MODEL)

# Go's fuzzer fails now and then, without a failing input, when its time is over in the middle of one: then once more.
.PHONY: fuzz
fuzz: ## each fuzz test in turn, without servers (FUZZTIME=20s; SHORT=1: 3s each; FUZZ=regexp)
	@mkdir -p $(TOOLS)/fuzz
	@for pkg in $$(grep -l '^func Fuzz' --include=*_test.go -r . | xargs -n 1 dirname | sort -u); do \
		( cd $$pkg && GOWORK=off go test -c -fuzz . -o $(TOOLS)/fuzz/test . ; \
		for name in $$(grep -ho '^func Fuzz[A-Za-z0-9_]*' *_test.go | sed 's/func //' | grep -E '$(or $(FUZZ),.)' || true); do \
			echo "== $$pkg $$name"; \
			fuzz() { $(TOOLS)/fuzz/test -test.run '^$$' -test.fuzz "^$$name$$" -test.fuzztime '$(or $(FUZZTIME),$(if $(SHORT),3s,20s))' \
				-test.fuzzcachedir $(TOOLS)/fuzz/corpus/$$pkg | tee $(TOOLS)/fuzz/log; }; \
			fuzz || { grep -q '^ *context deadline exceeded' $(TOOLS)/fuzz/log && ! grep -q 'Failing input' $(TOOLS)/fuzz/log && fuzz; } || exit 1; \
		done ); \
	done

.PHONY: mutations
mutations: $(if $(SHORT),,testenv) ## deliberate bugs, and whether a test catches each (SHORT=1 MUTATION=names ARGS=-base)
	@cd dev/verify && GOWORK=off go build -o $(TOOLS)/mutations ./mutations
	@$(if $(SHORT),,$(TESTENV) run --) $(TOOLS)/mutations $(if $(SHORT),-short) $(ARGS) $(MUTATION)

.PHONY: lint
lint: $(TOOLS)/staticcheck ## gofmt, go vet, staticcheck, untidy go.mod files, in every module; a complete go.work.sum; the tests of CI's tools
	@bad=$$(gofmt -l . .ci); [ -z "$$bad" ] || { echo "not gofmt-clean:"; echo "$$bad"; exit 1; }
	@sums=$$(cat go.work.sum); go doc -all . >/dev/null; [ "$$sums" = "$$(cat go.work.sum)" ] || { echo "go doc adds to go.work.sum: commit what it added"; exit 1; }
	@$(call each,go vet ./... && $(TOOLS)/staticcheck ./... && go mod tidy -diff)
	@cd .ci/tools && export GOWORK=off && go vet ./... && $(TOOLS)/staticcheck ./... && go test ./...

.PHONY: build
build: ## every module on its own
	@$(call each,go build ./...)

# Their types are checked; nothing is compiled.
SYSTEMS = darwin/arm64 windows/amd64 linux/386 freebsd/amd64 openbsd/amd64 dragonfly/amd64
.PHONY: systems
systems: $(TOOLS)/systems ## that every module and its tests compile for the other systems that rowlock serves
	@$(call each,$(TOOLS)/systems $(SYSTEMS))

PLATFORMS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64
DIST = $(CURDIR)/dist

# Beside the programs: the licences of what is in them, packages of Debian where there is dpkg-deb, and a file for an image.
.PHONY: dist
dist: $(TOOLS)/licenses ## the program rowlock for Linux, macOS and Windows, .deb, licences and Dockerfile, into dist/ (PLATFORMS="linux/amd64 …" DIST=folder)
	@mkdir -p $(abspath $(DIST)) && cp .ci/dist/Dockerfile $(abspath $(DIST))/
	@cd cmd/rowlock && GOWORK=off $(TOOLS)/licenses $(PLATFORMS) >$(abspath $(DIST))/rowlock-licences.txt
	@cd cmd/rowlock && export GOWORK=off CGO_ENABLED=0; version=$$(git describe --tags --always --dirty 2>/dev/null || echo unknown); \
	for platform in $(PLATFORMS); do \
		export GOOS=$${platform%/*} GOARCH=$${platform#*/}; \
		out=$(abspath $(DIST))/rowlock-$$GOOS-$$GOARCH; [ $$GOOS != windows ] || out=$$out.exe; \
		go build -trimpath -ldflags "-s -w -X github.com/rowlock/rowlock/cmd/rowlock/rowlockcli.Version=$$version" -o $$out . || exit 1; \
		echo $$out; \
		[ $$GOOS = linux ] && command -v dpkg-deb >/dev/null || continue; \
		$(CURDIR)/.ci/dist/deb $$out $(abspath $(DIST))/rowlock-licences.txt $$GOARCH "$$version" $$out.deb; \
		echo $$out.deb; \
	done

.PHONY: shots
shots: testenv ## the pictures of the page in docs/img, of a real page about locks in a real MySQL, by a real browser
	@cd ui/browser && GOWORK=off go build -o $(TOOLS)/shots ./shots
	@$(TESTENV) run --servers mysql -- $(TOOLS)/shots -out docs/img

.PHONY: dashboard
dashboard: testenv ## the pictures of the Grafana dashboard in docs/img: real programs and servers, faults, a real Prometheus; 3 minutes (ARGS="-out folder")
	@cd observability && GOWORK=off go build -o $(TOOLS)/dashboard ./dashboard
	@$(TESTENV) run --servers mysql,mongo -- $(TOOLS)/dashboard $(ARGS)

.PHONY: release
release: ## try a version end to end: a program outside of the repository gets all modules by it (VERSION=v0.1.0; DIRTY=1)
	@cd .ci/tools && GOWORK=off go build -o $(TOOLS)/release ./release
	@$(TOOLS)/release $(if $(DIRTY),-dirty) $(or $(VERSION),v0.1.0)

# Where int has 32 bits a length or a duration may not fit into it. The packages need no server and no C compiler; a
# Linux machine runs both kinds of program.
.PHONY: test-386
test-386: ## the engine's tests as a 32-bit program (Linux on amd64; SHORT=1)
	@GOARCH=386 CGO_ENABLED=0 GOWORK=off go test $(if $(SHORT),-short) -count=1 . ./enginetest ./driver ./memory ./internal/...

# Tests that are known to fail: see .ci/expected-red.
.PHONY: expected-red
expected-red: testenv ## that each test of .ci/expected-red still fails, and as it says
	@if grep -q '^[^#]' .ci/expected-red; then $(TESTENV) run -- .ci/red; else .ci/red; fi

.PHONY: tidy
tidy: ## go mod tidy in every module
	@$(call each,go mod tidy)

.PHONY: testenv
testenv:
	@mkdir -p $(TOOLS)
	@cd dev/testenv && GOWORK=off go build -o $(TESTENV) ./cmd/testenv

# The tools have a module of their own, which nothing else requires.
$(TOOLS)/gotestsum $(TOOLS)/staticcheck &: .ci/tools/go.mod .ci/tools/go.sum
	@mkdir -p $(TOOLS)
	@cd .ci/tools && GOWORK=off go build -o $(TOOLS)/ tool
	@touch $(TOOLS)/gotestsum $(TOOLS)/staticcheck

$(TOOLS)/reruns: $(wildcard .ci/tools/reruns/*.go)
	@mkdir -p $(TOOLS)
	@cd .ci/tools && GOWORK=off go build -o $(TOOLS)/ ./reruns

$(TOOLS)/systems: $(wildcard .ci/tools/systems/*.go) .ci/tools/go.mod
	@mkdir -p $(TOOLS)
	@cd .ci/tools && GOWORK=off go build -o $(TOOLS)/ ./systems

$(TOOLS)/licenses: $(wildcard .ci/tools/licenses/*.go) .ci/tools/go.mod
	@mkdir -p $(TOOLS)
	@cd .ci/tools && GOWORK=off go build -o $(TOOLS)/ ./licenses
