package html

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"dyno/judge/history"
	"dyno/load/hist"
	"dyno/report/assets"
	"dyno/report/judged"
	"dyno/results/archive"
	"dyno/results/rundir"
	"dyno/results/rundir/series"
)

var pages = flag.String("pages", "", "write pages for the browser's tests into this folder")

// page writes a folder's report.
func page(t testing.TB, f *rundir.Folder) string {
	t.Helper()
	var b bytes.Buffer
	must(t, Write(&b, f))
	return b.String()
}

var packedIn = regexp.MustCompile(`<script type="application/gzip" id="document">([A-Za-z0-9+/=]*)</script>`)

// unpacked reads the document out of a page, as the page itself does.
func unpacked(t testing.TB, page string) (text string, d map[string]any) {
	t.Helper()
	m := packedIn.FindStringSubmatch(page)
	if m == nil {
		t.Fatal("the page holds no document")
	}
	r, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(m[1])))
	must(t, err)
	content, err := io.ReadAll(r)
	must(t, err)
	must(t, json.Unmarshal(content, &d))
	return string(content), d
}

// folders are runs of all sorts, by name.
func folders(t testing.TB) map[string]*rundir.Folder {
	return map[string]*rundir.Folder{
		"everything": everything(t), "audience": audience(t), "hour": hour(t), "begun": folder(t, &rundir.Run{Name: "begun"}, nil),
		"compared": compared(t), "swept": swept(t), "opened": opened(t), "searched": searched(t),
	}
}

// TestPages writes what web/browser drives, where scripts/browser.sh wants it. It holds each
// page to a size that can be mailed, and to what the page's code takes for granted.
func TestPages(t *testing.T) {
	const most = 3_000_000 // bytes
	into := *pages
	if into == "" {
		into = t.TempDir()
	}
	lists := 0
	for name, f := range folders(t) {
		t.Run(name, func(t *testing.T) {
			p := page(t, f)
			if len(p) > most {
				t.Errorf("%d bytes, want %d at most", len(p), most)
			}
			must(t, os.WriteFile(filepath.Join(into, name+".html"), []byte(p), 0o644))
			text, _ := unpacked(t, p)
			var d Document
			must(t, json.Unmarshal([]byte(text), &d))
			lists += listsAreNotNull(t, name, reflect.ValueOf(d))
			if name == "hour" {
				hourIsThinned(t, &d)
			}
		})
	}
	if lists < 50 {
		t.Errorf("only %d lists", lists)
	}
}

// A page of several runs is for readers who should not see the host's name. Where
// scripts/browser.sh wants it, it is written to be driven.
func TestHistoryPage(t *testing.T) {
	var runs []history.Run
	for i := range 12 {
		level := 1000.0 + float64(i)
		if i >= 6 {
			level *= 1.2
		}
		plan := rundir.Plan{Metric: "throughput", Variants: []rundir.PlanVariant{{Name: "pool"}}}
		run := &rundir.Run{
			Name: "nightly <img src=x>", StartedAt: time.Date(2026, 1, i+1, 0, 0, 0, 0, time.UTC), Complete: true, Valid: true, Plan: plan,
			Environment: rundir.Environment{Hostname: "secret-host"},
			Variants:    []rundir.Variant{{Name: "pool", Figures: map[string]rundir.Estimate{"throughput": {Estimate: &level}, "service.p99": {Estimate: ptr(1 / level)}}}},
		}
		about := archive.Annotations{}
		if i == 2 {
			about = archive.Annotations{Tags: []string{"release"}, Note: "<b>first</b>", PinnedAt: run.StartedAt}
		}
		runs = append(runs, history.Of(fmt.Sprintf("runs/%02d", i+1), run, about))
	}
	h, err := history.Trace(append(runs, history.Run{Dir: "runs/broken", Problem: "broken"}), history.Query{Metrics: []string{"throughput", "service.p99"}})
	must(t, err)
	var b strings.Builder
	must(t, WriteHistory(&b, h))
	if *pages != "" {
		must(t, os.WriteFile(filepath.Join(*pages, "history.html"), []byte(b.String()), 0o644))
	}
	text, _ := unpacked(t, b.String())
	var shown struct{ History history.History }
	must(t, json.Unmarshal([]byte(text), &shown))
	if e := shown.History.Experiments; len(e) != 2 || len(e[0].Runs) != 12 || e[0].Baseline.Note != "<b>first</b>" || strings.Contains(text, "secret-host") || len(shown.History.Unreadable) != 0 {
		t.Errorf("%s", text)
	}
	if h.Experiments[0].Runs[0].Machine == "" {
		t.Error("the history itself was changed")
	}
	if strings.Contains(packedIn.ReplaceAllString(b.String(), ""), "<img") {
		t.Error("a name is not escaped")
	}
}

