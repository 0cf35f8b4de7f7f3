package experiment

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite golden files and schema.json")

func parseFile(t *testing.T, path string, o Options) (*Experiment, error) {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return Parse(path, src, o)
}

func mustParse(t *testing.T, path string, o Options) *Experiment {
	t.Helper()
	e, err := parseFile(t, path, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func names(e *Experiment) string {
	var out []string
	for _, v := range e.Variants {
		out = append(out, v.Name)
	}
	return strings.Join(out, " ")
}

func TestCompare(t *testing.T) {
	e := mustParse(t, "testdata/good/relay-models.yaml", Options{})
	process := func(start ...string) Process {
		return Process{Start: start, Ready: Ready{Kind: ReadyTCP}, ReadyTimeout: 10 * time.Second, StopTimeout: 5 * time.Second}
	}
	variant := func(name string, vars map[string]string) Variant {
		p := process("dyno", "serve", "relay", "--listen", "127.0.0.1:{{port}}", "--to", "{{echo.addr}}", "--model", name)
		p.CPUs = []int{0}
		return Variant{
			Name: name,
			Vars: vars,
			Target: Target{
				Protocol: TCP, Address: "127.0.0.1:{{port}}",
				Pprof: "http://127.0.0.1:{{admin}}/debug/pprof", Process: p,
			},
			Services: []Service{{Name: "echo", Process: process("dyno", "serve", "echo", "--tcp", "127.0.0.1:{{port}}")}},
			Load: Load{
				CPUs: []int{1}, Payload: 1024, Framing: FramingEcho,
				Closed: &Closed{Connections: 100, Think: Think{Distribution: ThinkNone}},
				Clock:  ClockAuto, Timeout: 30 * time.Second, ConnectTimeout: 5 * time.Second,
				Warmup: 2 * time.Second, Window: 5 * time.Second,
				Reconnect: Reconnect{MaxBackoff: time.Second},
			},
			Observe: DefaultObserve(),
		}
	}
	control := variant("pool", map[string]string{"model": "pool", "workers": "16"})
	control.Name, control.AliasOf = "pool.control", "pool"
	want := &Experiment{
		Name:     "relay-models",
		Question: "Does one goroutine per connection beat a bounded pool when forwarding 1 KiB requests?",
		File:     "testdata/good/relay-models.yaml", Source: e.Source,
		Design: Design{Rounds: 8, Seed: 1, Stop: StopFixed, Margin: 0.02, Metric: "throughput", Control: "pool.control"},
		Base:   "pool",
		Variants: []Variant{
			variant("goroutine", map[string]string{"model": "goroutine", "workers": "16"}),
			variant("pool", map[string]string{"model": "pool", "workers": "16"}),
			control,
		},
		Thresholds: []string{"response.p99 < 80ms", "errors.ratio < 0.1%"},
		Claims: []Claim{{
			ID: "R1.1", Says: "goroutine model 1.36x the pool's throughput at 100 connections",
			Holds: "ratio(goroutine, pool, throughput) >= 1.36",
		}},
		Warnings: []Fault{{
			File: "testdata/good/relay-models.yaml", Line: 22, Column: 34, Field: "compare.variants.pool.workers",
			Problem: "nothing uses {{workers}}", Hint: "variants do not differ by it",
		}},
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Error(diff)
	}
}

func TestSweep(t *testing.T) {
	path := "testdata/good/sweep.yaml"
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, "goroutine-100-64 goroutine-100-1-KiB goroutine-500-64 goroutine-1000-64 goroutine-1000-1-KiB " +
			"pinned-100-64 pinned-100-1-KiB pinned-500-64"},
		{Options{Short: true}, "goroutine-100-64 goroutine-500-64 pinned-100-64 pinned-500-64"},
		{Options{Short: true, Set: map[string]string{"connections": "7"}}, "goroutine-7-64 pinned-7-64"},
	} {
		if got := names(mustParse(t, path, c.o)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.o, got, c.want)
		}
	}

	e := mustParse(t, path, Options{Short: true, Set: map[string]string{"rounds": "5", "seed": "9", "window": "250ms"}})
	if e.Design != (Design{Rounds: 5, Seed: 9, Stop: StopFixed, Margin: 0.02, Metric: "throughput"}) {
		t.Errorf("design %+v", e.Design)
	}
	v := e.Variants[1]
	if v.Load.Warmup != 500*time.Millisecond || v.Load.Window != 250*time.Millisecond {
		t.Errorf("warm-up %v, window %v", v.Load.Warmup, v.Load.Window)
	}
	want := &Closed{Connections: 500, Think: Think{Distribution: ThinkUniform, Low: time.Millisecond, High: 500 * time.Millisecond}}
	if diff := cmp.Diff(want, v.Load.Closed); diff != "" {
		t.Error(diff)
	}
	if v.Load.Payload != 64 || v.Load.Framing != FramingLine {
		t.Errorf("payload %d, framing %s", v.Load.Payload, v.Load.Framing)
	}
	if diff := cmp.Diff(map[string]string{"GOMAXPROCS": "1", "MODE": "goroutine"}, v.Target.Env); diff != "" {
		t.Error(diff)
	}
	if v.Target.Ready != (Ready{Kind: ReadyLine, Line: "listening on"}) || v.Target.ReadyTimeout != 3*time.Second {
		t.Errorf("ready %+v within %v", v.Target.Ready, v.Target.ReadyTimeout)
	}
	if v.Services[0].Name != "echo" || v.Services[1].Name != "audit" {
		t.Errorf("services start in the order %s, %s; audit uses echo", v.Services[0].Name, v.Services[1].Name)
	}
	if v.Services[1].Ready != (Ready{Kind: ReadyHTTP, URL: "/healthz"}) || v.Services[0].StopTimeout != 250*time.Millisecond {
		t.Errorf("services %+v", v.Services)
	}
	if c := e.Claims[1]; c.NotTestable == "" || c.Holds != "" {
		t.Errorf("claim %+v", c)
	}
}

