#!/usr/bin/env bash
# Three agents on loopback carry runs, and a fourth runs their target. In each, something happens to one of them, or to
# the coordinator, at a time that a seed decides:
#
#   kill         SIGKILL of an agent, which is started again after the run; that of the target within 20 s
#   restart      SIGTERM of an agent, which is started again at once
#   stop         SIGSTOP of an agent, for up to 20 s
#   partition    an agent whose connections pass nothing more, for up to 20 s
#   coordinator  SIGKILL of dyno run; dyno run --resume goes on
#
# Fails if a trial that counts has other figures than those of the whole load (a server counts the
# requests), if a trial that had ended is lost, if a process is left, or if a run does not end. It prints
# how many rounds were measured again, and how long it took until their trials ran again.
#
#   scripts/fleet-faults.sh [FAULTS [SEED]] | tee bench/fleet-faults.txt
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "made by: scripts/fleet-faults.sh ${1:-50} ${2:-1}"
echo "nproc $(nproc), kernel $(uname -r)"
FAULTS=${1:-50} SEED=${2:-1} go test ./cli/fleet -vet=off -run '^TestFaults$' -count 1 -v -timeout 1h >"$log" || { cat "$log"; exit 1; }
sed -n 's/^ *faults_test.go:[0-9]*: //p' "$log"
