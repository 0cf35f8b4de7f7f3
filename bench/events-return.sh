#!/usr/bin/env bash
# 10,000 subscribers whose connections are all lost at one moment, because their hub is
# killed: how long it takes from when there is a hub again until all are back, under
# publishing, and what became of publications from then on.
#
#   bench/events-return.sh | tee bench/events-return.txt
#
# Settings, by environment: SUBSCRIBERS=10000 ROUNDS=3 PORT=7813 HUB_CPU=0 LOAD_CPU=1
set -euo pipefail
cd "$(dirname "$0")/.."
n=${SUBSCRIBERS:-10000} port=${PORT:-7813}
dir=$(mktemp -d)
hub= client=
trap 'for p in $hub $client; do kill -9 "$p" 2>/dev/null || true; done; rm -rf "$dir"' EXIT

start() {
	taskset -c "${HUB_CPU:-0}" ./bin/dyno serve events --listen "127.0.0.1:$port" --admin "127.0.0.1:$((port + 100))" \
		--history file --file "$dir/history.db" >>"$dir/log" 2>&1 &
	hub=$!
	until curl -so /dev/null "http://127.0.0.1:$port/"; do sleep 0.02; done
}
subscribers() { curl -s "http://127.0.0.1:$((port + 100))/metrics" | awk '/^events_subscribers / {print $2 + 0}'; }
now() { date +%s%N; }
await() { until [ "$(subscribers)" -ge "$n" ]; do sleep 0.05; done; }

echo "nproc $(nproc), kernel $(uname -r), $(./bin/dyno --version)"
times=() turned_away=0
printf 'subscribers\tall back after, s\tpublications meanwhile\trefused\n'
for _ in $(seq "${ROUNDS:-3}"); do
	rm -f "$dir/history.db"
	start
	./bin/dyno sse -c "$n" -z 60 --cpus "${LOAD_CPU:-1}" -q "http://127.0.0.1:$port/events?topic=t" >/dev/null 2>&1 &
	client=$!
	await
	kill -9 "$hub"
	wait "$hub" 2>/dev/null || true
	start
	began=$(now)
	sent=0 refused=0
	while [ "$(subscribers)" -lt "$n" ]; do
		code=$(curl -so /dev/null -w '%{http_code}' -d x "http://127.0.0.1:$port/publish?topic=t" || true)
		sent=$((sent + 1))
		[ "$code" = 200 ] || refused=$((refused + 1))
		[ $((($(now) - began) / 1000000000)) -lt 60 ] || break
	done
	took=$((($(now) - began) / 1000000))
	printf '%s\t%d.%03d\t%s\t%s\n' "$(subscribers)" $((took / 1000)) $((took % 1000)) "$sent" "$refused"
	times+=("$(printf '%d.%03d' $((took / 1000)) $((took % 1000)))")
	turned_away=$((turned_away + refused))
	kill -9 "$client" "$hub"
	wait "$client" "$hub" 2>/dev/null || true
	hub= client=
done
echo "result: subscribers $n"
echo "result: back $(printf '%s\n' "${times[@]}" | sort -n | head -n 1)–$(printf '%s\n' "${times[@]}" | sort -n | tail -n 1) s"
echo "result: refused $turned_away"
