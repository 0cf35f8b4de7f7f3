package cli

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	otlp "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"

	"dyno/internal/exit"
	"dyno/internal/freeport"
)

// serveBy starts a program that listens at an address. The program has ended when end returns.
func serveBy(t *testing.T, address, name string, args ...string) (end func()) {
	t.Helper()
	var said watched
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // how it ended does not matter: what it has written does
		if t.Failed() {
			t.Logf("%s: %s", name, said.String())
		}
	})
	t.Cleanup(end)
	until(t, name+" listens at "+address, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return end
}

// exported is a line that the collector has written: a request in OTLP, as JSON.
type exported struct {
	ResourceMetrics []struct {
		ScopeMetrics []struct{ Metrics []exportedMetric }
	}
	ResourceSpans []struct {
		ScopeSpans []struct{ Spans []exportedSpan }
	}
}

type exportedMetric struct {
	Name       string
	Gauge, Sum struct {
		DataPoints []struct {
			TimeUnixNano string
			AsDouble     float64
			Flags        uint32
			Attributes   []struct {
				Key   string
				Value struct{ StringValue string }
			}
			Exemplars []exportedExemplar
		}
	}
}

type exportedExemplar struct {
	TraceID, SpanID string
	AsDouble        float64
}

type exportedSpan struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                int
}

// startCollector starts a real OpenTelemetry collector. Once it has ended, read returns what it has received.
func startCollector(t *testing.T) (url string, read func() []exported) {
	t.Helper()
	program, err := exec.LookPath("otelcol")
	if err != nil {
		t.Skip("there is no OpenTelemetry collector: scripts/nightly.sh collector builds it and runs this test")
	}
	address, file := freeport.Address(t), filepath.Join(t.TempDir(), "received")
	end := serveBy(t, address, program, fmt.Sprintf(`--config=yaml:
receivers: {otlp: {protocols: {http: {endpoint: "%s"}}}}
exporters: {file: {path: "%s"}}
service:
  pipelines:
    metrics: {receivers: [otlp], exporters: [file]}
    traces: {receivers: [otlp], exporters: [file]}`, address, file))
	return "http://" + address, func() (all []exported) {
		end()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := json.NewDecoder(bytes.NewReader(text))
		for lines.More() {
			var line exported
			if err := lines.Decode(&line); err != nil {
				t.Fatal(err)
			}
			all = append(all, line)
		}
		return all
	}
}

// A pushedPoint is one of a metric, as dyno sends it or as the collector has received it.
type pushedPoint struct {
	Series    string // with its labels and time
	Value     float64
	Exemplars []exportedExemplar
}

// pushedBy reads the points of a request.
func pushedBy(t *testing.T, body []byte) (points []pushedPoint) {
	var request otlp.ExportMetricsServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		t.Error(err)
		return nil
	}
	for _, m := range request.ResourceMetrics[0].ScopeMetrics[0].Metrics {
		for _, p := range slices.Concat(m.GetGauge().GetDataPoints(), m.GetSum().GetDataPoints()) {
			x := pushedPoint{Series: m.Name, Value: p.GetAsDouble()}
			for _, a := range p.Attributes {
				x.Series += " " + a.Key + "=" + a.Value.GetStringValue()
			}
			x.Series += fmt.Sprintf(" flags %d at %d", p.Flags, p.TimeUnixNano)
			for _, e := range p.Exemplars {
				x.Exemplars = append(x.Exemplars, exportedExemplar{hex.EncodeToString(e.TraceId), hex.EncodeToString(e.SpanId), e.GetAsDouble()})
			}
			points = append(points, x)
		}
	}
	return points
}

// received returns the points of all lines.
func received(lines []exported) (points []pushedPoint) {
	for _, line := range lines {
		for _, r := range line.ResourceMetrics {
			for _, m := range r.ScopeMetrics[0].Metrics {
				for _, p := range slices.Concat(m.Gauge.DataPoints, m.Sum.DataPoints) {
					x := pushedPoint{m.Name, p.AsDouble, p.Exemplars}
					for _, a := range p.Attributes {
						x.Series += " " + a.Key + "=" + a.Value.StringValue
					}
					x.Series += fmt.Sprintf(" flags %d at %s", p.Flags, p.TimeUnixNano)
					points = append(points, x)
				}
			}
		}
	}
	return points
}

