package experiment

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/internal/nesting"
)

var update = flag.Bool("update", false, "rewrite golden files, schema.json and docs/reference.md")

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
				CPUs: []int{1}, TCPLoad: TCPLoad{Payload: 1024, Framing: FramingEcho},
				Closed: &Closed{Connections: 100},
				Clock:  ClockAuto, Timeout: 30 * time.Second, ConnectTimeout: 5 * time.Second,
				Warmup: 2 * time.Second, Window: 5 * time.Second,
				Reconnect: Reconnect{MaxBackoff: time.Second},
			},
			Observe: Observe{Kernel: KernelAfter, Server: true},
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
	want := &Closed{Connections: 500, Think: Think{Uniform: &Span{time.Millisecond, 500 * time.Millisecond}}}
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
		HTTPLoad: HTTPLoad{Request: &Request{
			Method: "POST", Path: "/items/1000", Body: "{\"size\": 1000}\n",
			Headers: []Header{{"Content-Type", "application/json"}, {"X-Size", "1000"}},
		}},
		HTTP2: &HTTP2{Use: HTTP2Auto, Streams: 1},
		Open: &Open{
			Arrivals: ArrivalsPoisson, MaxConnections: 200, MaxWaiting: 1000,
			Stages: []Stage{{30 * time.Second, 0, 5}, {time.Minute, 5, 5}, {10 * time.Second, 20, 0}},
		},
		MaxHeader: 64 << 10,
		Clock:     ClockAuto, Timeout: 2 * time.Second, ConnectTimeout: 5 * time.Second, Warmup: 2 * time.Second,
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

// Every file that a variant's load takes is looked for before anything is measured.
func TestFilesOfLoads(t *testing.T) {
	const (
		call = "name: x\ntarget: {protocol: grpc, url: 'http://127.0.0.1:1/'}\nload:\n  closed: {connections: 1}\n  call: {method: t.Echo/Say, %s}\n"
		ask  = "name: x\ntarget: {protocol: llm, url: 'http://127.0.0.1:1/'}\nload:\n  closed: {connections: 1}\n  ask: {model: m, %s}\n"
	)
	for _, c := range []struct{ form, field, want string }{
		{call, "proto: [there, none]", "x.yaml:5:45: load.call.proto[1]: cannot be read: "},
		{call, "protoset: none", "x.yaml:5:40: load.call.protoset: cannot be read: "},
		{call, "message_file: none", "x.yaml:5:44: load.call.message_file: cannot be read: "},
		{call, "binary_file: .", "x.yaml:5:43: load.call.binary_file: not a regular file: "},
		{call, "message: '{}', data: {rows: none}", "x.yaml:5:58: load.call.data.rows: cannot be read: "},
		{ask, "prompts: none", "x.yaml:5:28: load.ask.prompts: cannot be read: "},
		{ask + "compare: {base: a, variants: {a: {file: there}, b: {file: none}}}\n", "prompts: '{{file}}'", "x.yaml:5:28: load.ask.prompts: cannot be read: "},
		{call, "proto: [there]", ""},
		{ask, "prompts: there", ""},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "x.yaml")
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "there"), nil, 0o600), os.WriteFile(path, fmt.Appendf(nil, c.form, c.field), 0o600)); err != nil {
			t.Fatal(err)
		}
		_, err := ReadFile(path, Options{})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), dir+"/", ""), c.want)) {
			t.Errorf("%s: %v, want %s", c.field, err, c.want)
		}
	}
}

