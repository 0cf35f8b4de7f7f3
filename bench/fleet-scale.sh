#!/usr/bin/env bash
# What a fleet costs its control plane and its coordinator. 1,000 agents share one process (experiments/bench/fleet) on
# one CPU, and are otherwise real: each registers, renews its lease, watches what is said about it, and
# listens. The control plane, of one replica, has another CPU, as does the coordinator.
#
#   register    all come at once
#   idle        they live and do nothing
#   cordon      all are cordoned, 16 at the same time: until the last knows
#   choose      dyno fleet list: it reads the registry, and asks each agent what it carries
#   clock       one comparison of clocks, with its connection: what it costs the coordinator
#   coordinate  loads of 1 and of 64 agents, for 5 s and for 35 s: what dyno costs for each agent before a load
#               and after it (its connections, its clock, the plan, the result), and in each second of it
#
#   bench/fleet-scale.sh | tee bench/fleet-scale.txt
#
# Settings, by environment:
#   AGENTS=1000 SECONDS_EACH=30 MANY=64 CONTROL_CPU=0 AGENTS_CPU=1 PORT=18600 DYNO=…/bin/dyno CONTROL=…/bin/dyno-control
set -euo pipefail
cd "$(dirname "$0")/.."
agents=${AGENTS:-1000} seconds=${SECONDS_EACH:-30} many=${MANY:-64} control_cpu=${CONTROL_CPU:-0} agents_cpu=${AGENTS_CPU:-1}
port=${PORT:-18600} dyno=${DYNO:-$PWD/bin/dyno} control=${CONTROL:-$PWD/bin/dyno-control}

. bench/required.sh
required curl jq taskset "$dyno" "$control"
dir=$(mktemp -d)
running=()
trap 'kill "${running[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
go build -o "$dir" ./experiments/bench/fleet

echo "made by: AGENTS=$agents SECONDS_EACH=$seconds MANY=$many CONTROL_CPU=$control_cpu AGENTS_CPU=$agents_cpu bench/fleet-scale.sh"
echo "nproc $(nproc), kernel $(uname -r), $("$dyno" --version | head -n 1)"
taskset -c "$control_cpu" "$control" --listen "127.0.0.1:$port" --admin "127.0.0.1:$((port + 1))" --data "$dir/data" >"$dir/control.log" 2>&1 &
running+=($!)
taskset -c "$control_cpu" "$dyno" serve echo --http "127.0.0.1:$((port + 2))" >"$dir/echo.log" 2>&1 &
running+=($!)
for ((i = 0; i < 600; i++)); do
	curl -fso /dev/null "http://127.0.0.1:$((port + 1))/readyz" && break
	sleep 0.1
done

version=$("$dyno" version | sed -n '1s/^dyno //p')
: >"$dir/agents"
export DYNO_CONTROL_PLANE=http://127.0.0.1:$port
taskset -c "$agents_cpu" "$dir/fleet" agents --control-plane "$DYNO_CONTROL_PLANE" --admin "127.0.0.1:$((port + 1))" --pid "${running[0]}" \
	--version "$version" --agents "$agents" --for "${seconds}s" >"$dir/agents" 2>"$dir/agents.log" &
simulation=$!
running+=("$simulation")
until grep -q '^ready$' "$dir/agents"; do
	kill -0 "$simulation" 2>/dev/null || {
		cat "$dir/agents.log" >&2
		exit 1
	}
	sleep 0.1
done
grep '^result: ' "$dir/agents"

# timed COMMAND…: runs it, and prints how long it took and its CPU time, in seconds.
timed() {
	local code=0 TIMEFORMAT='%R %U %S'
	{ time taskset -c "$control_cpu" "$@" >"$dir/out" 2>&1 || code=$?; } 2>"$dir/time"
	[ "$code" -eq 0 ] || [ "$code" -eq 4 ] || { # 4: many agents on one CPU may be too slow for the figures
		cat "$dir/out" >&2
		exit 1
	}
	awk '{print $1, $2 + $3}' "$dir/time"
}
read -r took cpu < <(timed "$dyno" fleet list)
[ "$(grep -c ' ready ' "$dir/out")" -eq "$agents" ] || {
	tail "$dir/out" >&2
	exit 1
}
echo "result: choose.seconds $took"
echo "result: choose.cpu_seconds $cpu"

mapfile -t addresses < <(awk '/ ready / {print $2}' "$dir/out" | head -n 4)
taskset -c "$control_cpu" "$dir/fleet" clocks --version "$version" --rounds 50 "${addresses[@]/#/--agent=}" >"$dir/clocks"
grep '^result: clock.cpu_ms_each' "$dir/clocks"

# load N SECONDS: a load of N agents; dyno's CPU time as its coordinator, and how long the load took to begin and to end.
load() {
	rm -rf "$dir/run"
	timed "$dyno" http -q -R "$((10 * $1))" -c "$1" -z "$2s" --warmup 1s --fleet '' --agents "$1" -o "$dir/run" "http://127.0.0.1:$((port + 2))/" |
		awk -v window="$2" '{printf "%.3f %.2f\n", $2, $1 - window - 1}'
}
printf '%s\t%s\t%s\t%s\t%s\n' agents 'window, s' 'CPU, s' 'begin and end, s' 'clock error at most, µs'
table=
for n in 1 "$many"; do
	for window in 5 35; do
		read -r cpu rest < <(load "$n" "$window")
		error=$(jq '[.agents[].clock_error_seconds] | max * 1e6 | round' "$dir"/run/trials/*/trial.json)
		printf '%s\t%s\t%s\t%s\t%s\n' "$n" "$window" "$cpu" "$rest" "$error"
		table+=" $cpu $rest $error"
	done
done
awk -v n="$many" '{
	second = (($10 - $7) - ($4 - $1)) / 30 / (n - 1)
	printf "result: coordinate.per_agent_and_second_us %.0f\n", second * 1e6
	printf "result: coordinate.per_agent_ms %.2f\n", (($7 - $1) / (n - 1) - 6 * second) * 1e3
	printf "result: coordinate.begin_and_end_seconds %s\n", $8
	printf "result: coordinate.clock_error_max_us %s\n", $9
}' <<<"$table"
