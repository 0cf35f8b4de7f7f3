#!/usr/bin/env bash
# Run golangci-lint in its pinned version: the one at hand if it is that, else
# built from source, which takes some minutes the first time.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${GOLANGCI_VERSION:-2.15.0}

for bin in golangci-lint "$(go env GOPATH)/bin/golangci-lint"; do
	if "$bin" version 2>/dev/null | grep -qF "version $version "; then
		exec "$bin" run "${@:-./...}"
	fi
done
exec go run "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$version" run "${@:-./...}"
