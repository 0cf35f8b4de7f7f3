#!/usr/bin/env bash
# What the queue of a fleet costs: how many trivial tasks a day workers take, run and note, and how long it takes
# until the task of a worker that was killed (SIGKILL) runs again elsewhere.
#
#   bench/queue.sh | tee bench/queue.txt
#
# A task loads an echo server for 100 ms with one connection. So the tasks a day are what submitting, taking,
# starting, judging and noting allow on this machine, with WORKERS workers that share it. They do not wait until
# the others' loads have ended (quiet_wait).
#
# Settings, by environment: TASKS=100 WORKERS=2 KILLS=10 PORT=7820. A task is tried 11 times at most, so that
# there are 10 kills at most.
set -euo pipefail
cd "$(dirname "$0")/.."
. bench/required.sh
required jq ./bin/dyno ./bin/dyno-control
tasks=${TASKS:-100} workers=${WORKERS:-2} kills=${KILLS:-10} port=${PORT:-7820}
dyno=$PWD/bin/dyno control=$PWD/bin/dyno-control
dir=$(mktemp -d)
declare -A pids # by the worker's name
trap '[ ${#pids[@]} = 0 ] || kill -9 "${pids[@]}" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
export DYNO_CONTROL_PLANE=http://127.0.0.1:$port

# plan NAME WINDOW
plan() {
	cat >"$1.yaml" <<-END
		name: $1
		target: {protocol: tcp, start: [dyno, serve, echo, --tcp, "127.0.0.1:{{port}}"]}
		load: {closed: {connections: 1}, warmup: 0, window: $2}
		observe: {kernel: none}
		design: {rounds: 1, remeasure: false, quiet_wait: 0}
	END
}
plan short 100ms
plan long 10m

# work NAME: starts a worker.
work() {
	"$dyno" queue work --results runs --command "$dyno" --name "$1" >>"$1.log" 2>&1 &
	pids[$1]=$!
	disown
}

# shown ID FILTER: what jq makes of a task.
shown() { "$dyno" queue show "$1" | jq -r "$2"; }

# runs ID N: waits until the Nth attempt of a task runs.
runs() { until [ "$(shown "$1" '[.state, .fence] | join(" ")')" = "running $2" ]; do sleep 0.2; done; }

"$control" --listen "127.0.0.1:$port" --data data >control.log 2>&1 &
pids[control]=$!
disown
until "$dyno" queue list >/dev/null 2>&1; do sleep 0.1; done
echo "made by: TASKS=$tasks WORKERS=$workers KILLS=$kills bench/queue.sh"
echo "nproc $(nproc), kernel $(uname -r), $("$dyno" --version | head -1)"

began=$(date +%s%N)
for _ in $(seq "$tasks"); do echo short.yaml; done | xargs "$dyno" submit >ids
echo "submitted: $tasks tasks in $((($(date +%s%N) - began) / 1000000)) ms"
for n in $(seq "$workers"); do work "w$n"; done
while [ "$("$dyno" queue list | grep -Ec ' (queued|running) ')" != 0 ]; do sleep 0.5; done
# From the first attempt's begin to the last one's end, by the workers' own clocks, which are this machine's.
while read -r id; do shown "$id" '.runs[] | [.began_at, .ended_at, .state] | @tsv'; done <ids >attempts
[ "$(wc -l <attempts) $(grep -c "done" attempts)" = "$tasks $tasks" ] || { echo "queue: not each task ran once" >&2; exit 1; }
first=$(cut -f1 attempts | sort | head -1) last=$(cut -f2 attempts | sort | tail -1)
seconds=$(bc <<<"scale=3; $(date -d "$last" +%s.%N) - $(date -d "$first" +%s.%N)")
printf 'ran: %s tasks in %s s\n' "$tasks" "$seconds"

# The worker that runs the task is killed; another one waits.
id=$("$dyno" submit --retries 10 long.yaml)
times=()
for n in $(seq "$kills"); do
	runs "$id" "$n"
	name=$(shown "$id" '.runs[-1].worker')
	killed=$(date +%s.%N)
	kill -9 "${pids[$name]}"
	unset "pids[$name]"
	work "more$n"
	runs "$id" $((n + 1))
	times+=("$(bc <<<"scale=1; ($(date -d "$(shown "$id" '.runs[-1].began_at')" +%s.%N) - $killed) / 1")")
done
"$dyno" queue cancel "$id"
printf 'from a kill to the next attempt: %s s\n' "${times[*]}"
mapfile -t sorted < <(printf '%s\n' "${times[@]}" | sort -n)
echo "result: tasks_per_day $(bc <<<"86400 * $tasks / $seconds")"
echo "result: elsewhere.median_seconds ${sorted[$((kills / 2))]}"
echo "result: elsewhere.max_seconds ${sorted[-1]}"