// For any texts in a run, the page has only its own two scripts and one style. Its document
// holds the texts unchanged.
func TestHostileTextStaysData(t *testing.T) {
	f := everything(t)
	p := page(t, f)
	rest := packedIn.ReplaceAllString(p, "")
	rest = strings.Replace(rest, assets.Script, "", 1)
	if n := strings.Count(strings.ToLower(rest), "<script"); n != 1 {
		t.Errorf("%d scripts in addition to the document's, want 1", n)
	}
	for _, bad := range []string{"<img", "<!--", "onerror=\"", "window.hit=1</script>"} {
		if strings.Contains(rest, bad) {
			t.Errorf("the page contains %s", bad)
		}
	}
	if !strings.Contains(rest, "&lt;/script&gt;&lt;script&gt;window.hit=1") {
		t.Error("the text for readers without scripts lacks what was escaped")
	}
	text, d := unpacked(t, p)
	run := d["run"].(map[string]any)
	if run["name"] != f.Run.Name || run["question"] != f.Run.Question {
		t.Errorf("name %q, question %q", run["name"], run["question"])
	}
	if strings.Contains(text, "secret-host") || strings.Contains(rest, "secret-host") {
		t.Error("the page tells the machine's name")
	}
}

// The policy lets exactly the page's own script and style run, and nothing be fetched.
func TestPolicyNamesScriptAndStyle(t *testing.T) {
	p := page(t, folder(t, &rundir.Run{Name: "begun"}, nil))
	policy := regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(p)
	if policy == nil {
		t.Fatal("there is no policy")
	}
	if strings.Index(p, policy[0]) > strings.Index(p, "<style") {
		t.Error("the policy comes after what it should hold for")
	}
	script := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindStringSubmatch(p)[1]
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(p)[1]
	for name, content := range map[string]string{"script-src": script, "style-src": style} {
		sum := sha256.Sum256([]byte(content))
		if want := name + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy[1], want) {
			t.Errorf("policy %s: want %s", policy[1], want)
		}
	}
	for _, want := range []string{"default-src 'none'", "base-uri 'none'", "form-action 'none'"} {
		if !strings.Contains(policy[1], want) {
			t.Errorf("policy %s: want %s", policy[1], want)
		}
	}
	if strings.Contains(policy[1], "unsafe") {
		t.Errorf("policy %s", policy[1])
	}
}

// The bundle stays small, and nothing in it ends the element that it is put into.
func TestAssets(t *testing.T) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, assets.Script+assets.Style)
	must(t, err)
	must(t, w.Close())
	if b.Len() > 300<<10 {
		t.Errorf("the bundle takes %d bytes compressed, want at most 300 KiB", b.Len())
	}
	if strings.Contains(strings.ToLower(assets.Script), "</script") || strings.Contains(assets.Script, "<!--") || strings.Contains(strings.ToLower(assets.Style), "</style") {
		t.Error("the bundle would end its own element")
	}
	for _, u := range regexp.MustCompile(`https?://[^"'`+"`"+` )]+`).FindAllString(assets.Script+assets.Style, -1) {
		if u != "http://www.w3.org/2000/svg" { // the name of a namespace
			t.Errorf("the bundle names %s", u)
		}
	}
}

// Of an hour with eight variants and ten series, all is there, in points that can be drawn.
func hourIsThinned(t *testing.T, d *Document) {
	t.Helper()
	if len(d.Timelines) != hourVariants() || len(d.Unreadable) != 0 {
		t.Fatalf("%d time lines, %v", len(d.Timelines), d.Unreadable)
	}
	for _, l := range d.Timelines {
		if n := len(l.Load.Time); n < 400 || n > mostPoints {
			t.Errorf("trial %d: %d points of load", l.Trial, n)
		}
		if n := len(l.Observed.Lines); n != 9 { // two columns make one line
			t.Errorf("trial %d: %d lines observed: %v", l.Trial, n, keys(l.Observed))
		}
	}
}

