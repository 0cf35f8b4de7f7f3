#!/usr/bin/env bash
# Build and run the programs of the echo over gRPC by their names:
#
#   services/echo/rpc/run.sh --build NAME     build it; exit code 3, with the reason on standard
#                                             error, where this machine lacks what that takes
#   services/echo/rpc/run.sh NAME OPTION…     run what was built, in the place of this script
#
# NAME is go-plain, go-tuned, go-connect, go-formats, go-messages, dotnet, dotnet-kestrel,
# java, rust, cpp or node.
set -euo pipefail
rpc=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$rpc/../../.." && pwd)
built=${DYNO_CACHE:-$root/bin}/rpc/commands

usage() {
	echo "usage: run.sh --build NAME, or run.sh NAME OPTION…" >&2
	exit 2
}

if [ "${1:-}" != --build ]; then
	[ $# -gt 0 ] || usage
	name=$1
	shift
	[ -r "$built/$name" ] || {
		echo "run.sh: $name has not been built: run.sh --build $name" >&2
		exit 1
	}
	read -ra command <"$built/$name"
	exec "${command[@]}" "$@"
fi

[ $# -eq 2 ] || usage
name=$2
mkdir -p "$built"
case $name in
go-*)
	[ -d "$rpc/go/${name#go-}" ] || usage
	command -v go >/dev/null || {
		echo "there is no go" >&2
		exit 3
	}
	command=$(dirname "$built")/$name/echo
	(cd "$root" && go build -o "$command" "./services/echo/rpc/go/${name#go-}")
	;;
*)
	[ -x "$rpc/${name%%-*}/build.sh" ] || usage
	command=$("$rpc/${name%%-*}/build.sh" "$name" | tail -n 1)
	;;
esac
# Another build may be doing the same: a file is there whole, or not at all.
echo "$command" >"$built/.$name.$$"
mv "$built/.$name.$$" "$built/$name"
