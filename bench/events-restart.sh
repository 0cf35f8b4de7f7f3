#!/usr/bin/env bash
# A hub that is killed 20 times (SIGKILL) and started again, under publishing, with 1,000
# subscribers that come back: what became of every event that was due to each of them.
# First with a history that holds all that they miss, then with one that does not.
#
#   bench/events-restart.sh | tee bench/events-restart.txt
#
# Publications fail while there is no hub: those are errors of publishing, and none that
# was acknowledged may be missing or come twice. Perhaps published are those that failed
# after they had been sent.
#
# Settings, by environment: SUBSCRIBERS=1000 RESTARTS=20 RATE=50 PORT=7812 HUB_CPU=0 LOAD_CPU=1
set -euo pipefail
cd "$(dirname "$0")/.."
n=${SUBSCRIBERS:-1000} restarts=${RESTARTS:-20} port=${PORT:-7812}
dir=$(mktemp -d)
hub=
trap '[ -z "$hub" ] || kill -9 "$hub" 2>/dev/null || true; rm -rf "$dir"' EXIT

# start EVENTS: a hub with a history of EVENTS events.
start() {
	taskset -c "${HUB_CPU:-0}" ./bin/dyno serve events --listen "127.0.0.1:$port" --history file --file "$dir/history.db" \
		--history-events "$1" --queue-events "$1" --retry 200ms >>"$dir/log" 2>&1 &
	hub=$!
	until curl -so /dev/null "http://127.0.0.1:$port/"; do sleep 0.05; done
}

# scene EVENTS
scene() {
	rm -f "$dir/history.db"
	start "$1"
	seconds=$((restarts * 2 + 4))
	./bin/dyno sse -c "$n" --publish '/publish?topic=t' --publishers 4 -R "${RATE:-50}" --warmup 1 -z "$seconds" --cpus "${LOAD_CPU:-1}" \
		-q --json "$dir/run.json" "http://127.0.0.1:$port/events?topic=t" >/dev/null 2>&1 &
	client=$!
	sleep 3
	for _ in $(seq "$restarts"); do
		kill -9 "$hub"
		wait "$hub" 2>/dev/null || true
		start "$1"
		sleep 2
	done
	wait "$client" || true # exit code 4 where the machine was too busy for timings
	jq -r --arg history "$1" '.variants[0] | [$history, .streams.peak, .streams.reconnects, .counts.ok, .figures["errors.total"].estimate,
		.streams.all_delivered, .streams.lost, .streams.repeated, .streams.disordered, .streams.gaps, .streams.announced, .streams.uncertain, .streams.pending] | @tsv' "$dir/run.json"
	results+=("$(jq -r --arg history "$1" '.variants[0].streams |
		"result: \($history).delivered \(.all_delivered)", "result: \($history).lost \(.lost)", "result: \($history).repeated \(.repeated)"' "$dir/run.json")")
	kill -9 "$hub"
	wait "$hub" 2>/dev/null || true
	hub=
}

echo "nproc $(nproc), kernel $(uname -r), $(./bin/dyno --version), $restarts restarts"
printf 'history\tsubscribers\treturns\tpublished\tfailed\tdelivered\tlost\trepeated\tout of order\tgap events\tannounced\tperhaps published\tto come\n'
results=("result: restarts $restarts")
scene 10000
scene 20
printf '%s\n' "${results[@]}"
