package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Protocol is a way to send samples.
type Protocol string

// The protocols.
const (
	Prometheus Protocol = "prometheus" // remote write 1.0, to …/api/v1/write
	OTLP       Protocol = "otlp"       // metrics over HTTP in binary protobuf, to …/v1/metrics
	Influx     Protocol = "influx"     // line protocol, to …/api/v2/write?org=…&bucket=… or …/write?db=…
)

// Protocols returns all protocols.
func Protocols() []Protocol { return []Protocol{Prometheus, OTLP, Influx} }

// The paths for a URL without one.
const (
	prometheusPath = "/api/v1/write"
	otlpPath       = "/v1/metrics"
)

// The bounds.
const (
	maxBatch      = 100  // samples in one request; a sample is about 30 points
	maxQueue      = 600  // samples that wait: ten minutes at one a second
	maxAnswer     = 4096 // bytes of a response that are read
	maxAttempts   = 5    // of a request; then its samples are given up
	timeout       = 10 * time.Second
	minBackoff    = 500 * time.Millisecond // the pause after the first attempt, which doubles; half of it is random
	maxBackoff    = 10 * time.Second
	maxRetryAfter = time.Minute // a receiver's Retry-After replaces the pause up to this
)

// A Config says where samples are sent.
type Config struct {
	Protocol Protocol
	URL      string      // of the receiver; a path that is missing is the protocol's own
	Header   http.Header // of every request, such as for credentials

	// Transport makes the requests; nil is net/http's own, as the environment's proxies
	// have it.
	Transport http.RoundTripper

	// Open, if not nil, opens a Receiver at the URL, or whatever that is. It takes the place of requests.
	Open func(url string) (Receiver, error)
}

// A Receiver is a part of this program that takes samples, in their order. One goroutine calls its methods. While it is
// busy, samples wait in the sender's queue. A sender that must end leaves it behind if it is still busy.
type Receiver interface {
	Write(s Sample) error // after an error the next sample is written nevertheless
	Close() error         // after the last sample
}

// Validate reports a fault.
func (c Config) Validate() error {
	_, err := c.endpoint()
	return err
}

// endpoint returns the receiver's complete URL. Its errors do not show parts that could
// be a secret.
func (c Config) endpoint() (*url.URL, error) {
	if c.Open != nil {
		return nil, nil
	}
	u, err := url.Parse(c.URL)
	switch {
	case !slices.Contains(Protocols(), c.Protocol):
		return nil, fmt.Errorf("protocol: %q: want one of %q", c.Protocol, Protocols())
	case err != nil:
		return nil, errors.New("url: not a URL; want http://host:port/path")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("url: want http://host:port/path, or https")
	case u.User != nil || u.Query().Has("p") || u.Query().Has("u"):
		return nil, errors.New("url: it contains a user or a password; want them in a header")
	case u.Fragment != "":
		return nil, errors.New("url: want no part after #")
	}
	if u.Path == "" || u.Path == "/" {
		switch c.Protocol {
		case Prometheus:
			u.Path = prometheusPath
		case OTLP:
			u.Path = otlpPath
		case Influx:
			return nil, errors.New("url: the path is missing; want /api/v2/write?org=ORG&bucket=BUCKET, or /write?db=DB for version 1")
		}
	}
	return u, nil
}

// Receiver returns the receiver's URL without the query.
func (c Config) Receiver() string {
	u, err := c.endpoint()
	if err != nil || u == nil {
		return string(c.Protocol)
	}
	return string(c.Protocol) + " at " + u.Scheme + "://" + u.Host + u.Path
}

// An Outcome says what happened to the samples. Each sample is in exactly one of the
// counts.
type Outcome struct {
	Sent    uint64 // were accepted
	Dropped uint64 // did not fit in the queue any more
	Refused uint64 // were refused by the receiver
	GivenUp uint64 // could not be sent in the attempts there are, or in the time there was at the end
	Err     error  // the last thing that went wrong; nil when nothing did
}

// Lost is how many samples were not accepted.
func (o Outcome) Lost() uint64 { return o.Dropped + o.Refused + o.GivenUp }

// A Sender sends samples in their order. Put may be called by any goroutine.
type Sender struct {
	config Config
	url    string
	client *http.Client
	random *rand.Rand // the sending goroutine's
	to     Receiver   // in place of the client; or nil

	ctx    context.Context // ends what is under way
	cancel context.CancelFunc
	done   chan struct{} // closed when the sending goroutine has ended
	queue  chan Sample

	mu      sync.Mutex // guards what follows, and putting into the queue
	closed  bool       // the queue
	taken   uint64     // samples, by Put
	outcome Outcome
}

