#!/usr/bin/env bash
# What a worker of a queue costs the control plane, and how long a task waits that wants its machine alone.
#
#   bench/idle-worker.sh | tee bench/idle-worker.txt
#
# First a worker has nothing to do, in a queue of TASKS=1000 that have ended. A relay counts its requests, the messages of its watches
# and the bytes that it gets, for SECONDS_IDLE=20.
# Then SMALL=40 tasks of three seconds wait for three workers with two agents. Each wants one agent. One task of a higher priority wants
# both agents alone. The number is that of the small tasks which began before it, after it was submitted.
#
# DYNO names another program to measure, such as an earlier one; NAMESPACE is where that has its tasks.
set -euo pipefail
cd "$(dirname "$0")/.."
. bench/required.sh
required jq python3 ./bin/dyno-control
control=$PWD/bin/dyno-control dyno=$(realpath "${DYNO:-bin/dyno}") tasks=${TASKS:-1000} seconds=${SECONDS_IDLE:-20} small=${SMALL:-40} port=${PORT:-7830}
namespace=${NAMESPACE:-fleet-queue}
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
echo "made by: TASKS=$tasks bench/idle-worker.sh"
"$control" --listen 127.0.0.1:$port --data data --no-sync --drain-timeout 0s --grace 0s >control.log 2>&1 &
until curl -sf "http://127.0.0.1:$port/v1/configs?namespace=$namespace" >list; do sleep 0.2; done
run='{"fence":1,"worker":"w","state":"done","began_at":"2026-01-01T00:00:00Z","ended_at":"2026-01-01T00:01:00Z","predicted_seconds":60,"exit_code":0,"result":"/runs/nightly-0001"}'
runs=$(for _ in $(seq 20); do printf '%s,' "$run"; done)
for n in $(seq -f %04g "$tasks"); do
	jq -n --arg c "{\"id\":\"t$n\",\"name\":\"nightly\",\"priority\":0,\"submitted_at\":\"2026-01-01T00:00:00Z\",\"retries\":2,\"state\":\"done\",\"attempts\":0,\"fence\":20,\"runs\":[${runs%,}]}" \
		'{content: $c, content_type: "application/json"}' >task.json
	printf 'url = "http://127.0.0.1:%s/v1/configs/tasks.t%s?namespace=%s"\nrequest = PUT\nheader = "Content-Type: application/json"\ndata = "@task%s.json"\noutput = "/dev/null"\nfail\nnext\n' \
		"$port" "$n" "$namespace" "$n" >>puts
	mv task.json "task$n.json"
done
sed -i '$d' puts # the last next
curl -sS -K puts

# A relay that counts requests, answers' bytes and events.
cat >relay.py <<'P'
import re, socket, sys, threading, time
listen, to, count = int(sys.argv[1]), int(sys.argv[2]), {"requests": 0, "bytes": 0, "messages": 0}
def pipe(a, b, up):
    try:
        while data := a.recv(65536):
            if up: count["requests"] += len(re.findall(rb"(?:GET|PUT|POST|DELETE) /\S* HTTP/1\.1\r\n", data))
            else:
                count["bytes"] += len(data)
                count["messages"] += len(re.findall(rb"\n(?:event|:)", data))
            b.sendall(data)
    except OSError: pass
    for s in (a, b):
        try: s.shutdown(socket.SHUT_RDWR)
        except OSError: pass
def accept(s):
    while True:
        a, _ = s.accept()
        b = socket.create_connection(("127.0.0.1", to))
        threading.Thread(target=pipe, args=(a, b, True), daemon=True).start()
        threading.Thread(target=pipe, args=(b, a, False), daemon=True).start()
s = socket.create_server(("127.0.0.1", listen))
threading.Thread(target=accept, args=(s,), daemon=True).start()
for line in sys.stdin:
    print(count["requests"], count["bytes"], count["messages"], flush=True)
P
coproc RELAY { exec python3 relay.py $((port + 1)) "$port"; }
counted() { echo >&"${RELAY[1]}" && read -r -u "${RELAY[0]}" "$@"; }
counted requests bytes messages # it listens now
limits=()
! "$dyno" queue work --help | grep -q -- --command || limits=(--command "$dyno")
work() { "$dyno" queue work --results runs --name "$1" --control-plane "http://127.0.0.1:$2" "${limits[@]}" >>"$1.log" 2>&1 & }
work idle $((port + 1))
idle=$!
sleep 5
counted requests bytes messages
sleep "$seconds"
counted requests2 bytes2 messages2
awk -v s="$seconds" -v r=$((requests2 - requests)) -v b=$((bytes2 - bytes)) -v m=$((messages2 - messages)) -v t="$tasks" \
	'BEGIN { printf "idle worker, %d tasks that have ended: requests_per_second %.2f, messages_per_second %.2f, bytes_per_second %.0f\n", t, r / s, m / s, b / s }'
kill $idle
wait $idle || true

export DYNO_CONTROL_PLANE=http://127.0.0.1:$port
"$dyno" serve echo --http 127.0.0.1:$((port + 2)) >echo.log 2>&1 &
for agent in a b; do
	"$dyno" agent --listen 127.0.0.1:0 --name $agent >$agent.log 2>&1 &
	until "$dyno" fleet list | grep -q "^$agent .*ready"; do sleep 0.2; done
done
plan() {
	cat >"$1.yaml" <<Y
name: $1
target: {protocol: http, url: "http://127.0.0.1:$((port + 2))/"}
load: {closed: {connections: 1}, warmup: 0, window: $2}
observe: {kernel: none}
design: {rounds: 1, remeasure: false}
Y
}
plan small 3s
plan alone 500ms
for _ in $(seq "$small"); do "$dyno" submit --retries 0 --agents 1 small.yaml >/dev/null; done
for name in one two three; do
	work $name "$port"
	sleep 1.5 # so that the small ones do not end together
done
since=$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)
id=$("$dyno" submit --retries 0 --priority 1 --agents 2 --exclusive alone.yaml)
for _ in $(seq 240); do
	began=$("$dyno" queue show "$id" | jq -r '.runs[0].began_at // empty')
	[ -z "$began" ] || break
	sleep 1
done
[ -n "$began" ] || { echo "exclusive task amid small ones: not begun in 240 s"; exit; }
before=$(curl -sf "http://127.0.0.1:$port/v1/configs?namespace=$namespace&search=tasks.&limit=1000" | jq --arg since "$since" --arg until "$began" \
	'[.items[].content | fromjson | select(.name == "small") | .runs[]?.began_at | select(. > $since and . < $until)] | length')
echo "exclusive task amid small ones: began after $before of $small, $(awk -v a="$(date -d "$since" +%s.%N)" -v b="$(date -d "$began" +%s.%N)" 'BEGIN { printf "%.1f", b - a }') s after it was submitted"
