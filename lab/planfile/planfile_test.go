package planfile

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

	"dyno/internal/fields"
	"dyno/internal/nesting"
	"dyno/lab/plan"
	"dyno/load/options"
	"dyno/load/pace"
	"dyno/load/scenario"
)

var update = flag.Bool("update", false, "rewrite golden files, schema.json and docs/reference/experiment.md")

func parseFile(t *testing.T, path string, o Options) (*plan.Experiment, error) {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return Parse(path, src, o)
}

func mustParse(t *testing.T, path string, o Options) *plan.Experiment {
	t.Helper()
	e, err := parseFile(t, path, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func names(e *plan.Experiment) string {
	var out []string
	for _, v := range e.Variants {
		out = append(out, v.Name)
	}
	return strings.Join(out, " ")
}

func TestCompare(t *testing.T) {
	e := mustParse(t, "testdata/good/relay-models.yaml", Options{})
	process := func(start ...string) plan.Process {
		return plan.Process{Start: start, Ready: plan.Ready{Kind: plan.ReadyTCP}, ReadyTimeout: 10 * time.Second, StopTimeout: 5 * time.Second}
	}
	variant := func(name string, vars map[string]string) plan.Variant {
		p := process("dyno", "serve", "relay", "--listen", "127.0.0.1:{{port}}", "--to", "{{echo.addr}}", "--model", name)
		p.CPUs = []int{0}
		return plan.Variant{
			Name: name,
			Vars: vars,
			Target: plan.Target{
				Protocol: plan.TCP, Address: "127.0.0.1:{{port}}",
				Pprof: "http://127.0.0.1:{{admin}}/debug/pprof", Process: p,
			},
			Services: []plan.Service{{Name: "echo", Process: process("dyno", "serve", "echo", "--tcp", "127.0.0.1:{{port}}")}},
			Load: plan.Load{
				Threads: options.Threads{CPUs: []int{1}}, TCPLoad: plan.TCPLoad{Payload: 1024, Framing: plan.FramingEcho},
				Closed: &plan.Closed{Connections: 100},
				Clock:  plan.ClockAuto, Timeouts: options.Timeouts{Timeout: 30 * time.Second, ConnectTimeout: 5 * time.Second},
				Warmup: 2 * time.Second, Window: 5 * time.Second,
				Reconnect: options.Backoff{MaxBackoff: time.Second},
			},
			Observe: plan.Observe{Kernel: plan.KernelAfter, Server: true},
		}
	}
	control := variant("pool", map[string]string{"model": "pool", "workers": "16"})
	control.Name, control.AliasOf = "pool.control", "pool"
	want := &plan.Experiment{
		Name:     "relay-models",
		Question: "Does one goroutine per connection beat a bounded pool when forwarding 1 KiB requests?",
		File:     "testdata/good/relay-models.yaml", Source: e.Source,
		Design: plan.Design{Rounds: 8, Seed: 1, Stop: plan.StopFixed, Margin: 0.02, Metric: "throughput", Control: "pool.control", QuietWait: 30 * time.Second},
		Base:   "pool",
		Variants: []plan.Variant{
			variant("goroutine", map[string]string{"model": "goroutine", "workers": "16"}),
			variant("pool", map[string]string{"model": "pool", "workers": "16"}),
			control,
		},
		Thresholds: []plan.Threshold{{Holds: "response.p99 < 80ms"}, {Holds: "errors.ratio < 0.1%"}},
		Claims: []plan.Claim{{
			ID: "R1.1", Says: "goroutine model 1.36x the pool's throughput at 100 connections",
			Holds: "ratio(goroutine, pool, throughput) >= 1.36",
		}},
		Warnings: []fields.Fault{{
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
	if e.Design != (plan.Design{Rounds: 5, Seed: 9, Stop: plan.StopFixed, Margin: 0.02, Metric: "throughput", QuietWait: 30 * time.Second}) {
		t.Errorf("design %+v", e.Design)
	}
	v := e.Variants[1]
	if v.Load.Warmup != 500*time.Millisecond || v.Load.Window != 250*time.Millisecond {
		t.Errorf("warm-up %v, window %v", v.Load.Warmup, v.Load.Window)
	}
	want := &plan.Closed{Connections: 500, Think: pace.Think{Uniform: &pace.Span{From: time.Millisecond, To: 500 * time.Millisecond}}}
	if diff := cmp.Diff(want, v.Load.Closed); diff != "" {
		t.Error(diff)
	}
	if v.Load.Payload != 64 || v.Load.Framing != plan.FramingLine {
		t.Errorf("payload %d, framing %s", v.Load.Payload, v.Load.Framing)
	}
	if diff := cmp.Diff(map[string]string{"GOMAXPROCS": "1", "MODE": "goroutine"}, v.Target.Env); diff != "" {
		t.Error(diff)
	}
	if v.Target.Ready != (plan.Ready{Kind: plan.ReadyLine, Line: "listening on"}) || v.Target.ReadyTimeout != 3*time.Second {
		t.Errorf("ready %+v within %v", v.Target.Ready, v.Target.ReadyTimeout)
	}
	if v.Services[0].Name != "echo" || v.Services[1].Name != "audit" {
		t.Errorf("services start in the order %s, %s; audit uses echo", v.Services[0].Name, v.Services[1].Name)
	}
	if v.Services[1].Ready != (plan.Ready{Kind: plan.ReadyHTTP, URL: "/healthz"}) || v.Services[0].StopTimeout != 250*time.Millisecond {
		t.Errorf("services %+v", v.Services)
	}
	if c := e.Claims[1]; c.NotTestable == "" || c.Holds != "" {
		t.Errorf("claim %+v", c)
	}
}

func TestStages(t *testing.T) {
	e := mustParse(t, "testdata/good/http-stages.yaml", Options{})
	v := e.Variants[2]
	want := plan.Load{
		HTTPLoad: plan.HTTPLoad{Request: &plan.Request{
			Method: "POST", Path: "/items/1000", Body: "{\"size\": 1000}\n",
			Headers: []scenario.Header{{Name: "Content-Type", Value: "application/json"}, {Name: "X-Size", Value: "1000"}},
		}},
		HTTP2: &plan.HTTP2{Use: plan.HTTP2Auto, Streams: 1},
		Open: &plan.Open{
			Arrivals: plan.ArrivalsPoisson, MaxConnections: 200, Waiting: options.Waiting{MaxWaiting: 1000},
		},
		Stages:    []plan.Stage{{Duration: 30 * time.Second, To: 5}, {Duration: time.Minute, From: 5, To: 5}, {Duration: 10 * time.Second, From: 20}},
		MaxHeader: 64 << 10,
		Clock:     plan.ClockAuto, Timeouts: options.Timeouts{Timeout: 2 * time.Second, ConnectTimeout: 5 * time.Second}, Warmup: 2 * time.Second,
		Window: 100 * time.Second, Reconnect: options.Backoff{MaxBackoff: 2 * time.Second},
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
	if diff := cmp.Diff(&plan.TLS{
		ServerName: "server.test", CA: dir + "https.yaml", Certificate: dir + "https.yaml", Key: dir + "https.yaml",
		MinVersion: "1.2", MaxVersion: "1.3", Tickets: true, CipherSuites: []string{"ECDHE-RSA-AES128-GCM-SHA256"}, Groups: []string{"x25519"},
	}, e.Variants[0].Target.TLS); diff != "" {
		t.Error(diff)
	}
	for i, use := range map[int]string{0: plan.HTTP2Auto, 2: plan.HTTP2Always} { // 1 is the control
		want := &plan.HTTP2{Use: use, Streams: 16, StreamWindow: 65_536, ConnectionWindow: 1 << 20}
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

	// The file means the same whatever its lines end in, with a byte order mark or without.
	for _, end := range []string{"\r\n", "\r"} {
		path = write("ends.yaml", "\xef\xbb\xbf"+strings.ReplaceAll(strings.ReplaceAll(form, "%", "body"), "\n", end))
		if again, err := ReadFile(path, Options{}); err != nil || again.Name != "x" || again.Variants[0].Load.Request.BodyFile != v.Load.Request.BodyFile {
			t.Errorf("line ends %q: %v", end, err)
		}
	}

	var faults *fields.Faults
	path = write("nobody.yaml", strings.ReplaceAll(form, "%", "none"))
	if _, err = ReadFile(path, Options{}); !errors.As(err, &faults) || faults.Faults[0].Line != 3 {
		t.Errorf("missing body file: %v", err)
	}
	path = write("large.yaml", strings.Repeat("#", fields.MaxFile+1))
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

// fakeChecks is a fake of what judges expressions.
type fakeChecks struct {
	threshold func(text string) error
	claim     func(variants []string) error
	metric    func(name string) error
	needed    int
}

func (f fakeChecks) CheckThreshold(text string, _, _ []string) error {
	if f.threshold == nil {
		return nil
	}
	return f.threshold(text)
}

func (f fakeChecks) CheckProbe(text string, variants, steps []string) error {
	return f.CheckThreshold(text, variants, steps)
}

func (f fakeChecks) CheckAbort(text string, variants, steps []string) error {
	return f.CheckThreshold(text, variants, steps)
}

func (f fakeChecks) CheckClaim(_ string, variants, _ []string) error {
	if f.claim == nil {
		return nil
	}
	return f.claim(variants)
}

func (f fakeChecks) CheckMeasured(_ string, variants, _ []string) error {
	return f.CheckClaim("", variants, nil)
}

func (fakeChecks) CheckPublished(string, string, []string, []string) error { return nil }

func (f fakeChecks) CheckMetric(name string, _ []string) error {
	if f.metric == nil {
		return nil
	}
	return f.metric(name)
}

func (f fakeChecks) RequestsNeeded(string, []string, []string) int { return f.needed }

func TestExpressionChecks(t *testing.T) {
	o := Options{Expressions: fakeChecks{
		threshold: func(text string) error {
			if strings.HasPrefix(text, "errors") {
				return errors.New("no such metric")
			}
			return nil
		},
		claim: func(variants []string) error {
			if strings.Join(variants, " ") != "goroutine pool pool.control" {
				t.Errorf("variants %v", variants)
			}
			return errors.New("cannot be evaluated")
		},
	}}
	_, err := parseFile(t, "testdata/good/relay-models.yaml", o)
	var faults *fields.Faults
	if !errors.As(err, &faults) {
		t.Fatal(err)
	}
	want := []fields.Fault{
		{File: "testdata/good/relay-models.yaml", Line: 23, Column: 37, Field: "thresholds[1]", Problem: "no such metric"},
		{File: "testdata/good/relay-models.yaml", Line: 27, Column: 12, Field: "claims[0].holds", Problem: "cannot be evaluated"},
	}
	if diff := cmp.Diff(want, faults.Faults); diff != "" {
		t.Error(diff)
	}
}

// Claims may name variants that the short form or an option leaves out.
func TestClaimsOfLeftOut(t *testing.T) {
	const head = "name: x\ntarget: {protocol: tcp, start: [serve, '{{port}}', '{{a}}', '{{b}}']}\nload: {closed: {connections: 1}}\ndesign: {control: false}\nclaims: [{id: C, says: x, holds: x}]\n"
	for text, want := range map[string]string{
		"sweep: {a: [1, 2], b: [1, 2]}\nshort: {rounds: 1, sweep: {a: [2]}}\n":                                                      "2-1 2-2 1-1 1-2",
		"compare: {base: m, variants: {l: {a: 1, b: 1}, m: {a: 2, b: 2}, n: {a: 3, b: 3}}}\nshort: {rounds: 1, variants: [m, n]}\n": "m n l",
		"ladder: {steps: {1-l: {a: 1, b: 1}, 2-m: {a: 2}, 3-n: {b: 2}}}\nshort: {rounds: 1, variants: [1-l, 3-n]}\n":                "1-l 3-n 2-m",
	} {
		checked := ""
		_, err := Parse("x.yaml", []byte(head+text), Options{Short: true, Expressions: fakeChecks{claim: func(variants []string) error {
			checked = strings.Join(variants, " ")
			return nil
		}}})
		if err != nil || checked != want {
			t.Errorf("%s: claims may name %s, want %s; %v", text, checked, want, err)
		}
	}
}

// A template that says braces stays one until a trial fills it in.
func TestQuotedBraces(t *testing.T) {
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
		{"bytes", strings.Repeat("# comment\n", fields.MaxFile/10+1), "the file is larger than 1 MiB"},
		{"lines", "name: x" + rest + strings.Repeat("#\n", fields.MaxLines), "more than 10000 lines"},
		{"line", "name: x # " + strings.Repeat("x", fields.MaxLine) + rest, "the line is longer than 64 KiB"},
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
	var faults *fields.Faults
	if !errors.As(err, &faults) || len(faults.Faults) != fields.MaxFaults || faults.Omitted != 1000-fields.MaxFaults {
		t.Errorf("%.200v", err)
	}
}

func TestSubscribers(t *testing.T) {
	e := mustParse(t, "testdata/good/sse.yaml", Options{})
	if e.Design.Metric != "delivery.p99" {
		t.Errorf("the metric is %s, want delivery.p99", e.Design.Metric)
	}
	v := e.Variants[1]
	want := plan.Load{
		SSELoad: plan.SSELoad{
			Subscribers: &plan.Subscribers{
				Connections: 1000, Ramp: 2000, Topics: 10, Headers: []scenario.Header{{Name: "Authorization", Value: "Bearer abc"}},
				GapEvent: "missed", Slow: &plan.Slow{Connections: 1, Rate: 1024}, ReceiveBuffer: 4096,
			},
			Publish: &plan.Publish{Path: "/publish?topic=t{topic}", Size: 200, Form: plan.FormRaw, Headers: []scenario.Header{{Name: "X-Run", Value: "{{port}}"}}},
		},
		MaxHeader: 64 << 10,
		Open:      &plan.Open{Rate: 50, Arrivals: plan.ArrivalsConstant, MaxConnections: 4, Waiting: options.Waiting{MaxWaiting: 65_536}},
		Clock:     plan.ClockAuto, Timeouts: options.Timeouts{Timeout: 30 * time.Second, ConnectTimeout: 5 * time.Second}, Warmup: 2 * time.Second, Window: 10 * time.Second,
		Reconnect: options.Backoff{MinBackoff: 100 * time.Millisecond, MaxBackoff: 10 * time.Second},
	}
	if diff := cmp.Diff(want, v.Load); diff != "" {
		t.Error(diff)
	}
	if want := "http://127.0.0.1:{{port}}/events?topic=t{topic}"; v.Target.URL != want || v.Target.Address != "127.0.0.1:{{port}}" {
		t.Errorf("the target is %s, %s", v.Target.URL, v.Target.Address)
	}
}

// The users of a closed load get a connection each. The short form shortens all stages.
func TestStagesOfUsers(t *testing.T) {
	for _, short := range []bool{false, true} {
		l := mustParse(t, "testdata/good/users.yaml", Options{Short: short}).Variants[0].Load
		unit, whole := time.Second, 390*time.Second
		if short {
			unit, whole = time.Second/30, 13*time.Second
		}
		want := []plan.Stage{{Duration: 30 * unit, To: 40}, {Duration: 300 * unit, From: 40, To: 40}, {Duration: 60 * unit, From: 40}}
		for i := range want {
			want[i].Duration = want[i].Duration.Round(time.Millisecond)
		}
		if diff := cmp.Diff(want, l.Stages); diff != "" || l.Closed.Connections != 40 || l.Window != whole {
			t.Errorf("short %v: %d connections for %v, %s", short, l.Closed.Connections, l.Window, diff)
		}
	}
}
