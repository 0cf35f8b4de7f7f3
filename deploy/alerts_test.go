package deploy_test

import (
	"context"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"dyno/services/bot"
	"dyno/services/bot/upstream"
	"dyno/services/control"
	"dyno/services/llm"
)

// In the tests of this file a real Prometheus scrapes real services, and evaluates the rules. Only their times are
// shorter: nothing of what is compared, and no limit, is another.

// shorter are the changes to rules.yml.
var shorter = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`(?m)^( *interval: )\w+$`), "${1}500ms"},
	{regexp.MustCompile(`(?m)^( *for: )\w+$`), "${1}1s"},
	{regexp.MustCompile(`\[\d+[a-z]+\]`), "[5s]"},
}

// shortRules is rules.yml with shorter times.
func shortRules(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("prometheus/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shorter {
		if !s.what.Match(text) {
			t.Fatalf("rules.yml has nothing like %v", s.what)
		}
		text = s.what.ReplaceAll(text, []byte(s.by))
	}
	return text
}

// A monitor is a Prometheus that runs.
type monitor struct {
	t      *testing.T
	url    string
	client *http.Client
	log    string        // a file
	ended  chan struct{} // closed when the process has ended
}

// monitoring runs a Prometheus until the test ends, which scrapes one address for each job.
func monitoring(t *testing.T, jobs map[string]string) *monitor {
	t.Helper()
	dir := t.TempDir()
	// A scrape has as long as the interval between two: not less than a busy machine needs.
	config := "global: {scrape_interval: 500ms, evaluation_interval: 500ms}\nrule_files: [rules.yml]\nscrape_configs:\n"
	for _, job := range slices.Sorted(maps.Keys(jobs)) {
		config += fmt.Sprintf("  - job_name: %q\n    static_configs: [{targets: [%q]}]\n", job, jobs[job])
	}
	log := filepath.Join(dir, "log")
	out, err := os.Create(log)
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600), os.WriteFile(filepath.Join(dir, "rules.yml"), shortRules(t), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // tests that panic leave no Prometheus
	runtime.LockOSThread()                                             // its end would be the process's as well
	t.Cleanup(runtime.UnlockOSThread)
	if err := errors.Join(cmd.Start(), out.Close()); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	m := &monitor{t: t, client: &http.Client{Transport: transport}, log: log, ended: make(chan struct{})}
	go func() {
		defer close(m.ended)
		_ = cmd.Wait() // it is killed, and says so
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-m.ended
		transport.CloseIdleConnections()
	})
	address := regexp.MustCompile(`msg="Listening on".* address=(\S+)`)
	m.until("Prometheus listens", func() bool {
		said, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if found := address.FindSubmatch(said); found != nil {
			m.url = "http://" + string(found[1])
		}
		return m.url != ""
	})
	m.until("Prometheus is ready", func() bool {
		response, err := m.client.Get(m.url + "/-/ready")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return m
}

// in is the monitor of a part of the test.
func (m *monitor) in(t *testing.T) *monitor {
	part := *m
	part.t = t
	return &part
}

// until polls. Its guard is against a hang, and expects no speed.
func (m *monitor) until(what string, is func() bool) {
	m.t.Helper()
	poll, guard := time.NewTicker(50*time.Millisecond), time.NewTimer(2*time.Minute)
	defer poll.Stop()
	defer guard.Stop()
	for !is() {
		why := ""
		select {
		case <-poll.C:
			continue
		case <-m.ended:
			why = "Prometheus has ended"
		case <-guard.C:
			why = "in vain"
		}
		said, _ := os.ReadFile(m.log) // may help
		state := json.RawMessage{}
		if why == "in vain" && m.url != "" {
			m.get("/api/v1/alerts", nil, &state)
		}
		m.t.Fatalf("%s: %s\nactive: %s\nPrometheus says: %s", what, why, state, said[max(0, len(said)-3000):])
	}
}

// get asks Prometheus.
func (m *monitor) get(path string, query url.Values, into any) {
	m.t.Helper()
	response, err := m.client.Get(m.url + path + "?" + query.Encode())
	if err != nil {
		m.t.Fatal(err)
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Status != "success" {
		m.t.Fatalf("%s %v: %s %s, %v", path, query, response.Status, answer.Error, err)
	}
}

// query evaluates an expression of raw samples.
func (m *monitor) query(expr string) model.Matrix {
	m.t.Helper()
	var v struct{ Result model.Matrix }
	m.get("/api/v1/query", url.Values{"query": {expr}}, &v)
	return v.Result
}

// seen waits until an expression has a value.
func (m *monitor) seen(expr string) {
	m.t.Helper()
	m.until(expr, func() bool {
		var v struct{ Result model.Vector }
		m.get("/api/v1/query", url.Values{"query": {expr}}, &v)
		return len(v.Result) > 0
	})
}

// An alert is what Prometheus says of one of a rule's.
type alert struct {
	Labels, Annotations map[string]string
	State               string
}

// An alertRule is what Prometheus says of a rule.
type alertRule struct {
	Name, State, Health, LastError string
	LastEvaluation                 time.Time
	Alerts                         []alert
}

func (m *monitor) rule(name string) alertRule {
	m.t.Helper()
	var v struct {
		Groups []struct{ Rules []alertRule }
	}
	m.get("/api/v1/rules", url.Values{"type": {"alert"}}, &v)
	for _, g := range v.Groups {
		for _, r := range g.Rules {
			if r.Name == name {
				if r.Health == "err" {
					m.t.Fatalf("%s: %s", name, r.LastError)
				}
				return r
			}
		}
	}
	m.t.Fatal("no rule ", name)
	return alertRule{}
}

// evaluated waits for an evaluation that begins from now on.
func (m *monitor) evaluated(name string) (r alertRule) {
	m.t.Helper()
	since := time.Now()
	m.until(name+" is evaluated", func() bool {
		r = m.rule(name)
		return r.LastEvaluation.After(since)
	})
	return r
}

// inactive wants a rule to be inactive when it is evaluated next.
func (m *monitor) inactive(name string) {
	m.t.Helper()
	if r := m.evaluated(name); r.State != "inactive" || len(r.Alerts) > 0 {
		m.t.Fatalf("%s is %s: %+v", name, r.State, r.Alerts)
	}
}

// calm waits until a rule is inactive after an evaluation from now on.
func (m *monitor) calm(name string) {
	m.t.Helper()
	since := time.Now()
	m.until(name+" is inactive", func() bool {
		r := m.rule(name)
		return r.State == "inactive" && r.LastEvaluation.After(since)
	})
}

// firing waits until an alert of a job is firing, and looks at its labels and at its summary.
func (m *monitor) firing(labels map[string]string, summary string) {
	m.t.Helper()
	name := labels["alertname"]
	m.until(name+" is firing", func() bool {
		for _, a := range m.rule(name).Alerts {
			if a.Labels["job"] != labels["job"] || a.State != "firing" {
				continue
			}
			if !maps.Equal(a.Labels, labels) {
				m.t.Errorf("labels %v, want %v", a.Labels, labels)
			}
			if !regexp.MustCompile("^" + summary + "$").MatchString(a.Annotations["summary"]) {
				m.t.Errorf("summary %q, want %q", a.Annotations["summary"], summary)
			}
			return true
		}
		return false
	})
}

// waited wants an alert of a job that is firing to have been pending for as long as shortRules say.
func (m *monitor) waited(name, job string) {
	m.t.Helper()
	first := map[model.LabelValue]time.Time{}
	m.until(name+" is written down", func() bool {
		for _, s := range m.query(fmt.Sprintf(`ALERTS{alertname=%q,job=%q}[1h]`, name, job)) {
			state, at := s.Metric["alertstate"], s.Values[0].Timestamp.Time()
			if f, ok := first[state]; !ok || at.Before(f) {
				first[state] = at
			}
		}
		return !first["firing"].IsZero()
	})
	if first["pending"].IsZero() || first["firing"].Sub(first["pending"]) < time.Second {
		m.t.Errorf("%s: want it pending for a second, and firing then: %v", name, first)
	}
}

// bounded wants an alert, of all that was evaluated up to now, to have been active exactly when the figure that it is of
// was above a limit, and both to have happened. The figure is what a recording rule of the same group gives.
func (m *monitor) bounded(name, figure string, limit float64) {
	m.t.Helper()
	m.evaluated(name)
	type moment struct {
		series string
		at     model.Time
	}
	active, last := map[moment]bool{}, model.Time(0)
	whose := func(s *model.SampleStream) string {
		return fmt.Sprint(s.Metric["job"], s.Metric["instance"], s.Metric["business_context"], s.Metric["protocol"])
	}
	all := m.query(fmt.Sprintf(`{__name__=~"ALERTS|%s"}[1h]`, figure))
	for _, s := range all {
		for _, v := range s.Values {
			last = max(last, v.Timestamp)
			if s.Metric["alertname"] == model.LabelValue(name) {
				active[moment{whose(s), v.Timestamp}] = true
			}
		}
	}
	below, above := 0, 0
	for _, s := range all {
		if s.Metric[model.MetricNameLabel] != model.LabelValue(figure) {
			continue
		}
		for _, v := range s.Values {
			at := moment{whose(s), v.Timestamp}
			is := active[at]
			delete(active, at)
			if v.Timestamp == last { // this evaluation may be under way
				continue
			}
			switch over := float64(v.Value) > limit; {
			case over != is:
				m.t.Errorf("%s of %s: %s is %v at %v, the limit %v, and the alert active: %v", name, at.series, figure, v.Value, at.at, limit, is)
			case over:
				above++
			case v.Value > 0:
				below++
			}
		}
	}
	for at := range active {
		if at.at != last {
			m.t.Errorf("%s is active at %v, without %s of %s", name, at.at, figure, at.series)
		}
	}
	if below == 0 || above == 0 {
		m.t.Errorf("%s: %s was below the limit %d times, and above %d times; want both", name, figure, below, above)
	}
}

// running runs a service until stop is called, or the test ends.
func running(t *testing.T, s service) (stop func()) {
	t.Helper()
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// modelServer runs a model server, which answers with a status if that is not 0, and returns it as an upstream.
func modelServer(t *testing.T, name string, status int) upstream.Upstream {
	t.Helper()
	c := llm.Defaults()
	c.Listen, c.DrainTimeout, c.Tokens = "127.0.0.1:0", 0, 4
	if status != 0 {
		c.Faults = []llm.FaultRate{{Fault: llm.Fault{Kind: llm.FaultKind(fmt.Sprint(status))}, Probability: 1}}
	}
	s, err := llm.New(c)
	if err != nil {
		t.Fatal(err)
	}
	running(t, s)
	u := upstream.DefaultUpstream()
	u.Name, u.URL, u.Models = name, "http://"+s.Addr().String()+"/v1", map[string]string{name: "dyno-1"}
	return u
}

// gateway runs a gateway that has two models, one of which is always in trouble.
func gateway(t *testing.T) (g *bot.Gateway, stop func()) {
	t.Helper()
	c := bot.Defaults()
	c.Listen, c.Admin, c.AllowNetworks = "127.0.0.1:0", "127.0.0.1:0", []string{"127.0.0.1"}
	c.Upstream.Upstreams = []upstream.Upstream{modelServer(t, "well", 0), modelServer(t, "broken", http.StatusInternalServerError)}
	c.Upstream.Attempts = 1
	g, err := bot.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return g, running(t, g)
}

// asking makes requests, one after another and not more often than said, until the test ends. It gets them from next,
// and fits says whether the last one may be answered so.
func asking(t *testing.T, pace time.Duration, next func(n int64) (*http.Request, error), fits func(status int) bool) {
	ctx, stop := context.WithCancel(context.Background())
	ended, transport := make(chan struct{}), &http.Transport{}
	client := &http.Client{Transport: transport}
	go func() {
		defer close(ended)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for n := int64(1); ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			request, err := next(n)
			if err != nil {
				t.Error(err)
				return
			}
			response, err := client.Do(request.WithContext(ctx))
			if err == nil {
				_, err = io.Copy(io.Discard, response.Body)
				err = errors.Join(err, response.Body.Close())
			}
			if ctx.Err() != nil {
				return
			}
			if err != nil || !fits(response.StatusCode) {
				t.Errorf("request %d to %s: %+v, %v", n, request.URL, response, err)
				return
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		transport.CloseIdleConnections()
	})
}

// TestAlerts has one Prometheus, which takes five seconds until it begins to scrape, for all alerts. Each part but the
// last leaves the services as they were.
func TestAlerts(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: has promtool simulate days")
	}
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skip("prometheus is not installed (the Debian package prometheus): scripts/setup.sh installs it")
	}
	g, stop := gateway(t)
	p := controlPlane(t)
	admin := g.AdminAddr().String()
	m := monitoring(t, map[string]string{"bot": admin, "control": p.AdminAddr().String(), "standin": shortPauses(t, bounds(t, admin, pauses))})
	t.Run("errors", func(t *testing.T) { testErrors(m.in(t), g) })
	t.Run("goroutines", func(t *testing.T) { testGoroutines(m.in(t), admin) })
	t.Run("pauses", func(t *testing.T) { testPauses(m.in(t), admin) })
	t.Run("control", func(t *testing.T) { testControl(m.in(t), p) })
	t.Run("down", func(t *testing.T) { testDown(m.in(t), admin, stop) })
}

// Of what a gateway answers, 0.25 % may be errors of its own, and 1 % may not. A tenth are errors of clients, which may be.
func testErrors(m *monitor, g *bot.Gateway) {
	var every atomic.Int64 // one of this many requests is for the model in trouble; 0 is none
	to, garbled := "", false
	at := "http://" + g.Addr().String() + "/v1/chat/completions"
	asking(m.t, 2*time.Millisecond, func(n int64) (*http.Request, error) {
		to, garbled = "well", n%10 == 9
		if e := every.Load(); e > 0 && n%e == 0 {
			to = "broken"
		}
		body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}]}`, to)
		if garbled {
			body = "{"
		}
		return http.NewRequest(http.MethodPost, at, strings.NewReader(body))
	}, func(status int) bool {
		switch {
		case garbled:
			return status == http.StatusBadRequest
		case to == "broken":
			return status >= http.StatusInternalServerError
		}
		return status == http.StatusOK
	})
	m.seen(`rate(bot_requests_total{job="bot",status="400"}[5s]) > 0`)
	m.inactive("ServiceErrors")
	every.Store(400)
	m.seen(`bot:errors:ratio_rate1m{job="bot"} > 0 and bot:errors:ratio_rate1m <= 0.005`)
	every.Store(100)
	m.firing(map[string]string{"alertname": "ServiceErrors", "severity": "critical", "job": "bot", "instance": g.AdminAddr().String()},
		`bot at 127\.0\.0\.1:\d+: \d(\.\d+)?% of what it is asked fails, more than 0\.5 %`)
	m.waited("ServiceErrors", "bot")
	m.bounded("ServiceErrors", "bot:errors:ratio_rate1m", 0.005)
}

// park starts n goroutines that wait until end is called, or the test ends.
func park(t *testing.T, n int) (end func()) {
	var parked sync.WaitGroup
	until := make(chan struct{})
	for range n {
		parked.Go(func() { <-until })
	}
	end = sync.OnceFunc(func() {
		close(until)
		parked.Wait()
	})
	t.Cleanup(end)
	return end
}

// A process may have 4,500 goroutines and those of a gateway, and may not have 5,100.
func testGoroutines(m *monitor, admin string) {
	park(m.t, 4500)
	m.seen(`go_goroutines{job="bot"} > 4500 < 5000`)
	m.inactive("ManyGoroutines")
	end := park(m.t, 600)
	m.firing(map[string]string{"alertname": "ManyGoroutines", "severity": "warning", "job": "bot", "instance": admin},
		`bot at 127\.0\.0\.1:\d+: 5[12]\d\d goroutines for a minute, above 5,000\. A goroutine for each connection is no leak`)
	m.waited("ManyGoroutines", "bot")
	end()
	m.calm("ManyGoroutines")
}

// bounds returns the buckets that a service exports for a histogram.
func bounds(t *testing.T, admin, name string) (list []float64) {
	t.Helper()
	response, err := http.Get("http://" + admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil || len(families[name].GetMetric()) != 1 {
		t.Fatalf("%s: %v, %v", name, families[name], err)
	}
	for _, b := range families[name].GetMetric()[0].GetHistogram().GetBucket() {
		list = append(list, b.GetUpperBound())
	}
	return list
}

// pauses is the metric of the collector's pauses.
const pauses = "go_sched_pauses_total_gc_seconds"

// shortPauses stands in for a service whose pauses are short, with the name and the buckets of the real histogram, and
// returns its address. Real ones are not to be relied on to be short where a machine is busy. At each scrape it has 199
// more of 5 ms, and one of 50 ms.
func shortPauses(t *testing.T, buckets []float64) string {
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: pauses, Help: "Stands in for the Go runtime's.", Buckets: buckets})
	registry := prometheus.NewRegistry()
	registry.MustRegister(histogram)
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 199 {
			histogram.Observe(0.005)
		}
		histogram.Observe(0.05)
		metrics.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// Pauses above 20 ms are the gateway's own: the collector, which stops everything for a moment, waits for a hash of 32 MB,
// which is one call of assembly that the runtime cannot interrupt.
func testPauses(m *monitor, admin string) {
	m.seen(`service:gc_pause_seconds:p99{job="standin"} > 0.005`)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		text := make([]byte, 32<<20)
		for pace := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-stop:
				pace.Stop()
				return
			case <-pace.C:
			}
			begun, hashed := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(hashed)
				close(begun)
				sha512.Sum512(text)
			}()
			<-begun
			runtime.GC()
			<-hashed
		}
	}()
	end := sync.OnceFunc(func() {
		close(stop)
		<-ended
	})
	m.t.Cleanup(end)
	m.firing(map[string]string{"alertname": "LongGCPauses", "severity": "warning", "job": "bot", "instance": admin},
		`bot at 127\.0\.0\.1:\d+: GC pauses with a p99 of \d+(\.\d+)?ms, above 20 ms`)
	end()
	m.bounded("LongGCPauses", "service:gc_pause_seconds:p99", 0.02)
	if s := m.query(`ALERTS{alertname="LongGCPauses",job="standin"}[1h]`); len(s) > 0 {
		m.t.Errorf("short pauses are alerted: %v", s)
	}
}

// late is a part of a body that comes late, and has nothing in it.
type late time.Duration

func (l late) Read([]byte) (int, error) {
	<-time.After(time.Duration(l))
	return 0, io.EOF
}

// controlPlane runs a control plane.
func controlPlane(t *testing.T) *control.Server {
	t.Helper()
	c := control.Defaults()
	c.Listen, c.GRPC, c.Admin = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.Store.Dir, c.Store.NoSync = t.TempDir(), true
	p, err := control.New(c)
	if err != nil {
		t.Fatal(err)
	}
	running(t, p)
	return p
}

// Changes of policies are slow, here because those who make them are slow to send them. That is
// alerted, and discovery, which goes on at the same time, is not.
func testControl(m *monitor, p *control.Server) {
	at := "http://" + p.Addr().String()
	ok := func(status int) bool { return status < http.StatusMultipleChoices }
	asking(m.t, 20*time.Millisecond, func(n int64) (*http.Request, error) {
		return http.NewRequest(http.MethodGet, at+[]string{"/v1/services", "/v1/policies"}[n%2], nil)
	}, ok)
	for _, what := range []string{"discovery", "policy"} {
		m.seen(fmt.Sprintf(`control:request_seconds:p95{job="control",business_context=%q,protocol="http"} <= 0.8`, what))
	}
	for i := range 20 { // some 16 changes a second next to 25 that are fast: far more than one in twenty
		asking(m.t, 20*time.Millisecond, func(int64) (*http.Request, error) {
			body := io.MultiReader(strings.NewReader("{"), late(1200*time.Millisecond), strings.NewReader(`"rules":[]}`))
			return http.NewRequest(http.MethodPut, fmt.Sprint(at, "/v1/policies/p", i), body)
		}, ok)
	}
	m.firing(map[string]string{"alertname": "ControlSlow", "severity": "warning", "job": "control", "instance": p.AdminAddr().String(), "business_context": "policy", "protocol": "http"},
		`policy over http at 127\.0\.0\.1:\d+: p95 of \d(\.\d+)?s, above 800 ms`)
	m.waited("ControlSlow", "control")
	m.bounded("ControlSlow", "control:request_seconds:p95", 0.8)
}

// A gateway that has gone is alerted.
func testDown(m *monitor, admin string, stop func()) {
	m.seen(`up{job="bot"} == 1`)
	m.calm("ServiceDown") // one scrape may have failed on a busy machine
	stop()
	m.firing(map[string]string{"alertname": "ServiceDown", "severity": "critical", "job": "bot", "instance": admin},
		`bot at 127\.0\.0\.1:\d+ has not answered for a minute`)
	m.waited("ServiceDown", "bot")
}