func TestExpressionChecks(t *testing.T) {
	o := Options{
		CheckThreshold: func(text string, _, _ []string) error {
			if strings.HasPrefix(text, "errors") {
				return errors.New("no such metric")
			}
			return nil
		},
		CheckClaim: func(_ string, variants, _ []string) error {
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
	v.Load.Closed = &Closed{Connections: 10}
	e := &Experiment{Name: "http", Design: Design{Rounds: 1, Seed: 1}, Variants: []Variant{v}}
	e.Complete()
	return e
}

func TestValidate(t *testing.T) {
	e := quick()
	e.Variants[0].Target.TLS = &TLS{Insecure: true}
	if err := e.Validate(); err != nil {
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
		{"window of HTTP/2", func(e *Experiment) { e.Variants[0].Load.HTTP2.ConnectionWindow = 1 }, "load.http2.connection_window: "},
		{"connections", func(e *Experiment) { e.Variants[0].Load.Closed.Connections = 1_000_001 }, "load.closed.connections: "},
		{"workers", func(e *Experiment) { e.Variants[0].Load.Workers = 11 }, "load.workers: "},
		{"both loops", func(e *Experiment) { e.Variants[0].Load.Open = DefaultOpen() }, "load.open: "},
		{"think", func(e *Experiment) {
			e.Variants[0].Load.Closed.Think = Think{Uniform: &Span{2, 1}}
		}, "load.closed.think.uniform.to: "},
		{"two think times", func(e *Experiment) {
			e.Variants[0].Load.Closed.Think = Think{Constant: 1, Uniform: &Span{1, 2}}
		}, "load.closed.think: more than one distribution"},
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
			e.Variants[0].Services = []Service{{Name: "s", Process: DefaultVariant(TCP).Target.Process}}
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
		{`{{ "{{" }}none}} {{"{{"}}{{ '{{' }}{{port}}`, "{{none}} {{{{80"},
	} {
		if got, err := Expand(c.in, vars); err != nil || got != c.want {
			t.Errorf("%q: %q, %v; want %q", c.in, got, err, c.want)
		}
	}
	for _, bad := range []string{"{{", "{{}}", "{{port", "{{none}}", "{{echo.x}}", "{{.port}}", "{{1a}}", "{{-}}", "{{a.port.b}}", "{{a b}}", `{{ "{{" `, `{{ "{{' }}`, strings.Repeat("{{big}}", 1100)} {
		big := map[string]string{"big": strings.Repeat("x", 1000)}
		if got, err := Expand(bad, big); err == nil || got != "" {
			t.Errorf("%q: %q, want an error", clip(bad), clip(got))
		}
	}
	if _, err := Expand("{{none}}", vars); err == nil || !strings.Contains(err.Error(), `write {{ "{{" }} for the braces themselves`) {
		t.Errorf("%v", err)
	}
}

// Braces that are no template are written as one that says them, and stay that until a trial
// fills them in.
func TestQuote(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{`{"a":"}}"}`, `{"a":"}}"}`},
		{"{{name}} {{ #if x }}{{", "{{name}} {{ #if x }}{{"},
		{`{{ "{{" }}`, `{{ "{{" }}`},
		{"{{{port}}}", "{{{port}}}"},
		{"{{port}} {{ port }} {{port.x}}", "80 80 {{port.x}}"},
	} {
		quoted := Quote(c.text, "port")
		if got, err := Expand(quoted, map[string]string{"port": "80"}); err != nil || got != c.want {
			t.Errorf("%q became %q, and that %q, %v; want %q", c.text, quoted, got, err, c.want)
		}
		if got, err := Expand(Quote(c.text), nil); err != nil || got != c.text {
			t.Errorf("%q became %q, %v", c.text, got, err)
		}
	}
	e, err := Parse("x.yaml", []byte(`
name: x
target: {protocol: http, start: [serve, "{{port}}", '{{ "{{" }}port}}']}
load: {closed: {connections: 1}, request: {body: '{{size}}{{ "{{" }}size}}', path: '/{{ "{{" }}'}}
sweep: {size: [1, '{{ "{{" }}']}
`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []string{"1{{size}}", "{{{{size}}"} {
		v := e.Variants[n]
		vars := map[string]string{"port": "80", "admin": "81"}
		if err := v.Fill(vars); err != nil || v.Load.Request.Body != want || v.Load.Request.Path != "/{{" {
			t.Errorf("%+v, %v; want the body %q", v.Load.Request, err, want)
		}
		if p := v.Target.Process; p.Fill(vars) != nil || p.Start[1] != "80" || p.Start[2] != "{{port}}" {
			t.Errorf("%q", p.Start)
		}
	}
}

// The load of flags is sent as it was typed. The templates of its scenario stay.
func TestPlainLoad(t *testing.T) {
	const text = `{{name}} {{#if x}} {{port}} {{ "{{" }} {{`
	v := DefaultVariant(HTTP)
	v.Plain, v.Target.URL, v.Target.Address = true, Quote("http://127.0.0.1:1/{{x}}"), "127.0.0.1:1"
	v.Load.Request.Body, v.Load.Request.Headers = text, []Header{{Name: "X", Value: text}, {Name: "Port", Value: "{{port}}"}}
	v.Load.Closed = &Closed{Connections: 1}
	e := New("x", HTTP)
	e.Variants, e.Design.Rounds = []Variant{v}, 1
	e.Complete()
	if err := e.Validate(); err != nil {
		t.Error(err)
	}
	if err := v.Fill(map[string]string{"port": "80"}); err != nil || v.Load.Request.Body != text || v.Load.Request.Headers[0].Value != text || v.Load.Request.Headers[1].Value != "{{port}}" || v.Target.URL != "http://127.0.0.1:1/{{x}}" {
		t.Errorf("%v, %+v, %s", err, v.Load.Request, v.Target.URL)
	}
	v.Target.URL, v.Load.Scenario = "http://127.0.0.1:1/", &Scenario{Steps: []Step{{Body: "{{port}}{{name}}"}}}
	if err := v.Fill(map[string]string{"port": "80"}); err != nil || v.Load.Scenario.Steps[0].Body != "80{{name}}" {
		t.Errorf("%v, %+v", err, v.Load.Scenario)
	}

	ask := DefaultVariant(LLM)
	ask.Plain, ask.Target.URL, ask.Target.Address = true, "http://127.0.0.1:1/v1", "127.0.0.1:1"
	ask.Load.Ask.Model, ask.Load.Ask.Prompt, ask.Load.Ask.Options = "m", text, `{"chat_template":"{{ messages }}"}`
	ask.Load.Closed = &Closed{Connections: 1}
	e = New("x", LLM)
	e.Variants, e.Design.Rounds = []Variant{ask}, 1
	e.Complete()
	if err := e.Validate(); err != nil {
		t.Error(err)
	}
	for options, valid := range map[string]bool{`{"n": {{port}}}`: false, `{"n":"{{port}}"}`: true} {
		e.Variants[0].Load.Ask.Options = options
		if err := e.Validate(); (err == nil) != valid {
			t.Errorf("%s: %v", options, err)
		}
	}
}

// Package units reads figures; what is the reader's own is which of them a field takes, and
// what is said of the others.
func TestScalars(t *testing.T) {
	for _, c := range []struct {
		of   spec
		in   string
		want any    // nil: it is a fault
		says string // the fault
	}{
		{spec{kind: duration}, "1m30s", 90 * time.Second, ""},
		{spec{kind: duration, choices: []string{"auto"}}, "auto", auto, ""},
		{spec{kind: duration, choices: []string{"auto"}}, "soon", nil, `"soon" is not a duration; such as 5s or 250ms; a bare number is seconds; or auto`},
		{spec{kind: rate}, "300/min", 5., ""},
		{spec{kind: rate}, "0", 0., ""},
		{spec{kind: rate}, "fast", nil, `"fast" is not a rate; such as 5000/s, 300/min or 10/h; a bare number is per second`},
		{spec{kind: size}, "2MiB", int64(2 << 20), ""},
		{spec{kind: size}, "1 K", nil, `"1 K" is not a size; such as 512, 512B, 1.5KB, 1KiB or 1MiB`},
		{spec{kind: share}, "2%", 0.02, ""},
		{spec{kind: amount}, "50%", 0.5, ""},
		{spec{kind: amount}, "half", nil, `"half" is not an amount of CPUs; such as 0.5 or 50%`},
		{spec{kind: cpus}, "5,0-1", []int{0, 1, 5}, ""},
		{spec{kind: cpus}, "3-1", nil, "the range 3-1 runs backwards; such as 0 or 0-3,5"},
		{spec{kind: integer, max: 20}, "12", 12., ""},
		{spec{kind: integer}, "012", nil, `"012" is not a whole number; such as 100`},
		{spec{kind: integer, min: 1, max: 9}, "10", nil, "10 is too much; from 1 to 9"},
		{spec{kind: duration, min: 1, max: 90}, "2m", nil, "2m is too much; from 1s to 1m30s"},
		{spec{kind: size, min: 1, max: 1 << 20}, "0", nil, "0B is too little; from 1B to 1MiB"},
		{spec{kind: choice, choices: []string{"echo", "line"}}, "lin", nil, `"lin" is not possible; did you mean "line"? (one of echo, line)`},
	} {
		if c.of.max == 0 {
			c.of.max = math.Inf(1)
		}
		if problem, hint := c.of.scalarFault(c.in); c.want == nil {
			if problem+"; "+hint != c.says {
				t.Errorf("%s %q: %s; %s, want %s", c.of.kind, c.in, problem, hint, c.says)
			}
			continue
		} else if problem != "" {
			t.Errorf("%s %q: %s", c.of.kind, c.in, problem)
		}
		if got, err := c.of.read(c.in); err != nil || !cmp.Equal(got, c.want) {
			t.Errorf("%s %q: %v, %v, want %v", c.of.kind, c.in, got, err, c.want)
		}
	}
}

// Plans that are too large are refused at once, not after minutes.
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
		{"brackets", "name: " + strings.Repeat("[", nesting.Deepest+1), "nested more than 50 deep"},
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

func TestSubscribers(t *testing.T) {
	e := mustParse(t, "testdata/good/sse.yaml", Options{})
	if e.Design.Metric != "delivery.p99" {
		t.Errorf("the metric is %s, want delivery.p99", e.Design.Metric)
	}
	v := e.Variants[1]
	want := Load{
		SSELoad: SSELoad{
			Subscribers: &Subscribers{
				Connections: 1000, Ramp: 2000, Topics: 10, Headers: []Header{{"Authorization", "Bearer abc"}},
				GapEvent: "missed", Slow: &Slow{Connections: 1, Rate: 1024}, ReceiveBuffer: 4096,
			},
			Publish: &Publish{Path: "/publish?topic=t{topic}", Size: 200, Form: FormRaw, Headers: []Header{{"X-Run", "{{port}}"}}},
		},
		MaxHeader: 64 << 10,
		Open:      &Open{Rate: 50, Arrivals: ArrivalsConstant, MaxConnections: 4, MaxWaiting: 65_536},
		Clock:     ClockAuto, Timeout: 30 * time.Second, ConnectTimeout: 5 * time.Second, Warmup: 2 * time.Second, Window: 10 * time.Second,
		Reconnect: Reconnect{MinBackoff: 100 * time.Millisecond, MaxBackoff: 10 * time.Second},
	}
	if diff := cmp.Diff(want, v.Load); diff != "" {
		t.Error(diff)
	}
	if want := "http://127.0.0.1:{{port}}/events?topic=t{topic}"; v.Target.URL != want || v.Target.Address != "127.0.0.1:{{port}}" {
		t.Errorf("the target is %s, %s", v.Target.URL, v.Target.Address)
	}
}

// Run-time variables are filled in again for each trial, and never in the plan.
func TestFillVariables(t *testing.T) {
	v := DefaultVariant(HTTP)
	v.Target.Address, v.Target.URL, v.Target.Pprof = "127.0.0.1:{{port}}", "http://127.0.0.1:{{port}}/", "http://127.0.0.1:{{admin}}/p"
	v.Load.Request.Path, v.Load.Request.Body = "/{{echo.port}}", "{{port}}"
	v.Load.Request.Headers = []Header{{Name: "X", Value: "{{echo.addr}}"}}
	v.Observe = Observe{
		Runtime: "http://127.0.0.1:{{admin}}/metrics", Endpoints: []Endpoint{{URL: "http://{{echo.addr}}/"}},
		Commands: []Command{{Run: []string{"ask", "{{port}}"}}},
	}
	original := *v.Load.Request
	filled := v
	err := filled.Fill(map[string]string{"port": "80", "admin": "81", "echo.port": "82", "echo.addr": "127.0.0.1:82"})
	if err != nil {
		t.Fatal(err)
	}
	want := Request{Path: "/82", Body: "80", Headers: []Header{{Name: "X", Value: "127.0.0.1:82"}}}
	if diff := cmp.Diff(want, *filled.Load.Request); diff != "" {
		t.Error(diff)
	}
	if filled.Target.Address != "127.0.0.1:80" || filled.Target.URL != "http://127.0.0.1:80/" || filled.Target.Pprof != "http://127.0.0.1:81/p" {
		t.Errorf("%+v", filled.Target)
	}
	if o := filled.Observe; o.Runtime != "http://127.0.0.1:81/metrics" || o.Endpoints[0].URL != "http://127.0.0.1:82/" || o.Commands[0].Run[1] != "80" {
		t.Errorf("%+v", o)
	}
	if o := v.Observe; o.Endpoints[0].URL != "http://{{echo.addr}}/" || o.Commands[0].Run[1] != "{{port}}" {
		t.Errorf("the plan was changed: %+v", o)
	}
	// The plan is used again in the next round, with other ports.
	if v.Load.Request.Path != original.Path || v.Load.Request.Headers[0].Value != "{{echo.addr}}" {
		t.Errorf("the plan was changed: %+v", v.Load.Request)
	}
	if err := v.Fill(nil); err == nil || !strings.Contains(err.Error(), "variant default") {
		t.Errorf("%v, want an error that names the variant", err)
	}
}
