# Sourced by the build scripts of the echo's programs: where they put what they build, what
# they say when a tool chain is missing, and how they know that nothing has changed.
#
# A build script prints the command that runs the program as its last line of standard
# output. It exits with 3 and one line of reason when something is missing that it needs,
# and with 1 when the build fails.
set -euo pipefail
rpc=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${DYNO_CACHE:-$(cd "$rpc/../../.." && pwd)/bin}/rpc

# begin NAME: sets out to the program's folder, and waits for other builds of the program.
begin() {
	name=$1
	mkdir -p "$cache/$name"
	out=$(cd "$cache/$name" && pwd)
	exec 9>"$out/lock"
	flock 9
}

# missing REASON: the program is left out.
missing() {
	echo "$*" >&2
	exit 3
}

# need COMMAND PACKAGE: the program is left out unless there is such a command.
need() {
	command -v "$1" >/dev/null || missing "there is no $1 (Debian: apt-get install $2)"
}

# current FILE FOLDER... -- WORD...: tells whether FILE was built from what is now in the
# folders, with the tools that the words name.
current() {
	local file=$1 folders=() source
	shift
	while [ "$1" != -- ]; do
		folders+=("$1")
		shift
	done
	stamp=$({
		printf '%s\n' "$@"
		# What tools build next to the sources, when somebody runs them there, is none.
		find "${folders[@]}" -type d \( -name node_modules -o -name target -o -name obj \) -prune -o -type f -print0 | sort -z | while IFS= read -r -d '' source; do
			sha256sum <"$source"
			echo "${source#"$rpc"}"
		done
	} | sha256sum)
	[ -e "$file" ] && [ "$(cat "$out/stamp" 2>/dev/null)" = "$stamp" ] && return
	rm -f "$out/stamp"
	: >"$out/build.log"
	return 1
}

# step COMMAND...: carries out a step of the build. What it prints goes to a file. What it
# leaves running does not hold the lock.
step() {
	"$@" >>"$out/build.log" 2>&1 9>&- && return
	tail -n 30 "$out/build.log" >&2
	echo "$name: this failed: $* (all of its output is in $out/build.log)" >&2
	exit 1
}

# finish COMMAND...: the program is built from what current has seen; the words run it.
finish() {
	echo "$stamp" >"$out/stamp"
	runs "$@"
}

# runs COMMAND...: prints the command that runs the program.
runs() {
	printf '%s\n' "$*"
}