func TestStages(t *testing.T) {
	e := mustParse(t, "testdata/good/http-stages.yaml", Options{})
	v := e.Variants[2]
	want := Load{
		Request: &Request{
			Method: "POST", Path: "/items/1000", Body: "{\"size\": 1000}\n",
			Headers: []Header{{"Content-Type", "application/json"}, {"X-Size", "1000"}},
		},
		HTTP2: DefaultHTTP2(),
		Open: &Open{
			Arrivals: ArrivalsPoisson, MaxConnections: 200, MaxWaiting: 1000,
			Stages: []Stage{{30 * time.Second, 0, 5}, {time.Minute, 5, 5}, {10 * time.Second, 20, 0}},
		},
		Clock: ClockAuto, Timeout: 2 * time.Second, ConnectTimeout: 5 * time.Second, Warmup: 2 * time.Second,
		Window: 100 * time.Second, Reconnect: Reconnect{MaxBackoff: 2 * time.Second},
	}
	if diff := cmp.Diff(want, v.Load); diff != "" {
		t.Error(diff)
	}
	if v.Target.Address != "127.0.0.1:8080" || v.Target.URL != "http://127.0.0.1:8080/base?q=1" {
		t.Errorf("target %+v", v.Target)
	}
	if got := names(mustParse(t, "testdata/good/http-stages.yaml", Options{Short: true})); got != "small small.control large" {
		t.Errorf("short form has %s", got)
	}
	e = mustParse(t, "testdata/good/http-stages.yaml", Options{Set: map[string]string{"size": "3"}})
	for _, v := range e.Variants {
		if v.Load.Request.Path != "/items/3" {
			t.Errorf("%s: path %s, want the value that was set", v.Name, v.Load.Request.Path)
		}
	}
}

