#!/usr/bin/env bash
# What the control plane shows of instances that die, read over DNS, HTTP and xDS every 100 ms until they are removed: 400 of
# 3,000, all but ten of 3,010, and some with a full database. And what heartbeats cost that come to two replicas in turn.
#
# Fails if a dead instance is shown as healthy again, or is not removed, or if a heartbeat changes an instance.
#
#   bench/control-silent.sh | tee bench/control-silent.txt
set -euo pipefail
cd "$(dirname "$0")/.."
. bench/required.sh
required go
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "nproc $(nproc), kernel $(uname -r)"
go test -vet=off -count=1 -v -timeout 20m -run '^(TestSilentInstances|TestHeartbeatsInTurn)$' ./services/control ./services/control/plane >"$log" 2>&1 || { cat "$log"; exit 1; }
sed -n -e 's/^=== RUN *TestSilentInstances\//\n/p' -e 's/^ *[a-z]*_test.go:[0-9]*: //p' "$log"
