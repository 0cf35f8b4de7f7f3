package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dyno/internal/leak"
	"dyno/results/rundir"
)

func TestMain(m *testing.M) { leak.Main(m) }

// hangGuard bounds every wait of these tests. It is no expectation of speed.
const hangGuard = 30 * time.Second

// A bed is a server with a folder of runs and a folder of experiments. Its runs do what a test says.
type bed struct {
	t           testing.TB
	dir         string // holds runs, experiments and what is neither
	server      *Server
	url, token  string
	client      *http.Client
	runner      *puppeteer
	stopServing context.CancelFunc
	served      chan error
}

func (b *bed) path(parts ...string) string {
	return filepath.Join(append([]string{b.dir}, parts...)...)
}

const experimentFile = `name: tame
question: Is it?
target: {protocol: tcp, start: [sleep, "{{size}}", "{{port}}"]}
load: {closed: {connections: 2}, warmup: 1s, window: 2s}
design: {rounds: 8}
compare: {base: small, variants: {small: {size: 1}, large: {size: 2}}}
short: {rounds: 2}
`

// newBed starts a server. Change adapts its configuration; nil changes nothing.
func newBed(t testing.TB, change func(*Config)) *bed {
	t.Helper()
	b := &bed{t: t, dir: t.TempDir(), client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: hangGuard}, runner: &puppeteer{}, served: make(chan error, 1)}
	for _, name := range []string{"runs", "experiments"} {
		check(t, os.Mkdir(b.path(name), 0o755))
	}
	write(t, b.path("experiments", "tame.yaml"), experimentFile)
	c := Defaults()
	c.Listen, c.Runs, c.Experiments, c.Runner = "127.0.0.1:0", b.path("runs"), b.path("experiments"), b.runner
	c.StopTimeout = hangGuard
	c.Report = func(w io.Writer, f *rundir.Folder) error {
		_, err := fmt.Fprintf(w, "<!doctype html><title>%s</title>", f.Run.Name)
		return err
	}
	if change != nil {
		change(&c)
	}
	var err error
	b.server, err = New(c)
	check(t, err)
	check(t, b.server.Listen())
	b.url, b.token, _ = strings.Cut(b.server.URL(), "/#token=")
	var ctx context.Context
	ctx, b.stopServing = context.WithCancel(context.Background())
	go func() { b.served <- b.server.Serve(ctx) }()
	t.Cleanup(func() {
		b.stopServing()
		if err := <-b.served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return b
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(t, os.WriteFile(path, []byte(text), 0o600))
}

// addRun makes a run folder.
func (b *bed) addRun(id string, change func(*rundir.Run)) {
	b.t.Helper()
	finished := time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
	run := &rundir.Run{
		SchemaVersion: rundir.SchemaVersion, Name: "tame", StartedAt: finished.Add(-time.Minute), FinishedAt: &finished, Complete: true, Valid: true,
		Rounds: 8, Plan: rundir.Plan{Protocol: "tcp", Loop: "closed", Metric: "throughput", Variants: []rundir.PlanVariant{{Name: "pool", Loop: "closed"}}},
		Variants: []rundir.Variant{figured("pool", 1000)}, Comparisons: []rundir.Comparison{}, Thresholds: []rundir.Threshold{}, Claims: []rundir.Claim{}, Flags: []rundir.Flag{},
	}
	if change != nil {
		change(run)
	}
	text, err := json.Marshal(run)
	check(b.t, err)
	write(b.t, b.path("runs", id, rundir.RunFile), string(text))
	b.fresh()
}

// figured is a variant with a throughput of eight trials.
func figured(name string, throughput float64) rundir.Variant {
	low, high := 0.99*throughput, 1.01*throughput
	e := rundir.Estimate{Estimate: &throughput, Low: &low, High: &high, Confidence: 0.95}
	for i := range 8 {
		e.Values = append(e.Values, throughput*(1+0.001*float64(i-4)))
	}
	return rundir.Variant{Name: name, Trials: 8, Figures: map[string]rundir.Estimate{"throughput": e}}
}

// fresh makes the next list scan the folders.
func (b *bed) fresh() { b.server.runs.stale() }

// request makes one with the token.
func (b *bed) request(method, path, body string) *http.Request {
	b.t.Helper()
	r, err := http.NewRequest(method, b.url+path, strings.NewReader(body))
	check(b.t, err)
	r.Header.Set("Authorization", "Bearer "+b.token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// do returns the status and the body.
func (b *bed) do(r *http.Request) (int, string) {
	b.t.Helper()
	resp, err := b.client.Do(r)
	check(b.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check(b.t, err)
	return resp.StatusCode, string(text)
}

// get reads a successful answer, based on the folders as they are now.
func get[T any](b *bed, path string) (value T) {
	b.t.Helper()
	b.fresh()
	status, text := b.do(b.request("GET", path, ""))
	if status != http.StatusOK {
		b.t.Fatalf("%s: %d %s", path, status, text)
	}
	check(b.t, json.Unmarshal([]byte(text), &value))
	return value
}

// start starts the experiment and returns the run's ID and the puppet that it runs on.
func (b *bed) start() (string, *puppet) {
	b.t.Helper()
	status, text := b.do(b.request("POST", "/api/runs", `{"experiment":"tame.yaml"}`))
	if status != http.StatusAccepted {
		b.t.Fatalf("%d %s", status, text)
	}
	var answer struct{ ID string }
	check(b.t, json.Unmarshal([]byte(text), &answer))
	return answer.ID, b.runner.latest()
}

// A puppeteer is a Runner whose runs are puppets.
type puppeteer struct {
	mu      sync.Mutex // guards what follows
	puppets []*puppet
	refuse  error
}

// A puppet is an Execution that does what a test says.
type puppet struct {
	launch Launch
	send   func(Event)
	stops  chan int // receives 1 at the first Stop, 2 at the second
	ends   chan Outcome
	once   sync.Once
	n      int
}

func (p *puppeteer) Start(l Launch, send func(Event)) (Execution, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		return nil, p.refuse
	}
	x := &puppet{launch: l, send: send, stops: make(chan int, 9), ends: make(chan Outcome, 9)}
	p.puppets = append(p.puppets, x)
	return x, nil
}

func (p *puppeteer) latest() *puppet {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.puppets[len(p.puppets)-1]
}

func (p *puppeteer) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.puppets)
}

func (x *puppet) end(o Outcome) { x.once.Do(func() { x.ends <- o }) }

// Stop ends the puppet the second time.
func (x *puppet) Stop() error {
	x.n++
	x.stops <- x.n
	if x.n == 2 {
		x.end(Outcome{Code: -1, Message: "killed"})
	}
	return nil
}

func (x *puppet) Wait() Outcome { return <-x.ends }

// A streamed event is an event as a client receives it.
type streamed struct{ id, kind, data string }

// follow opens the stream; last may be "". Its events come until the connection ends.
func (b *bed) follow(last string) (<-chan streamed, context.CancelFunc) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := b.request("GET", "/api/live", "").WithContext(ctx)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	check(b.t, err)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		b.t.Fatalf("%s, %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	out := make(chan streamed, 1000)
	go func() {
		defer close(out)
		defer resp.Body.Close()
		var e streamed
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case lines.Text() == "" && e.kind != "":
				out <- e
				e = streamed{}
			case name == "id":
				e.id = value
			case name == "event":
				e.kind = value
			case name == "data":
				e.data = value
			}
		}
	}()
	b.t.Cleanup(func() {
		cancel()
		for range out { //nolint:revive // until it is closed
		}
	})
	return out, cancel
}

// next returns the next event, which must come.
func next(t testing.TB, from <-chan streamed) streamed {
	t.Helper()
	select {
	case e, ok := <-from:
		if !ok {
			t.Fatal("the stream has ended")
		}
		return e
	case <-time.After(hangGuard):
		t.Fatal("no event")
	}
	panic("not reached")
}

// await returns the next event, which must have this kind.
func await(t testing.TB, from <-chan streamed, kind string) streamed {
	t.Helper()
	e := next(t, from)
	if e.kind != kind {
		t.Fatalf("event %s %s, want %s", e.kind, e.data, kind)
	}
	return e
}

var errTest = errors.New("not today")
