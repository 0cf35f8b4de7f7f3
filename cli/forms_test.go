package cli

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dyno/results/rundir"
)

// A form of another tool has the figures of dyno's own report: response times of an open loop, and
// service times of a closed one.
func TestFormsOfTools(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	for loop, flags := range map[string][]string{"open": {"-R", "2000", "-z", "100ms"}, "closed": {"-n", "200", "-c", "2"}} {
		dir := filepath.Join(t.TempDir(), "run")
		var stdout, stderr bytes.Buffer
		Main(t.Context(), append([]string{"http", "-q", "--format", "k6", "-o", dir, server.URL}, flags...), strings.NewReader(""), &stdout, &stderr)
		f, err := rundir.Open(dir)
		if err != nil {
			t.Fatalf("%s: %v\n%s", loop, err, &stderr)
		}
		v := f.Run.Variants[0]
		times := f.Trials[0].Times[map[string]string{"open": rundir.TagResponse, "closed": rundir.TagService}[loop]]
		var k6 struct {
			Metrics map[string]map[string]float64 `json:"metrics"`
		}
		if err := json.Unmarshal(stdout.Bytes(), &k6); err != nil {
			t.Fatalf("%s: %v\n%s", loop, err, &stdout)
		}
		reported := func(form string, into any) {
			t.Helper()
			stdout.Reset()
			if code := Main(t.Context(), []string{"report", "--format", form, dir}, strings.NewReader(""), &stdout, &stderr); code != 0 {
				t.Fatalf("%s: exit code %d\n%s", loop, code, &stderr)
			}
			if err := json.Unmarshal(stdout.Bytes(), into); err != nil {
				t.Fatalf("%s: %v", loop, err)
			}
		}
		var oha struct {
			Summary     map[string]float64 `json:"summary"`
			Percentiles map[string]float64 `json:"latencyPercentiles"`
			Statuses    map[string]int64   `json:"statusCodeDistribution"`
		}
		reported("oha", &oha)
		var vegeta struct {
			Latencies map[string]time.Duration `json:"latencies"`
			Requests  int64                    `json:"requests"`
		}
		reported("vegeta-json", &vegeta)
		for name, c := range map[string]struct{ got, want float64 }{
			"k6 avg":           {k6.Metrics["http_req_duration"]["avg"], *times.Mean * 1e3},
			"k6 med":           {k6.Metrics["http_req_duration"]["med"], *times.P50 * 1e3},
			"k6 p(95)":         {k6.Metrics["http_req_duration"]["p(95)"], *times.P95 * 1e3},
			"k6 waiting":       {k6.Metrics["http_req_waiting"]["med"], *v.Known("first_byte.p50") * 1e3},
			"k6 requests":      {k6.Metrics["http_reqs"]["count"], 200},
			"k6 rate":          {k6.Metrics["http_reqs"]["rate"], *v.Known(rundir.MetricThroughput)},
			"k6 users":         {k6.Metrics["vus"]["value"], map[string]float64{"closed": 2}[loop]},
			"oha p75":          {oha.Percentiles["p75"], *times.P75},
			"oha slowest":      {oha.Summary["slowest"], *times.Max},
			"oha rate":         {oha.Summary["requestsPerSec"], *v.Known(rundir.MetricThroughput)},
			"oha statuses":     {float64(oha.Statuses["200"]), 200},
			"vegeta 99":        {vegeta.Latencies["99th"].Seconds(), *times.P99},
			"vegeta mean":      {vegeta.Latencies["mean"].Seconds(), *times.Mean},
			"vegeta requests":  {float64(vegeta.Requests), 200},
			"all are answered": {float64(v.Counts.OK), 200},
		} {
			if math.Abs(c.got-c.want) > 1e-6*max(1, c.want) {
				t.Errorf("%s loop: %s is %v, want %v", loop, name, c.got, c.want)
			}
		}
	}
}
