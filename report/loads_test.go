package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"dyno/load/hist"
	"dyno/report/export"
	"dyno/results/rundir"
)

// writtenLoad writes a run of one open load of HTTP, with failures of several kinds.
func writtenLoad(t *testing.T) *rundir.Folder {
	t.Helper()
	x := example("http", "", 1, "default")
	x.Run.Plan.Protocol, x.Run.Plan.Loop, x.Run.Plan.Variants[0].Loop = "http", "open", "open"
	counts := rundir.Counts{
		Scheduled: 20_400, Dropped: 300, Sent: 20_100, OK: 20_000, Errors: 60, Timeouts: 40, CompletedInWindow: 19_990, ReceivedBytes: 1_999_000,
		ByKind: map[string]int64{"status": 60, "timeout": 40}, ByStatus: map[string]int64{"200": 20_000, "503": 60},
	}
	x.Trials[0].Counts, x.Trials[0].Silence.Last = counts, ptr(7.25)
	v := &x.Run.Variants[0]
	v.Counts, v.Figures["throughput"] = counts, rundir.Estimate{Estimate: ptr(3998.)}
	f := written(t, x)
	file, err := os.Create(filepath.Join(f.Dir, f.Trials[0].Name, rundir.LatencyFile))
	if err != nil {
		t.Fatal(err)
	}
	log, err := hist.NewLogWriter(file, time.Unix(1e9, 0))
	for i, tag := range []string{rundir.TagResponse, rundir.TagService, rundir.TagFirstByte, rundir.TagGivenUp, rundir.TagGivenService} {
		h := hist.New()
		for n := range int64(20_000) {
			if i < 3 {
				h.Record(1e6 + 100*n - 3e5*int64(i)) // responses take from 1 ms to 3 ms
			}
		}
		if tag != rundir.TagFirstByte {
			h.RecordN(5e7, 40) // the timeouts
		}
		err = errors.Join(err, log.Write(hist.Interval{Tag: tag, Start: 2 * time.Second, Length: 5 * time.Second, Hist: h}))
	}
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	return f
}

// loadAs writes the load in a tool's form.
func loadAs(t *testing.T, f *rundir.Folder, tool string) string {
	t.Helper()
	var b bytes.Buffer
	if err := export.Load(&b, f, tool, ""); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestLoads(t *testing.T) {
	f := writtenLoad(t)
	for _, tool := range export.LoadTools() {
		golden(t, "load."+tool, loadAs(t, f, tool))
	}
}

// Fields of dyno's JSON are fields of the tool's own, of the same type. Files in testdata/tools are what
// the tools wrote of a small load. That of oha has every field of its schema.json instead.
func TestLoadsHaveShapes(t *testing.T) {
	f := writtenLoad(t)
	for tool, sample := range map[string]string{"k6": "k6.json", "oha": "oha.json", "vegeta-json": "vegeta.json"} {
		content, err := os.ReadFile(filepath.Join("testdata", "tools", sample))
		if err != nil {
			t.Fatal(err)
		}
		inShape(t, tool, decoded(t, string(content)), decoded(t, loadAs(t, f, tool)))
	}
	for tool, sample := range map[string]string{"hey": "hey.txt", "vegeta": "vegeta.txt"} {
		content, err := os.ReadFile(filepath.Join("testdata", "tools", sample))
		if err != nil {
			t.Fatal(err)
		}
		theirs := labels(string(content))
		for label := range labels(loadAs(t, f, tool)) {
			if !theirs[label] && label != "Error distribution" {
				t.Errorf("%s: %q is not in %s", tool, label, sample)
			}
		}
	}
}

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// inShape compares types. Some objects have keys of their own in each load, such as statuses.
func inShape(t *testing.T, at string, theirs, ours any) {
	t.Helper()
	switch ours := ours.(type) {
	case map[string]any:
		of, ok := theirs.(map[string]any)
		if !ok {
			t.Errorf("%s: an object, theirs is %T", at, theirs)
			return
		}
		free := strings.HasSuffix(at, "Distribution") || strings.HasSuffix(at, "Histogram") || strings.HasSuffix(at, "status_codes")
		for name, v := range ours {
			their, ok := of[name]
			if free {
				their, ok = json.Number("1"), true
			}
			if !ok {
				t.Errorf("%s: no field %q", at, name)
				continue
			}
			inShape(t, at+"."+name, their, v)
		}
	case []any:
		if _, ok := theirs.([]any); !ok {
			t.Errorf("%s: a list, theirs is %T", at, theirs)
		}
	case string:
		if _, ok := theirs.(string); !ok {
			t.Errorf("%s: text, theirs is %T", at, theirs)
		}
	case json.Number:
		n, ok := theirs.(json.Number)
		counts := regexp.MustCompile(`\.(count|passes|fails|requests|total|totalData|sizePerRequest|duration|wait|\d+th)$`)
		if _, err := strconv.ParseInt(ours.String(), 10, 64); !ok || err != nil && counts.MatchString(at) && at != "oha.summary.total" {
			t.Errorf("%s: %v, theirs is %v", at, ours, n)
		}
	default:
		t.Errorf("%s: %T", at, ours)
	}
}

// labels are the words at the beginnings of lines, up to where a figure stands.
func labels(text string) map[string]bool {
	found := map[string]bool{}
	for line := range strings.Lines(text) {
		if label := regexp.MustCompile(`^\s*([A-Z][A-Za-z/+ -]*[a-z]|(?:resp|req) \w+)(?: {2}|:|\t| \()`).FindStringSubmatch(line); label != nil {
			found[label[1]] = true
		}
	}
	return found
}

// figuresIn reads the figures that a pattern has groups for, in a unit.
func figuresIn(t *testing.T, text, pattern string) (found []float64) {
	t.Helper()
	groups := regexp.MustCompile(`(?m)` + pattern).FindStringSubmatch(text)
	if groups == nil {
		t.Fatalf("nothing is like %s in\n%s", pattern, text)
	}
	for _, g := range groups[1:] {
		v, err := strconv.ParseFloat(g, 64)
		if d, wrong := time.ParseDuration(g); err != nil && wrong == nil {
			v, err = d.Seconds(), nil
		}
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, v)
	}
	return found
}

