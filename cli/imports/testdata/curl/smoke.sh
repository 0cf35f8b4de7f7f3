#!/bin/sh
HOST=${HOST:-http://localhost:9000}
curl --fail --silent --show-error --location --output /dev/null --write-out '%{http_code}\n' http://localhost:9000/
curl -fsSL http://localhost:9000/login?next=%2Fhome#top
curl -sf -A smoke/1.0 -e http://localhost:9000/ -b session=abc --connect-timeout 2 http://localhost:9000/home http://localhost:9000/inbox
curl -sf -d user=ann -d 'password=a b' --data-urlencode 'next=/home?a=1' http://localhost:9000/login --next -s http://localhost:9000/logout
curl -sf --retry 3 --limit-rate 1M http://localhost:9000/large.bin -o large.bin
curl -sf --resolve localhost:9000:127.0.0.1 --range 0-99 http://localhost:9000/large.bin
curl -sf "http://localhost:9000/now?at=$(date +%s)"
curl --strange http://localhost:9000/x
wget -q http://localhost:9000/y
