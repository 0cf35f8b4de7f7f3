package push

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"dyno/load/engine/record"
	"dyno/results/rundir"
)

// A receiver answers requests without a network.
type receiver struct {
	mu       sync.Mutex // guards what follows
	requests []*http.Request
	bodies   [][]byte
	at       []time.Duration // since the first one
	started  time.Time
	answer   func(n int, r *http.Request) (*http.Response, error) // by number, from 0
}

func (r *receiver) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	n := len(r.requests)
	if n == 0 {
		r.started = time.Now()
	}
	r.requests, r.bodies, r.at = append(r.requests, request), append(r.bodies, body), append(r.at, time.Since(r.started))
	answer := r.answer
	r.mu.Unlock()
	return answer(n, request)
}

func status(code int, header ...string) (*http.Response, error) {
	r := &http.Response{StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), Header: http.Header{}, Body: io.NopCloser(strings.NewReader("why\nnot"))}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r, nil
}

// silent never answers.
func silent(_ int, r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func start(t *testing.T, r *receiver, change func(*Config)) *Sender {
	t.Helper()
	c := Config{Protocol: Influx, URL: "http://127.0.0.1:8086/write?db=d", Transport: r}
	if change != nil {
		change(&c)
	}
	s, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// numbered is a sample that can be distinguished.
func numbered(n int) Sample {
	m := allMetrics()
	return Sample{Time: epoch().Add(time.Duration(n) * time.Second), Points: []Point{{Metric: &m.good, Value: float64(n)}}}
}

// within closes a sender with a deadline.
func within(s *Sender, d time.Duration) Outcome {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return s.Close(ctx)
}

func TestSenderRequests(t *testing.T) {
	for _, c := range []struct {
		protocol Protocol
		url      string
		want     string // URL
		headers  map[string]string
	}{
		{Prometheus, "http://127.0.0.1:9090", "http://127.0.0.1:9090/api/v1/write", map[string]string{
			"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy", "X-Prometheus-Remote-Write-Version": "0.1.0", "User-Agent": "dyno"}},
		{Prometheus, "http://mimir/api/v1/push", "http://mimir/api/v1/push", nil},
		{OTLP, "http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/metrics", map[string]string{"Content-Type": "application/x-protobuf", "Content-Encoding": ""}},
		{Influx, "http://127.0.0.1:8086/api/v2/write?org=o&bucket=b", "http://127.0.0.1:8086/api/v2/write?org=o&bucket=b", map[string]string{"Content-Type": "text/plain; charset=utf-8"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &receiver{answer: func(int, *http.Request) (*http.Response, error) { return status(204) }}
			s := start(t, r, func(to *Config) {
				to.Protocol, to.URL = c.protocol, c.url
				to.Header = http.Header{"Authorization": {"Bearer x"}, "Content-Type": {"overridden"}}
			})
			for _, sample := range twoSamples() {
				s.Put(sample)
			}
			if o := within(s, time.Second); o != (Outcome{Sent: 3}) {
				t.Errorf("%s: %+v", c.url, o)
			}
			got := r.requests[0]
			if got.Method != http.MethodPost || got.URL.String() != c.want || got.Header.Get("Authorization") != "Bearer x" {
				t.Errorf("%s %s with %v, want %s", got.Method, got.URL, got.Header, c.want)
			}
			for name, want := range c.headers {
				if got.Header.Get(name) != want {
					t.Errorf("%s: %s is %q, want %q", c.url, name, got.Header.Get(name), want)
				}
			}
			read := map[Protocol]func(fataler, []byte) []value{Prometheus: readRemoteWrite, OTLP: readOTLP, Influx: readLines}[c.protocol]
			values := 0
			for _, body := range r.bodies {
				values += len(read(t, body))
			}
			if want := map[Protocol]int{Prometheus: 9, OTLP: 9, Influx: 6}[c.protocol]; values != want {
				t.Errorf("%s: %d values arrived, want %d", c.url, values, want)
			}
		})
	}
}

// A request is repeated where that may help, after pauses that grow, and no oftener than
// allowed.
func TestSenderRepeats(t *testing.T) {
	refused := errors.New("connection refused")
	for _, c := range []struct {
		name     string
		protocol Protocol
		answers  []int // 0: no connection; the last one goes on
		requests int
		want     Outcome
	}{
		{"nobody there", Influx, []int{0}, 5, Outcome{GivenUp: 1, Err: refused}},
		{"back again", Influx, []int{0, 503, 204}, 3, Outcome{Sent: 1}},
		{"too many", Prometheus, []int{429, 200}, 2, Outcome{Sent: 1}},
		{"out of order", Prometheus, []int{400}, 1, Outcome{Refused: 1, Err: errors.New(`400 Bad Request: "why"`)}},
		{"elsewhere", Prometheus, []int{301}, 1, Outcome{Refused: 1, Err: errors.New(`301 Moved Permanently: "why"`)}},
		{"broken", Prometheus, []int{500, 200}, 2, Outcome{Sent: 1}},
		{"broken", OTLP, []int{500}, 1, Outcome{Refused: 1, Err: errors.New(`500 Internal Server Error: "why"`)}},
		{"overloaded", OTLP, []int{503, 502, 504, 429, 200}, 5, Outcome{Sent: 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &receiver{answer: func(n int, _ *http.Request) (*http.Response, error) {
				if code := c.answers[min(n, len(c.answers)-1)]; code != 0 {
					return status(code)
				}
				return nil, refused
			}}
			s := start(t, r, func(to *Config) { to.Protocol = c.protocol })
			s.Put(numbered(1))
			got := within(s, time.Hour)
			if fmt.Sprint(got) != fmt.Sprint(c.want) || len(r.requests) != c.requests {
				t.Errorf("%s to %s: %+v after %d requests, want %+v after %d", c.name, c.protocol, got, len(r.requests), c.want, c.requests)
			}
			pause, last := minBackoff, time.Duration(0)
			for n, at := range r.at[1:] {
				if wait := at - last; wait < pause/2 || wait > pause {
					t.Errorf("%s: pause %d was %v, want %v to %v", c.name, n+1, wait, pause/2, pause)
				}
				pause, last = min(2*pause, maxBackoff), at
			}
		})
	}
}

// A receiver that asks to be left alone is, within reason.
func TestSenderRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(n int, _ *http.Request) (*http.Response, error) {
			switch n {
			case 0:
				return status(429, "Retry-After", "7")
			case 1:
				return status(503, "Retry-After", "86400")
			}
			return status(204)
		}}
		s := start(t, r, nil)
		s.Put(numbered(1))
		if o := within(s, time.Hour); o != (Outcome{Sent: 1}) {
			t.Errorf("%+v", o)
		}
		if len(r.at) != 3 || r.at[1] != 7*time.Second || r.at[2] != r.at[1]+maxRetryAfter {
			t.Errorf("requests at %v, want pauses of 7 s and %v", r.at, maxRetryAfter)
		}
	})
}

