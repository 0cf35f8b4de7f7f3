#!/usr/bin/env bash
# Run all Go tests in random order, with the race detector where there is a C
# compiler to link it. Two packages at a time: several use both CPUs of a small
# machine. Prints a line per package, failures in full, skips with their reason,
# and last "N passed, N failed, N skipped". Arguments go to go test. go vet is a step of
# its own in scripts/test.sh: here it would be done again, with the race detector's flags.
set -uo pipefail
cd "$(dirname "$0")/.."

race=(-race)
if [ "$(go env CGO_ENABLED)" != 1 ] || ! command -v "$(go env CC)" >/dev/null; then
	race=()
	echo "gotest: no C compiler, so without the race detector"
fi
# The race detector's run time has each program sleep a second before it ends, so that what
# still runs may race. Most packages check that nothing does (internal/leak).
export GORACE="atexit_sleep_ms=50 ${GORACE-}"
packages=("$@")
[ ${#packages[@]} -gt 0 ] || packages=(./...)
go test -json -vet=off -shuffle=on -p 2 -timeout 20m ${race[@]+"${race[@]}"} "${packages[@]}" | go run ./scripts/testcount
