#!/usr/bin/env bash
# Fail if gofmt would change a Go file.
set -euo pipefail
cd "$(dirname "$0")/.."
unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
	echo "fmt-check: run gofmt -w on:"
	printf '%s\n' "$unformatted" | sed 's/^/  /'
	exit 1
fi