// Credentials go to the receiver that was named, and nowhere it points to.
func TestSenderIsNotRedirected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(n int, _ *http.Request) (*http.Response, error) {
			if n == 0 {
				return status(307, "Location", "http://elsewhere/")
			}
			return status(204)
		}}
		s := start(t, r, func(c *Config) { c.Header = http.Header{"Authorization": {"Bearer x"}} })
		s.Put(numbered(1))
		if o := within(s, time.Second); o.Refused != 1 || len(r.requests) != 1 {
			t.Errorf("%+v after %d requests, want one that was refused", o, len(r.requests))
		}
	})
}

// Points that are refused in a response of 200 are reported.
func TestSenderPartialSuccess(t *testing.T) {
	body, err := proto.Marshal(&collector.ExportMetricsServiceResponse{
		PartialSuccess: &collector.ExportMetricsPartialSuccess{RejectedDataPoints: 2, ErrorMessage: "too old"},
	})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(int, *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Status: "200 OK", Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(body)))}, nil
		}}
		s := start(t, r, func(c *Config) { c.Protocol = OTLP })
		s.Put(numbered(1))
		if o := within(s, time.Second); o.Sent != 1 || o.Err == nil || !strings.Contains(o.Err.Error(), `2 points were refused: "too old"`) {
			t.Errorf("%+v", o)
		}
	})
}

// A receiver that does not answer takes no time from who measures. What does not fit
// is dropped, the oldest first, and everything is accounted for.
func TestSenderNeverDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: silent}
		s := start(t, r, nil)
		m := NewMeter(Run{"r", "e"}, s.Put)
		m.Begin(Trial{"v", 1, 1})
		begun := time.Now()
		synctest.Wait() // the first sample is on its way
		m.Interval(record.Interval{Length: time.Second}, rundir.Counts{})
		const more = 100_000
		for range more {
			m.Interval(record.Interval{Length: time.Second}, rundir.Counts{})
		}
		m.End(rundir.Counts{}, nil)
		if took := time.Since(begun); took != 0 {
			t.Errorf("a silent receiver took %v of the measurement", took)
		}
		begun = time.Now()
		o := within(s, 5*time.Second)
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("closing took %v, want what it was given", took)
		}
		// One sample was being sent. The beginning, the first second, the totals and the end of the series are four in
		// addition to more.
		if o.Sent != 0 || o.GivenUp != 1+maxQueue || o.Dropped != more+3-maxQueue || o.Lost() != more+4 {
			t.Errorf("%+v", o)
		}
		s.Put(numbered(0)) // too late, and harmless
	})
}

