#!/usr/bin/env bash
# What the control plane does with many: three replicas, subscribers, watchers, instances. All
# processes, the generator included, share the CPUs.
#
#   cluster    three replicas, each with its etcd as a member of one cluster: writes at a rate (open
#              loop) to one of them
#   push       from a write until its subscriber has applied it, 1,000 subscribers, at the rate:
#              of one replica, and of three, where subscribers watch another one than is written to
#   watchers   10,000 watchers of one configuration: memory of the server for each, and how long a
#              change takes to reach all of them, though one reads nothing
#   instances  50,000 instances that give a sign of life every 5 s, 1,000 in a request: CPU time of
#              the server, and how many it took for gone
#   outage     etcd, a process of its own, is stopped for three times as long as 1,000 instances may
#              be silent: how long after its return all are visible again and up to date
#
#   bench/control-scale.sh | tee bench/control-scale.txt
#
# Settings, by environment:
#   PARTS="cluster push watchers instances outage" SECONDS_EACH=10 RATE=5000 SUBSCRIBERS=1000
#   WATCHERS=10000 INSTANCES=50000 CPUS=0,1 PORT=18400 FOLDER=… DYNO=…/bin/dyno
#   CONTROL=…/bin/dyno-control LOAD=… ETCD=… (experiments/bench/control and experiments/bench/etcd are built if not given)
set -euo pipefail
cd "$(dirname "$0")/.."

parts=${PARTS:-cluster push watchers instances outage} seconds=${SECONDS_EACH:-10} rate=${RATE:-5000}
subscribers=${SUBSCRIBERS:-1000} watchers=${WATCHERS:-10000} instances=${INSTANCES:-50000}
cpus=${CPUS:-0,1} port=${PORT:-18400} dyno=${DYNO:-$PWD/bin/dyno} control=${CONTROL:-$PWD/bin/dyno-control}

. bench/required.sh
required jq taskset "$dyno" "$control"
dir=$(mktemp -d ${FOLDER:+-p "$FOLDER"})
running=()
trap 'kill "${running[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
load=${LOAD:-$dir/load}
[ -n "${LOAD-}" ] || go build -o "$load" ./experiments/bench/control

etcd=${ETCD:-$dir/etcd}
[ -n "${ETCD-}" ] || go build -o "$etcd" ./experiments/bench/etcd

# server REPLICAS FLAG…: starts them from empty folders, and waits until all answer. Several are
# members of one cluster.
server() {
	local n=$1 i k peers=
	shift
	rm -rf "$dir/data"
	for ((k = 0; k < n; k++)); do peers+=,r$k=127.0.0.1:$((port + 10 + k)); done
	for ((k = 0; k < n; k++)); do
		local member=()
		[ "$n" -eq 1 ] || member=(--data "$dir/data/$k" --name "r$k" --peers "${peers#,}")
		taskset -c "$cpus" "$control" --listen "127.0.0.1:$((port + k))" --admin "127.0.0.1:$((port + 20 + k))" "${member[@]}" "$@" 2>>"$dir/log" &
		running+=($!)
	done
	for ((i = 0; i < 600; i++)); do
		local up=0
		for ((k = 0; k < n; k++)); do
			curl -fso /dev/null "http://127.0.0.1:$((port + 20 + k))/readyz" && up=$((up + 1))
		done
		[ "$up" -lt "$n" ] || return 0
		sleep 0.1
	done
	tail -20 "$dir/log" >&2
	return 1
}
stop() {
	kill "${running[@]}"
	wait "${running[@]}" 2>/dev/null || true
	running=()
}
# results NAME: the figures of a line of JSON, as result lines.
results() { tee /dev/stderr | jq -r --arg name "$1" 'to_entries[] | "result: \($name).\(.key) \(.value)"'; }

echo "made by: PARTS='$parts' SECONDS_EACH=$seconds RATE=$rate SUBSCRIBERS=$subscribers WATCHERS=$watchers INSTANCES=$instances CPUS=$cpus bench/control-scale.sh"
if [[ " $parts " = *" cluster "* ]]; then
	echo
	server 3
	cat >"$dir/create.yaml" <<'YAML'
steps:
  - name: create
    method: POST
    path: /v1/policies
    headers: {Content-Type: application/json}
    body: '{"name":"p{{ counter() }}","rules":[{"match":{"services":["checkout"],"methods":["POST"],"path_prefix":"/v1/orders"},"action":"limit","limit":{"requests_per_second":500,"burst":50}},{"action":"allow"}]}'
    status: 201
YAML
	code=0
	taskset -c "$cpus" "$dyno" http -q -R "$rate" -z "${seconds}s" --warmup 2s --scenario "$dir/create.yaml" --json "$dir/cluster.json" "http://127.0.0.1:$port/" >/dev/null || code=$?
	[ "$code" -eq 0 ] || [ "$code" -eq 4 ] || exit "$code"
	jq -c '.variants[0] | {writes_per_second: .figures.throughput.estimate, p50_seconds: .figures["response.p50"].estimate, p99_seconds: .figures["response.p99"].estimate, errors: .figures["errors.total"].estimate}' "$dir/cluster.json" | results cluster
	stop
fi
if [[ " $parts " = *" push "* ]]; then
	echo
	server 1 --data "$dir/data"
	taskset -c "$cpus" "$load" push --url "http://127.0.0.1:$port" --subscribers "$subscribers" --rate "$rate" --for "${seconds}s" | results push
	stop
	server 3
	taskset -c "$cpus" "$load" push --url "http://127.0.0.1:$port" --watch "http://127.0.0.1:$((port + 1))" --subscribers "$subscribers" --rate "$rate" --for "${seconds}s" | results push-cluster
	stop
fi
if [[ " $parts " = *" watchers "* ]]; then
	echo
	server 1 --data "$dir/data"
	taskset -c "$cpus" "$load" watchers --url "http://127.0.0.1:$port" --watchers "$watchers" --pid "${running[0]}" | results watchers
	stop
fi
if [[ " $parts " = *" instances "* ]]; then
	echo
	server 1 --data "$dir/data" --max-per-service 1000
	taskset -c "$cpus" "$load" instances --url "http://127.0.0.1:$port" --instances "$instances" --for "$((seconds * 2))s" --pid "${running[0]}" | results instances
	curl -fs "http://127.0.0.1:$((port + 20))/metrics" | grep -E '^control_instances_(overdue|expired_total|watched) '
	stop
fi
if [[ " $parts " = *" outage "* ]]; then
	echo
	taskset -c "$cpus" "$etcd" "127.0.0.1:$((port + 40))" "$dir/etcd.d" 2>>"$dir/log" &
	running=($!)
	server 1 --etcd "127.0.0.1:$((port + 40))" --replica bench
	taskset -c "$cpus" "$load" outage --url "http://127.0.0.1:$port" --instances 1000 --interval 2s --for 12s --pid "${running[0]}" | results outage
	stop
fi
