#!/usr/bin/env bash
# Run golangci-lint in its pinned version: the one at hand if it is that, else
# built from source, which takes some minutes the first time. Another run on the machine, of
# another folder, is nothing to wait for.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${GOLANGCI_VERSION:-2.15.0}

lint() {
	local bin
	for bin in golangci-lint "$(go env GOPATH)/bin/golangci-lint"; do
		if "$bin" version 2>/dev/null | grep -qF "version $version "; then
			env "${environment[@]}" "$bin" run --allow-parallel-runners "$@"
			return
		fi
	done
	go run -exec "env ${environment[*]@Q}" "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$version" run --allow-parallel-runners "$@"
}
# With the flags of the tests (scripts/gotest.sh), it reads what was compiled for them.
environment=() code=0
[ $# -gt 0 ] || lint ./experiments/... || code=$?
if command -v "$(go env CC)" >/dev/null; then
	environment=(CGO_ENABLED=1 "GOFLAGS=-race ${GOFLAGS-}")
fi
lint "${@:-./...}" || code=$?
exit "$code"
