#!/usr/bin/env bash
# Compile a C file of eBPF programs, and generate the Go code that loads them:
#
#   scripts/ebpf.sh NAME SOURCE.c     by go generate, in the folder of the package
#
# The object is what one version of clang makes, that of Debian 12 (clang-14, llvm-14 and
# libbpf-dev). It is the same for amd64 and arm64. Without that version, the files are left alone,
# and that is said.
set -euo pipefail
for need in clang-14 llvm-strip-14 /usr/include/bpf/bpf_helpers.h; do
	if ! command -v "$need" >/dev/null && [ ! -e "$need" ]; then
		echo "ebpf: $2 was not compiled again: there is no $need" >&2
		exit 0
	fi
done
go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-14 -strip llvm-strip-14 -target bpfel "$1" "$2" \
	-- -mcpu=v3 -Wall -Werror -I "/usr/include/$(uname -m)-linux-gnu"