// Start starts a sender. It connects to nothing yet. Close must be called.
func Start(c Config) (*Sender, error) {
	u, err := c.endpoint()
	if err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	transport := c.Transport
	if transport == nil {
		// The connection pool belongs to the sender and ends with it.
		transport = &http.Transport{Proxy: http.ProxyFromEnvironment, MaxConnsPerHost: 1, IdleConnTimeout: time.Minute}
	}
	s := &Sender{
		config: c,
		client: &http.Client{
			Transport: transport,
			// Credentials are only for the receiver that was named.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		random: rand.New(rand.NewPCG(1, 0x70757368)), //nolint:gosec // jitter is no secret
		done:   make(chan struct{}),
		queue:  make(chan Sample, maxQueue),
	}
	if u != nil {
		s.url = u.String()
	} else if s.to, err = c.Open(c.URL); err != nil {
		return nil, fmt.Errorf("push: %s: %w", c.Protocol, err)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go s.run()
	return s, nil
}

// Put queues a sample and returns at once. When the queue is full, the oldest sample is
// dropped. After Close it counts the sample as given up.
func (s *Sender) Put(sample Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken++
	if s.closed {
		s.outcome.GivenUp++
		return
	}
	for {
		select {
		case s.queue <- sample:
			return
		default:
		}
		select {
		case <-s.queue:
			s.outcome.Dropped++
		default: // the sending goroutine has made room
		}
	}
}

// Close sends the queued samples until ctx ends, gives up the rest, and returns the
// outcome of all samples.
func (s *Sender) Close(ctx context.Context) Outcome {
	s.mu.Lock()
	s.closed = true
	close(s.queue)
	s.mu.Unlock()
	select {
	case <-s.done:
	case <-ctx.Done():
		s.cancel()
		if s.to == nil { // else nothing ends what it does
			<-s.done
		}
	}
	s.cancel()
	s.client.CloseIdleConnections()
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.outcome
	o.GivenUp += s.taken - o.Sent - o.Lost() // what a receiver that was left behind has not taken
	return o
}

// run sends until the queue is closed and empty.
func (s *Sender) run() {
	defer close(s.done)
	if s.to != nil {
		s.hand()
		return
	}
	for first := range s.queue {
		batch := []Sample{first}
		for len(batch) < maxBatch && len(s.queue) > 0 {
			batch = append(batch, <-s.queue)
		}
		s.deliver(batch)
	}
}

// hand hands samples to the receiver until the queue is closed and empty.
func (s *Sender) hand() {
	for sample := range s.queue {
		counter, err := &s.outcome.GivenUp, error(nil)
		if s.ctx.Err() == nil {
			if counter, err = &s.outcome.Sent, s.to.Write(sample); err != nil {
				counter = &s.outcome.Refused
			}
		}
		s.count(counter, []Sample{sample}, err)
	}
	s.count(&s.outcome.Sent, nil, s.to.Close())
}

// deliver sends a batch, and repeats it if a repetition may succeed.
func (s *Sender) deliver(batch []Sample) {
	if s.ctx.Err() != nil {
		s.count(&s.outcome.GivenUp, batch, nil)
		return
	}
	body, err := s.encode(batch)
	if err != nil {
		s.count(&s.outcome.Refused, batch, err)
		return
	}
	pause := minBackoff
	for attempt := 1; ; attempt++ {
		verdict := s.post(body)
		switch {
		case verdict.err == nil:
			s.count(&s.outcome.Sent, batch, verdict.warning)
			return
		case !verdict.again:
			s.count(&s.outcome.Refused, batch, verdict.err)
			return
		case attempt == maxAttempts || s.ctx.Err() != nil:
			s.count(&s.outcome.GivenUp, batch, verdict.err)
			return
		}
		wait := pause/2 + time.Duration(s.random.Int64N(int64(pause/2)+1))
		if verdict.after > 0 {
			wait = min(verdict.after, maxRetryAfter)
		}
		pause = min(2*pause, maxBackoff)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			timer.Stop()
			s.count(&s.outcome.GivenUp, batch, verdict.err)
			return
		}
	}
}

// count records the outcome of a batch.
func (s *Sender) count(counter *uint64, batch []Sample, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*counter += uint64(len(batch))
	if err != nil {
		s.outcome.Err = err
	}
}

func (s *Sender) encode(batch []Sample) ([]byte, error) {
	switch s.config.Protocol {
	case OTLP:
		return otlpRequest(batch)
	case Influx:
		return lineProtocol(batch), nil
	}
	return remoteWrite(batch), nil
}

// An answer is the result of one attempt.
type answer struct {
	err     error         // nil when the samples were accepted
	again   bool          // another attempt may do better
	after   time.Duration // how long the receiver wants to be left alone; 0 when it does not say
	warning error         // about samples that were accepted
}

// post makes one attempt.
func (s *Sender) post(body []byte) answer {
	if len(body) == 0 {
		return answer{} // such as of nothing but ends, in a protocol that knows none
	}
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	request.Header = s.config.Header.Clone()
	if request.Header == nil {
		request.Header = http.Header{}
	}
	request.Header.Set("User-Agent", "dyno")
	switch s.config.Protocol {
	case Prometheus:
		request.Header.Set("Content-Type", "application/x-protobuf")
		request.Header.Set("Content-Encoding", "snappy")
		request.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	case OTLP:
		request.Header.Set("Content-Type", "application/x-protobuf")
	case Influx:
		request.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	response, err := s.client.Do(request)
	if err != nil {
		var of *url.Error // without the URL, whose query may not be for everyone's eyes
		if errors.As(err, &of) {
			err = of.Err
		}
		return answer{err: err, again: true}
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer)) // it only explains the status
	if response.StatusCode/100 == 2 {
		a := answer{}
		if s.config.Protocol == OTLP {
			a.warning = otlpRejected(text)
		}
		return a
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	err = fmt.Errorf("%s: %.200q", response.Status, first)
	return answer{err: err, again: s.transient(response.StatusCode), after: retryAfter(response.Header.Get("Retry-After"), time.Now())}
}

// transient tells whether a request with this status may be repeated. OTLP lists the
// statuses. Remote write and InfluxDB repeat on 429 and all of 5xx.
func (s *Sender) transient(status int) bool {
	if s.config.Protocol == OTLP {
		switch status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	return status == http.StatusTooManyRequests || status/100 == 5
}

// retryAfter reads a Retry-After field (RFC 9110, section 10.2.3): seconds or a date. It
// returns 0 for a value that it cannot read and for one in the past.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
