package planfile

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/internal/fields"
	"dyno/lab/plan"
	"dyno/load/options"
	"dyno/load/pace"
	"dyno/load/scenario"
)

// Text writes what is read as the same plan, whatever stands in it.
func TestTextIsReadAsThePlan(t *testing.T) {
	const multiline = "{\n  \"a\": \"{{ x }}\",\n\n  \"b\": 1\n}\n"
	http := func(change func(l *plan.Load, target *plan.Target)) *plan.Experiment {
		e := plan.New("written", plan.HTTP)
		v := &e.Variants[0]
		v.Target.URL = "http://127.0.0.1:8080"
		change(&v.Load, &v.Target)
		v.Target.Complete()
		e.Complete()
		return e
	}
	step := func(name string, change func(s *scenario.Step)) scenario.Step {
		s := scenario.Step{Name: name}
		s.Path = "/" + name
		change(&s)
		return s
	}
	yes := "true"
	for name, e := range map[string]*plan.Experiment{
		"a request": http(func(l *plan.Load, _ *plan.Target) {
			l.Request.Method, l.Request.Path = "POST", "/a?b=c&d=%20"
			l.Request.Body = "a: b # c"
			l.Request.Headers = []scenario.Header{{Name: "X-Yes", Value: "yes"}, {Name: "X-Number", Value: "1e5"}, {Name: "X-Empty"}, {Name: "Accept", Value: "*/*"}}
			l.Closed = &plan.Closed{Connections: 3, Think: pace.Think{Uniform: &pace.Span{To: time.Second}}}
			l.Requests, l.Window, l.Warmup = 10, 0, 0
		}),
		"stages": http(func(l *plan.Load, target *plan.Target) {
			l.Open = plan.DefaultOpen()
			l.Stages = []plan.Stage{{Duration: 90 * time.Second, To: 1e6}, {Duration: time.Minute, From: 1e6, To: 1e6}, {Duration: 500 * time.Millisecond, From: 12.5}}
			l.Window = 150*time.Second + 500*time.Millisecond
			l.HTTP2.Use, l.HTTP2.Streams, l.HTTP2.StreamWindow = plan.HTTP2Always, 8, 65536
			target.TLS, target.URL = &plan.TLS{Insecure: true, CA: "dir/ca.pem"}, "https://127.0.0.1:8443/a"
		}),
		"users": http(func(l *plan.Load, _ *plan.Target) {
			l.Closed = &plan.Closed{Think: pace.Think{Constant: time.Second}}
			l.SetStages([]plan.Stage{{Duration: 90 * time.Second, To: 1e6}, {Duration: time.Minute, From: 1e6, To: 1e6}, {Duration: 500 * time.Millisecond, From: 12}})
		}),
		"paces": http(func(l *plan.Load, _ *plan.Target) {
			flow := func(name string) scenario.Flow {
				return scenario.Flow{Name: name, Weight: 1, Steps: []scenario.Step{step(name, func(*scenario.Step) {})}}
			}
			l.Scenario, l.Finish = &scenario.Spec{Flows: []scenario.Flow{flow("a"), flow("b"), flow("c")}}, 30*time.Second
			l.SetPaces([]plan.Pace{
				{Flow: "a", Start: 5 * time.Second, Users: 1, Stages: []plan.PaceStage{{Duration: time.Minute, Users: 50}, {Users: 20}, {Duration: time.Second}}},
				{Flow: "b", Rate: 0.5, Window: 90 * time.Second, MaxUsers: 7},
				{Flow: "c", Users: 4, Iterations: plan.Iterations{Iterations: 100}},
			})
		}),
		"iterations": http(func(l *plan.Load, _ *plan.Target) {
			l.Closed, l.Window = &plan.Closed{Connections: 2}, 0
			l.Scenario = &scenario.Spec{Steps: []scenario.Step{step("a", func(*scenario.Step) {})}}
			l.IterationsEach = 3
		}),
		"a scenario": http(func(l *plan.Load, _ *plan.Target) {
			l.Open = &plan.Open{Rate: 0.25, Arrivals: plan.ArrivalsPoisson, MaxConnections: 7, Waiting: options.Waiting{MaxWaiting: 65536}}
			data := plan.DefaultData("users", "dir/users.csv")
			data.Order, data.Columns = "random", []string{"x", "y"}
			l.Scenario = &scenario.Spec{
				Users: 20, Restart: true, Cookies: true, Data: []scenario.Data{plan.DefaultData("rows", "dir/rows.jsonl"), data},
				Variables: map[string]string{"b": "", "a": "-1", "c": " x ", "d": "\x01\x7f\u2028é😀\ufeff\ue000", "e": "null"},
				Flows: []scenario.Flow{{Name: "buy", Weight: 3, Steps: []scenario.Step{
					step("login", func(s *scenario.Step) {
						s.Once, s.Method, s.Body = true, "POST", multiline
						s.Extract = []scenario.Extraction{{Variable: "token", JSON: "$.token"}, {Variable: "id", Header: "X-Id", Default: &yes}}
						s.Assert = []scenario.Assertion{{JSON: "$.ok", Equals: &yes}, {Contains: "- a\n"}, {Header: "Etag", Exists: true}}
					}),
					step("list", func(s *scenario.Step) {
						s.Think, s.Status, s.MaxBody = pace.Think{Constant: 1500 * time.Millisecond}, "200, 404", 4096
						s.Body = "\n leading\n"
					}),
				}}, {Name: "look", Weight: 1, Steps: []scenario.Step{step("look", func(s *scenario.Step) { s.Body = "a \nb" })}}},
			}
		}),
	} {
		e.Thresholds = []plan.Threshold{{Holds: "response.p99 < 80ms"}, {Holds: "errors.ratio < 5%", Abort: true, After: 3 * time.Second}}
		file := "dir/written.yaml"
		text := Text(e, file)
		got, err := Parse(file, text, Options{})
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			continue
		}
		got.File, got.Source, got.Warnings = "", nil, nil
		if diff := cmp.Diff(e, got); diff != "" {
			t.Errorf("%s: %s\n%s", name, diff, text)
		}
	}
}

// Any text comes back from a file as it was.
func FuzzText(f *testing.F) {
	for _, text := range []string{"", "a", "a\nb", "a\nb\n", "a\n\n", " a\nb", "a \nb", "#", "- a", "a: b", "'", `"`, "\\", "é\n\t", "true", "1e5", "0x1", "~", "%a", "{{ x }}", "\r\n", "\u2028\n", "…\nb", "a\n...\nb", "a\n---\nb"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e := plan.New("fuzz", plan.HTTP)
		v := &e.Variants[0]
		v.Target.URL, v.Load.Closed = "http://127.0.0.1:8080", &plan.Closed{Connections: 1}
		v.Load.Scenario = &scenario.Spec{Steps: []scenario.Step{{Name: "a", Body: text}}}
		src := Text(e, "a.yaml")
		c := fields.NewCollector()
		root := fields.ParseTree(src, c)
		if c.Err("a.yaml", func(string) (line, column int) { return 0, 0 }) != nil {
			return // what a file cannot hold, such as a line that is too long, or bytes that are no text
		}
		body := root.Find("load.scenario.steps[0].body")
		switch {
		case body == nil && text == "":
		case body == nil || body.Text != text:
			t.Errorf("%q became %v in\n%s", text, body, src)
		}
	})
}
