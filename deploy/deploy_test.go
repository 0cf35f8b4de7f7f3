// Package deploy_test holds what is deployed with dyno to what dyno and its services really
// export.
package deploy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"dyno/internal/leak"
	"dyno/results/push"
	"dyno/services/bot"
	"dyno/services/bot/upstream"
	"dyno/services/control"
	"dyno/services/control/rpc/controlpb"
	"dyno/services/events"
	"dyno/services/relay"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A service is one of the reference services.
type service interface {
	Listen() error
	Serve(ctx context.Context) error
}

// scrape runs a service, asks it something, and returns its metrics.
func scrape(t *testing.T, s service, admin func() string, ask func()) map[string]*dto.MetricFamily {
	t.Helper()
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	}()
	if ask != nil {
		ask()
	}
	r, err := http.Get("http://" + admin() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// exported returns the available names, with the labels that they have in addition to those of a scrape.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{"up": nil}
	pushed := []string{"run", "experiment", "variant", "trial", "round"}
	for _, m := range push.Metrics() {
		all[m.Name] = pushed
	}
	all["dyno_queue_longest_wait_seconds"] = []string{"tenant"} // cli/fleet/testdata/script/queue_tenants.txtar
	all["dyno_latency_seconds"] = append(slices.Clone(pushed), push.LabelClock, push.LabelQuantile)
	all["dyno_flag"] = append(slices.Clone(pushed), push.LabelKind, push.LabelSeverity)

	c := relay.Defaults()
	c.Listen, c.To, c.Admin = "127.0.0.1:0", "127.0.0.1:9", "127.0.0.1:0"
	r, err := relay.New(c)
	if err != nil {
		t.Fatal(err)
	}
	e := events.Defaults()
	e.Listen, e.Admin = "127.0.0.1:0", "127.0.0.1:0"
	h, err := events.New(e)
	if err != nil {
		t.Fatal(err)
	}
	refused := func() {
		response, err := http.Post("http://"+h.Addr().String()+"/.well-known/mercure", "text/plain", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil || response.StatusCode < 400 {
			t.Fatalf("%s, %v; want a refusal", response.Status, err)
		}
	}
	b := bot.Defaults()
	b.Listen, b.Admin, b.AllowNetworks = "127.0.0.1:0", "127.0.0.1:0", []string{"127.0.0.1"}
	model := upstream.DefaultUpstream()
	model.Name, model.URL, model.Models = "a", "http://127.0.0.1:9/v1", map[string]string{"m": "m"}
	b.Upstream.Upstreams = []upstream.Upstream{model}
	b.Plugins, b.CacheAge = []bot.Plugin{{Name: "clock", Builtin: "clock"}}, time.Minute
	g, err := bot.New(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	unread := func() {
		// An answer may come before its request is counted. The next request of the connection, which is why
		// the answer is read to its end, is served after that.
		for range 2 {
			response, err := http.Post("http://"+g.Addr().String()+"/v1/bot/chat", "application/json", strings.NewReader("{"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.Copy(io.Discard, response.Body)
			if err := errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusBadRequest {
				t.Fatalf("%s, %v; want a refusal", response.Status, err)
			}
		}
	}
	k := control.Defaults()
	k.Listen, k.GRPC, k.Admin = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	k.Store.Dir, k.Store.NoSync = t.TempDir(), true
	p, err := control.New(k)
	if err != nil {
		t.Fatal(err)
	}
	acknowledged := func() {
		for _, one := range []struct{ method, path, body string }{
			{"POST", "/v1/policies", `{"name":"a","rules":[]}`},
			{"GET", "/v1/watch?kind=policy&client=c&wait=0", ""}, // a client that was sent nothing applies nothing
			{"GET", "/v1/policies/a", ""},                        // waits until the replica knows it
			{"POST", "/v1/acks", `{"client":"c","acks":[{"kind":"policy","name":"a","version":1,"state":"applied"}]}`},
		} {
			request, err := http.NewRequestWithContext(t.Context(), one.method, "http://"+p.Addr().String()+one.path, strings.NewReader(one.body))
			if err != nil {
				t.Fatal(err)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			if err := response.Body.Close(); err != nil || response.StatusCode >= 300 {
				t.Fatalf("%s: %s, %v", one.path, response.Status, err)
			}
		}
		calls, err := grpc.NewClient(p.GRPCAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		_, err = controlpb.NewControlClient(calls).List(t.Context(), &controlpb.ListRequest{Kind: controlpb.Kind_KIND_POLICY})
		if err := errors.Join(err, calls.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, families := range []map[string]*dto.MetricFamily{
		scrape(t, p, func() string { return p.AdminAddr().String() }, acknowledged),
		scrape(t, g, func() string { return g.AdminAddr().String() }, unread),
		scrape(t, r, func() string { return r.AdminAddr().String() }, nil),
		scrape(t, h, func() string { return h.AdminAddr().String() }, refused),
	} {
		for name, f := range families {
			var labels []string
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					labels = append(labels, l.GetName())
				}
			}
			all[name] = append(all[name], labels...)
			if f.GetType() == dto.MetricType_HISTOGRAM {
				all[name+"_bucket"] = append(labels, "le")
				all[name+"_sum"], all[name+"_count"] = labels, labels
			}
		}
	}
	return all
}

// rules is rules.yml.
type rules struct {
	Groups []struct {
		Rules []struct {
			Record, Alert, Expr string
			Annotations         map[string]string
		}
	}
}

func readRules(t *testing.T) (r rules) {
	t.Helper()
	text, err := os.ReadFile("prometheus/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// A dashboard is what of Grafana's JSON is looked at.
type dashboard struct {
	UID, Title string
	Panels     []struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ X, Y, W, H int }
		Targets                  []struct{ RefID, Expr string }
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
	Annotations struct{ List []struct{ Expr string } }
}

func readDashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	all := map[string]dashboard{}
	files, err := filepath.Glob("grafana/*.json")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[file] = d
	}
	return all
}

// expressions returns all PromQL, by where it stands. Variables of dashboards have a
// value.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			all["rule "+r.Record+r.Alert] = r.Expr
		}
	}
	values := strings.NewReplacer("$__range", "5m", "$run", ".*", "$variant", ".*", "$clock", "response", "$job", ".*", "$instance", ".*")
	for file, d := range readDashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				all[fmt.Sprintf("%s: %s: %s", file, p.Title, target.RefID)] = values.Replace(target.Expr)
			}
		}
		for i, a := range d.Annotations.List {
			all[fmt.Sprintf("%s: annotation %d", file, i)] = values.Replace(a.Expr)
		}
		for _, v := range d.Templating.List {
			if selector, ok := strings.CutPrefix(v.Definition, "label_values("); ok {
				selector = selector[:strings.LastIndex(selector, ",")]
				all[file+": variable "+v.Name] = values.Replace(selector)
			}
		}
	}
	return all
}