func keys(g *Grid) (list []string) {
	for _, l := range g.Lines {
		list = append(list, l.Key+l.Column)
	}
	return list
}

// All time lines together stay within bounds, whatever the design.
func TestTimeLinesAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rounds, variants := rapid.IntRange(1, 200).Draw(t, "rounds"), rapid.IntRange(1, 100).Draw(t, "variants")
		var trials []*rundir.TrialFolder
		for r := range rounds {
			for range variants {
				trials = append(trials, &rundir.TrialFolder{Trial: rundir.Trial{Round: r + 1}})
			}
		}
		d := &Document{}
		total, with := 0, map[int]bool{}
		for i, n := range d.divide(trials) {
			total += n * ofAPoint
			if n > 0 {
				with[trials[i].Round] = true
				if n > mostPoints {
					t.Fatalf("%d points", n)
				}
			}
		}
		if total > allNumbers && len(with) > 1 {
			t.Errorf("%d numbers in %d rounds", total, len(with))
		}
		if len(with)+d.LinesLeftOut != rounds || !with[1] {
			t.Errorf("%d rounds with lines, %d without, of %d", len(with), d.LinesLeftOut, rounds)
		}
	})
}

// A curve is the histogram's own quantiles, and ends where no value is left.
func TestCurve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := hist.New()
		n := rapid.IntRange(1, 3000).Draw(t, "n")
		scale := rapid.Int64Range(1000, 1e9).Draw(t, "scale")
		for i := range n {
			h.Record(int64(i)*scale/1000 + 1)
		}
		c := curve("v", "service", 3, h)
		if c.Count != int64(n) || !slices.IsSorted(c.Values) {
			t.Errorf("count %d, values %v", c.Count, c.Values)
		}
		for i, v := range c.Values {
			if want := float64(h.Quantile(1-math.Pow(10, -float64(i)/PerDecade))) / 1e9; v != want {
				t.Errorf("point %d: %v, want %v", i, v, want)
			}
		}
		if beyond := float64(n) * math.Pow(10, -float64(len(c.Values))/PerDecade); beyond >= 1 {
			t.Errorf("%d points of %d values", len(c.Values), n)
		}
		if c.Firm > 0 && float64(n)*math.Pow(10, -float64(c.Firm-1)/PerDecade) < 10 || c.Firm < len(c.Values) && float64(n)*math.Pow(10, -float64(c.Firm)/PerDecade) >= 10 {
			t.Errorf("%d points are firm, of %d values", c.Firm, n)
		}
	})
}

// interval is n latencies of a size, recorded in a stretch.
func interval(tag string, start, length time.Duration, n, ns int64) hist.Interval {
	h := hist.New()
	h.RecordN(ns, n)
	return hist.Interval{Tag: tag, Start: start, Length: length, Hist: h}
}

// A stall is a stretch without intervals: its rate is 0, and it has no latency. A
// last short interval makes no peak.
func TestLoadShowsStalls(t *testing.T) {
	const ms = time.Millisecond
	var list []hist.Interval
	for _, at := range []int{5, 6, 7, 10, 11} {
		list = append(list, interval("service", time.Duration(at)*100*ms, 100*ms, 50, 1e6))
	}
	list = append(list, interval("service", 1200*ms, ms, 40, 1e6), interval("failed", 600*ms, 100*ms, 5, 1e6))
	g := load(list, "service", 600)
	if want := (Numbers{0.55, 0.65, 0.75, 0.85, 0.95, 1.05, 1.15}); !near(g.Time, want) {
		t.Errorf("times %v, want %v", g.Time, want)
	}
	lines := map[string]Numbers{}
	for _, l := range g.Lines {
		lines[l.Key] = l.Mean
	}
	if want := (Numbers{500, 500, 500, 0, 0, 500, 500}); !near(lines["throughput"], want) {
		t.Errorf("throughput %v, want %v", lines["throughput"], want)
	}
	if want := (Numbers{0, 50, 0, 0, 0, 0, 0}); !near(lines["failures"], want) {
		t.Errorf("failures %v, want %v", lines["failures"], want)
	}
	if p := lines["latency.p50"]; math.IsNaN(p[0]) || !math.IsNaN(p[3]) || !math.IsNaN(p[4]) {
		t.Errorf("p50 %v, want none in the stall", p)
	}
	g = load(list, "service", 3)
	if len(g.Time) != 3 || !near(g.Lines[0].Mean, Numbers{500, 500. / 3, 500}) || !near(g.Lines[0].Low, Numbers{500, 0, 500}) {
		t.Errorf("three points: %v %v %v", g.Time, g.Lines[0].Mean, g.Lines[0].Low)
	}
	if load(nil, "service", 10) != nil {
		t.Error("a load without intervals has lines")
	}
}