// Whatever a receiver does, each sample has one outcome, and what arrives is in order.
func TestSenderAccounts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		codes := rapid.SliceOfN(rapid.SampledFrom([]int{0, 200, 204, 301, 400, 429, 500, 503}), 1, 20).Draw(rt, "answers")
		gaps := rapid.SliceOfN(rapid.IntRange(0, 3000), 1, 20).Draw(rt, "gaps")
		burst := rapid.IntRange(1, maxQueue/3).Draw(rt, "burst")
		patience := time.Duration(rapid.IntRange(0, 60_000).Draw(rt, "patience")) * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			var accepted [][]byte
			r := &receiver{}
			r.answer = func(n int, _ *http.Request) (*http.Response, error) {
				code := codes[n%len(codes)]
				if code == 0 {
					return nil, errors.New("reset")
				}
				if code/100 == 2 {
					accepted = append(accepted, r.bodies[n])
				}
				return status(code)
			}
			s := start(t, r, nil)
			for n, ms := range gaps {
				for i := range burst {
					s.Put(numbered(n*burst + i))
				}
				<-time.After(time.Duration(ms) * time.Millisecond)
			}
			o := within(s, patience)
			if total := o.Sent + o.Lost(); total != uint64(len(gaps)*burst) {
				t.Errorf("%+v: %d outcomes of %d samples", o, total, len(gaps)*burst)
			}
			arrived, last := uint64(0), int64(-1)
			for _, body := range accepted {
				for _, v := range readLines(t, body) {
					if v.ns <= last {
						t.Errorf("out of order")
					}
					last = v.ns
					arrived++
				}
			}
			if arrived != o.Sent {
				t.Errorf("%+v, and %d arrived", o, arrived)
			}
		})
	})
}

func TestValidate(t *testing.T) {
	for url, want := range map[string]string{
		"http://u:secret@h/":            "a user or a password",
		"http://h/write?u=a&p=secret":   "a user or a password",
		"http://h:8086":                 "the path is missing",
		"http://h:secret/":              "not a URL",
		"http://h/write?db=d#secret":    "after #",
		"ftp://secret":                  "want http://host:port/path",
		"http://%zzsecret/write?db=abc": "not a URL",
	} {
		c := Config{Protocol: Influx, URL: url}
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q and no secret", url, err, want)
		}
		if _, err := Start(c); err == nil {
			t.Errorf("%s: started", url)
		}
	}
	if err := (Config{Protocol: "statsd", URL: "http://h/"}).Validate(); err == nil || err.Error() != `protocol: "statsd": want one of ["prometheus" "otlp" "influx"]` {
		t.Error(err)
	}
}

// A taker takes samples as a part of this program.
type taker struct {
	write  func(n int) error // by number, from 1
	taken  int
	closed atomic.Bool
}

func (r *taker) Write(Sample) error {
	r.taken++
	return r.write(r.taken)
}

func (r *taker) Close() error {
	r.closed.Store(true)
	return nil
}

// A receiver gets all samples, whatever became of those before. One that is slow loses those that do not fit into the
// queue; one that is still busy at the end is left behind.
func TestReceiver(t *testing.T) {
	wrong := errors.New("wrong")
	for name, tt := range map[string]struct {
		slow   map[int]time.Duration // how long the nth sample takes
		failed int                   // the nth fails
		puts   int
		want   Outcome
		closed bool
	}{
		"some are refused": {nil, 2, 3, Outcome{Sent: 2, Refused: 1, Err: wrong}, true},
		"slow":             {map[int]time.Duration{1: time.Second}, 0, maxQueue + 11, Outcome{Sent: maxQueue + 1, Dropped: 10}, true},
		"stuck":            {map[int]time.Duration{2: time.Hour}, 0, maxQueue + 11, Outcome{Sent: 1, Dropped: 9, GivenUp: maxQueue + 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &taker{write: func(n int) error {
					time.Sleep(tt.slow[n])
					if n == tt.failed {
						return wrong
					}
					return nil
				}}
				s, err := Start(Config{Protocol: "own", URL: "there", Open: func(target string) (Receiver, error) {
					if target != "there" {
						t.Errorf("%s is opened", target)
					}
					return r, nil
				}})
				if err != nil {
					t.Fatal(err)
				}
				for range tt.puts {
					s.Put(Sample{})
					if s.outcome.Dropped == 0 { // it is being taken, or waits
						synctest.Wait()
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				got := s.Close(ctx)
				if got != tt.want {
					t.Errorf("%+v, want %+v", got, tt.want)
				}
				if r.closed.Load() != tt.closed {
					t.Errorf("closed: %t", !tt.closed)
				}
				time.Sleep(2 * time.Hour) // it ends some time
			})
		})
	}
	if _, err := Start(Config{Protocol: "own", Open: func(string) (Receiver, error) { return nil, wrong }}); !errors.Is(err, wrong) || !strings.Contains(err.Error(), "own: ") {
		t.Error(err)
	}
}
