#!/usr/bin/env bash
# What a scenario costs the generator: users who log in, list and post, with rows of a large
# CSV, values taken from responses, and templates in path, header and body; against the same
# three requests without any of that, as many of each, by runs of their own. nginx with one
# process on one CPU, dyno on another, closed loop, in turns:
#
#   apart     the three requests one after the other, each repeated as it is
#   scenario  an iteration is a row of the CSV and the three requests, to which the later
#             ones have to wait for what the earlier ones brought
#
# The ratio is of good responses per CPU-second of dyno, in pairs within rounds. The CPU time
# is that of the windows, by dyno's own account: that of whole processes would count three
# beginnings and ends against one.
#
# After that comes memory while the scenario runs: the resident set, of which the pages of
# the mapped CSV are a part that the kernel takes back when it needs them, and the anonymous
# part, which is dyno's own.
#
#   bench/scenario.sh | tee bench/scenario.txt
#
# Settings, by environment:
#   ROUNDS=9 ITERATIONS=300000 CONNECTIONS=64 ROWS=1000000
#   SERVER_CPU=0 LOAD_CPU=1 PORT=18120 DYNO=…/bin/dyno
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-9} iterations=${ITERATIONS:-300000} connections=${CONNECTIONS:-64} rows=${ROWS:-1000000}
server_cpu=${SERVER_CPU:-0} load_cpu=${LOAD_CPU:-1} port=${PORT:-18120}
dyno=${DYNO:-$PWD/bin/dyno}

. bench/required.sh
. bench/nginx.sh
required nginx jq taskset awk "$dyno"

dir=$(mktemp -d)
running=()
trap 'kill "${running[@]}" 2>/dev/null || true; rm -rf "$dir"' EXIT
token=0123456789abcdef0123456789abcdef
nginx_conf "$dir" >"$dir/nginx.conf" <<CONF
	keepalive_timeout 1h;
	default_type application/json;
	server {
		listen 127.0.0.1:$port backlog=4096;
		location = /login { return 200 '{"data":{"token":"$token"}}'; }
		location = /items { return 200 '{"items":[{"id":"A17","title":"one"},{"id":"B23","title":"two"}]}'; }
		location = /orders { return 201 '{"id":"A17"}'; }
	}
CONF
awk -v n="$rows" 'BEGIN {
	print "email,password,city"
	for (i = 0; i < n; i++) printf "user%07d@example.com,secret%07d,city%03d\n", i, i, i % 1000
}' >"$dir/users.csv"

url=http://127.0.0.1:$port
cat >"$dir/scenario.yaml" <<'YAML'
data: {users: users.csv}
headers: {Content-Type: application/json}
steps:
  - name: login
    path: /login
    body: '{"email":"{{ email }}","password":"{{ password }}"}'
    extract: {token: $.data.token}
  - name: list
    path: /items?city={{ city }}
    headers: {Authorization: "Bearer {{ token }}"}
    extract: {id: "$.items[0].id"}
  - name: order
    path: /orders
    headers: {Authorization: "Bearer {{ token }}"}
    body: '{"item":"{{ id }}","city":"{{ city }}"}'
    status: 201
YAML

# The exit code 4 says that the generator was the limit: here it is meant to be.
cat >"$dir/load" <<'SH'
#!/usr/bin/env bash
set -euo pipefail
dyno=$1 connections=$2 requests=$3
shift 3
"$dyno" http -q -c "$connections" -n "$requests" --warmup 0 --json - "$@" || [ $? = 4 ]
SH
# The same bytes as the scenario's, but for what varies.
cat >"$dir/apart" <<'SH'
#!/usr/bin/env bash
set -euo pipefail
load=("$1" "$2" "$3" "$4" -H 'Content-Type: application/json') url=$5 bearer="Authorization: Bearer $6"
"${load[@]}" --body '{"email":"user0000000@example.com","password":"secret0000000"}' "$url/login"
"${load[@]}" -H "$bearer" "$url/items?city=city000"
"${load[@]}" -H "$bearer" --body '{"item":"A17","city":"city000"}' "$url/orders"
SH
chmod +x "$dir/load" "$dir/apart"

subject() { # NAME COMMAND…
	local name=$1
	shift
	jq -n --arg name "$name" --arg cpus "$load_cpu" --arg count "jq -s 'map(.variants[0].counts.ok) | add'" \
		--arg cpu "jq -s 'map(.variants[0].figures[\"generator.cpu_seconds\"].estimate) | add'" \
		'{$name, $cpus, $count, $cpu, run: $ARGS.positional}' --args -- "$@"
}
scenario=("$dir/load" "$dyno" "$connections" $((3 * iterations)) --scenario "$dir/scenario.yaml" "$url/")
go build -o "$dir/pair" ./experiments/bench/pair

echo "made by: ROUNDS=$rounds ITERATIONS=$iterations CONNECTIONS=$connections ROWS=$rows bench/scenario.sh"
echo "$(nginx -v 2>&1 | sed 's/.*: //'), a CSV of $(stat -c %s "$dir/users.csv") bytes"
echo
{
	subject apart "$dir/apart" "$dir/load" "$dyno" "$connections" "$iterations" "$url" "$token"
	subject scenario "${scenario[@]}"
} | jq -s --argjson rounds "$rounds" --arg conf "$dir/nginx.conf" --arg dir "$dir" --arg cpus "$server_cpu" \
	--arg ready "127.0.0.1:$port" --arg connections "$connections" --arg rows "$rows" '{
	title: "Log in, list, post by HTTP/1.1, \($connections) connections, closed loop, \($rows) rows, nginx on CPU \($cpus): requests per CPU-second of the generator",
	key: $connections, unit: "requests", $rounds, base: "apart",
	services: [{run: ["nginx", "-p", $dir, "-e", "stderr", "-c", $conf], $cpus, $ready}],
	subjects: .}' >"$dir/plan.json"
"$dir/pair" <"$dir/plan.json"

# Memory, with a server of its own: every tenth of a second while the scenario runs. What is
# printed is the largest of each.
taskset -c "$server_cpu" nginx -p "$dir" -e stderr -c "$dir/nginx.conf" &
running+=($!)
for ((i = 0; i < 100; i++)); do
	(: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
	sleep 0.05
done
taskset -c "$load_cpu" "$dyno" http -q -c "$connections" -n $((3 * iterations)) --warmup 0 --json "$dir/memory.json" \
	--scenario "$dir/scenario.yaml" "$url/" >/dev/null &
load=$!
running+=("$load")
while grep -E '^(VmRSS|RssAnon|RssFile):' "/proc/$load/status" >>"$dir/memory" 2>/dev/null; do
	sleep 0.1
done
wait "$load" || [ $? = 4 ]
awk -v key="$connections" '$2 > most[$1] {most[$1] = $2} END {
	for (name in most) most[name] *= 1024
	printf "\nmemory of dyno meanwhile: at most %.1f MB resident, %.1f MB of it anonymous; %.1f MB mapped from files\n", most["VmRSS:"] / 1e6, most["RssAnon:"] / 1e6, most["RssFile:"] / 1e6
	printf "\nresult: %s.memory.resident %d\nresult: %s.memory.anonymous %d\n", key, most["VmRSS:"], key, most["RssAnon:"]
}' "$dir/memory"
jq -r '"\nrequests of that run: \(.variants[0].counts.ok) good, \(.variants[0].figures["errors.total"].estimate) others"' "$dir/memory.json"
