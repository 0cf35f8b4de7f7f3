package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"dyno/internal/texts"
	"dyno/judge/diff"
	"dyno/judge/history"
	"dyno/results/archive"
	"dyno/results/rundir"
)

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// serve calls the handler without a connection.
func serve(b *bed, method, path, body string) (int, string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = strings.TrimPrefix(b.url, "http://")
	r.Header.Set("Authorization", "Bearer "+b.token)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	b.server.server.Handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func ids(l RunList) (list []string) {
	for _, r := range l.Runs {
		list = append(list, r.ID)
	}
	return list
}

// TestFleet: what a control plane knows is passed on, and why it is not known.
func TestFleet(t *testing.T) {
	for want, fleet := range map[string]func(context.Context) (any, error){
		`200 {"named":false}`: nil,
		`200 {"named":true}`:  func(context.Context) (any, error) { return map[string]bool{"named": true}, nil },
		`502 {"error":{"kind":"verbatim","values":{"words":"no server answers"}}}`: func(context.Context) (any, error) { return nil, errors.New("no server answers") },
	} {
		b := newBed(t, func(c *Config) { c.Fleet = fleet })
		if code, body := serve(b, "GET", "/api/fleet", ""); fmt.Sprintf("%d %s", code, body) != want {
			t.Errorf("%d %s, want %s", code, body, want)
		}
	}
}

func TestList(t *testing.T) {
	b := newBed(t, nil)
	day := func(n int) time.Time { return time.Date(2026, 1, n, 12, 0, 0, 0, time.Local) }
	b.addRun("a", func(r *rundir.Run) { r.StartedAt, r.Question = day(1), "Why?" })
	b.addRun("nightly/b", func(r *rundir.Run) {
		r.StartedAt, r.Name, r.Valid = day(2), "relay <b>", false
		r.Flags = []rundir.Flag{{Kind: "steal", Detail: new(texts.Verbatim("x")), Disturbs: true}}
	})
	b.addRun("c", func(r *rundir.Run) {
		ratio := 1.2
		r.StartedAt, r.Complete, r.Reason = day(3), false, new(texts.Verbatim("interrupted by SIGINT"))
		r.Plan.Variants = append(r.Plan.Variants, rundir.PlanVariant{Name: "Epoll"}, rundir.PlanVariant{Name: "pool.control", AliasOf: "pool"})
		r.Comparisons = []rundir.Comparison{
			{Base: "pool", Variant: "pool.control", Role: rundir.RoleControl, Primary: true},
			{Base: "pool", Variant: "Epoll", Primary: true, Ratio: rundir.Estimate{Estimate: &ratio, Values: []float64{1}}, Verdict: rundir.Better},
			{Base: "pool", Variant: "Epoll", Metric: "other"},
		}
		r.Thresholds = []rundir.Threshold{{Outcome: rundir.Broken}, {Outcome: "ok"}}
	})
	write(t, b.path("runs", "d", rundir.RunFile), "{")
	write(t, b.path("runs", "e", rundir.RunFile), `{"schema_version": 999}`)
	write(t, b.path("runs", "1", "2", "3", "4", "5", rundir.RunFile), "too deep")
	write(t, b.path("runs", "a", "inner", rundir.RunFile), "within a run")
	write(t, b.path("runs", "file"), "no folder")

	for query, want := range map[string]string{
		"": "c nightly/b a d e", "query=b": "nightly/b", "query=EPOLL+tame": "c", "query=why%3F": "a", "query=epoll+why": "", "experiment=tame": "c a", "experiment=tam": "",
		"state=valid": "a", "state=invalid": "nightly/b", "state=incomplete": "c", "state=broken": "d e", "state=running": "",
		"from=2026-01-02": "c nightly/b", "to=2026-01-02": "nightly/b a d e", "from=2026-01-02&to=2026-01-02": "nightly/b",
		"from=" + day(3).UTC().Format(time.RFC3339): "c", "limit=2": "c nightly/b", "limit=2&offset=4": "e", "offset=9": "", "limit=0": "",
	} {
		l := get[RunList](b, "/api/runs?"+query)
		if got := strings.Join(ids(l), " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
		if l.Total != 5 || l.Pending != 0 || !slices.Equal(l.Experiments, []string{"relay <b>", "tame"}) {
			t.Errorf("%s: %+v", query, l)
		}
	}
	for query, want := range map[string]string{
		"where=througput+%3E+1": "column 1: unknown metric", "state=odd": "refused.state", "from=tomorrow": "refused.day", "to=1": "refused.day", "limit=501": "refused.number", "offset=-1": "refused.number",
		"limit=x": "refused.number", "query=" + strings.Repeat("a+", 21): "refused.query", "query=%zz": "invalid URL escape",
	} {
		if status, text := b.do(b.request("GET", "/api/runs?"+query, "")); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
	b.addRun("f", func(r *rundir.Run) { r.StartedAt, r.Flags = day(0), []rundir.Flag{{Kind: "steal", Disturbs: true}} })
	if l := get[RunList](b, "/api/runs?state=disturbed"); len(l.Runs) != 1 || l.Runs[0].ID != "f" {
		t.Errorf("%+v", l)
	}
	check(t, os.RemoveAll(b.path("runs", "f")))
	all := get[RunList](b, "/api/runs").Runs
	if c := all[0]; c.Reason.English() != "interrupted by SIGINT" || c.Broken != 1 || len(c.Results) != 1 || c.Results[0].Variant != "Epoll" || c.Results[0].Ratio.Values != nil ||
		!slices.Equal(c.Variants, []string{"pool", "Epoll"}) || len(c.Figures) != 0 {
		t.Errorf("%+v", c)
	}
	if r := all[1]; r.Flags != 1 || len(r.Figures) != 1 || r.Figures[0].Variant != "pool" || *r.Figures[0].Figure.Estimate != 1000 {
		t.Errorf("%+v", r)
	}
	if r := all[3]; r.Reason.English() != "run folder: d/run.json: byte 1: unexpected end of JSON input" {
		t.Errorf("%q", r.Reason)
	}
	if r := all[4]; !strings.Contains(r.Reason.English(), "schema_version: 999") {
		t.Errorf("%q", r.Reason)
	}
}

// A run that has not changed is not read again. A changed one is, and a removed one
// disappears.
func TestIndexFollowsTheFolder(t *testing.T) {
	b := newBed(t, nil)
	for i := range 5 {
		b.addRun(fmt.Sprint("run", i), nil)
	}
	get[RunList](b, "/api/runs")
	entryOf := func(id string) *entry {
		b.server.runs.mu.Lock()
		defer b.server.runs.mu.Unlock()
		return b.server.runs.entries[id]
	}
	same, changed := entryOf("run0"), entryOf("run1")
	b.addRun("run1", func(r *rundir.Run) { r.Question = "changed" })
	check(t, os.RemoveAll(b.path("runs", "run2")))
	b.addRun("run9", nil)
	b.fresh()
	if l := get[RunList](b, "/api/runs"); l.Total != 5 || !slices.Contains(ids(l), "run9") || slices.Contains(ids(l), "run2") {
		t.Errorf("%v", ids(l))
	}
	if entryOf("run0") != same {
		t.Error("a run.json was read again though it is the same")
	}
	if e := entryOf("run1"); e == changed || e.run.Question != "changed" {
		t.Error("a run.json that has changed was not read")
	}
}

func TestRun(t *testing.T) {
	b := newBed(t, nil)
	b.addRun("nightly/one", func(r *rundir.Run) { r.Question = "<img src=x onerror=alert(1)>" })
	if run := get[rundir.Run](b, "/api/runs/nightly%2Fone"); run.Name != "tame" || run.Question != "<img src=x onerror=alert(1)>" {
		t.Errorf("%+v", run)
	}
	if _, text := b.do(b.request("GET", "/api/runs/nightly%2Fone", "")); strings.Contains(text, "<") {
		t.Error("HTML in JSON is not escaped")
	}
	b.addRun("decided", func(r *rundir.Run) { r.Thresholds = []rundir.Threshold{{Text: "response.p99 < 80ms"}} })
	units := get[struct{ Units map[string]rundir.Unit }](b, "/api/runs/decided").Units
	if units["response.p99 < 80ms"] != rundir.Seconds {
		t.Errorf("units %v, want seconds for what the threshold measured", units)
	}
	if status, text := b.do(b.request("GET", "/api/runs/none", "")); status != 404 {
		t.Errorf("%d %s", status, text)
	}
	write(t, b.path("runs", "broken", rundir.RunFile), "[]")
	b.fresh()
	if status, text := b.do(b.request("GET", "/api/runs/broken", "")); status != 422 || strings.Contains(text, "/proc/") || !strings.Contains(text, "broken/run.json") {
		t.Errorf("%d %s", status, text)
	}
}

// A folder that somebody else made cannot make answers as large as it is.
func TestRunIsBounded(t *testing.T) {
	b := newBed(t, nil)
	huge := strings.Repeat("<", 256<<10)
	b.addRun("huge", func(r *rundir.Run) {
		r.Name, r.Question, r.Complete, r.Reason = huge, huge, false, new(texts.Verbatim(huge))
		r.Plan.Variants = []rundir.PlanVariant{{Name: huge}}
		for n := range 1000 {
			r.Plan.Variants = append(r.Plan.Variants, rundir.PlanVariant{Name: strconv.Itoa(n)})
		}
	})
	b.addRun("twice", func(r *rundir.Run) { r.Variants = []rundir.Variant{{Name: huge}, {Name: huge}} })
	for end := time.Now().Add(hangGuard); ; {
		if l := get[RunList](b, "/api/runs"); l.Total == 2 && l.Pending == 0 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%d runs, %d to be read", l.Total, l.Pending)
		}
	}
	for path, most := range map[string]int{"/api/runs": 100 << 10, "/api/runs/huge": 4 << 20, "/api/runs/twice": 100 << 10} {
		if _, text := b.do(b.request("GET", path, "")); len(text) > most || len(text) < 100 {
			t.Errorf("%s: %d bytes, want at most %d", path, len(text), most)
		}
	}
	if run := get[rundir.Run](b, "/api/runs/huge"); len(run.Notes) != 1 || !strings.Contains(run.Notes[0].English(), "4 texts") || !strings.HasSuffix(run.Name, "… [of 262144 bytes]") {
		t.Errorf("%q, a name of %d bytes", run.Notes, len(run.Name))
	}
}

func TestDiff(t *testing.T) {
	b := newBed(t, nil)
	b.addRun("old", nil)
	b.addRun("new", func(r *rundir.Run) { r.Variants = []rundir.Variant{figured("pool", 2000)} })
	b.addRun("other", func(r *rundir.Run) {
		r.Variants, r.Plan.Variants = []rundir.Variant{figured("epoll", 1)}, []rundir.PlanVariant{{Name: "epoll"}}
	})
	d := get[diff.Difference](b, "/api/diff?a=old&b=new")
	if len(d.Comparisons) != 1 || *d.Comparisons[0].Ratio.Estimate < 1.99 || d.Comparisons[0].Verdict != rundir.Better {
		t.Errorf("%+v", d)
	}
	for query, want := range map[string]int{"a=old": 404, "a=old&b=none": 404, "a=old&b=other": 422} {
		if status, text := b.do(b.request("GET", "/api/diff?"+query, "")); status != want {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
}

func TestHistory(t *testing.T) {
	b := newBed(t, nil)
	for i := range 12 {
		b.addRun(fmt.Sprintf("%02d", i), func(r *rundir.Run) {
			throughput := 1000.0 + float64(i%3)
			if i >= 6 {
				throughput += 200
			}
			r.StartedAt, r.Variants = r.StartedAt.AddDate(0, 0, i), []rundir.Variant{figured("pool", throughput)}
		})
	}
	b.addRun("other", func(r *rundir.Run) { r.Name = "other" })
	write(t, b.path("runs", "broken", rundir.RunFile), "{")
	h := get[history.History](b, "/api/history?experiment=tame")
	if len(h.Experiments) != 1 || len(h.Experiments[0].Runs) != 12 || len(h.Unreadable) != 1 || h.Unreadable[0].Dir != "broken" {
		t.Fatalf("%+v", h)
	}
	e := h.Experiments[0]
	if e.Runs[3].Dir != "03" || len(e.Series) != 1 || len(e.Series[0].Changes) != 1 || e.Series[0].Changes[0].Run != 6 {
		t.Errorf("%+v", e.Series)
	}
	for query, want := range map[string]int{"": 400, "experiment=none": 404, "experiment=tame&metric=none": 404, "experiment=tame&variant=pool&metric=throughput": 200} {
		if status, text := b.do(b.request("GET", "/api/history?"+query, "")); status != want {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
}

// Users' annotations of a run are kept in its folder, found, and shown.
func TestAnnotations(t *testing.T) {
	b := newBed(t, nil)
	b.addRun("a/1", nil)
	b.addRun("b", func(r *rundir.Run) {
		r.StartedAt, r.Variants = r.StartedAt.Add(time.Hour), []rundir.Variant{figured("pool", 2000)}
	})
	get[RunList](b, "/api/runs") // what is in the index already must be read again
	if status, text := b.do(b.request("POST", "/api/runs/a%2F1/annotations", `{"tags":["v2","release"],"note":"Mended.","pinned":true}`)); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	about, err := archive.ReadAnnotations(b.path("runs", "a", "1"))
	check(t, err)
	if !slices.Equal(about.Tags, []string{"release", "v2"}) || about.Note != "Mended." || about.PinnedAt.IsZero() {
		t.Errorf("%+v", about)
	}
	for query, want := range map[string]string{
		"query=release": "a/1", "query=mended+v2": "a/1", "where=throughput+%3E+1500/s": "b", "where=throughput+%3E+500/s": "b a/1", "where=throughput+%3E+500/s&limit=1&offset=1": "a/1",
		"where=throughput+%3E+500/s&query=release": "a/1", "where=response.p99+%3E+1s": "",
	} {
		if l := get[RunList](b, "/api/runs?"+query); strings.Join(ids(l), " ") != want {
			t.Errorf("%s: %v, want %q", query, ids(l), want)
		}
	}
	type shown struct {
		Annotations archive.Annotations
		Baseline    string
	}
	if r := get[shown](b, "/api/runs/b"); r.Baseline != "a/1" || len(r.Annotations.Tags) != 0 {
		t.Errorf("%+v", r)
	}
	if r := get[shown](b, "/api/runs/a%2F1"); r.Baseline != "" || r.Annotations.Note != "Mended." {
		t.Errorf("%+v", r)
	}
	h := get[history.History](b, "/api/history?run=b&run=a%2F1&metric=throughput&metric=response.p99")
	if len(h.Experiments) != 1 || h.Experiments[0].Runs[0].Dir != "a/1" || h.Experiments[0].Baseline.Dir != "a/1" || *h.Experiments[0].Series[0].Points[1].Relative != 1 {
		t.Errorf("%+v", h)
	}
	for body, want := range map[string]int{`{"tags":["two words"]}`: 422, `{"tag":[]}`: 400, `{"note":"` + strings.Repeat("x", archive.MaxNote+1) + `"}`: 422} {
		if status, text := b.do(b.request("POST", "/api/runs/b/annotations", body)); status != want {
			t.Errorf("%.40s: %d %s", body, status, text)
		}
	}
	for path, want := range map[string]int{"/api/runs/none/annotations": 404, "/api/runs/b%2F..%2Fb/annotations": 404} {
		if status, _ := b.do(b.request("POST", path, `{}`)); status != want {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, _ := b.do(b.request("GET", "/api/history?run=none", "")); status != 404 {
		t.Errorf("%d", status)
	}
	if status, _ := b.do(b.request("GET", "/api/history?"+strings.Repeat("run=b&", mostChosen+1), "")); status != 400 {
		t.Errorf("%d", status)
	}
}

func TestExperiments(t *testing.T) {
	b := newBed(t, nil)
	write(t, b.path("experiments", "more", "faulty.yml"), "name: faulty\nlaod: 1\ntarget: {protocol: tcp}\n")
	write(t, b.path("experiments", ".hidden", "x.yaml"), experimentFile)
	write(t, b.path("experiments", "large.yaml"), "target: {}\n"+strings.Repeat("#", maxFileBytes))
	write(t, b.path("experiments", "notes.txt"), "no experiment")
	write(t, b.path("experiments", "compose.yaml"), "name: shop\nservices:\n  front: {build: {target: x}}\n")
	write(t, b.path("experiments", "other.yaml"), "rules:\n  target: 1\n{")
	check(t, os.Mkdir(b.path("experiments", "folder.yaml"), 0o755))
	l := get[ExperimentList](b, "/api/experiments")
	if len(l.Experiments) != 3 || !l.Startable {
		t.Fatalf("%+v", l)
	}
	large, faulty, tame := l.Experiments[0], l.Experiments[1], l.Experiments[2]
	if large.ID != "large.yaml" || len(large.Faults) != 1 || !strings.Contains(large.Faults[0].Problem, "larger than 1 MiB") {
		t.Errorf("%+v", large)
	}
	at := slices.IndexFunc(faulty.Faults, func(f Fault) bool { return f.Field == "laod" && f.Line == 2 && f.Hint != "" })
	if faulty.ID != "more/faulty.yml" || at < 0 {
		t.Errorf("%+v", faulty)
	}
	if tame.Name != "tame" || tame.Question != "Is it?" || !slices.Equal(tame.Variants, []string{"small", "large"}) || tame.Rounds != 8 || tame.Seconds != 72 ||
		tame.Short == nil || tame.Short.Rounds != 2 || tame.Variables["size"] != "" || len(tame.Faults) != 0 {
		t.Errorf("%+v", tame)
	}
	write(t, b.path("experiments", "tame.yaml"), strings.Replace(experimentFile, "Is it?", "It is.", 1))
	if l := get[ExperimentList](b, "/api/experiments"); l.Experiments[2].Question != "It is." {
		t.Error("a file that has changed was not read")
	}
	none := newBed(t, func(c *Config) { c.Experiments = "" })
	if l := get[ExperimentList](none, "/api/experiments"); l.Startable || len(l.Experiments) != 0 {
		t.Errorf("%+v", l)
	}
	if status, _ := none.do(none.request("POST", "/api/runs", `{"experiment":"tame.yaml"}`)); status != 403 {
		t.Errorf("%d", status)
	}
}

// A run is started with what was requested, and that is checked beforehand.
func TestStart(t *testing.T) {
	b := newBed(t, nil)
	for body, want := range map[string]int{
		"": 415, "{": 400, "[]": 400, `{"experiment":"tame.yaml","shrot":true}`: 400, `{"experiment":"tame.yaml"} {}`: 400,
		`{"experiment":"tame.yaml","set":{"a=b":"1"}}`: 400, `{"experiment":"tame.yaml","set":{"size":"\""}}`: 400, `{"experiment":"tame.yaml","set":{"size":"1\n2"}}`: 400,
		`{"experiment":"tame.yaml","set":{"":"1"}}`: 400, `{"experiment":"` + strings.Repeat("x", maxBody) + `"}`: 413,
		`{"experiment":"none.yaml"}`: 404, `{"experiment":"tame.yaml","set":{"sise":"1"}}`: 422,
	} {
		if status, text := b.do(b.request("POST", "/api/runs", body)); status != want || !strings.HasPrefix(text, `{"error":`) {
			t.Errorf("%.80s: %d %s", body, status, text)
		}
	}
	r := b.request("POST", "/api/runs", `{"experiment":"tame.yaml"}`)
	r.Header.Set("Content-Type", "text/plain")
	if status, _ := b.do(r); status != 415 {
		t.Errorf("a form's body: %d", status)
	}
	b.runner.refuse = errTest
	if status, text := b.do(b.request("POST", "/api/runs", `{"experiment":"tame.yaml"}`)); status != 500 || !strings.Contains(text, errTest.Error()) {
		t.Errorf("%d %s", status, text)
	}
	b.runner.refuse = nil
	if n := b.runner.count(); n != 0 {
		t.Fatalf("%d runs started", n)
	}
	status, text := b.do(b.request("POST", "/api/runs", `{"experiment":"tame.yaml","short":true,"set":{"size":"3,4=5","rounds":"2"}}`))
	if status != 202 {
		t.Fatalf("%d %s", status, text)
	}
	x := b.runner.latest()
	l := x.launch
	if l.File != b.path("experiments", "tame.yaml") || !strings.HasPrefix(l.Dir, b.path("runs", "tame-2")) || !l.Short || l.Set["size"] != "3,4=5" || l.Set["rounds"] != "2" {
		t.Errorf("%+v", l)
	}
	if status, text := b.do(b.request("POST", "/api/runs", `{"experiment":"tame.yaml"}`)); status != 409 || !strings.Contains(text, "refused.busy") {
		t.Errorf("a second one: %d %s", status, text)
	}
	x.end(Outcome{})
}
