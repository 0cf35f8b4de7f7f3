package generator

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dyno/lab/plan"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/options"
	"dyno/load/pace"
)

func httpVariant(change func(*plan.Variant)) *plan.Variant {
	v := plan.DefaultVariant(plan.HTTP)
	v.Target.URL = "http://127.0.0.1:8080/path?q=1"
	v.Target.Complete()
	v.Load.Closed = &plan.Closed{Connections: 10}
	change(&v)
	return &v
}

func tcpVariant(change func(*plan.Variant)) *plan.Variant {
	v := plan.DefaultVariant(plan.TCP)
	v.Target.Address = "[::1]:7000"
	v.Load.Closed = &plan.Closed{Connections: 10}
	change(&v)
	return &v
}

func TestEngineConfig(t *testing.T) {
	base := config.Config{
		Network: "tcp", Address: "127.0.0.1:8080", Seed: 7, Connections: 10, Threads: options.Threads{Workers: 1},
		Warmup: 2 * time.Second, Window: 10 * time.Second, Timeouts: options.Timeouts{Timeout: 30 * time.Second, ConnectTimeout: 5 * time.Second},
		MaxBackoff: time.Second, Intervals: record.Intervals{Interval: 100 * time.Millisecond},
	}
	for _, c := range []struct {
		name   string
		change func(*plan.Variant)
		want   func(*config.Config)
	}{
		{"defaults", func(*plan.Variant) {}, func(*config.Config) {}},
		{"times", func(v *plan.Variant) {
			v.Load.Warmup, v.Load.Window, v.Load.Timeout, v.Load.ConnectTimeout = 1, 2, 3e6, 4e6
			v.Load.Reconnect.MaxBackoff = 5
		}, func(c *config.Config) {
			c.Warmup, c.Window, c.Timeout, c.ConnectTimeout, c.MaxBackoff = 1, 2, 3e6, 4e6, 5
		}},
		{"unix", func(v *plan.Variant) { v.Target.Address = "unix:/run/x.sock" },
			func(c *config.Config) { c.Network, c.Address = "unix", "/run/x.sock" }},
		{"a worker for each CPU", func(v *plan.Variant) { v.Load.CPUs = []int{1, 3} },
			func(c *config.Config) { c.CPUs, c.Workers = []int{1, 3}, 2 }},
		{"workers as given", func(v *plan.Variant) { v.Load.CPUs, v.Load.Workers = []int{1, 3}, 5 },
			func(c *config.Config) { c.CPUs, c.Workers = []int{1, 3}, 5 }},
		{"no worker without a connection", func(v *plan.Variant) { v.Load.CPUs, v.Load.Closed.Connections = []int{1, 3}, 1 },
			func(c *config.Config) { c.CPUs, c.Workers, c.Connections = []int{1, 3}, 1, 1 }},
		{"constant think time", func(v *plan.Variant) {
			v.Load.Closed.Think = pace.Think{Constant: 5}
		}, func(c *config.Config) { c.Think = pace.Think{Constant: 5} }},
		{"uniform think time", func(v *plan.Variant) {
			v.Load.Closed.Think = pace.Think{Uniform: &pace.Span{From: 1, To: 2}}
		}, func(c *config.Config) { c.Think = pace.Think{Uniform: &pace.Span{From: 1, To: 2}} }},
		{"exponential think time", func(v *plan.Variant) {
			v.Load.Closed.Think = pace.Think{Exponential: 5}
		}, func(c *config.Config) { c.Think = pace.Think{Exponential: 5} }},
		{"a number of requests", func(v *plan.Variant) { v.Load.Requests, v.Load.Window = 1000, 0 },
			func(c *config.Config) { c.Requests, c.Window = 1000, 0 }},
		{"a long window", func(v *plan.Variant) { v.Load.Window = time.Minute },
			func(c *config.Config) { c.Window = time.Minute }},
		{"a very long one", func(v *plan.Variant) { v.Load.Warmup, v.Load.Window = 0, time.Hour },
			func(c *config.Config) { c.Warmup, c.Window, c.Interval = 0, time.Hour, 879*time.Millisecond }},
		{"very many requests", func(v *plan.Variant) { v.Load.Requests, v.Load.Window = 2_000_000, 0 },
			func(c *config.Config) { c.Requests, c.Window, c.Interval = 2_000_000, 0, time.Second }},
		{"open", func(v *plan.Variant) {
			v.Load.Closed = nil
			v.Load.Open = &plan.Open{Rate: 50, Arrivals: plan.ArrivalsConstant, MaxConnections: 20, Waiting: options.Waiting{MaxWaiting: 30}}
		}, func(c *config.Config) { c.Connections, c.MaxWaiting = 20, 30 }},
	} {
		v := httpVariant(c.change)
		got, _, err := Config(t.Context(), v, 7)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		want := base
		c.want(&want)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(config.Config{}, "NewClients", "Schedule")); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if (got.Schedule != nil) != (v.Load.Open != nil) {
			t.Errorf("%s: schedule %v", c.name, got.Schedule)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestSchedule(t *testing.T) {
	arrivals := func(change func(*plan.Load)) (at []time.Duration) {
		t.Helper()
		v := httpVariant(func(v *plan.Variant) {
			v.Load.Closed, v.Load.Open = nil, plan.DefaultOpen()
			change(&v.Load)
		})
		c, _, err := Config(t.Context(), v, 7)
		if err != nil {
			t.Fatal(err)
		}
		cursor := c.Schedule.Split(0, 1)
		for _, next, ok := cursor.Next(); ok && next < c.Warmup+c.Window; _, next, ok = cursor.Next() {
			at = append(at, next)
		}
		return at
	}
	steady := arrivals(func(l *plan.Load) { l.Open.Rate = 10 })
	if len(steady) != 120 || steady[1]-steady[0] != 100*time.Millisecond {
		t.Errorf("10/s over 12 s are %d arrivals, the first two %v apart", len(steady), steady[1]-steady[0])
	}
	// A ramp of 2 s has half as many arrivals, and a rate from its end on.
	ramped := arrivals(func(l *plan.Load) { l.Open.Rate, l.Open.Ramp = 10, 2*time.Second })
	if n := len(ramped); n != 110 || ramped[n-1]-ramped[n-100] != 9900*time.Millisecond || ramped[1] < 300*time.Millisecond {
		t.Errorf("%d arrivals with a ramp: %v", n, ramped)
	}
	// The warm-up goes at the rate with which the first stage begins.
	staged := arrivals(func(l *plan.Load) {
		l.Window = 3 * time.Second
		l.Stages = []plan.Stage{{Duration: time.Second, From: 10, To: 10}, {Duration: 2 * time.Second, From: 10, To: 30}}
	})
	if len(staged) != 20+10+40 || staged[0] != 0 || staged[19] != 1900*time.Millisecond {
		t.Errorf("%d arrivals: %v", len(staged), staged)
	}
	// Without one, the first stage begins at once.
	cold := arrivals(func(l *plan.Load) {
		l.Warmup, l.Window = 0, time.Second
		l.Stages = []plan.Stage{{Duration: time.Second, From: 10, To: 10}}
	})
	if len(cold) != 10 {
		t.Errorf("%d arrivals without a warm-up", len(cold))
	}
	poisson := func(l *plan.Load) { l.Open.Rate, l.Open.Arrivals = 10, plan.ArrivalsPoisson }
	if a := arrivals(poisson); cmp.Equal(a, steady) || !cmp.Equal(a, arrivals(poisson)) {
		t.Error("Poisson arrivals must differ from constant ones, and not from themselves")
	}
}

// URL and plan decide the version of HTTP.
func TestProtocolChoice(t *testing.T) {
	for _, c := range []struct {
		url, use string
		one, two bool
		alpn     string
	}{
		{"http://h/", plan.HTTP2Auto, true, false, ""},
		{"http://h/", plan.HTTP2Never, true, false, ""},
		{"http://h/", plan.HTTP2Always, false, true, ""},
		{"https://h/", plan.HTTP2Auto, true, true, "h2 http/1.1"},
		{"https://h/", plan.HTTP2Never, true, false, "http/1.1"},
		{"https://h/", plan.HTTP2Always, false, true, "h2"},
	} {
		got, _, err := Config(t.Context(), httpVariant(func(v *plan.Variant) {
			v.Target.URL = c.url
			v.Load.HTTP2 = &plan.HTTP2{Use: c.use, Streams: 8, StreamWindow: 1 << 16}
			v.Load.RequestsPerConnection = 5
		}), 1)
		if err != nil {
			t.Errorf("%s, %s: %v", c.url, c.use, err)
			continue
		}
		if (got.NewClients != nil) != c.one || (got.NewMuxes != nil) != c.two || got.ExchangesPerConnection != 5 {
			t.Errorf("%s, %s: %+v", c.url, c.use, got)
		}
		if c.two != (got.Streams == 8) {
			t.Errorf("%s, %s: %d streams", c.url, c.use, got.Streams)
		}
		switch secure := strings.HasPrefix(c.url, "https:"); {
		case secure != (got.TLS != nil):
			t.Errorf("%s, %s: TLS %+v", c.url, c.use, got.TLS)
		case secure:
			if s := got.TLS; strings.Join(s.ALPN, " ") != c.alpn || s.ServerName != "h" || strings.Join(s.Groups, " ") != "x25519 secp256r1" {
				t.Errorf("%s, %s: %+v", c.url, c.use, s)
			}
		}
		got.Requests = 1
		if err := got.Validate(); err != nil {
			t.Errorf("%s, %s: %v", c.url, c.use, err)
		}
	}
	_, _, err := Config(t.Context(), httpVariant(func(v *plan.Variant) {
		v.Target.URL, v.Target.TLS = "https://h/", &plan.TLS{CA: filepath.Join(t.TempDir(), "none")}
	}), 1)
	if err == nil || !strings.Contains(err.Error(), "target.tls.ca: ") {
		t.Errorf("a file that is not there: %v", err)
	}
	_, _, err = Config(t.Context(), httpVariant(func(v *plan.Variant) {
		v.Target.URL, v.Target.TLS = "https://h/", &plan.TLS{Groups: []string{"x"}}
	}), 1)
	if err == nil || !strings.Contains(err.Error(), "target.tls: ") {
		t.Errorf("a group that is not known: %v", err)
	}
}

// Only an open loop on CPUs of its own polls before it starts a request.
func TestSpin(t *testing.T) {
	process := func(cpus ...int) plan.Process { return plan.Process{Start: []string{"x"}, CPUs: cpus} }
	for _, c := range []struct {
		name      string
		generator []int
		target    plan.Process
		service   plan.Process
		want      bool
	}{
		{"apart", []int{1}, process(0), process(0), true},
		{"target runs already", []int{1}, plan.Process{}, process(0), true},
		{"generator not placed", nil, process(0), process(0), false},
		{"target not placed", []int{1}, process(), process(0), false},
		{"shared with the target", []int{1, 2}, process(0, 2), process(0), false},
		{"shared with a service", []int{1}, process(0), process(1), false},
	} {
		for _, open := range []bool{true, false} {
			v := tcpVariant(func(v *plan.Variant) {
				v.Load.CPUs, v.Target.Process = c.generator, c.target
				v.Services = []plan.Service{{Name: "s", Process: c.service}}
				if open {
					v.Load.Closed, v.Load.Open = nil, plan.DefaultOpen()
					v.Load.Open.Rate = 10
				}
			})
			got, _, err := Config(t.Context(), v, 0)
			if err != nil {
				t.Fatal(err)
			}
			if (got.Spin > 0) != (c.want && open) {
				t.Errorf("%s, open loop %v: polls for %v", c.name, open, got.Spin)
			}
		}
	}
}
