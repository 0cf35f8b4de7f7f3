#!/usr/bin/env bash
# Redis and PostgreSQL under two bot gateways, killed (SIGKILL), stopped (SIGSTOP) and shut
# down while four conversations go on, again and again, each time with new servers. Fails if
# a turn that was acknowledged is lost, is there twice or in another order, if an answer is
# not in the ledger, if less than was answered is counted against the limit, or if a gateway
# does not go on by itself. What is printed is so far within each round.
#
#   bench/bot-faults.sh | tee bench/bot-faults.txt
#
# Settings, by environment: ROUNDS=10
set -euo pipefail
cd "$(dirname "$0")/.."
. bench/required.sh
required go redis-server /usr/lib/postgresql
rounds=${ROUNDS:-10}
echo "nproc $(nproc), kernel $(uname -r), $(redis-server --version | sed "s|.* v=\([0-9.]*\).*|Redis \1|"), PostgreSQL $(ls /usr/lib/postgresql | tail -n 1), $rounds rounds"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
go test ./services/bot -vet=off -run '^TestFaultsUnderLoad$' -count "$rounds" -v >"$log" || { cat "$log"; exit 1; }
sed -n 's/^ *faults_test.go:[0-9]*: //p' "$log"
echo "result: rounds $(grep -c '^--- PASS: TestFaultsUnderLoad' "$log")"
echo "result: acknowledged.kept $(sed -n 's/.*shut down so far [0-9]* answered, \([0-9]*\) kept.*/\1/p' "$log" | awk '{ n += $1 } END { print n }')"
echo "result: acknowledged.lost 0"
