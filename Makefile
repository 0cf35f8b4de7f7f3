# Everything a developer runs, by name. `make help` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

FUZZTIME ?= 60s
RUN_ARGS ?=

GOLANGCI_VERSION := 2.15.0
GOVULNCHECK_VERSION := 1.8.0
export GOLANGCI_VERSION GOVULNCHECK_VERSION

.PHONY: help build r1 test nightly stress lint vuln fuzz bench fresh site web browser image release fmt-check ci setup clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/dyno, and the services that are programs of their own
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...

r1: ## the main job: re-run report R1 in its short form (RUN_ARGS for more flags)
	@scripts/r1.sh $(RUN_ARGS)

test: ## the tests that must pass before a change lands, with the race detector, in random order
	@scripts/gotest.sh

nightly: ## all tests, also those that take long or measure this machine, and then stress
	@scripts/nightly.sh

stress: ## tests of sockets, processes and time, ten times, on a busy machine
	@scripts/stress.sh

lint: ## golangci-lint
	@scripts/lint.sh

vuln: ## govulncheck
	@scripts/vuln.sh

fuzz: ## every fuzz target for FUZZTIME each (60s)
	@scripts/fuzz.sh $(FUZZTIME)

bench: build ## the committed comparisons with other tools, and the Go benchmarks
	bench/http1-vs-wrk.sh
	bench/http2-vs-h2load.sh
	bench/handshakes.sh
	bench/scenario.sh
	bench/grpc-echo.sh
	bench/grpc-vs-h2load.sh
	bench/relay-vs-haproxy.sh
	bench/oracles.sh
	bench/observers.sh
	go test -run '^$$' -bench . -benchmem work

fresh: ## generated files are what their generators make of them
	@scripts/fresh.sh

site: ## build the documents as a site into bin/site
	@scripts/site.sh

web: ## check, test and build the page of the HTML report (Node.js 20)
	@scripts/web.sh

browser: ## drive the HTML report in Chromium
	@scripts/browser.sh

image: ## container images of the bot gateway and the control plane, without docker
	@scripts/image.sh

release: ## programs, packages, images and charts of this commit, in dist/
	@scripts/release.sh

fmt-check: ## gofmt has nothing to change
	@scripts/fmt-check.sh

ci: ## all of the above that must hold before a change lands
	@scripts/test.sh

setup: ## install the Debian packages that tests and benchmarks use, where it may
	@scripts/setup.sh

clean: ## remove what was built
	rm -rf bin
