# Sourced by benchmarks: what they need must be installed.

# Debian has servers in sbin, which is not on every user's path.
PATH=$PATH:/usr/sbin:/sbin

# required PROGRAM-OR-FILE…: ends the benchmark, with a message, if one is missing.
required() {
	local needed
	for needed; do
		command -v "$needed" >/dev/null || [ -e "$needed" ] || {
			echo "$(basename "$0" .sh): $needed is missing: try make setup build" >&2
			exit 1
		}
	done
}