func TestSecure(t *testing.T) {
	e := mustParse(t, "testdata/good/https.yaml", Options{})
	dir := "testdata/good/"
	if diff := cmp.Diff(&TLS{
		ServerName: "server.test", CA: dir + "https.yaml", Certificate: dir + "https.yaml", Key: dir + "https.yaml",
		MinVersion: "1.2", MaxVersion: "1.3", Tickets: true, CipherSuites: []string{"ECDHE-RSA-AES128-GCM-SHA256"}, Groups: []string{"x25519"},
	}, e.Variants[0].Target.TLS); diff != "" {
		t.Error(diff)
	}
	for i, use := range map[int]string{0: HTTP2Auto, 2: HTTP2Always} { // 1 is the control
		want := &HTTP2{Use: use, Streams: 16, StreamWindow: 65_536, ConnectionWindow: 1 << 20}
		if diff := cmp.Diff(want, e.Variants[i].Load.HTTP2); diff != "" {
			t.Error(diff)
		}
	}
	if got := e.Variants[0].Load.RequestsPerConnection; got != 1000 {
		t.Errorf("%d requests on each connection", got)
	}
}

func TestAddressAndURL(t *testing.T) {
	for _, c := range []struct{ fields, address, url string }{
		{"protocol: http, url: http://localhost", "localhost:80", "http://localhost"},
		{"protocol: http, url: https://localhost", "localhost:443", "https://localhost"},
		{"protocol: http, url: 'https://[::1]:81/x'", "[::1]:81", "https://[::1]:81/x"},
		{"protocol: http, url: 'http://[::1]:81/x?y'", "[::1]:81", "http://[::1]:81/x?y"},
		{"protocol: http, address: '127.0.0.1:82'", "127.0.0.1:82", "http://127.0.0.1:82/"},
		{"protocol: http, address: unix:/run/x.sock", "unix:/run/x.sock", "http://localhost/"},
		{"protocol: http, address: unix:/run/x.sock, url: http://name/p", "unix:/run/x.sock", "http://name/p"},
		{"protocol: http, start: [x, '{{port}}']", "127.0.0.1:{{port}}", "http://127.0.0.1:{{port}}/"},
		{"protocol: http, start: [x, '{{port}}'], url: 'http://localhost:{{port}}/a'", "localhost:{{port}}", "http://localhost:{{port}}/a"},
		{"protocol: tcp, start: [x], address: '[::1]:9'", "[::1]:9", ""},
		{"protocol: tcp, address: 'unix:{{x}}'", "unix:/a", ""},
	} {
		src := "name: x\ntarget: {" + c.fields + "}\nload: {closed: {connections: 1}}\nsweep: {x: [/a]}\n"
		e, err := Parse("x.yaml", []byte(src), Options{})
		if err != nil {
			t.Errorf("%s: %v", c.fields, err)
			continue
		}
		if got := e.Variants[0].Target; got.Address != c.address || got.URL != c.url {
			t.Errorf("%s: address %q, URL %q; want %q, %q", c.fields, got.Address, got.URL, c.address, c.url)
		}
	}
}

// A file of testdata/bad names its options in comments: "# short" and
// "# set name=value".
func badOptions(src []byte) Options {
	o := Options{Set: map[string]string{}}
	for line := range strings.Lines(string(src)) {
		line = strings.TrimSpace(line)
		if line == "# short" {
			o.Short = true
		}
		if setting, ok := strings.CutPrefix(line, "# set "); ok {
			name, value, _ := strings.Cut(setting, "=")
			o.Set[name] = value
		}
	}
	return o
}

