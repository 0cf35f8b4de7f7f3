#!/usr/bin/env bash
# Checks of instances by the control plane, counted by the server that is checked (nginx: an instance is a file, and a failing one has none):
#
#   cost     10,000 instances with an HTTP check each 5 s: the CPU time of the control plane, on one CPU, and what nginx counted
#   found    5 % of them fail at once: the time until a watch has each as critical
#   moved    3 replicas with a third of the instances each, one is killed: the time until the checks of its instances go on, the longest
#            pause between two checks of an instance, and the changes of health meanwhile, which must be none
#
#   bench/control-health.sh | tee bench/control-health.txt
#
# Settings, by environment:
#   INSTANCES=10000 EACH=5 SECONDS_EACH=60 MOVED=3000 PORT=18500 CONTROL=…/bin/dyno-control
set -euo pipefail
cd "$(dirname "$0")/.."
instances=${INSTANCES:-10000} each=${EACH:-5} seconds=${SECONDS_EACH:-60} moved=${MOVED:-3000} port=${PORT:-18500}
control=${CONTROL:-$PWD/bin/dyno-control}
. bench/required.sh
required jq curl nginx taskset python3 "$control"

dir=$(mktemp -d)
running=()
trap 'kill "${running[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$dir"' EXIT
mkdir "$dir/up"
cat >"$dir/nginx.conf" <<CONF
user root; daemon off; worker_processes 1; pid $dir/nginx.pid; error_log $dir/nginx.log crit;
events { worker_connections 8192; }
http {
  log_format times '\$msec \$uri \$status';
  access_log $dir/access times buffer=64k flush=1s;
  server { listen 127.0.0.1:$port backlog=8192; root $dir/up; location / { try_files \$uri =503; } }
}
CONF
taskset -c 1 nginx -c "$dir/nginx.conf" &
running+=($!)

# client ARGUMENTS: see the file; it shares no code with the control plane.
client() { taskset -c 1 python3 bench/control-health.py "$@"; }

echo "made by: INSTANCES=$instances EACH=$each SECONDS_EACH=$seconds MOVED=$moved bench/control-health.sh"
echo "$(nproc) × $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), Linux $(uname -r), $(nginx -v 2>&1 | cut -d/ -f2), $(date +%F)"

ready() {
	for ((i = 0; i < 600; i++)); do
		curl -fs "http://127.0.0.1:$1/readyz" >/dev/null && return
		sleep 0.1
	done
	cat "$dir"/log* >&2
	exit 1
}
ticks() { awk '{print $14 + $15}' "/proc/$1/stat"; }

for ((n = 0; n < instances; n++)); do : >"$dir/up/$n"; done
taskset -c 0 "$control" --listen "127.0.0.1:$((port + 1))" --admin "127.0.0.1:$((port + 2))" --data "$dir/one" 2>"$dir/log" &
one=$!
running+=("$one")
ready $((port + 2))
client register "$port" "$each" 0 "$instances" $((port + 1))
sleep $((3 * each))
before=$(ticks "$one") lines=$(wc -l <"$dir/access") began=$(date +%s%N)
sleep "$seconds"
took=$((($(date +%s%N) - began) / 1000000)) cpu=$(($(ticks "$one") - before)) checks=$(($(wc -l <"$dir/access") - lines))
awk -v n="$instances" -v each="$each" -v ms="$took" -v t="$cpu" -v hz="$(getconf CLK_TCK)" -v c="$checks" 'BEGIN {
	printf "cost: %d instances each %d s: nginx counted %.0f checks/s; the control plane took %.1f %% of a CPU, %.0f us a check\n", n, each, c / ms * 1000, 100 * t / hz / ms * 1000, t / hz * 1e6 / c
	printf "result: cost.cpu_percent %.1f\n", 100 * t / hz / ms * 1000 }'
client found "$dir/up" "$each" "$instances" $((port + 1))
kill "$one" && wait "$one" 2>/dev/null || true

peers=a=127.0.0.1:$((port + 11)),b=127.0.0.1:$((port + 21)),c=127.0.0.1:$((port + 31))
pids=()
for n in 1 2 3; do
	name=$(printf '\\x%x' $((96 + n)))
	"$control" --listen "127.0.0.1:$((port + 10 * n + 3))" --admin "127.0.0.1:$((port + 10 * n + 4))" --data "$dir/data$n" --name "$(printf "$name")" --peers "$peers" 2>"$dir/log$n" &
	pids+=($!)
	running+=($!)
done
for n in 1 2 3; do ready $((port + 10 * n + 4)); done
for ((n = 0; n < moved; n++)); do : >"$dir/up/$n"; done
for n in 1 2 3; do client register "$port" "$each" $(((n - 1) * moved / 3)) $((n * moved / 3)) $((port + 10 * n + 3)); done
sleep $((3 * each))
client changes $((port + 13)) >"$dir/changes" &
changes=$!
running+=("$changes")
sleep 1
killed=$(date +%s.%N)
kill -9 "${pids[1]}"
sleep $((8 * each))
kill "$changes"
echo "moved: $(wc -l <"$dir/changes") changes of health"
echo "result: moved.changes $(wc -l <"$dir/changes")"
client moved "$dir/access" "$killed" $((moved / 3)) $((2 * moved / 3)) "$moved" "$each"