// Programs read these texts by such patterns. What they find are the run's figures.
func TestLoadsAreRead(t *testing.T) {
	f := writtenLoad(t)
	response, err := f.Trials[0].Latency(rundir.TagResponse)
	if err != nil {
		t.Fatal(err)
	}
	q := rundir.QuantilesOf(response)
	givenUp, err := f.Trials[0].Latency(rundir.TagGivenUp)
	if err != nil {
		t.Fatal(err)
	}
	good := rundir.QuantilesOf(response.Without(givenUp))
	texts := map[string]string{"hey": loadAs(t, f, "hey"), "vegeta": loadAs(t, f, "vegeta")}
	for _, c := range []struct {
		tool, pattern string
		want          []float64
	}{
		{"hey", `Total:\s+([\d.]+) secs`, []float64{5}},
		{"hey", `Slowest:\s+([\d.]+) secs\s+Fastest:\s+([\d.]+) secs\s+Average:\s+([\d.]+) secs`, []float64{*good.Max, 1e-3, *good.Mean}},
		{"hey", `Requests/sec:\s+([\d.]+)`, []float64{3998}},
		{"hey", `Total data:\s+(\d+) bytes\s+Size/request:\s+(\d+) bytes`, []float64{1_999_000, 100}},
		{"hey", `50%+ in ([\d.]+) secs\s+75%+ in ([\d.]+) secs\s+90%+ in ([\d.]+) secs\s+95%+ in ([\d.]+) secs\s+99%+ in ([\d.]+) secs`, []float64{*good.P50, *good.P75, *good.P90, *good.P95, *good.P99}},
		{"hey", `\[200\]\s+(\d+) responses\s+\[503\]\s+(\d+) responses`, []float64{20_000, 60}},
		{"hey", `^  \[(\d+)\]\s+dropped\n  \[(\d+)\]\s+timeout`, []float64{300, 40}},
		{"vegeta", `^Requests\s+\[total, rate, throughput\]\s+(\d+), ([\d.]+), ([\d.]+)$`, []float64{20_400, 4080, 3998}},
		{"vegeta", `^Duration\s+\[total, attack, wait\]\s+(\S+), (\S+), (\S+)$`, []float64{5.25, 5, 0.25}},
		{"vegeta", `^Latencies\s+\[min, mean, 50, 90, 95, 99, max\]\s+(\S+), (\S+), (\S+), (\S+), (\S+), (\S+), (\S+)$`, []float64{1e-3, *q.Mean, *q.P50, *q.P90, *q.P95, *q.P99, *q.Max}},
		{"vegeta", `^Bytes In\s+\[total, mean\]\s+(\d+), ([\d.]+)$`, []float64{1_999_000, 100}},
		{"vegeta", `^Success\s+\[ratio\]\s+([\d.]+)%$`, []float64{98.04}},
		{"vegeta", `^Status Codes\s+\[code:count\]\s+0:(\d+)  200:(\d+)  503:(\d+)`, []float64{340, 20_000, 60}},
	} {
		got := figuresIn(t, texts[c.tool], c.pattern)
		for i, want := range c.want {
			if math.Abs(got[i]-want) > 5.1e-5 { // four decimals
				t.Errorf("%s: %s: figure %d is %v, want %v", c.tool, c.pattern, i+1, got[i], want)
			}
		}
	}
	if want := "Error Set:\n503 Service Unavailable\ndropped\ntimeout\n"; !strings.HasSuffix(texts["vegeta"], want) {
		t.Errorf("errors: want %s in\n%s", want, texts["vegeta"])
	}
}