func TestFaults(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(filepath.Base(path), src, badOptions(src))
			if err == nil {
				t.Fatal("no fault found")
			}
			golden := strings.TrimSuffix(path, ".yaml") + ".golden"
			got := err.Error() + "\n"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const form = "name: x\ntarget: {protocol: http, url: http://localhost, start: [x], dir: d}\n" +
		"load: {closed: {connections: 1}, request: {body_file: %}}\n"
	write("body", "content")
	path := write("good.yaml", strings.ReplaceAll(form, "%", "body"))
	e, err := ReadFile(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	v := e.Variants[0]
	if v.Load.Request.BodyFile != filepath.Join(dir, "body") || v.Target.Dir != filepath.Join(dir, "d") {
		t.Errorf("paths are not relative to the file: %q, %q", v.Load.Request.BodyFile, v.Target.Dir)
	}

	var faults *Faults
	path = write("nobody.yaml", strings.ReplaceAll(form, "%", "none"))
	if _, err = ReadFile(path, Options{}); !errors.As(err, &faults) || faults.Faults[0].Line != 3 {
		t.Errorf("missing body file: %v", err)
	}
	path = write("large.yaml", strings.Repeat("#", maxFile+1))
	if _, err = ReadFile(path, Options{}); !errors.As(err, &faults) {
		t.Errorf("too large: %v", err)
	}
	if _, err = ReadFile(filepath.Join(dir, "none.yaml"), Options{}); !errors.Is(err, fs.ErrNotExist) || errors.As(err, &faults) {
		t.Errorf("missing file: %v", err)
	}
}

func TestExpressionChecks(t *testing.T) {
	o := Options{
		CheckThreshold: func(text string, _ []string) error {
			if strings.HasPrefix(text, "errors") {
				return errors.New("no such metric")
			}
			return nil
		},
		CheckClaim: func(expression string, variants []string) error {
			if strings.Join(variants, " ") != "goroutine pool pool.control" {
				t.Errorf("variants %v", variants)
			}
			return errors.New("cannot be evaluated")
		},
	}
	_, err := parseFile(t, "testdata/good/relay-models.yaml", o)
	var faults *Faults
	if !errors.As(err, &faults) {
		t.Fatal(err)
	}
	want := []Fault{
		{File: "testdata/good/relay-models.yaml", Line: 23, Column: 37, Field: "thresholds[1]", Problem: "no such metric"},
		{File: "testdata/good/relay-models.yaml", Line: 27, Column: 12, Field: "claims[0].holds", Problem: "cannot be evaluated"},
	}
	if diff := cmp.Diff(want, faults.Faults); diff != "" {
		t.Error(diff)
	}
}

func quick() *Experiment {
	v := DefaultVariant(HTTP)
	v.Target.URL = "http://127.0.0.1:8080/x"
	v.Target.Complete()
	v.Load.Closed = &Closed{Connections: 10, Think: Think{Distribution: ThinkNone}}
	e := &Experiment{Name: "http", Design: Design{Rounds: 1, Seed: 1}, Variants: []Variant{v}}
	e.Complete()
	return e
}

func TestValidate(t *testing.T) {
	if err := quick().Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		spoil func(e *Experiment)
		want  string
	}{
		{"no variant", func(e *Experiment) { e.Variants = nil }, "there is no variant"},
		{"name", func(e *Experiment) { e.Name = "a/b" }, "name: "},
		{"rounds", func(e *Experiment) { e.Design.Rounds = 1001 }, "design.rounds: "},
		{"base", func(e *Experiment) { e.Base = "x" }, "compare.base: "},
		{"twice", func(e *Experiment) { e.Variants = append(e.Variants, e.Variants[0]) }, "variants: "},
		{"nothing to load", func(e *Experiment) { e.Variants[0].Target.URL, e.Variants[0].Target.Address = "", "" }, "target: "},
		{"ftp", func(e *Experiment) { e.Variants[0].Target.URL = "ftp://x/" }, "target.url: "},
		{"tls", func(e *Experiment) { e.Variants[0].Target.TLS = &TLS{} }, "target.tls: "},
		{"key", func(e *Experiment) {
			e.Variants[0].Target.URL, e.Variants[0].Target.TLS = "https://x/", &TLS{Certificate: "x"}
		}, "target.tls.key: "},
		{"version", func(e *Experiment) {
			e.Variants[0].Target.URL, e.Variants[0].Target.TLS = "https://x/", &TLS{MinVersion: "1.1"}
		}, "target.tls.min_version: "},
		{"streams", func(e *Experiment) { e.Variants[0].Load.HTTP2.Streams = 2 }, "load.http2.streams: "},
		{"upgrade", func(e *Experiment) {
			e.Variants[0].Target.URL, e.Variants[0].Load.HTTP2.Use = "https://x/", HTTP2Upgrade
		}, "load.http2.use: "},
		{"window of HTTP/2", func(e *Experiment) { e.Variants[0].Load.HTTP2.ConnectionWindow = 1 }, "load.http2.connection_window: "},
		{"connections", func(e *Experiment) { e.Variants[0].Load.Closed.Connections = 1_000_001 }, "load.closed.connections: "},
		{"workers", func(e *Experiment) { e.Variants[0].Load.Workers = 11 }, "load.workers: "},
		{"both loops", func(e *Experiment) { e.Variants[0].Load.Open = DefaultOpen() }, "load.open: "},
		{"think", func(e *Experiment) {
			e.Variants[0].Load.Closed.Think = Think{Distribution: ThinkUniform, Low: 2, High: 1}
		}, "load.closed.think.uniform.to: "},
		{"no loop", func(e *Experiment) { e.Variants[0].Load.Closed = nil }, "load: "},
		{"no rate", func(e *Experiment) { e.Variants[0].Load.Closed, e.Variants[0].Load.Open = nil, DefaultOpen() }, "load.open.rate: "},
		{"payload", func(e *Experiment) { e.Variants[0].Load.Payload = 1 }, "load.payload: "},
		{"window", func(e *Experiment) { e.Variants[0].Load.Window = 0 }, "load.window: "},
		{"ready", func(e *Experiment) { e.Variants[0].Target.Ready = Ready{Kind: ReadyLine, Line: "("} }, "target.ready: "},
		{"cpu", func(e *Experiment) { e.Variants[0].Load.CPUs = []int{-1} }, "load.cpus: "},
		{"header", func(e *Experiment) {
			e.Variants[0].Load.Request.Headers = []Header{{"X", "a\r\nY: b"}}
		}, "load.request.headers.X: "},
		{"service", func(e *Experiment) {
			e.Variants[0].Services = []Service{{Name: "s", Process: defaultProcess()}}
		}, "services.s.start: "},
	} {
		e := quick()
		c.spoil(e)
		if err := e.Validate(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s…", c.name, err, c.want)
		}
	}
}

