#!/usr/bin/env bash
# Run all Go tests in random order, with the race detector where there is a C
# compiler to link it, except packages that have one goroutine (scripts/sequential).
# Two packages at a time: more would take the CPU from each other where time is what is tested.
# Those without the race detector are not about time: they run beside the others, at a low priority.
# Prints a line per package, failures in full, skips with their reason,
# and last "N passed, N failed, N skipped". Arguments go to go test, with the race detector.
# go vet is part of scripts/lint.sh: here it would be done again, with the race detector's flags.
#
#   scripts/gotest.sh               what must hold before a change lands: go test -short
#   scripts/gotest.sh --all         all tests, as scripts/nightly.sh runs them
#   scripts/gotest.sh ARGUMENT...   go test with these arguments
#   scripts/gotest.sh --compile     only compile, at the lowest priority, while something else runs
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
short=(-short)
if [ "${1-}" = --all ]; then
	short=()
	shift
fi
tests() {
	go test -json -vet=off -shuffle=on -p 2 -timeout 20m ${short[@]+"${short[@]}"} "$@"
}
sequential() {
	local packages code=0
	packages=$(go run ./scripts/sequential) || exit
	# shellcheck disable=SC2086 # a package a word
	tests $packages || code=$?
	[ ${#short[@]} -eq 0 ] || return $code
	# The race detector has memory of its own, and makes what is exhaustive slow: these skip, or
	# do less, where it is at work (internal/race).
	tests -run '^TestHeldMemory$|Alloca|^TestEvery(Cut|Truncation)$' ./services/bot ./load/engine ./load/wire/tlslayer || code=$?
	# Beside the others, its tests have the stores in memory where they choose none.
	tests ./services/bot -args -servers || code=$?
	# The other library of the standard, which is compiled with this setting only.
	GOEXPERIMENT=jsonv2 tests ./services/bot/codec || code=$?
	return $code
}
concurrent() {
	local packages
	packages=$(go run ./scripts/sequential -not) || exit
	# shellcheck disable=SC2086
	"$@" ${race[@]+"${race[@]}"} $packages
}
if [ "${1-}" = --compile ]; then
	chrt --idle --pid 0 $$ 2>/dev/null || renice -n 19 $$ >/dev/null
	concurrent go list -export -test -f '' >/dev/null 2>&1
	exit 0 # whatever does not compile is told when it is tested
fi
if [ $# -gt 0 ]; then
	short=()
	tests ${race[@]+"${race[@]}"} "$@"
else
	aside=$(mktemp)
	trap 'rm -f "$aside"' EXIT
	(
		renice -n 19 "$BASHPID" >/dev/null
		sequential
	) >"$aside" &
	code=0
	concurrent tests || code=$?
	wait $! || code=$?
	cat "$aside"
	exit "$code"
fi | go run ./scripts/testcount