var (
	quoted    = regexp.MustCompile(`"[^"]*"`)
	matchers  = regexp.MustCompile(`\{[^}]*\}`)
	durations = regexp.MustCompile(`\[[^\]]*\]`)
	grouping  = regexp.MustCompile(`\b(by|without|on|ignoring)\s*\(([^)]*)\)`)
	words     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\s*\(?`)
	matched   = regexp.MustCompile(`([a-zA-Z_]+)\s*(=~|!~|!=|=)`)
)

// asks returns the metrics and the labels that an expression names.
func asks(expr string) (metrics, labels []string) {
	expr = quoted.ReplaceAllString(expr, `""`)
	for _, m := range matchers.FindAllString(expr, -1) {
		for _, l := range matched.FindAllStringSubmatch(m, -1) {
			labels = append(labels, l[1])
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(g[2], ",") {
			labels = append(labels, strings.TrimSpace(l))
		}
	}
	for _, strip := range []*regexp.Regexp{matchers, durations, grouping} {
		expr = strip.ReplaceAllString(expr, " ")
	}
	for _, w := range words.FindAllString(expr, -1) {
		if !strings.HasSuffix(w, "(") && !slices.Contains([]string{"and", "or", "unless", "bool", "offset"}, strings.TrimSpace(w)) {
			metrics = append(metrics, strings.TrimSpace(w))
		}
	}
	return metrics, labels
}

// faults returns what expressions name that nobody exports.
func faults(expressions map[string]string, exported map[string][]string) (faults []string) {
	for _, where := range slices.Sorted(maps.Keys(expressions)) {
		metrics, labels := asks(expressions[where])
		if len(metrics) == 0 {
			faults = append(faults, where+": no metric")
		}
		known := []string{"job", "instance"}
		for _, m := range metrics {
			of, ok := exported[m]
			if !ok {
				faults = append(faults, fmt.Sprintf("%s: nobody exports %s", where, m))
			}
			known = append(known, of...)
		}
		for _, l := range labels {
			if !slices.Contains(known, l) {
				faults = append(faults, fmt.Sprintf("%s: no metric in it has a label %s", where, l))
			}
		}
	}
	return faults
}

// Dashboards and rules ask for what there is.
func TestExpressions(t *testing.T) {
	all := exported(t)
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if r.Record != "" { // it has labels that its parts have
				metrics, _ := asks(r.Expr)
				for _, m := range metrics {
					all[r.Record] = append(all[r.Record], all[m]...)
				}
			}
		}
	}
	for _, f := range faults(expressions(t), all) {
		t.Error(f)
	}
}

func TestExpressionsCanFail(t *testing.T) {
	got := faults(map[string]string{
		"a": `sum by (job, le) (rate(a_bucket{x="1",y=~"b_total"}[5m])) / on (z) c:d unless nothing`,
		"b": "1 + 2",
	}, map[string][]string{"a_bucket": {"le", "x"}, "c:d": nil})
	want := []string{"a: nobody exports nothing", "a: no metric in it has a label y", "a: no metric in it has a label z", "b: no metric"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Pushed metrics are on the dashboard of runs.
func TestEveryPushedMetricIsShown(t *testing.T) {
	var shown []string
	for where, expr := range expressions(t) {
		if strings.HasPrefix(where, "grafana/dyno-run.json") || strings.HasPrefix(where, "rule run:") {
			metrics, _ := asks(expr)
			shown = append(shown, metrics...)
		}
	}
	for _, m := range push.Metrics() {
		if !slices.Contains(shown, m.Name) {
			t.Errorf("%s is not shown", m.Name)
		}
	}
}

// Panels have what a reader needs, and places of their own.
func TestDashboards(t *testing.T) {
	uids := map[string]string{}
	for file, d := range readDashboards(t) {
		if other := uids[d.UID]; d.UID == "" || d.Title == "" || other != "" {
			t.Errorf("%s: want a title and a uid that %s has not", file, other)
		}
		uids[d.UID] = file
		ids, cells := map[int]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			if ids[p.ID] || p.Title == "" || p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
				t.Errorf("%s: panel %d %q: want an id of its own, a title, a description and something to show", file, p.ID, p.Title)
			}
			ids[p.ID] = true
			g := p.GridPos
			if g.X < 0 || g.W <= 0 || g.H <= 0 || g.X+g.W > 24 {
				t.Errorf("%s: %q is outside the grid: %+v", file, p.Title, g)
			}
			for x := g.X; x < g.X+g.W; x++ {
				for y := g.Y; y < g.Y+g.H; y++ {
					if other, taken := cells[[2]int{x, y}]; taken {
						t.Fatalf("%s: %q lies on %q", file, p.Title, other)
					}
					cells[[2]int{x, y}] = p.Title
				}
			}
		}
	}
}

// promtool runs Prometheus's own check.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Dir = "prometheus"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func needPromtool(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not installed (the Debian package prometheus has it)")
	}
}

func TestRules(t *testing.T) {
	needPromtool(t)
	promtool(t, "check", "config", "prometheus.yml")
	promtool(t, "check", "rules", "--lint-fatal", "rules.yml")
	promtool(t, "test", "rules", "rules_test.yml")
}

// Each alert is seen to fire.
func TestEveryAlertIsTested(t *testing.T) {
	text, err := os.ReadFile("prometheus/rules_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	var tests struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string `yaml:"alertname"`
				ExpAlerts []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal(text, &tests); err != nil {
		t.Fatal(err)
	}
	fires := map[string]bool{}
	for _, test := range tests.Tests {
		for _, a := range test.AlertRuleTest {
			fires[a.Alertname] = fires[a.Alertname] || len(a.ExpAlerts) > 0
		}
	}
	alerts := 0
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			alerts++
			if !fires[r.Alert] {
				t.Errorf("no test sees %s fire", r.Alert)
			}
			if r.Annotations["summary"] == "" {
				t.Errorf("%s has no summary", r.Alert)
			}
		}
	}
	if alerts != len(fires) || alerts == 0 {
		t.Errorf("%d alerts, tests of %d", alerts, len(fires))
	}
}

// Prometheus can read every expression of the dashboards.
func TestDashboardSyntax(t *testing.T) {
	needPromtool(t)
	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var list []rule
	all := expressions(t)
	for i, where := range slices.Sorted(maps.Keys(all)) {
		list = append(list, rule{fmt.Sprintf("check:%d", i), all[where]})
	}
	var b bytes.Buffer
	if err := yaml.NewEncoder(&b).Encode(map[string]any{"groups": []any{map[string]any{"name": "dashboards", "rules": list}}}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}
