package measure_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dyno/internal/leak"
	"dyno/measure"
)

func TestMain(m *testing.M) {
	measure.HandleChild()
	leak.Main(m)
}

func ExampleLoad() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }))
	defer server.Close()
	result, err := measure.Load(context.Background(), measure.Request{URL: server.URL, Connections: 4, Window: 300 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	rate, _ := result.Figure("default", "throughput")
	p99, _ := result.Figure("default", "response.p99")
	failed, _ := result.Figure("default", "errors.ratio")
	fmt.Println(rate.Value > 0, p99.Value > 0, failed.Value)
	// Output: true true 0
}

func ExampleCompare() {
	before := []float64{100, 102, 99, 101, 100}
	after := []float64{108, 111, 107, 108, 109}
	change, err := measure.Compare(before, after, 0.02)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%+.1f %% (%+.1f to %+.1f), %s\n", 100*(change.Ratio.Value-1), 100*(change.Ratio.Low-1), 100*(change.Ratio.High-1), change.Verdict)
	// Output: +8.2 % (+7.1 to +9.2), higher
}

// An experiment starts its servers, has a folder, and compares its variants.
func TestRun(t *testing.T) {
	python := "import http.server,sys; http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()"
	folder := filepath.Join(t.TempDir(), "run")
	result, err := measure.Run(t.Context(), fmt.Appendf(nil, `
name: twice
target: {protocol: http, start: [python3, -c, %q, "{{port}}"]}
load: {closed: {connections: 1}, warmup: 0, window: 200ms}
design: {rounds: 2, stop: fixed, quiet_wait: 0, remeasure: false}
compare: {base: a, variants: {a: {}, b: {}}}
`, python), folder)
	if err != nil {
		t.Fatal(err)
	}
	if names := fmt.Sprint(result.Variants()); names != "[a a.control b]" {
		t.Errorf("variants %v", names)
	}
	if c := result.Comparisons(); len(c) == 0 || c[0].Base != "a" || math.IsNaN(c[0].Ratio.Value) {
		t.Errorf("comparisons %+v", c)
	}
	text := []byte("name: other\ntarget: {protocol: http, address: \"127.0.0.1:1\"}\nload: {closed: {connections: 1}}\n")
	if other, err := measure.Run(t.Context(), text, folder); err == nil || other != nil {
		t.Errorf("a run into the folder of another has the result %v, %v", other, err)
	}
	again, err := measure.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*measure.Result{result, again} {
		var text, data strings.Builder
		if err := r.Write(&text); err != nil || !strings.Contains(text.String(), "throughput") {
			t.Errorf("%v: %s", err, &text)
		}
		if err := r.WriteJSON(&data); err != nil || !strings.HasPrefix(data.String(), "{") {
			t.Errorf("%v: %s", err, &data)
		}
		if _, known := r.Figure("c", "throughput"); known {
			t.Error("a variant that is not there has a figure")
		}
	}
}

func TestRequest(t *testing.T) {
	type request struct {
		*http.Request
		body string
	}
	got := make(chan request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		select {
		case got <- request{r, string(body)}:
		default:
		}
	}))
	defer server.Close()
	result, err := measure.Load(t.Context(), measure.Request{
		URL: server.URL + "/x?y=1", Method: "PUT", Header: http.Header{"X-A": {"1", "2"}}, Body: "{{ x }}", Rate: 50, Window: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder // whose folder is gone
	if err := result.Write(&text); err != nil || !strings.Contains(text.String(), "throughput") {
		t.Errorf("%v: %s", err, &text)
	}
	if r := <-got; r.Method != "PUT" || r.RequestURI != "/x?y=1" || r.Header.Get("X-A") != "1, 2" || r.body != "{{ x }}" {
		t.Errorf("%s %s %v %q", r.Method, r.RequestURI, r.Header, r.body)
	}
}

func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		do   func() error
		want string
	}{
		"no URL":      {func() error { _, err := measure.Load(t.Context(), measure.Request{}); return err }, "target.url"},
		"no folder":   {func() error { _, err := measure.Open(filepath.Join(t.TempDir(), "none")); return err }, "none"},
		"an unknown":  {func() error { _, err := measure.Run(t.Context(), []byte("nme: x\n"), t.TempDir()); return err }, `did you mean "name"`},
		"one missing": {func() error { _, err := measure.Compare([]float64{1, 2}, []float64{1}, 0.02); return err }, "want one of both"},
		"zero":        {func() error { _, err := measure.Compare([]float64{1, 0}, []float64{1, 1}, 0.02); return err }, "above zero"},
		"one round":   {func() error { _, err := measure.Compare([]float64{1}, []float64{1}, 0.02); return err }, "2"},
	} {
		if err := c.do(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want one with %q", name, err, c.want)
		}
	}
	if _, err := os.Stat("run"); err == nil {
		t.Error("a folder was left over")
	}
}

func TestVerdicts(t *testing.T) {
	for want, after := range map[string][]float64{
		"higher": {11, 11.1, 11.2, 11.1}, "lower": {9, 9.1, 9, 8.9}, "equivalent": {10, 10.01, 9.99, 10}, "inconclusive": {10, 12, 9, 11},
	} {
		c, err := measure.Compare([]float64{10, 10, 10, 10}, after, 0.02)
		if err != nil || c.Verdict != want {
			t.Errorf("%v: %v, %v; want %s", after, c, err, want)
		}
	}
}