func near(a, b Numbers) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Abs(x-y) <= 1e-9*math.Max(1, math.Abs(y)) })
}

// No latency is lost in a heat map.
func TestHeatCountsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []hist.Interval
		total := int64(0)
		for i := range rapid.IntRange(2, 60).Draw(t, "intervals") {
			if rapid.IntRange(0, 4).Draw(t, "gap") == 0 && i > 0 {
				continue
			}
			n := rapid.Int64Range(1, 1000).Draw(t, "n")
			total += n
			list = append(list, interval("service", time.Duration(i)*time.Second, time.Second, n, rapid.Int64Range(1, 1e12).Draw(t, "ns")))
		}
		h := heat(list, "service", rapid.IntRange(1, 40).Draw(t, "columns"))
		if h == nil {
			return
		}
		sum := int64(0)
		for _, c := range h.Columns {
			for _, n := range c {
				sum += n
			}
		}
		if sum != total || len(h.Columns) > 40 {
			t.Errorf("%d of %d in %d columns", sum, total, len(h.Columns))
		}
	})
}

func TestObserved(t *testing.T) {
	s := &series.Series{Columns: []string{series.TimeColumn, "target_cpu_seconds", "target_rss_bytes", "target_voluntary_switches", "app_requests_total", "app_depth", "machine_cpu_seconds", "kernel_retransmits_total"}, Values: [][]float64{
		{0, 1, 2, 2.001, 3, 4}, {0, 0.5, 1, 1.1, 1.5, 2}, {5, 6, 7, 7, 8, 9}, {0, 1, 2, 2, 3, 4}, {100, 110, 120, 120, 0, 10}, {3, 4, 5, 5, 6, math.NaN()}, {0, 2, 4, 4, 6, 8}, {0, 0, 0, 0, 0, 0},
	}}
	g := observed(s, 600)
	if want := (Numbers{0.5, 1.5, 2.5, 3.5}); !near(g.Time, want) {
		t.Errorf("times %v, want %v", g.Time, want)
	}
	got := map[string]Line{}
	for _, l := range g.Lines {
		got[l.Key+l.Column] = l
	}
	if len(got) != 4 {
		t.Errorf("lines %v: want CPU, memory and two of the application; switches lack a column, retransmits are all 0, the machine's are not drawn", keys(g))
	}
	if l := got["target.cpu"]; !near(l.Mean, Numbers{0.5, 0.5, 0.5, 0.5}) || l.Unit != "cpu" || l.Low != nil {
		t.Errorf("CPU %+v", l)
	}
	if l := got["app_requests_total"]; !near(l.Mean[:2], Numbers{10, 10}) || !math.IsNaN(l.Mean[2]) || l.Mean[3] != 10 || l.Unit != "/s" {
		t.Errorf("a counter that began again: %+v", l)
	}
	if l := got["app_depth"]; l.Mean[2] != 6 || !math.IsNaN(l.Mean[3]) || l.Unit != "count" {
		t.Errorf("a gauge: %+v", l)
	}
	if g := observed(s, 2); len(g.Time) != 2 || !near(g.Lines[1].Low, Numbers{6, 8}) || !near(g.Lines[1].High, Numbers{7, 9}) {
		t.Errorf("two points: %v %+v", g.Time, g.Lines)
	}
}

