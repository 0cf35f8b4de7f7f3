#!/usr/bin/env bash
# Whether every request is accounted for, against servers that others have written: nghttpd,
# nginx, HAProxy, Node's, Go's and Jetty; and a server of Go's that says GOAWAY at every
# thousandth request of a connection and resets one in a hundred. Each gets a number of
# requests in each way, in closed and open loop. What came back is held against what was
# sent and, where the server keeps a count, against that. A difference ends it with an
# error.
#
#   bench/http2-conservation.sh | tee bench/http2-conservation.txt
#
# Settings, by environment:
#   REQUESTS=100000
set -euo pipefail
cd "$(dirname "$0")/.."

. bench/required.sh
required go nghttpd nginx haproxy node java /usr/share/java/jetty9-http2-server.jar

requests=${REQUESTS:-100000}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! DYNO_PEER_REQUESTS=$requests go test -v -count 1 -timeout 2h -run '^TestPeer' ./load/engine | tee "$log" >&2 || grep -q -- '--- SKIP' "$log"; then
	echo "http2-conservation: not all requests are accounted for, or a server is missing: see above" >&2
	exit 1
fi
echo "made by: REQUESTS=$requests bench/http2-conservation.sh"
echo "$(nghttpd --version), $(nginx -v 2>&1 | sed 's/.*: //'), $(haproxy -v | sed -n '1s/ - .*//p'), Node $(node --version)," \
	"$(go env GOVERSION), Jetty $(dpkg-query -W -f '${Version}' libjetty9-java), $(java -version 2>&1 | head -n 1)"
printf '%s\n' server protocol loop sent ok failed "the server's count" connections 'of these with GOAWAY' 'sent again' | paste -s
sed -n 's/.*row:\t//p' "$log"
sed -n 's/.*row:\t//p' "$log" | awk -F'\t' '{
		sent += $4; ok += $5; again += $10
		for (n = split($6, kinds, ", "); n > 0; n--) { sub(/.* /, "", kinds[n]); failed += kinds[n] }
	}
	END {print "result: sent " sent; print "result: unaccounted " sent - ok - failed; print "result: resent " again}'