// TestCollectorGetsFigures: a real collector and a receiver of the test get the same points from one run. The points
// match the run's figures. The server answers the last request only after the others have been counted. The last sample
// therefore has all but that one.
func TestCollectorGetsFigures(t *testing.T) {
	to, read := startCollector(t)
	const requests = 500
	counted := make(chan struct{})
	var mu sync.Mutex // guards sent
	var sent []pushedPoint
	tap := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		points := pushedBy(t, body)
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, points...)
		if slices.ContainsFunc(points, func(p pushedPoint) bool {
			return strings.HasPrefix(p.Series, "dyno_good_total ") && p.Value == requests-1
		}) {
			close(counted)
		}
	}))
	defer tap.Close()
	var arrived atomic.Int64
	var traces sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		parts := strings.Split(r.Header.Get("Traceparent"), "-")
		if len(parts) != 4 {
			t.Errorf("traceparent %q", parts)
			return
		}
		traces.Store(parts[1], true)
		if arrived.Add(1) == requests {
			<-counted
		}
	}))
	defer server.Close()
	l := load(t, "", "http", "-q", "-n", strconv.Itoa(requests), "-c", "4", "--warmup", "0", "--traceparent", "--push", "otlp="+to, "--push", "otlp="+tap.URL, server.URL)
	if l.code != exit.Done && l.code != exit.Invalid || strings.Contains(l.stderr, "lost") {
		t.Fatalf("exit code %d, %s", l.code, l.stderr)
	}
	got := received(read())
	order := func(a, b pushedPoint) int { return strings.Compare(a.Series, b.Series) }
	slices.SortFunc(got, order)
	slices.SortFunc(sent, order)
	// Each receiver gets the time at which a sample was made, which is the same for both.
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Errorf("the collector got (+), and the other receiver (-):\n%s", diff)
	}
	good, exemplars := 0.0, 0
	for _, p := range got {
		if strings.HasPrefix(p.Series, "dyno_good_total ") {
			good = max(good, p.Value)
		}
		for _, x := range p.Exemplars {
			exemplars++
			if _, found := traces.Load(x.TraceID); !found || x.SpanID != x.TraceID[16:] || x.AsDouble != p.Value {
				t.Errorf("%+v of %+v", x, p)
			}
			for _, slow := range l.trial.Slowest {
				if slow.TraceID == x.TraceID && slow.Response != x.AsDouble {
					t.Errorf("%+v is in the run as %+v", x, slow)
				}
			}
		}
	}
	if int64(good) != l.trial.Counts.OK-1 || exemplars == 0 {
		t.Errorf("%v good responses of %d, %d exemplars", good, l.trial.Counts.OK, exemplars)
	}
}

// TestCollectorGetsSpans: the slow requests that dyno lists lead to the spans that dyno-bot has sent to a
// real collector. One request is slowed down behind the gateway: it is the first in the list.
func TestCollectorGetsSpans(t *testing.T) {
	to, read := startCollector(t)
	const requests, slow, others = 60, 10, 40
	var asked, answered atomic.Int64
	var slowTrace atomic.Value
	enough := make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if asked.Add(1) == slow {
			slowTrace.Store(strings.Split(r.Header.Get("Traceparent"), "-")[1])
			<-enough
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"an answer"}}]}`)
		if answered.Add(1) == others {
			close(enough)
		}
	}))
	defer model.Close()
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir, "../cmd/dyno-bot").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	address := freeport.Address(t)
	write(t, filepath.Join(dir, "bot.yaml"), fmt.Sprintf(`listen: "%s"
allow_networks: [127.0.0.0/8]
upstreams: [{name: model, url: "%s/v1", models: {m: m}}]
trace_endpoint: "%s/v1/traces"
trace_ratio: 0
`, address, model.URL, to))
	end := serveBy(t, address, filepath.Join(dir, "dyno-bot"), "--config", filepath.Join(dir, "bot.yaml"))
	l := load(t, "", "http", "-q", "-n", strconv.Itoa(requests), "-c", "2", "--warmup", "0", "--traceparent", "-X", "POST", "-H", "Content-Type: application/json",
		"--body", `{"model":"m","messages":[{"role":"user","content":"a question"}]}`, "http://"+address+"/v1/chat/completions")
	if l.trial.Counts.OK != requests || len(l.trial.Slowest) == 0 {
		t.Fatalf("exit code %d, %+v\n%s", l.code, l.trial.Counts, l.stderr)
	}
	end() // which sends the spans that wait
	servers, calls := map[string]exportedSpan{}, map[string]exportedSpan{}
	for _, line := range read() {
		for _, r := range line.ResourceSpans {
			for _, s := range r.ScopeSpans[0].Spans {
				switch {
				case s.Kind == 2: // SPAN_KIND_SERVER
					servers[s.TraceID] = s
				case s.Name == "upstream":
					calls[s.TraceID] = s
				}
			}
		}
	}
	if len(servers) != requests || len(calls) != requests {
		t.Errorf("%d requests, %d traces with a span for it, %d with one for the model", requests, len(servers), len(calls))
	}
	for _, x := range l.trial.Slowest {
		server, call := servers[x.TraceID], calls[x.TraceID]
		if server.Name != "POST /v1/chat/completions" || server.ParentSpanID != x.TraceID[16:] || call.ParentSpanID != server.SpanID {
			t.Errorf("%+v has the spans %+v and %+v", x, server, call)
		}
	}
	if got := l.trial.Slowest[0].TraceID; got != slowTrace.Load() {
		t.Errorf("the slowest is said to be %s, and was %s", got, slowTrace.Load())
	}
}
