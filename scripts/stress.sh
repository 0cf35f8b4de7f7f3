#!/usr/bin/env bash
# Run the tests of packages that use sockets, processes or time (scripts/sequential -not) ten times,
# while a busy loop takes each CPU: a test that passes only on an idle machine fails here.
#
#   scripts/stress.sh [PACKAGE...]      COUNT=3 runs them three times
set -uo pipefail
cd "$(dirname "$0")/.."

packages=("$@")
[ $# -gt 0 ] || mapfile -t packages < <(go run ./scripts/sequential -not)
[ ${#packages[@]} -gt 0 ] || exit 1
scripts/gotest.sh --compile "${packages[@]}"

hogs=()
trap 'kill "${hogs[@]}" 2>/dev/null' EXIT
for ((i = $(nproc); i > 0; i--)); do
	(while :; do :; done) &
	hogs+=($!)
done
scripts/gotest.sh -short -count "${COUNT:-10}" -timeout 60m "${packages[@]}"