func TestExpand(t *testing.T) {
	vars := map[string]string{"port": "80", "echo.addr": "127.0.0.1:7", "loop": "{{port}}"}
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"plain }}", "plain }}"},
		{"{{port}}", "80"},
		{"a{{ port }}b{{echo.addr}}", "a80b127.0.0.1:7"},
		{"{{loop}}", "{{port}}"},
	} {
		if got, err := Expand(c.in, vars); err != nil || got != c.want {
			t.Errorf("%q: %q, %v; want %q", c.in, got, err, c.want)
		}
	}
	for _, bad := range []string{"{{", "{{}}", "{{port", "{{none}}", "{{echo.x}}", "{{.port}}", "{{1a}}", "{{-}}", "{{a.port.b}}", "{{a b}}", strings.Repeat("{{big}}", 1100)} {
		big := map[string]string{"big": strings.Repeat("x", 1000)}
		if got, err := Expand(bad, big); err == nil || got != "" {
			t.Errorf("%q: %q, want an error", clip(bad), clip(got))
		}
	}
}

func TestScalars(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"5": 5 * time.Second, "0.25": 250 * time.Millisecond, "1m30s": 90 * time.Second, "1.5ms": 1500 * time.Microsecond, "0": 0,
	} {
		if got, ok := parseDuration(in); !ok || got != want {
			t.Errorf("duration %s: %v, %v", in, got, ok)
		}
	}
	for in, want := range map[string]int{
		"0": 0, "512": 512, "512B": 512, "1KB": 1000, "1KiB": 1024, "2 MiB": 2 << 20, "3GB": 3e9, "99999999999999999999": 1<<63 - 1,
	} {
		if got, ok := parseSize(in); !ok || got != want {
			t.Errorf("size %s: %v, %v", in, got, ok)
		}
	}
	for in, want := range map[string]float64{"5000": 5000, "5000/s": 5000, "300/min": 5, "36/h": 0.01, "0": 0, "0.0/s": 0} {
		if got, ok := parseRate(in); !ok || got != want {
			t.Errorf("rate %s: %v, %v", in, got, ok)
		}
	}
	for in, want := range map[string][]int{"0": {0}, "0-3,5": {0, 1, 2, 3, 5}, "5,0-1": {0, 1, 5}, "1023": {1023}} {
		if got, problem := parseCPUs(in); problem != "" || !cmp.Equal(got, want) {
			t.Errorf("CPUs %s: %v, %s", in, got, problem)
		}
	}
	for _, bad := range []string{"", "x", "-1", "+1s", "1 s", "1e3", "inf", "0x10", "5d", "99999999999h", ".5s"} {
		if d, ok := parseDuration(bad); ok {
			t.Errorf("duration %q: %v", bad, d)
		}
	}
	for _, bad := range []string{"", "1.5KiB", "KiB", "1kib", "-1", "1 K"} {
		if n, ok := parseSize(bad); ok {
			t.Errorf("size %q: %v", bad, n)
		}
	}
	for _, bad := range []string{"", "-5", "5/d", "/s", "5 /s", "1e3", "nan"} {
		if v, ok := parseRate(bad); ok {
			t.Errorf("rate %q: %v", bad, v)
		}
	}
	for _, bad := range []string{"", "a", "1-", "3-1", "0,0", "0-2,1", "1024", "0-99999999999999999999", "1,,2", " 1"} {
		if list, problem := parseCPUs(bad); problem == "" {
			t.Errorf("CPUs %q: %v", bad, list)
		}
	}
}

