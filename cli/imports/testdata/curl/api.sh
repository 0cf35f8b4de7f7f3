#!/usr/bin/env bash
# A tour of the orders API, as its README shows it.
set -euo pipefail

BASE=http://127.0.0.1:8080
: "${TOKEN:?}"

curl -s "$BASE/health"
curl -sS -X POST "$BASE/v1/sessions" \
  -H 'Content-Type: application/json' \
  -d '{"user": "ann", "password": "it'\''s secret"}'
curl -s -H "Authorization: Bearer $TOKEN" "$BASE/v1/orders?state=open&limit=20"
sleep 1.5
curl -s --json '{"item": 17, "count": 2}' -H "Authorization: Bearer $TOKEN" $BASE/v1/orders
curl -s -X PUT -H "Authorization: Bearer $TOKEN" --data-binary @part-order.json $BASE/v1/orders/4711
curl -s -G --data-urlencode 'q=blue shoes & socks' -d page=2 "$BASE/v1/search"
curl -s -I "$BASE/v1/orders/4711" | grep -i etag
curl -s -X DELETE -u admin:geheim --max-time 5 "$BASE/v1/orders/4711"
for i in 1 2 3; do
  curl -s "$BASE/v1/orders/$i"
done
echo done