// Users of a scenario are k6's virtual users, and its iterations are theirs.
func TestLoadsOfUsers(t *testing.T) {
	f := writtenLoad(t)
	f.Run.Plan.Variants[0].Loop = "closed"
	f.Run.Variants[0].Users, f.Trials[0].Users = &rundir.Users{Count: 7, Iterations: 5000}, &rundir.Users{Count: 7}
	var k6 struct {
		Metrics map[string]map[string]float64 `json:"metrics"`
	}
	if err := json.Unmarshal([]byte(loadAs(t, f, "k6")), &k6); err != nil {
		t.Fatal(err)
	}
	if n, i := k6.Metrics["vus"]["value"], k6.Metrics["iterations"]; n != 7 || i["count"] != 5000 || i["rate"] != 1000 {
		t.Errorf("%v users, iterations %v", n, i)
	}
	if fastest := k6.Metrics["http_req_duration"]["min"]; fastest > 0.7 {
		t.Errorf("the fastest took %v ms: that is no service time", fastest)
	}
}

// A quantile beyond which no time lies is the longest time where a form has one at all. What was not measured is left out.
func TestLoadsOfFew(t *testing.T) {
	f := writtenLoad(t)
	f.Run.Variants[0].Counts.ReceivedBytes, f.Run.Variants[0].Counts.Timeouts = 0, 0
	if err := os.WriteFile(filepath.Join(f.Dir, f.Trials[0].Name, rundir.LatencyFile), few(t), 0o644); err != nil {
		t.Fatal(err)
	}
	for tool, gone := range map[string]string{"k6": `data_received|waiting`, "oha": `totalData|firstByte`, "hey": `99%|data|wait`, "vegeta": `Bytes`, "vegeta-json": `bytes`} {
		text := loadAs(t, f, tool)
		if found := regexp.MustCompile(gone).FindString(text); found != "" {
			t.Errorf("%s has %s:\n%s", tool, found, text)
		}
	}
	for tool, pattern := range map[string]string{"k6": `p\(95\)": 1\n`, "oha": `"p99.99": 0.001\n`} {
		if text := loadAs(t, f, tool); !regexp.MustCompile(pattern).MatchString(text) {
			t.Errorf("%s: no %s in\n%s", tool, pattern, text)
		}
	}
}

