# Sourced by benchmarks that compare generators: the subjects of a plan for bench/pair.

# subject NAME COUNT ACCEPT COMMAND…: adds a generator to subjects. It runs on $load_cpu; the
# shell command COUNT reads from its output how much it achieved, and ACCEPT is the JSON
# array of the exit codes besides 0 that mean success.
subject() {
	local name=$1 count=$2 accept=$3
	shift 3
	subjects+=("$(jq -n --arg name "$name" --arg cpus "$load_cpu" --arg count "$count" --argjson accept "$accept" \
		'{$name, $cpus, $count, $accept, run: $ARGS.positional}' --args -- "$@")")
}
