#!/usr/bin/env bash
# What scripts/test.sh leaves out, because it takes long or measures this machine: all tests without
# -short (memory, allocations, programs that are killed again and again, echo servers in other
# languages), and then scripts/stress.sh. Takes some hours.
set -uo pipefail
cd "$(dirname "$0")/.."

start=$SECONDS failed=()
scripts/setup.sh
scripts/clients.sh || failed+=(clients)
services/echo/rpc/build.sh || failed+=(languages)
echo "== all tests"
scripts/gotest.sh --all || failed+=(tests)
echo "   $((SECONDS - start)) s"
start=$SECONDS
echo "== tests of sockets and time, ten times, on a busy machine"
scripts/stress.sh || failed+=(stress)
echo "   $((SECONDS - start)) s"

if [ ${#failed[@]} -gt 0 ]; then
	echo "failed: ${failed[*]}"
	exit 1
fi
echo "all passed in $SECONDS s"
