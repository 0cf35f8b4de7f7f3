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

// maxBatch is how many samples go in one request, at most. A sample is about 30 points.
const maxBatch = 100

// maxAnswer is how many bytes of a response are read.
const maxAnswer = 4096

// A Config says where and how samples are sent. Defaults has values for all but the
// protocol and the URL.
type Config struct {
	Protocol Protocol
	URL      string      // of the receiver; a path that is missing is the protocol's own
	Header   http.Header // of every request, such as for credentials

	// Queue bounds the samples that wait. When it is full, the oldest is dropped and
	// counted.
	Queue int
	// Timeout bounds one request.
	Timeout time.Duration
	// Attempts is how often a request is tried. After the last attempt its samples are
	// given up and counted.
	Attempts int
	// MinBackoff is the pause after the first attempt. It doubles up to MaxBackoff, and
	// half of it is random. A receiver's Retry-After replaces it, up to MaxRetryAfter.
	MinBackoff, MaxBackoff, MaxRetryAfter time.Duration
	Seed                                  uint64 // of the pauses

	// Transport makes the requests; nil is net/http's own, as the environment's proxies
	// have it.
	Transport http.RoundTripper
}

// Defaults returns a configuration that keeps ten minutes of samples at one a second.
func Defaults() Config {
	return Config{
		Queue:         600,
		Timeout:       10 * time.Second,
		Attempts:      5,
		MinBackoff:    500 * time.Millisecond,
		MaxBackoff:    10 * time.Second,
		MaxRetryAfter: time.Minute,
		Seed:          1,
	}
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	switch c.Protocol {
	case Prometheus, OTLP, Influx:
	default:
		fault("protocol: %q: want one of %q", c.Protocol, Protocols())
	}
	if _, err := c.endpoint(); err != nil {
		faults = append(faults, err)
	}
	if c.Queue < 1 || c.Queue > 1_000_000 {
		fault("queue: %d: want 1 to 1,000,000 samples", c.Queue)
	}
	if c.Attempts < 1 || c.Attempts > 100 {
		fault("attempts: %d: want 1 to 100", c.Attempts)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"timeout", c.Timeout}, {"min backoff", c.MinBackoff}, {"max backoff", c.MaxBackoff}, {"max retry-after", c.MaxRetryAfter}} {
		if d.value <= 0 || d.value > time.Hour {
			fault("%s: %v: want more than 0 and at most 1h", d.name, d.value)
		}
	}
	if c.MinBackoff > c.MaxBackoff {
		fault("min backoff: %v: want at most the max backoff, %v", c.MinBackoff, c.MaxBackoff)
	}
	return errors.Join(faults...)
}

// endpoint returns the receiver's complete URL. Its errors do not show parts that could
// be a secret.
func (c Config) endpoint() (*url.URL, error) {
	u, err := url.Parse(c.URL)
	switch {
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
	if err != nil {
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

	ctx    context.Context // ends what is under way
	cancel context.CancelFunc
	done   chan struct{} // closed when the sending goroutine has ended
	wake   chan struct{} // of one element: there may be something to do

	mu      sync.Mutex // guards what follows
	queue   []Sample   // a ring
	first   int        // the oldest
	waiting int
	closing bool
	outcome Outcome
}

// Start starts a sender. It connects to nothing yet. Close must be called.
func Start(c Config) (*Sender, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
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
		url:    u.String(),
		client: &http.Client{
			Transport: transport,
			// Credentials are only for the receiver that was named.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		random: rand.New(rand.NewPCG(c.Seed, 0x70757368)), //nolint:gosec // jitter is no secret
		done:   make(chan struct{}),
		wake:   make(chan struct{}, 1),
		queue:  make([]Sample, c.Queue),
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
	if s.closing {
		s.outcome.GivenUp++
		return
	}
	if s.waiting == len(s.queue) {
		s.first = (s.first + 1) % len(s.queue)
		s.waiting--
		s.outcome.Dropped++
	}
	s.queue[(s.first+s.waiting)%len(s.queue)] = sample
	s.waiting++
	s.awaken()
}

func (s *Sender) awaken() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Close sends the queued samples until ctx ends, gives up the rest, and returns the
// outcome of all samples.
func (s *Sender) Close(ctx context.Context) Outcome {
	s.mu.Lock()
	s.closing = true
	s.awaken()
	s.mu.Unlock()
	select {
	case <-s.done:
	case <-ctx.Done():
		s.cancel()
		<-s.done
	}
	s.cancel()
	s.client.CloseIdleConnections()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcome.GivenUp += uint64(s.waiting) //nolint:gosec // not negative
	s.waiting = 0
	return s.outcome
}

// run sends until the sender is closed and nothing is left, or its context ends.
func (s *Sender) run() {
	defer close(s.done)
	for s.ctx.Err() == nil {
		batch, closing := s.take()
		switch {
		case len(batch) > 0:
			s.deliver(batch)
		case closing:
			return
		default:
			select {
			case <-s.wake:
			case <-s.ctx.Done():
			}
		}
	}
}

// take takes the oldest samples off the queue.
func (s *Sender) take() (batch []Sample, closing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.waiting > 0 && len(batch) < maxBatch {
		batch = append(batch, s.queue[s.first])
		s.queue[s.first] = Sample{}
		s.first = (s.first + 1) % len(s.queue)
		s.waiting--
	}
	return batch, s.closing
}

// deliver sends a batch, and repeats it if a repetition may succeed.
func (s *Sender) deliver(batch []Sample) {
	body, err := s.encode(batch)
	if err != nil {
		s.count(&s.outcome.Refused, batch, err)
		return
	}
	pause := s.config.MinBackoff
	for attempt := 1; ; attempt++ {
		verdict := s.post(body)
		switch {
		case verdict.err == nil:
			s.count(&s.outcome.Sent, batch, verdict.warning)
			return
		case !verdict.again:
			s.count(&s.outcome.Refused, batch, verdict.err)
			return
		case attempt == s.config.Attempts || s.ctx.Err() != nil:
			s.count(&s.outcome.GivenUp, batch, verdict.err)
			return
		}
		wait := pause/2 + time.Duration(s.random.Int64N(int64(pause/2)+1))
		if verdict.after > 0 {
			wait = min(verdict.after, s.config.MaxRetryAfter)
		}
		pause = min(2*pause, s.config.MaxBackoff)
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
	ctx, cancel := context.WithTimeout(s.ctx, s.config.Timeout)
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
