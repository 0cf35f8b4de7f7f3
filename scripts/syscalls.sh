#!/usr/bin/env bash
# Write the number and name of every system call, as golang.org/x/sys/unix has them:
#
#   scripts/syscalls.sh ARCHITECTURE…     by go generate: syscalls_ARCHITECTURE.txt in its folder
set -euo pipefail
source=$(go list -m -f '{{.Dir}}' golang.org/x/sys)/unix
for architecture; do
	sed -nE 's/^\s+SYS_(\w+)\s+= ([0-9]+)$/\2 \L\1/p' "$source/zsysnum_linux_$architecture.go" >"syscalls_$architecture.txt"
done
