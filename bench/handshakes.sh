#!/usr/bin/env bash
# How many full TLS handshakes a second of generator CPU time makes: dyno, with all its
# recording on, against openssl s_time and h2load. Each connection carries one GET of
# 100 bytes by HTTP/1.1 (s_time: HTTP/1.0) and ends; no session is resumed. nginx with one
# process on one CPU, generators in turns on another. Rows that end in -h2 speak HTTP/2.
#
# s_time has one connection at a time. h2load opens all its connections at once and ends
# with them: it is run again and again.
#
#   bench/handshakes.sh | tee bench/handshakes.txt
#
# Settings, by environment:
#   ROUNDS=9 SECONDS_EACH=5 CONNECTIONS=16 (of dyno, at once) BATCH=1000 (connections of h2load)
#   TLS=1.3 (or 1.2) KEY=ec (P-256; or rsa, of 2048 bits)
#   SERVER_CPU=0 LOAD_CPU=1 PORT=18110 (and the next one) DYNO=…/bin/dyno
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-9} seconds=${SECONDS_EACH:-5} connections=${CONNECTIONS:-16} batch=${BATCH:-1000}
tls=${TLS:-1.3} key=${KEY:-ec}
server_cpu=${SERVER_CPU:-0} load_cpu=${LOAD_CPU:-1} port=${PORT:-18110}
dyno=${DYNO:-$PWD/bin/dyno}
[[ $tls == 1.[23] && ($key == ec || $key == rsa) ]] || {
	echo "handshakes: TLS=$tls KEY=$key: want 1.2 or 1.3, and ec or rsa" >&2
	exit 2
}

# Where dyno's JSON holds the number of good responses.
dyno_ok='.variants[0].counts.ok'

. bench/required.sh
. bench/generator.sh
. bench/nginx.sh
required nginx h2load openssl jq taskset "$dyno"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
directives=$(nginx_tls "$dir" "$tls" "$key")
# The second server is there to tell when nginx is ready: one that speaks TLS would take
# that for a failed handshake.
nginx_file "$dir" 100 <<CONF
		listen 127.0.0.1:$port ssl http2 backlog=4096;
		listen 127.0.0.1:$((port + 1));
$directives
CONF
go build -o "$dir/pair" ./experiments/bench/pair

subjects=()
address=127.0.0.1:$port
url=https://$address/index.html
# Nobody here checks the certificate, so s_time need not read the system's authorities.
subject s_time "awk '/real seconds/{print \$1}'" '[]' openssl s_time -no-CAfile -no-CApath -no-CAstore \
	-new "-tls${tls/./_}" -connect "$address" -www /index.html -time "$seconds"
for speak in --http1 --http2; do
	suffix=
	[ $speak = --http1 ] || suffix=-h2
	# Exit code 4 says that the generator was the limit: here it is meant to be.
	subject "dyno$suffix" "jq '$dyno_ok'" '[4]' "$dyno" http -q $speak --insecure --requests-per-connection 1 \
		-c "$connections" -z "${seconds}s" --warmup 0 --json - "$url"
	flags=(-t1 "-n$batch" "-c$batch")
	[ -n "$suffix" ] || flags+=(--h1)
	# shellcheck disable=SC2016 # the inner shell is to replace them
	subject "h2load$suffix" "awk '/^requests:/{n += \$8} END{print n}'" '[]' \
		bash -c 'for ((until = SECONDS + $1; SECONDS < until;)); do "${@:2}"; done' again "$seconds" h2load "${flags[@]}" "$url"
done

echo "made by: ROUNDS=$rounds SECONDS_EACH=$seconds CONNECTIONS=$connections BATCH=$batch TLS=$tls KEY=$key bench/handshakes.sh"
echo "$(h2load --version), $(nginx -v 2>&1 | sed 's/.*: //'), $(openssl version | cut -d' ' -f1,2)"
echo
printf '%s\n' "${subjects[@]}" | jq -s --argjson rounds "$rounds" --arg conf "$dir/nginx.conf" --arg dir "$dir" \
	--arg cpus "$server_cpu" --arg ready "127.0.0.1:$((port + 1))" --arg tls "$tls" --arg key "$key" \
	--arg connections "$connections" '{
	title: "TLS \($tls), certificate of \($key), a full handshake and a GET of 100 bytes on each connection, nginx on CPU \($cpus): handshakes per CPU-second of the generator",
	key: "\($tls).\($key)", unit: "handshakes", $rounds, base: "s_time",
	services: [{run: ["nginx", "-p", $dir, "-e", "stderr", "-c", $conf], $cpus, $ready}],
	subjects: .}' >"$dir/plan.json"
"$dir/pair" <"$dir/plan.json"