func TestSuggest(t *testing.T) {
	known := []string{"window", "warmup", "workers", "closed"}
	for in, want := range map[string]string{
		"windw": `did you mean "window"?`, "wokrers": `did you mean "workers"?`, "Closed": `did you mean "closed"?`,
		"banana": "known here: window, warmup, workers, closed",
	} {
		if got := suggest(in, known); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestEditDistance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.StringN(0, 12, -1).Draw(t, "a")
		b := rapid.StringN(0, 12, -1).Draw(t, "b")
		d := editDistance(a, b)
		if d != editDistance(b, a) {
			t.Fatal("not symmetric")
		}
		if (d == 0) != (string([]rune(a)) == string([]rune(b))) {
			t.Fatalf("%d between %q and %q", d, a, b)
		}
		if d > max(len([]rune(a)), len([]rune(b))) {
			t.Fatal("more than replacing everything")
		}
	})
}

// What is too large is refused at once, not after minutes.
func TestBounds(t *testing.T) {
	const rest = "\ntarget: {protocol: tcp, address: '127.0.0.1:1'}\nload: {closed: {connections: 1}}\n"
	services := "\nservices:\n"
	for i := range 33 {
		services += fmt.Sprintf("  s%d: {start: [x]}\n", i)
	}
	values := make([]string, 1000)
	for i := range values {
		values[i] = fmt.Sprint(i)
	}
	for _, c := range []struct{ name, src, want string }{
		{"bytes", strings.Repeat("# comment\n", maxFile/10+1), "the file is larger than 1 MiB"},
		{"lines", "name: x" + rest + strings.Repeat("#\n", maxLines), "more than 10000 lines"},
		{"line", "name: x # " + strings.Repeat("x", maxLine) + rest, "the line is longer than 64 KiB"},
		{"words", "name: x" + rest + "thresholds: [" + strings.Repeat(strings.Repeat("a,", 10_000)+"\n  ", 3) + "a]", "more than 50000 words"},
		{"brackets", "name: " + strings.Repeat("[", maxDepth+1), "nested more than 50 deep"},
		{"list", "name: x" + rest + "thresholds: [" + strings.Repeat("a,", 100) + "a]", "thresholds: 101 entries are too many; at most 100"},
		{"services", "name: x" + rest + services, "services: 33 entries are too many; at most 32"},
		{"text", "name: x\ntarget: {protocol: tcp, start: [x, '" + strings.Repeat("{{a}}", 2000) + "']}\n" +
			"load: {closed: {connections: 1}}\nsweep: {a: [" + strings.Repeat("y", 1000) + "]}\n", "target.start[1]: longer than 1 MiB after substitution"},
		{"work", "name: x\ntarget: {protocol: tcp, start: [x, '{{port}}', '" + strings.Repeat("{{a}}", 10_000) + "']}\n" +
			"load: {closed: {connections: 1}}\nsweep: {a: [" + strings.Join(values, ", ") + "]}\n", "all variants together hold too much"},
	} {
		if _, err := Parse("x.yaml", []byte(c.src), Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.200v, want %s", c.name, err, c.want)
		}
	}

	// The faults themselves are bounded, too, and say how many there are.
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, "unknown%d: 1\n", i)
	}
	_, err := Parse("x.yaml", []byte("name: x"+rest+many.String()), Options{})
	var faults *Faults
	if !errors.As(err, &faults) || len(faults.Faults) != maxFaults || faults.Omitted != 1000-maxFaults {
		t.Errorf("%.200v", err)
	}
}

