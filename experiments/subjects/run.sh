#!/usr/bin/env bash
# Build and run subjects that are not written in Go, by their folders:
#
#   experiments/subjects/run.sh --build FOLDER     build it; exit code 3, with the reason on standard error, where this
#                                                  machine lacks what that takes
#   experiments/subjects/run.sh FOLDER OPTION…     run what was built, in the place of this script
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
built=${DYNO_CACHE:-$here/../../bin}/rpc/commands

if [ "${1:-}" != --build ]; then
	read -ra command <"$built/${1//\//-}"
	exec "${command[@]}" "${@:2}"
fi
mkdir -p "$built"
command=$("$here/$2/build.sh" | tail -n 1)
# Another build may be doing the same: a file is there whole, or not at all.
echo "$command" >"$built/.${2//\//-}.$$"
mv "$built/.${2//\//-}.$$" "$built/${2//\//-}"
