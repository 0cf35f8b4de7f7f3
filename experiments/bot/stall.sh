#!/usr/bin/env bash
# A relay to a store that stops in the middle of a load, with all its connections, and goes on:
#
#   experiments/bot/stall.sh LISTEN STORE AFTER SECONDS
set -euo pipefail
dyno serve relay --listen "$1" --to "$2" &
relay=$!
trap 'kill -CONT "$relay"; kill "$relay"; wait "$relay"; exit 0' TERM INT
sleep "$3" &
wait "$!"
kill -STOP "$relay"
sleep "$4" &
wait "$!"
kill -CONT "$relay"
wait "$relay"