// Nothing answers, or nothing was asked: each form has the fields that its tool writes then, and counts each request
// that was due. Files in testdata/tools are what the tools wrote of an unreachable server.
func TestLoadsOfNothing(t *testing.T) {
	for name, counts := range map[string]rundir.Counts{
		"timeouts":   {Scheduled: 4, Sent: 4, Timeouts: 4, ByKind: map[string]int64{"timeout": 4}},
		"drops":      {Scheduled: 4, Dropped: 4},
		"refused":    {Scheduled: 4, Sent: 4, Errors: 4, ByKind: map[string]int64{"connect": 4}},
		"resets":     {Scheduled: 4, Sent: 4, Errors: 4, ReceivedBytes: 12, ByKind: map[string]int64{"reset": 4}},
		"unfinished": {Scheduled: 4, Sent: 4, Unfinished: 4, ByKind: map[string]int64{"unfinished": 4}},
		"carried":    {Carried: rundir.Carried{Scheduled: 4, Timeouts: 4}},
		"no request": {},
	} {
		f := writtenLoad(t)
		v := &f.Run.Variants[0]
		v.Counts, v.Figures["throughput"] = counts, rundir.Estimate{Estimate: ptr(0.)}
		var b bytes.Buffer
		log, err := hist.NewLogWriter(&b, time.Unix(1e9, 0))
		if given := counts.Timeouts + counts.Unfinished; given > 0 {
			h := hist.New()
			h.RecordN(5e7, given)
			for _, tag := range []string{rundir.TagResponse, rundir.TagGivenUp} {
				err = errors.Join(err, log.Write(hist.Interval{Tag: tag, Start: 2 * time.Second, Length: 5 * time.Second, Hist: h}))
			}
		}
		if err = errors.Join(err, os.WriteFile(filepath.Join(f.Dir, f.Trials[0].Name, rundir.LatencyFile), b.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { inFormOfNothing(t, f, counts.Due()) })
	}
}

// Good requests that were carried into the window have no status of their own, and are not those without one.
func TestLoadsOfCarried(t *testing.T) {
	f := writtenLoad(t)
	v := &f.Run.Variants[0]
	v.Counts.Carried = rundir.Carried{Scheduled: 7, OK: 7}
	if got := figuresIn(t, loadAs(t, f, "vegeta"), `^Status Codes\s+\[code:count\]\s+0:(\d+)  200:(\d+)`); got[0] != 340 || got[1] != 20_000 {
		t.Errorf("%v without a status and with 200", got)
	}
}

func inFormOfNothing(t *testing.T, f *rundir.Folder, due int64) {
	for tool, sample := range map[string]string{"k6": "k6-refused.json", "oha": "oha.json", "vegeta-json": "vegeta-refused.json"} {
		content, err := os.ReadFile(filepath.Join("testdata", "tools", sample))
		if err != nil {
			t.Fatal(err)
		}
		text := loadAs(t, f, tool)
		theirs, ours := decoded(t, string(content)), decoded(t, text)
		inShape(t, tool, theirs, ours)
		if strings.Contains(text, "null") {
			t.Errorf("%s: %s", tool, text)
		}
		for _, field := range map[string][]string{
			"k6":          {"metrics.http_req_duration", "metrics.http_req_failed", "metrics.http_req_waiting", "metrics.data_received"},
			"oha":         {"summary.slowest", "summary.totalData", "latencyPercentiles", "responseTimeHistogram", "firstByteHistogram", "statusCodeDistribution", "errorDistribution", "details.firstByte"},
			"vegeta-json": {"latencies.max", "bytes_in", "success", "status_codes", "errors"},
		}[tool] {
			v := ours
			for name := range strings.SplitSeq(field, ".") {
				v = v.(map[string]any)[name]
			}
			if v == nil {
				t.Errorf("%s: no %s", tool, field)
			}
		}
	}
	vegeta := loadAs(t, f, "vegeta")
	codes := `(?m)^Status Codes  \[code:count\]\s+$`
	if due > 0 {
		codes = fmt.Sprintf(`(?m)^Status Codes  \[code:count\]\s+0:%d  $`, due)
	}
	for _, pattern := range []string{codes, `(?m)^Success\s+\[ratio\]\s+0\.00%$`, `(?m)^Latencies\s+\[`, `(?m)^Bytes In\s+\[`, `(?m)^Error Set:$`} {
		if !regexp.MustCompile(pattern).MatchString(vegeta) {
			t.Errorf("no %s in\n%s", pattern, vegeta)
		}
	}
	hey := loadAs(t, f, "hey")
	content, err := os.ReadFile(filepath.Join("testdata", "tools", "hey-refused.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for label := range labels(string(content)) {
		if measured := !strings.HasPrefix(label, "DNS") && !strings.HasPrefix(label, "req ") && label != "resp read"; measured && !labels(hey)[label] && (label != "Error distribution" || due > 0) {
			t.Errorf("no %q in\n%s", label, hey)
		}
	}
}

// few is a log of ten times.
func few(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	log, err := hist.NewLogWriter(&b, time.Unix(1e9, 0))
	h := hist.New()
	h.RecordN(1e6, 10)
	if err := errors.Join(err, log.Write(hist.Interval{Tag: rundir.TagResponse, Start: 2 * time.Second, Length: 5 * time.Second, Hist: h})); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestLoadsFaults(t *testing.T) {
	for _, c := range []struct {
		tool, variant, want string
		change              func(*rundir.Run)
	}{
		{"wrk", "", "report as wrk: want one of hey, k6, oha, vegeta, vegeta-json", nil},
		{"k6", "other", `report as k6: variant "other": want one of default`, nil},
		{"oha", "", "this run's protocol is tcp", func(r *rundir.Run) { r.Plan.Protocol = "tcp" }},
		{"vegeta", "", "nothing was measured", func(r *rundir.Run) { r.Variants[0].Trials = 0 }},
		{"hey", "", "nothing was measured", func(r *rundir.Run) { r.Variants = nil }},
	} {
		f := writtenLoad(t)
		if c.change != nil {
			c.change(&f.Run)
		}
		if err := export.Load(io.Discard, f, c.tool, c.variant); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.tool, err, c.want)
		}
	}
}
