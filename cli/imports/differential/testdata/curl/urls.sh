curl 'http://127.0.0.1:18080/a/../b/./c/..'
curl --path-as-is 'http://127.0.0.1:18080/a/../b'
curl 'http://127.0.0.1:18080/[1-3]/{x,y}'
curl 'http://127.0.0.1:18080/[01-03:2]' 'http://127.0.0.1:18080/[a-c]'
curl -g 'http://127.0.0.1:18080/[1-3]/{x,y}'
curl 'http://127.0.0.1:18080/\[1\]'
curl 127.0.0.1:18080/plain 127.0.0.1:18080?query
curl 'http://127.0.0.1:18080/"<>|^`?a="<>|^`'"'"'' 'http://127.0.0.1:18080/%zz%20+'
curl 'http://127.0.0.1:18080/fragment?a=b#c'
curl --url http://127.0.0.1:18080/url -o /dev/null --next -d x http://127.0.0.1:18080/next
curl http://127.0.0.1:18080/a -: http://127.0.0.1:18080/b
curl 'http://127.0.0.1:18080/{a,b' http://127.0.0.1:18080/after
curl 'http://127.0.0.1:18080/sp ace' http://127.0.0.1:18080/after2
curl 'http://127.0.0.1:18080/ü'
curl -d a -F b=c http://127.0.0.1:18080/excluded
HOST=http://127.0.0.1:18080
for i in 1; do curl "$HOST/loop/$i"; done
curl "$HOST/?q=@part-note.txt&x=<y"
