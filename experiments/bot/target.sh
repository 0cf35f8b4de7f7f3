#!/usr/bin/env bash
# What an experiment loads: a gateway (see gateway.sh), or with "none" a model server in its place, on the address
# that the flags of the gateway say.
#
#   experiments/bot/target.sh ARCHIVE|none STORES --listen ADDRESS FLAG…
set -euo pipefail
cd "$(dirname "$0")"
archive=$1 stores=$2
shift 2
if [ "$archive" = none ]; then
	exec dyno serve llm --listen "$2"
fi
exec ./gateway.sh "$archive" "$stores" "$@"
