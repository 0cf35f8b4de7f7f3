#!/usr/bin/env bash
# The time to the first byte from nginx over TLS, on new connections across a link with a round trip of 40 ms
# (experiments/subjects/link; nginx and openssl must be installed):
#
#   unshare --net experiments/reports/first-byte.sh full|id|ticket|early 1.2|1.3 [CONNECTIONS]
#
# full: no session is resumed; id: one is, from the server's cache; ticket: by a ticket; early: by a ticket, and the
# request goes with the first packet (0-RTT). The last line is the median, in JSON. openssl's start is part of it.
set -euo pipefail
how=$1 version=$2 connections=${3:-15}
server=10.99.0.2:8443
dir=$(mktemp -d)
trap 'kill "$link" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -keyout "$dir/key" -out "$dir/certificate" 2>/dev/null
[ "$how" = id ] && tickets=off || tickets=on
cat >"$dir/nginx.conf" <<END
daemon off;
master_process off;
pid $dir/pid;
error_log stderr crit;
events {}
http {
	access_log off;
	server {
		listen $server ssl;
		ssl_certificate $dir/certificate;
		ssl_certificate_key $dir/key;
		ssl_protocols TLSv$version;
		ssl_session_cache shared:sessions:1m;
		ssl_session_tickets $tickets;
		ssl_early_data on;
		return 200 "hello";
	}
}
END
ip link set lo up
bin/link --delay 20ms -- nginx -p "$dir" -c "$dir/nginx.conf" &
link=$!
printf 'GET / HTTP/1.0\r\n\r\n' >"$dir/request"

# ask OPTION…: one request on a new connection.
ask() {
	openssl s_client -connect "$server" -alpn http/1.1 -no-CAfile -no-CApath -no-CAstore -quiet "$@" 2>"$dir/said" <"$dir/input"
}
cp "$dir/request" "$dir/input"
for _ in $(seq 50); do # until nginx listens; the last answer leaves a session
	! ask -sess_out "$dir/session" | grep -q hello || break
	sleep 0.1
done
options=()
[ "$how" = full ] || options=(-sess_in "$dir/session")
if [ "$how" = early ]; then
	options+=(-early_data "$dir/request")
	: >"$dir/input"
fi
for _ in $(seq "$connections"); do
	began=$EPOCHREALTIME
	IFS= read -r -N 1 _ < <(ask "${options[@]}") || { cat "$dir/said" >&2; exit 1; }
	ended=$EPOCHREALTIME
	echo $(((${ended/./} - ${began/./})))
done | sort -n | awk '{took[NR] = $1} END {printf "{\"first_byte_seconds\": %.6f}\n", took[int((NR + 1) / 2)] / 1e6}'
