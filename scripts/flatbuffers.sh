#!/usr/bin/env bash
# Generate the Go code of a FlatBuffers schema:
#
#   scripts/flatbuffers.sh SCHEMA.fbs FOLDER
#
# The code is what one version of flatc makes, that of Debian 12 (flatbuffers-compiler).
# Without it, or with another, the code is left alone, and that is said.
set -euo pipefail
version=2.0.8
if [ "$(flatc --version 2>/dev/null)" != "flatc version $version" ]; then
	echo "flatbuffers: the code of $1 was not generated again: there is no flatc $version" >&2
	exit 0
fi
flatc --go -o "$2" "$1"
gofmt -w "$2/$(basename "$1" .fbs)fb"
