package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mattn/go-shellwords"
)

// Commands that users type, with their exit code and a part of their output. SITE is the URL of a
// server, and ADDRESS its host and port. No server listens at FREE. OUT is a folder to create.
var typedCommands = []struct {
	line string
	code int
	want string
}{
	// Command lines of other tools are translated.
	{"wrk -t2 -c100 -d10s SITE", 2, "dyno http --workers 2 -c 100 -z 10s SITE"},
	{"wrk -t 2 -c 100 -d 10 --latency SITE", 2, "--latency: percentiles are always printed"},
	{"wrk -c8 -d1m -R2000 -s post.lua SITE", 2, "dyno http -c 8 -z 1m -R 2000 SITE"},
	{"wrk -c8 -s post.lua SITE", 2, "-s: dyno import wrk SCRIPT"},
	{"wrk --timeout=2s --threads=4 --connections=64 -H 'X-A: b' SITE", 2, "dyno http --timeout 2s --workers 4 -c 64 -H 'X-A: b' SITE"},
	{"wrk -H 'Authorization: Bearer abcdefgh' SITE", 2, "-H 'Authorization: Bearer ***' -c 10 SITE"},
	{"wrk -c many SITE", 2, "-c: its value does not fit --connections (-c)"},
	{"wrk SITE -c", 2, "-c: its value is missing"},
	{"wrk -c1k -R 5k SITE", 2, "dyno http -c 1000 -R 5000 SITE"},
	{"hey -x 127.0.0.1:3128 SITE", 2, "dyno http --proxy 127.0.0.1:3128 -n 200 -c 50 SITE"},
	{"vegeta attack -targets=t.txt -rate=50", 2, "dyno http --targets t.txt -R 50"},
	{"capacity SITE --slo 'p90 > 20ms'", 2, "p90 > 20ms asks for slow answers"},
	{"wrk -t2", 2, "URL: is missing"},
	{"wrk --frobnicate SITE", 2, "--frobnicate: wrk has no such flag"},
	{"hey -n 200 -c 50 SITE", 2, "dyno http -n 200 -c 50 SITE"},
	{"hey SITE", 2, "dyno http -n 200 -c 50 SITE"},
	{"hey -z 5s -n 10 -q 10 -c 4 SITE", 2, "dyno http -z 5s -c 4 -R 40 SITE"},
	{"hey -z 5s -n 10 SITE", 2, "-n: with a duration, hey sends as many as it can"},
	{`hey -m POST -T application/json -d '{"a":1}' -disable-keepalive SITE`, 2, `-X POST -H 'Content-Type: application/json' --body '{"a":1}' --requests-per-connection 1`},
	{"hey -h2 -host a.b -D body.json SITE", 2, "dyno http --http2 -H 'Host: a.b' --body @body.json"},
	{"hey -a user:pw SITE", 2, "SITE"},
	{"oha -z10s -c 20 -q 100 --no-tui SITE", 2, "dyno http -z 10s -c 20 -R 100 --no-tui SITE"},
	{"oha -F a=1 -F b=2 SITE", 2, "--form a=1 --form b=2"},
	{"oha -n 10 --latency-correction -r 0 SITE", 2, "-r: has another form; see --location"},
	{"oha -n 10 http://user:secret99@127.0.0.1/", 2, "'http://user:***@127.0.0.1/'"},
	{"ab -kc 100 -n 1000 -r SITE", 2, "dyno http -c 100 -n 1000 SITE"},
	{"ab -n 10 -p post.json -T text/plain SITE", 2, "--body @post.json -H 'Content-Type: text/plain' -c 1 --requests-per-connection 1 SITE"},
	{"ab -n 10 -u put.json SITE", 2, "--body @put.json -X PUT"},
	{"ab -i -t 5 SITE", 2, "dyno http -X HEAD -z 5"},
	{"ab -A user:pw -C session=abcdefgh SITE", 2, "-H 'Cookie: session=***'"},
	{"ab -u user:pw SITE", 2, "-u: its value may be a credential"},
	{"h2load -n100 -c10 -m 10 --rps 5 SITE", 2, "dyno http -n 100 -c 10 --streams 10 --http2 -R 50 SITE"},
	{"h2load --h1 -D 10 SITE", 2, "dyno http --http1 -z 10 -c 1 SITE"},
	{"h2load -n1 SITE SITE/second", 2, "/second: one server is loaded at a time"},
	{"vegeta attack -rate=50 -duration=10s", 2, "dyno http -R 50 -z 10s URL"},
	{"vegeta attack -duration 10s -header 'X-A: b'", 2, "URL: vegeta reads it from standard input or a file"},
	{"vegeta attack -rate=300/1m -keepalive=false -targets list.txt", 2, "dyno http -R 5 "},
	{"vegeta attack -rate 0 -max-workers 8 SITE", 2, "dyno http -c 8 SITE"},
	{"vegeta report", 2, "as in: dyno vegeta attack"},
	{"k6 run --vus 10 --duration 30s script.js", 2, "dyno http -c 10 -z 30s URL"},
	{"k6 run -u 10 -i 100 script.js", 2, "script.js: dyno import k6"},
	{"k6 run --stage 30s:10 --stage 1m:0 SITE", 2, "dyno http --users 30s:10 --users 1m:0 SITE"},
	{"k6 run --vus 2 --duration 1s --rps 0 --out influxdb=http://influx:8086 SITE", 2, "dyno http -c 2 -z 1s --push 'influx=http://influx:8086/write?db=k6' SITE"},
	{"k6 run --vus 2 --duration 1s --out influxdb=http://influx:8086/mine SITE", 2, "--push 'influx=http://influx:8086/write?db=mine'"},
	{"k6 run --vus 2 --duration 1s --out csv=out.csv SITE", 2, "--out: --out (-o) keeps all that was measured in a folder"},
	{"ghz --insecure --proto ./echo.proto --call p.S/M -d '{}' --concurrency 100 --connections 100 --duration 120s --rps 0 ADDRESS", 2, "dyno grpc "},
	{`ghz --insecure --call p.S/M -d '{}' -c 50 -n 100 --connections 5 ADDRESS`, 2, "dyno grpc --call p.S/M -d '{}' -n 100 -c 5 --streams 10 ADDRESS"},
	{"ghz --call p.S/M ADDRESS", 2, "dyno grpc --call p.S/M -n 200 -c 1 --tls --streams 50 ADDRESS"},
	{"ghz --call p.S/M --async --load-schedule=step ADDRESS", 2, "--load-schedule: has another form; see --stages for a rate"},

	// Their flags, typed after dyno, are answered with the line that was meant.
	{"http -t2 -c100 -d10s SITE", 2, "as in wrk: dyno http --workers 2 -c 100 -z 10s SITE"},
	{"http -t2 -c100 -d10s SITE", 2, "as in hey: dyno http --timeout 2 -c 100 --body 10s SITE"},
	{"-t2 -c100 SITE", 2, "dyno http --workers 2 -c 100 SITE"},
	{"http --vus 3 --duration 5s SITE", 2, "as in k6: dyno http -c 3 -z 5s SITE"},
	{"http -c 3 -rate=50 SITE", 2, "did you mean --rate?"},
	{"http -m POST -z 3s SITE", 2, "as in hey: dyno http -X POST -z 3s SITE"},
	{"-q -n 1 -c 1 -k SITE", 0, ""}, // as ab keeps connections alive, and as curl trusts any certificate
	{"http -n 1 --slo p99<1s SITE", 2, "did you mean --threshold"},
	{"http -auser:pw SITE", 2, "unknown shorthand flag: 'a' in -a…"},
	{"http -u user:pw SITE", 2, "did you mean --basic-auth for a user and a password, as in curl?"},
	{"grpc -e --call p.S/M ADDRESS", 2, "as in ghz: dyno grpc --compression gzip --call p.S/M ADDRESS"},

	// What is right runs, wherever flags stand.
	{"http -q -n 3 -c 1 --no-server SITE", 0, "3 ok · 0 failed"},
	{"-q -n 3 -c 1 --no-server SITE", 0, "3 ok · 0 failed"},
	{"SITE -q -n3 -c1 --no-server", 0, "3 ok · 0 failed"},
	{"http -q --requests=3 --connections=1 --no-server ADDRESS", 0, "3 ok · 0 failed"},
	{"run SITE -q -n 3 -c 1 --no-server -o OUT", 0, "3 ok · 0 failed"},
	{"http -q -n 3 -c 1 --no-server --threshold 'errors.ratio > 1%' SITE", 99, "threshold broken: errors.ratio > 1%"},
	{"http -q -n 3 -c 1 --no-server SITEmissing", 3, "no good answers: 404 × 3"},
	{"http -q -n 3 -c 1 http://FREE/", 3, "is a server listening there?"},
	{"help http", 0, "-c, --connections int"},
	{"http --help-all", 0, "Flags, machine:"},
	{"version", 0, "commit "},
	{"--version", 0, "commit "},
	{"init SITE", 0, "  protocol: http"},
	{"serve", 0, "relay"},

	// Near misses, typos and what is missing.
	{"htpp SITE", 2, "did you mean dyno http or dyno tcp?"},
	{"compar a.yaml", 2, "did you mean dyno compare?"},
	{"load SITE", 2, "dyno --help lists the commands"},
	{"http", 2, "want a URL, got 0 arguments"},
	{"http SITE SITE", 2, "want a URL, got 2 arguments"},
	{"http -c", 2, "flag needs an argument: 'c' in -c"},
	{"http -c SITE", 2, "is not a whole number; such as 100"},
	{"http SITE -z", 2, "flag needs an argument: 'z' in -z"},
	{"http --conections 5 SITE", 2, "did you mean --connections?"},
	{"http --timeuot 5s SITE", 2, "did you mean --timeout?"},
	{"http --zzz SITE", 2, "dyno http --help lists the flags"},
	{"http -c 1e3 SITE", 2, `"1e3" is not a whole number`},
	{"http -n -5 SITE", 2, `"-5" is not a whole number from 0 on`},
	{"http -z soon SITE", 2, `--duration: "soon" is not a duration`},
	{"http -R fast SITE", 2, `--rate: "fast" is not a rate`},
	{"http -q 100 SITE", 2, "did you mean --rate 100 (-R)?"},
	{"http -H nothing SITE", 2, `"nothing" has no colon; want 'Name: value'`},
	{"http --body @none.json SITE", 2, "open none.json: no such file"},
	{"http --threshold 'latency < 1s' SITE", 2, `unknown metric "latency"`},
	{"http --threshold 'response.p99 80ms' SITE", 2, "column "},
	{"http --arrivals poisson SITE", 2, "--rate: is missing"},
	{"http --http1 --http2 SITE", 2, "exclude each other"},
	{"http --cpus 1-x SITE", 2, "--cpus: "},
	{"http 127.0.0.1:1:1", 2, "is not a URL"},
	{"http -c 64 -z 10s", 2, "want a URL, got 0 arguments"},
	{"-c 64 -z 10s", 2, "want a URL, got 0 arguments"},
	{"-q run none.yaml", 2, "flags follow a command, as in: dyno http -c 64"},
	{"tcp localhost", 2, `"localhost" is not an address`},
	{"tcp -n 1 tcp://FREE", 3, "FREE refused the connection"},
	{"--agent FREE -n 1 tcp://ADDRESS", 2, "--agent: agent FREE: "},
	{"--agent FREE", 2, "want a URL, got 0 arguments"},
	{"run", 2, "want at least one file"},
	{"run none.yaml", 2, "open none.yaml: no such file"},
	{"run -c 5 -z 3s some.yaml", 2, "--duration is for a URL, and some.yaml is a file: use --set window=3s"},
	{"run --resume none", 2, "a run folder holds a run.json"},
	{"check none.yaml", 2, "open none.yaml: no such file"},
	{"compare SITE", 2, "want two commands to compare, --a and --b"},
	{"compare --a ./old --b './new | tee x' SITE", 2, "no shell is involved; give sh -c"},
	{"report none", 2, "none"},
	{"grpc -c 50 --connections 5 ADDRESS p.S/M", 2, "--connections (-c) is given twice"},
	{"help metrix", 2, "dyno --help lists the commands"},
	{"help reprot", 2, "did you mean dyno report?"},
	{"help serve nginx", 2, `unknown service "nginx"`},
	{"serve rellay", 2, "did you mean dyno serve relay?"},
	{"ctl gte", 2, "did you mean dyno ctl get?"},
	{"ctl get pods", 2, `unknown kind "pods"`},
	{"ctl get policies --wtach", 2, "did you mean --watch? "},
	{"run -q 100 SITE", 2, "did you mean --rate 100 (-R)?"},
	{"compare -a x -b y SITE", 2, "did you mean --a?"},
	{"version 1", 2, `want no arguments, got "1"`},
	{"report", 2, "want a run folder"},
	{"explain none", 2, "a run folder holds a run.json"},
	{"diff one two three", 2, "want one or two run folders, got 3 arguments"},

	// Values that cannot be.
	{"http -n 0 SITE", 2, "--requests: 0 is too little"},
	{"http -R 0 SITE", 2, "--rate: 0/s is too little"},
	{"http -c 0 --workers 2000 -X 'G T' SITE", 2, `--method: "G T" does not fit`},
	{"http --insecure=maybe SITE", 2, `"maybe" is not true or false`},
	{"http --cpus 1000 -n 1 -c 1 SITE", 2, "1000"},
	{"http --clock sundial SITE", 2, `--clock: "sundial"`},
	{"http --stages '' SITE", 2, "--stages: there is none; such as 30s:1000"},
	{"http --stages 30s:1000,soon:5 --stages 5m SITE", 2, `--stages: stage 3: "5m" is not a time and a rate`},
	{"http --data-file none.csv SITE", 2, "none.csv"},
	{"http --targets -", 2, "--targets: standard input is empty"},
	{"http --resolve example.com:127.0.0.1 http://example.com/", 2, "want host:port:address"},
	{"http -n 1 -o json SITE", 2, "json is a form of output"},
	{"--json SITE", 2, "--json has taken the URL for its file"},
	{"http http://ann:pw@127.0.0.1:x/", 2, "URL"},
	{"http ftp://127.0.0.1:1/", 2, "is not an http or https URL"},
	{"grpc -c 10k ADDRESS a.B/C", 2, `--connections (-c): "10k" is not a whole number`},
	{"grpc -m x ADDRESS a.B/C", 2, "-H 'name: value'"},
	{"tcp --framing words ADDRESS", 2, "words"},
	{"tcp --payload many ADDRESS", 2, `"many" is not a size`},
	{"compare --a x --b y --margin x --metric through SITE", 2, `--metric "through": `},
	{"ctl get policies --limit 99999999999999999999", 2, "is too large"},
	{"serve relay --network delay=soon", 2, `delay: "soon" is not a duration`},
	{"serve relay --to-server latency=1ms", 2, `"latency": there is no such condition`},
	{"serve relay --listen 0.0.0.0:1 --to nowhere --model threads", 2, `"threads"`},
	{"serve relay --config none.yaml", 2, "--config: open none.yaml: no such file"},
	{"serve llm --listen 127.0.0.1:0 --fault 429", 2, "want PROBABILITY=FAULT"},
	{"serve llm --listen 127.0.0.1:0 --fault '1=cut;after=few'", 2, `"few": want a number of tokens`},
	{"__oracle work --slow 5%%", 2, `--slow: "5%%" is not a share`},

	// Flags that need others, or exclude them, or are for something else.
	{"http --http1 --insecure --tls-tickets --streams 2 http://127.0.0.1:1/", 2, "--insecure, --tls-tickets: is only for https"},
	{"http --cert x.pem https://127.0.0.1:1/", 2, "--key: is missing"},
	{"http --stages 1s:5 --ramp 1s SITE", 2, "--ramp: the stages begin with a ramp"},
	{"http --users 1s:5,1m SITE", 2, `--users: stage 2: "1m" is not a time and a number of users; such as 30s:1000`},
	{"http --users 1s:5/s SITE", 2, "--users: stage 1: \"5/s\" is not a whole number"},
	{"http --users 1s:0 SITE", 2, "--users: there are none throughout"},
	{"http --users 1s:5 -R 5 SITE", 2, "--rate: users of a closed loop have no rate"},
	{"http --users 1s:5 --stages 1s:5 SITE", 2, "--stages: --users changes the number of users of a closed loop"},
	{"http --users 1s:5 -z 5s SITE", 2, "--duration: the stages of --users say how long to measure"},
	{"http --users 1s:5 -c 4 SITE", 2, "--connections: connections and stages exclude each other"},
	{"capacity SITE --users 1s:5 --slo 'p99 < 1s'", 2, "--users: with --slo, the search says how much is sent"},
	{"http --ramp 1s SITE", 2, "--ramp: there is no rate to reach"},
	{"http --users 5 SITE", 2, "--users: without a scenario each connection is a user"},
	{"http --unix x --resolve a:80:127.0.0.1 http://a/", 2, "--unix: --connect-to and --resolve say where"},
	{"tcp --data-file users.csv ADDRESS", 2, "--data-file: rows stand in the messages of a scenario"},
	{"sse --stages 1s:5 SITE", 2, "--stages: nothing is published"},
	{"sse --size 10 --slow-rate 5 SITE", 2, "--slow-rate: there are no slow subscribers"},
	{"sse --publish publish SITE", 2, `--publish: "publish" cannot be sent`},
	{"sse --capacity 'p99 < 20ms' SITE", 2, "--capacity: nothing is published"},
	{"capacity SITE", 2, "there is no condition; give it with --slo"},
	{"capacity tcp://ADDRESS --slo 'p99 < 20ms' --http2", 2, "--http2: is not for tcp"},
	{"grpc --keepalive-timeout 5s ADDRESS a.B/C", 2, "--keepalive: "},
	{"grpc --kind unary -d {} ADDRESS a.B/C", 2, "takes a description of the service"},
	{"grpc ADDRESS a.B/C d", 2, "want an address, and a method"},
	{"llm --model m --prompt a --prompt-words-to 50 SITE", 2, "--prompt-words-to: applies to made-up prompts only"},
	{"compare --a x SITE", 2, "--b: is missing"},
	{"compare --a x --b y --set rounds=2 SITE", 2, "--set: is for the variables of a file"},
	{"compare --a x --b y --pilot 20s SITE", 2, "--warmup: 1s, and a pilot that finds it"},
	{"compare --a x --b y --payload 1KiB SITE", 2, "--payload: is only for TCP targets"},
	{"compare --a x --b y --profile heap SITE", 2, "heap: only the target itself can say"},
	{"compare --a x --b y grpc://ADDRESS", 2, "--call: is missing"},
	{"compare --a x --b y --call a.B/C --data-file x.csv http://ADDRESS", 2, "in gRPC, rows are --rows FILE"},
	{"compare --a x --b y -m '{}' SITE", 2, "--metadata: is not for http; use --header (-H)"},
	{"compare --a x --b y --form c=d tcp://ADDRESS", 2, "--form: is not for tcp"},
	{"serve echo", 2, "--tcp: there is no address"},
	{"serve echo --tcp 127.0.0.1:0 --admin 0.0.0.0:1 --allow-remote", 2, "--admin-token-file: is missing"},
	{"serve events --listen 127.0.0.1:0 --admin 0.0.0.0:1 --allow-remote", 2, "--admin-token-file: is missing"},
	{"serve llm --listen 127.0.0.1:0 --admin 0.0.0.0:1 --allow-remote", 2, "--admin-token-file: is missing"},
	{"serve relay --listen 127.0.0.1:0 --to 127.0.0.1:1 --admin 0.0.0.0:1 --allow-remote", 2, "--admin-token-file: is missing"},

	// No server listens there. Braces that are typed are text.
	{"grpc FREE", 3, "refused the connection"},
	{"llm -q http://FREE", 3, "refused the connection"},
	{"http -q -n 1 --unix 'none/{{port}}' http://x/", 3, "no connection to none/{{port}} could be opened"},
	{"tcp '127.0.0.1:{{port}}'", 2, `"{{port}}" is not a port`},
}

func TestTypedCommands(t *testing.T) {
	t.Chdir(t.TempDir()) // there are no files
	root := http.NewServeMux()
	root.HandleFunc("/{$}", func(http.ResponseWriter, *http.Request) {})
	server := httptest.NewServer(root)
	defer server.Close()
	gone := httptest.NewServer(root)
	gone.Close()
	address := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }
	fill := strings.NewReplacer("SITE", server.URL+"/", "ADDRESS", address(server), "FREE", address(gone), "OUT", "out")
	for _, c := range typedCommands {
		args, err := shellwords.Parse(fill.Replace(c.line))
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