// A folder of everything takes seconds to make with the race detector: one for all that looks
// at its document.
func TestMake(t *testing.T) {
	f := everything(t)
	d := Make(f)
	t.Run("units of expressions", func(t *testing.T) { unitsOfExpressions(t, d) })
	t.Run("agents", func(t *testing.T) { agentsAreThere(t, d) })
	t.Run("flames add up", func(t *testing.T) { flamesAddUp(t, d) })
	t.Run("unreadable files", func(t *testing.T) { unreadableFiles(t, f) }) // last: it breaks some
}

// The page has the unit of every value that a threshold or claim has measured.
func unitsOfExpressions(t *testing.T, d *Document) {
	t.Helper()
	for text, want := range map[string]rundir.Unit{
		"errors.ratio < 0.1%": rundir.Share, "response.p99 < 2ms": rundir.Seconds, `value("pooled", response.p99) < 4ms`: rundir.Seconds,
		`ratio("pooled", "baseline", throughput) > 1.02`: rundir.Number,
	} {
		if got, ok := d.Units[text]; !ok || got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if len(d.Units) != 4 {
		t.Errorf("units %v", d.Units)
	}
}

// The page has the agents of all variants together, with what was found about each.
func agentsAreThere(t *testing.T, d *Document) {
	t.Helper()
	want := []judged.Agent{
		{Name: "a", Address: "10.0.0.2:7300", Share: 5. / 9, Least: ptr(7e-6), Most: ptr(11e-6), ClockOffset: 3e-3, ClockError: 40e-6, StartDeviation: 20e-6},
		{Name: hostile, Address: hostile, Share: 4. / 9, ClockOffset: -3, ClockError: 1e-3, StartDeviation: 2e-3, Flags: []string{"start_skew"}},
	}
	if diff := cmp.Diff(want, d.Agents, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Error(diff)
	}
}

// The base's and the variant's boxes add up to the CPU time that the kernel accounted,
// whatever the samples saw; and the preorder has every node once.
func flamesAddUp(t *testing.T, d *Document) {
	t.Helper()
	if d.Flames == nil || len(d.Flames.Graphs) == 0 || len(d.Unreadable) > 0 {
		t.Fatalf("no flame graphs: %v", d.Unreadable)
	}
	for _, g := range d.Flames.Graphs {
		sum, base, children := 0., 0., 1
		for i := range g.Functions {
			sum, base, children = sum+g.Self[i], base+g.BaseSelf[i], children+g.Children[i]
		}
		if math.Abs(sum-20e-6) > 1e-9 || math.Abs(base-20e-6) > 1e-9 || children != len(g.Functions) {
			t.Errorf("%s to %s: %v and %v s, want 20 µs; %d nodes of %d", g.Base, g.Variant, base, sum, children, len(g.Functions))
		}
		if g.Functions[0] != -1 || slices.Max(g.Functions) >= len(d.Flames.Functions) {
			t.Errorf("functions %v", g.Functions)
		}
	}
	named := func(f Function) bool { return f.Name == hostile }
	if !slices.ContainsFunc(d.Flames.Functions, named) {
		t.Error("a function's name was changed")
	}
	if len(d.Explanations) == 0 || len(d.Explanations[0].Tables) == 0 {
		t.Error("nothing is explained")
	}
}

// A page is made of what can be read, and says what cannot.
func unreadableFiles(t *testing.T, f *rundir.Folder) {
	t.Helper()
	must(t, os.Remove(filepath.Join(f.Dir, f.Trials[0].Name, rundir.LatencyFile)))
	must(t, os.WriteFile(filepath.Join(f.Dir, f.Trials[1].Name, rundir.SeriesFile), []byte("broken"), 0o644))
	must(t, os.WriteFile(filepath.Join(f.Dir, f.Trials[5].Name, "cpu.pb.gz"), []byte("broken"), 0o644))
	d := Make(f)
	text := strings.Join(d.Unreadable, "\n")
	for _, want := range []string{"trial 1: ", "trial 2: ", "cpu.pb.gz"} {
		if !strings.Contains(text, want) {
			t.Errorf("unreadable %q: want %q", text, want)
		}
	}
	if len(d.Curves) == 0 || len(d.Timelines) == 0 || d.Flames == nil {
		t.Error("what can be read is missing too")
	}
}

// Each probe's latency is that of the first threshold which bounds one.
func TestProbesHaveTheLatencyOfTheSlo(t *testing.T) {
	d := Make(searched(t))
	if d.SLO == nil || *d.SLO != (SLO{"service.p99", 0.01}) {
		t.Fatalf("the SLO is %+v", d.SLO)
	}
	for _, x := range d.Trials {
		if x.Good == nil || x.Latency == nil || *x.Good != (*x.Latency < 0.01) || *x.Good != (*x.Rate <= 4000) {
			t.Errorf("%+v: latency %v, good %v", x, x.Latency, x.Good)
		}
	}
	for _, thresholds := range [][]string{{"throughput > 5/s"}, {"errors.ratio < 1%"}, {"response.p99 < 2 * response.p50"}, {"response.p99 > 1ms"}, {"nonsense <"}} {
		if s := slo(&rundir.Plan{Capacity: &rundir.PlanCapacity{}, Thresholds: thresholds}); s != nil {
			t.Errorf("%q: %+v", thresholds, s)
		}
	}
	if s := slo(&rundir.Plan{Thresholds: []string{"response.p99 < 2ms"}}); s != nil {
		t.Errorf("without a search: %+v", s)
	}
}

func TestChecksAreSummedUp(t *testing.T) {
	check := func(v float64, outcome string) rundir.Examined {
		return rundir.Examined{Checks: []rundir.Check{{Kind: "steal", Measured: &v, Limit: ptr(0.01), Unit: "ratio", Outcome: outcome}}}
	}
	replaced := check(0.9, rundir.CheckDisturbed)
	replaced.Replaced = true
	got := checks([]rundir.Examined{check(0.001, rundir.CheckOK), check(0.02, rundir.CheckWarning), check(0.5, rundir.CheckDisturbed), check(0.003, rundir.CheckUnknown), replaced})
	if len(got) != 1 || got[0].OK != 1 || got[0].Warning != 1 || got[0].Disturbed != 1 || got[0].Unknown != 1 || *got[0].Worst != 0.5 {
		t.Errorf("%+v", got)
	}
	got = checks([]rundir.Examined{{Checks: []rundir.Check{{Kind: "achieved_rate", Measured: ptr(0.8), Limit: ptr(0.99), Outcome: rundir.CheckDisturbed}, {Kind: "achieved_rate", Measured: ptr(0.999), Limit: ptr(0.99), Outcome: rundir.CheckOK}}}})
	if *got[0].Worst != 0.8 {
		t.Errorf("the worst rate achieved is %v, want 0.8", *got[0].Worst)
	}
}

// No list of the page's own is null where it is not left out: the page's types, which
// scripts/types makes, go by that.
func listsAreNotNull(t *testing.T, name string, document reflect.Value) (seen int) {
	t.Helper()
	var visit func(path string, v reflect.Value)
	visit = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				visit(path, v.Elem())
			}
		case reflect.Slice:
			for i := range v.Len() {
				visit(path+"[]", v.Index(i))
			}
		case reflect.Struct:
			if !strings.HasPrefix(v.Type().PkgPath(), "dyno/report") {
				return
			}
			for i := range v.NumField() {
				f, of := v.Type().Field(i), v.Field(i)
				at := path + "." + f.Name
				if of.Kind() == reflect.Slice && f.Type != reflect.TypeFor[Numbers]() && !strings.Contains(f.Tag.Get("json"), "omit") {
					if seen++; of.IsNil() {
						t.Errorf("%s is null", at)
					}
				}
				visit(at, of)
			}
		}
	}
	visit(name, document)
	return seen
}

// The figures use a trial that its target lost, whatever of it was recorded.
func TestLostTrials(t *testing.T) {
	f := compared(t)
	for _, x := range f.Trials {
		if x.Fault == rundir.FaultTarget {
			must(t, os.Remove(filepath.Join(f.Dir, x.Name, rundir.LatencyFile)))
			must(t, os.Remove(filepath.Join(f.Dir, x.Name, rundir.SeriesFile)))
		}
	}
	d := Make(f)
	if len(d.Unreadable) > 0 {
		t.Errorf("unreadable: %q", d.Unreadable)
	}
	lost := 0
	for i, x := range f.Trials {
		if x.Fault == rundir.FaultTarget && d.Trials[i].Counted {
			lost++
		}
	}
	if lost != 1 {
		t.Errorf("%d lost trials are counted, want 1", lost)
	}
}
