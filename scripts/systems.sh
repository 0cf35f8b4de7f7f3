#!/usr/bin/env bash
# Compile dyno for the systems that it is not developed on. An error names the package.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
for system in darwin/arm64 windows/amd64; do
	echo "$system"
	GOOS=${system%/*} GOARCH=${system#*/} go vet ./cmd/dyno
done
