#!/usr/bin/env bash
# How many records a second of server CPU time carries from TCP connections into a file, and
# whether one of them is lost: dyno's channels against rsyslog. Each alone on one CPU, started
# afresh for each run. The producers are bash and cat; a run ends when the file is as long as
# what was sent, and counts only if it holds each line once.
#
#   bench/channels-vs-rsyslog.sh | tee bench/channels-vs-rsyslog.txt
#
# Neither forces the file to disk. rsyslog parses each line as a syslog message, as it
# always does, and writes it as it came (%rawmsg%). It must be installed: apt-get install rsyslog.
#
# Settings, by environment:
#   ROUNDS=5 RECORDS=4000000 CONNECTIONS=8 SERVER_CPU=0 LOAD_CPU=1 PORT=18110
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-5} records=${RECORDS:-4000000} connections=${CONNECTIONS:-8}
server_cpu=${SERVER_CPU:-0} load_cpu=${LOAD_CPU:-1}
port=${PORT:-18110}
dyno=${DYNO:-$PWD/bin/dyno}

. bench/required.sh
required rsyslogd jq taskset "$dyno"

echo "made by: ROUNDS=$rounds RECORDS=$records CONNECTIONS=$connections bench/channels-vs-rsyslog.sh"
rsyslogd -v | sed -n '1s/ (aka.*//p'

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/pair" ./experiments/bench/pair

# Lines of 100 bytes, all different, in the form of RFC 3164.
each=$((records / connections))
for c in $(seq "$connections"); do
	seq -f "<13>Jan  1 00:00:00 host app: connection $(printf %03d "$c") record %08.0f $(printf 'x%.0s' $(seq 38))" "$each" >"$dir/lines.$c"
done
sort "$dir"/lines.* >"$dir/expected"

cat >"$dir/pour" <<POUR
#!/usr/bin/env bash
# Sends all lines over the connections, waits for the file to hold them, and compares.
set -euo pipefail
for c in \$(seq $connections); do
	cat "$dir/lines.\$c" >/dev/tcp/127.0.0.1/$port &
done
wait
want=\$(stat -c %s "$dir/expected")
for _ in \$(seq 600); do
	[ "\$(stat -c %s "\$1" 2>/dev/null || echo 0)" -lt "\$want" ] || break
	sleep 0.05
done
sort "\$1" | cmp -s - "$dir/expected" || { echo "pour: the file does not hold each line once" >&2; exit 1; }
: >"\$1" # the next run appends
echo $((each * connections))
POUR
chmod +x "$dir/pour"

cat >"$dir/rsyslog.conf" <<CONF
global(workDirectory="$dir")
module(load="imtcp" maxSessions="200")
template(name="raw" type="string" string="%rawmsg%\n")
ruleset(name="store") { action(type="omfile" file="$dir/rsyslog.out" template="raw") }
input(type="imtcp" port="$port" address="127.0.0.1" ruleset="store")
CONF
cat >"$dir/channels.yaml" <<CONF
channels:
  - name: store
    source: {kind: tcp, address: "127.0.0.1:$port"}
    sink: {kind: file, path: $dir/channels.out, sync: never}
CONF

subject() { # NAME SERVER-COMMAND…
	local name=$1
	shift
	jq -n --arg name "$name" --arg cpus "$load_cpu" --arg server_cpu "$server_cpu" --arg ready "127.0.0.1:$port" \
		--arg pour "$dir/pour" --arg out "$dir/$name.out" '{$name, $cpus, count: "cat", run: [$pour, $out],
		under: {run: $ARGS.positional, cpus: $server_cpu, $ready}}' --args -- "$@"
}
{
	subject rsyslog rsyslogd -n -f "$dir/rsyslog.conf" -i "$dir/rsyslog.pid"
	subject channels "$dyno" serve channels --config "$dir/channels.yaml"
} | jq -s --argjson rounds "$rounds" --arg c "$connections" '{
	title: "Records of 100 bytes from \($c) TCP connections into a file, per CPU-second of the server",
	key: $c, unit: "records", $rounds, base: "rsyslog", services: [], subjects: .}' >"$dir/plan.json"
"$dir/pair" <"$dir/plan.json"
echo "lost or repeated: 0 of $((each * connections)) in each run of both, or the script would have ended"
