curl --form-string 'note=@home' http://127.0.0.1:18080/1
curl --form-string 'note=@part-note.txt' http://127.0.0.1:18080/2
curl --form-string 'x=a;type=text/plain' http://127.0.0.1:18080/3
curl -F 'a=b' -F 'c=@part-note.txt' -F 'd=<part-note.txt' http://127.0.0.1:18080/4
curl -F 'a=b;type=text/x; charset=utf-8' -F 'c=@part-note.txt;filename=other.png' -F 'q"uo=v"al' http://127.0.0.1:18080/5
curl -F 'a="b;c"' -F 'd= e ;unknown' -F 'f=@part-page.html;type=text/plain' -F '=x' http://127.0.0.1:18080/6
curl -F 'json={"a": 1};type=application/json;headers="X-A: b"' -F 'e=;filename=' http://127.0.0.1:18080/7
curl -F 'p=<part-page.html' -F 'p=@part-page.html' -F 'j=@part-item.json' -F 'ü=ü' http://127.0.0.1:18080/8
curl -X PUT -F a=b -H 'Content-Type: multipart/mixed' http://127.0.0.1:18080/9