func TestExportedScalars(t *testing.T) {
	for _, c := range []struct {
		name string
		err  func(s string) error
		good string
	}{
		{"duration", func(s string) error { _, err := ParseDuration(s); return err }, "1.5s"},
		{"size", func(s string) error { _, err := ParseSize(s); return err }, "1KiB"},
		{"CPU list", func(s string) error { _, err := ParseCPUs(s); return err }, "0-3,5"},
	} {
		if err := c.err(c.good); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := c.err("soon"); err == nil || !strings.HasPrefix(err.Error(), `"soon" is not a `+c.name+"; such as ") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestSubscribers(t *testing.T) {
	e := mustParse(t, "testdata/good/sse.yaml", Options{})
	if e.Design.Metric != "delivery.p99" {
		t.Errorf("the metric is %s, want delivery.p99", e.Design.Metric)
	}
	v := e.Variants[1]
	want := Load{
		Subscribers: &Subscribers{
			Connections: 1000, Ramp: 2000, Topics: 10, Headers: []Header{{"Authorization", "Bearer abc"}},
			GapEvent: "missed", Slow: &Slow{Connections: 1, Rate: 1024}, ReceiveBuffer: 4096,
		},
		Publish: &Publish{Path: "/publish?topic=t{topic}", Size: 200, Form: FormRaw, Headers: []Header{{"X-Run", "{{port}}"}}},
		Open:    &Open{Rate: 50, Arrivals: ArrivalsConstant, MaxConnections: 4, MaxWaiting: 65_536},
		Clock:   ClockAuto, Timeout: 30 * time.Second, ConnectTimeout: 5 * time.Second, Warmup: 2 * time.Second, Window: 10 * time.Second,
		Reconnect: Reconnect{MinBackoff: 100 * time.Millisecond, MaxBackoff: 10 * time.Second},
	}
	if diff := cmp.Diff(want, v.Load); diff != "" {
		t.Error(diff)
	}
	if want := "http://127.0.0.1:{{port}}/events?topic=t{topic}"; v.Target.URL != want || v.Target.Address != "127.0.0.1:{{port}}" {
		t.Errorf("the target is %s, %s", v.Target.URL, v.Target.Address)
	}
}
