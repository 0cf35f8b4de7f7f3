curl -X PUT -d 'a=1&b=2' http://127.0.0.1:18080/items
curl -d '' http://127.0.0.1:18080/empty
curl -d a -d b --data-raw @c --data-binary @part-note.txt --data-ascii @part-note.txt http://127.0.0.1:18080/joined
curl --data-urlencode 'a=b c&d/e~f*g' --data-urlencode '=x=y' --data-urlencode 'x y' --data-urlencode n@part-note.txt --data-urlencode @part-note.txt http://127.0.0.1:18080/encoded
curl -G -d 'q=a+b' --data-urlencode 'r=ü &' 'http://127.0.0.1:18080/search?page=1'
curl -G -d 'q=1' http://127.0.0.1:18080
curl --url-query 'a=b c' --url-query '+x+y%AB' -d body 'http://127.0.0.1:18080/query?z=1'
curl --json '{"a":' --json ' 1}' http://127.0.0.1:18080/json
curl --json '{}' -H 'Content-Type: application/ld+json' -H 'Accept: text/plain' -X PATCH http://127.0.0.1:18080/json
curl -d x -H 'Content-Type:' http://127.0.0.1:18080/without
curl -d x -H 'Content-Type: text/plain' http://127.0.0.1:18080/with
curl -T part-note.txt http://127.0.0.1:18080/upload/
curl -T part-note.txt http://127.0.0.1:18080
curl -T part-note.txt http://127.0.0.1:18080/as?x=1
curl -X POST -T part-note.txt -H 'X-A: b' http://127.0.0.1:18080/posted
curl -X POST http://127.0.0.1:18080/nobody
curl -I http://127.0.0.1:18080/head
curl -I -X GET http://127.0.0.1:18080/headless
curl -d '{{ braces }}' 'http://127.0.0.1:18080/{{x}}' -g
curl -d @- http://127.0.0.1:18080/heredoc <<'END'
{"a": "$HOME",
 "b": 1}
END
curl --data-binary @- http://127.0.0.1:18080/string <<< "it's"
echo '{"a": 1}' | curl --json @- http://127.0.0.1:18080/piped
cat part-note.txt | curl -T - http://127.0.0.1:18080/piped
curl --data-binary @- http://127.0.0.1:18080/redirected < part-item.json
curl -d $'a\tb\'c\n' http://127.0.0.1:18080/quoted
curl -d "a=${NO_SUCH_VARIABLE:-c d}" \
  -H "X-A: 1" \
  http://127.0.0.1:18080/continued
curl -G -d 'q=a b' 'http://127.0.0.1:18080/blank'
