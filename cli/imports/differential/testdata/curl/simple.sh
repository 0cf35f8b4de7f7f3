curl http://127.0.0.1:18080/a
curl -d a=b -d c=d 'http://127.0.0.1:18080/post?x=y'
curl -X DELETE -H 'X-Reason: done' http://127.0.0.1:18080/items/1
