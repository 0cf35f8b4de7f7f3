#!/usr/bin/env bash
# Run the tests of packages that use sockets, processes or time (scripts/sequential.sh --not) ten times,
# next to a busy loop: a test that passes only on an idle machine fails here.
#
#   scripts/stress.sh [PACKAGE...]      COUNT=3 runs them three times
set -uo pipefail
cd "$(dirname "$0")/.."

packages=("$@")
[ $# -gt 0 ] || mapfile -t packages < <(scripts/sequential.sh --not)
[ ${#packages[@]} -gt 0 ] || exit 1
scripts/gotest.sh --compile "${packages[@]}"

(while :; do :; done) &
trap 'kill '$! EXIT
scripts/gotest.sh -short -count "${COUNT:-10}" -timeout 2h "${packages[@]}"
