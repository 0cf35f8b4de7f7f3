package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What users type, and what comes of it: the exit code, and a piece of what is printed. URL is that
// of a server, ADDRESS its host and port, and FREE an address where nobody listens.
var typedCommands = []struct {
	line string
	code int
	want string
}{
	// Command lines of other tools are translated.
	{"wrk -t2 -c100 -d10s URL", 2, "dyno http --workers 2 -c 100 -z 10s URL"},
	{"wrk -t 2 -c 100 -d 10 --latency URL", 2, "--latency: percentiles are always printed"},
	{"wrk -c8 -d1m -R2000 -s post.lua URL", 2, "dyno http -c 8 -z 1m -R 2000 URL"},
	{"wrk -c8 -s post.lua URL", 2, "-s: scripts are not read"},
	{"wrk --timeout=2s --threads=4 --connections=64 -H 'X-A: b' URL", 2, "dyno http --timeout 2s --workers 4 -c 64 -H 'X-A: b' URL"},
	{"wrk -H 'Authorization: Bearer abcdefgh' URL", 2, "-H 'Authorization: Bearer ***' -c 10 URL"},
	{"wrk -c many URL", 2, "-c: its value does not fit --connections (-c)"},
	{"wrk URL -c", 2, "-c: its value is missing"},
	{"wrk -t2", 2, "URL: is missing"},
	{"wrk --frobnicate URL", 2, "--frobnicate: wrk has no such flag"},
	{"hey -n 200 -c 50 URL", 2, "dyno http -n 200 -c 50 URL"},
	{"hey URL", 2, "dyno http -n 200 -c 50 URL"},
	{"hey -z 5s -n 10 -q 10 -c 4 URL", 2, "dyno http -z 5s -c 4 -R 40 URL"},
	{"hey -z 5s -n 10 URL", 2, "-n: with a duration, hey sends as many as it can"},
	{`hey -m POST -T application/json -d '{"a":1}' -disable-keepalive URL`, 2, `-X POST -H 'Content-Type: application/json' --body '{"a":1}' --requests-per-connection 1`},
	{"hey -h2 -host a.b -D body.json URL", 2, "dyno http --http2 -H 'Host: a.b' --body @body.json"},
	{"hey -a user:pw URL", 2, "URL"},
	{"oha -z10s -c 20 -q 100 --no-tui URL", 2, "dyno http -z 10s -c 20 -R 100 --no-tui URL"},
	{"oha -n 10 --latency-correction -r 0 URL", 2, "-r: redirects are not followed"},
	{"oha -n 10 http://user:secret99@127.0.0.1/", 2, "'http://user:***@127.0.0.1/'"},
	{"ab -kc 100 -n 1000 -r URL", 2, "dyno http -c 100 -n 1000 URL"},
	{"ab -n 10 -p post.json -T text/plain URL", 2, "--body @post.json -H 'Content-Type: text/plain' -c 1 --requests-per-connection 1 URL"},
	{"ab -n 10 -u put.json URL", 2, "--body @put.json -X PUT"},
	{"ab -i -t 5 URL", 2, "dyno http -X HEAD -z 5"},
	{"ab -A user:pw -C session=abcdefgh URL", 2, "-H 'Cookie: session=***'"},
	{"ab -u user:pw URL", 2, "-u: its value may be a credential"},
	{"h2load -n100 -c10 -m 10 --rps 5 URL", 2, "dyno http -n 100 -c 10 --streams 10 --http2 -R 50 URL"},
	{"h2load --h1 -D 10 URL", 2, "dyno http --http1 -z 10 -c 1 URL"},
	{"h2load -n1 URL URL/second", 2, "/second: one server is loaded at a time"},
	{"vegeta attack -rate=50 -duration=10s", 2, "dyno http -R 50 -z 10s URL-OF"},
	{"vegeta attack -duration 10s -header 'X-A: b'", 2, "URL: vegeta reads it from standard input or a file"},
	{"vegeta attack -rate=300/1m -keepalive=false -targets list.txt", 2, "dyno http -R 5 "},
	{"vegeta attack -rate 0 -max-workers 8 URL", 2, "dyno http -c 8 URL"},
	{"vegeta report", 2, "as in: dyno vegeta attack"},
	{"k6 run --vus 10 --duration 30s script.js", 2, "dyno http -c 10 -z 30s URL-OF"},
	{"k6 run -u 10 -i 100 script.js", 2, "script.js: scripts are not read"},
	{"k6 run --stage 30s:10 script.js", 2, "--stage: stages are for an experiment file"},
	{`ghz --insecure --call p.S/M -d '{}' -c 50 -n 100 --connections 5 ADDRESS`, 2, "dyno grpc --call p.S/M -d '{}' -n 100 -c 5 --streams 10 ADDRESS"},
	{"ghz --call p.S/M ADDRESS", 2, "dyno grpc --call p.S/M -n 200 -c 1 --tls --streams 50 ADDRESS"},
	{"ghz --call p.S/M --async --load-schedule=step ADDRESS", 2, "--load-schedule: a rate that changes is for an experiment file"},

	// Their flags, typed behind dyno, are answered with the line that was meant.
	{"http -t2 -c100 -d10s URL", 2, "as in wrk: dyno http --workers 2 -c 100 -z 10s URL"},
	{"http -t2 -c100 -d10s URL", 2, "as in hey: dyno http --timeout 2 -c 100 --body 10s URL"},
	{"-t2 -c100 URL", 2, "dyno http --workers 2 -c 100 URL"},
	{"http --vus 3 --duration 5s URL", 2, "as in k6: dyno http -c 3 -z 5s URL"},
	{"http -c 3 -rate=50 URL", 2, "did you mean --rate?"},
	{"http -m POST -z 3s URL", 2, "as in hey: dyno http -X POST -z 3s URL"},
	{"http -k URL", 2, "connections are always kept alive"},
	{"http -auser:pw URL", 2, "unknown shorthand flag: 'a' in -a…"},
	{"http -u user:pw URL", 2, "basic authentication"},
	{"grpc -e --call p.S/M ADDRESS", 2, "as in ghz: dyno grpc --compression gzip --call p.S/M ADDRESS"},
}

func TestTypedCommands(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	fill := strings.NewReplacer("URL-OF", "URL", "URL:", "URL:", "URL", server.URL+"/", "ADDRESS", strings.TrimPrefix(server.URL, "http://"))
	for _, c := range typedCommands {
		args, err := split(fill.Replace(c.line))
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		code := Main(t.Context(), args, strings.NewReader(""), &out, &out)
		if want := fill.Replace(c.want); code != c.code || !strings.Contains(out.String(), want) {
			t.Errorf("dyno %s\nexit code %d, want %d and %q in:\n%s", c.line, code, c.code, want, &out)
		}
		if strings.Contains(out.String(), ":pw") {
			t.Errorf("dyno %s shows a password:\n%s", c.line, &out)
		}
	}
}
