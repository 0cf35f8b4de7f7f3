curl -H 'X-Empty;' -H 'X-Gone:' -H 'X-Blank:   ' -H 'X-Spaces:   a  b ' http://127.0.0.1:18080/empty
curl -H 'Accept:' -H 'User-Agent:' http://127.0.0.1:18080/none
curl -A 'agent/1' -e 'http://a/;auto' -b 'a=b; c=d' -r 0-99 http://127.0.0.1:18080/short
curl -b a=b -b c=d http://127.0.0.1:18080/cookies
curl -u ann:pw http://127.0.0.1:18080/user
curl -u ann:pw -H 'Authorization: Bearer t' http://127.0.0.1:18080/both
curl http://ann:p%20w@127.0.0.1:18080/inurl
curl --oauth2-bearer t0 http://127.0.0.1:18080/bearer
curl -H @part-headers.txt http://127.0.0.1:18080/file
curl -H 'Host: example.com' http://127.0.0.1:18080/host
curl -H 'X-At: @part-note.txt' -H 'X-Less: <a' -d @part-note.txt http://127.0.0.1:18080/at
curl -sS -K part-options http://127.0.0.1:18080/more
curl --no-buffer --no-progress-meter -X OPTIONS --request-target '*' http://127.0.0.1:18080/target
