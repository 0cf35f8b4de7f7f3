#!/usr/bin/env bash
# Re-run published reports in full, by default all, and put the figures into their pages, docs/reports/NAME.md:
#
#   scripts/reports.sh [--short] [R0] [R1] [R2] [R3] [R4]
#
# All tables of the runs are written next to the run folders ($RUNS, by default runs/): NAME.md, and NAME-explain.md,
# which says why variants differ. scripts/figures fills the tables of the page from them, draws its picture, and
# names the claims whose outcome has changed. Texts of the page, and figures in them, must be changed by hand.
#
# Each takes about half an hour on two CPUs, which should have nothing else to do, R0 another 15
# minutes for its soak, R2 another 15 for its goal and its phases, and R3 what its programs take
# to be built, the first time. R0 has four of R3's experiments, too, which answer claims of its own.
# A run that is complete already is not
# repeated; an interrupted one is gone on with.
#
# --short runs all of a report's experiments in their short forms, to see that they work. Most have one round, which
# settles nothing: their warm-ups are too short for figures that could contradict a page. The runs are in $RUNS/short,
# and the pages are left alone.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${RUNS:-runs}
options=()
if [ "${1:-}" = --short ]; then
	shift
	runs=$runs/short
	options=(--short --set remeasure=false)
fi
go build -o bin/ ./cmd/dyno ./cmd/dyno-control
export PATH=$PWD/bin:$PATH

# complete FOLDER: tells whether a run was carried out to its end.
complete() { grep -qs '"complete": true' "$1/run.json"; }

# run NAME OPTION…: what a complete run has to complain of, such as a machine that was too busy
# or a threshold that was broken, is in the report too.
run() {
	local folder=$runs/$1 code=0 within=()
	# Kernel settings and devices are a network namespace's: those of the machine are left alone. Where
	# there may be none, the experiment says so.
	if grep -q "it needs a network namespace of its own" "experiments/reports/$1.yaml" && unshare --net true 2>/dev/null; then
		within=(unshare --net sh -c 'ip link set lo up && exec "$@"' sh)
	fi
	if [ ! -e "$folder/run.json" ]; then
		"${within[@]}" ./bin/dyno run "${options[@]}" "${@:2}" -o "$folder" "experiments/reports/$1.yaml" || code=$?
	elif ! complete "$folder"; then
		"${within[@]}" ./bin/dyno run --resume "$folder" || code=$?
	fi
	[ "$code" -eq 0 ] || complete "$folder" || exit "$code"
}

# report NAME EXPERIMENT...: the experiments' reports in one document, and in the report's page.
report() {
	local name=$1 folders=()
	shift
	for experiment in "$@"; do
		run "$experiment"
		folders+=("$runs/$experiment")
	done
	./bin/dyno report --format markdown --full "${folders[@]}" >"$runs/$name.md"
	echo "$runs/$name.md"
	if [ ${#options[@]} -eq 0 ]; then
		go run ./scripts/figures "$runs/$name.md" "docs/reports/$name.md"
		echo "docs/reports/$name.md"
	fi
}

# explain NAME EXPERIMENT...: why the variants of the experiments differ, in one document.
explain() {
	local name=$1 experiment
	shift
	for experiment in "$@"; do
		run "$experiment"
	done
	for experiment in "$@"; do
		./bin/dyno explain --format markdown --top 15 "$runs/$experiment"
	done >"$runs/$name-explain.md"
	echo "$runs/$name-explain.md"
}

for name in "${@:-R0 R1 R2 R3 R4}"; do
	for one in $name; do
		case $one in
		R0)
			report R0 R0-load R0-stages R0-ramp R0-replicas R0-push R0-gc R0-procs R0-pressure R0-goroutines R0-timeouts R0-tls R0-pool R0-resumption R0-windows R0-segments R0-acknowledgements R0-kernel R0-jvm R0-tasks R0-rollback R0-failover R0-probes R0-traces R0-messages R0-rates R0-soak \
				R3-messages R3-formats R3-handshakes R3-windows
			;;
		R1)
			report R1 R1-concurrency-models R1-switch R1-stack R1-units R1-pinning R1-locks R1-io R1-scheduling R1-pipeline R1-chain \
				R1-tasks R1-tenants R1-dispatch R1-predict
			explain R1 R1-explain
			;;
		R2)
			go build -o bin/ ./cmd/dyno-bot
			PATH=$PWD/bin:$PATH # the experiments' scripts start both by name
			report R2 R2-chats R2-cores R2-goal R2-memory R2-rate R2-phases R2-filter R2-error R2-p99 R2-clocks R2-deadline R2-detect R2-traffic \
				R2-ladder R2-middleware R2-defer R2-quantile R2-guard R2-json R2-cache R2-rows R2-network R2-link R2-idle R2-closed
			explain R2 R2-ladder
			;;
		R3)
			report R3 R3-languages R3-shared R3-multiplexed R3-inflight R3-latency R3-capacity R3-connections R3-clients \
				R3-cost R3-ladder R3-serialization R3-messages R3-json R3-middleware R3-runtimes R3-collector R3-starvation \
				R3-web R3-listeners R3-handshakes R3-alpn R3-arrivals R3-keepalive
			explain R3 R3-ladder R3-cost
			;;
		R4)
			report R4 R4-sse-ladder R4-publishers R4-slow R4-flush R4-nodelay R4-buffers R4-keepalive \
				R4-direct R4-garbage R4-ticker R4-lowlatency R4-registers R4-clients R4-bandwidth R4-connections R4-heartbeats R4-futex
			explain R4 R4-sse-ladder
			;;
		*)
			echo "reports: there is no report $one: want R0, R1, R2, R3 or R4" >&2
			exit 2
			;;
		esac
	done
done
