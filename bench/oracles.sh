#!/usr/bin/env bash
# How far off the engine is against servers whose answer is known, on this
# machine: quantiles of a server that freezes for 100 ms in every second, at 200
# and 2,000 requests/s, in ms and in % of what its own freezes and drains
# predict; and the send lag at 5,000 requests/s. Server on CPU 0, engine on CPU 1.
#
#   bench/oracles.sh | tee bench/oracles.txt
#
# Settings, by environment: COUNT=5
set -euo pipefail
cd "$(dirname "$0")/.."
exec go test -run '^$' -bench 'Freeze|SendLag' -benchtime 1x -count "${COUNT:-5}" ./load/engine
