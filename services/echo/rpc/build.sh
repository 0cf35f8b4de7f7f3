#!/usr/bin/env bash
# Build the echo's programs in other languages than Go, or those named, and print a table of
# what is built and how it is run, and of what is left out and why. It fails if a build does;
# a program whose tool chain is missing is left out.
#
#   services/echo/rpc/build.sh [cpp|dotnet|dotnet-kestrel|dotnet-aot|java|node|rust]...
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
programs=(cpp dotnet dotnet-kestrel dotnet-aot java node rust)
[ $# -gt 0 ] || set -- "${programs[@]}"

for program; do
	if [[ " ${programs[*]} " != *" $program "* ]]; then
		echo "build.sh: no program $program: there are ${programs[*]}" >&2
		exit 2
	fi
done

said=$(mktemp)
trap 'rm -f "$said"' EXIT
failed=0
row() { printf '%-16s %-9s %s\n' "$@"; }
row program state 'command, or reason'
for program; do
	code=0
	# dotnet-kestrel is a program of the folder dotnet.
	command=$("$here/${program%%-*}/build.sh" "$program" 2>"$said") || code=$?
	case $code in
	0) row "$program" built "$(tail -n 1 <<<"$command")" ;;
	3) row "$program" 'left out' "$(tail -n 1 "$said")" ;;
	*)
		row "$program" failed "$(tail -n 1 "$said")"
		cat "$said" >&2
		failed=1
		;;
	esac
done
exit "$failed"
