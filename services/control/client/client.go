// Package client is for programs that use the control plane: they register themselves,
// discover others, watch configuration and policies, and say what they have applied.
//
//	c, err := client.New(client.Config{Servers: []string{"http://127.0.0.1:7100"}, Name: "shop-1", Cache: "cache"})
//	defer c.Close()
//	registration, err := c.Register(instance)          // and keep it registered
//	watch, err := c.Watch(client.Query{Kinds: []resource.Kind{resource.Instances}, Names: []string{"shop"}})
//	snapshot, err := watch.Next(ctx, 0)                // and Next(ctx, snapshot.Generation) after that
//
// What it promises:
//
//   - Once a watch has known something, it always answers: while no server can be reached
//     with what it knew last, after a restart of the program with what is in the cache. A
//     Snapshot says so.
//   - A registered instance is registered again by itself when the control plane does not
//     know it any more.
//   - A program that is slow to take snapshots misses what is replaced meanwhile, and
//     holds up nobody.
//
// Do is for everything else that the control plane can be asked, such as command lines do.
//
// It links net/http and nothing of the server.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"dyno/services/control/resource"
)

// Config says how a Client works. Servers must be given; Defaults has the rest.
type Config struct {
	// Servers are the addresses of replicas, such as http://127.0.0.1:7100. One after the
	// other is tried; those who use the Client begin with different ones.
	Servers []string
	// Token is what the server knows the program by; "" sends none.
	Token string
	// TLS says how servers at https addresses are verified, and has the certificate to
	// show them; nil is the system's authorities, and none.
	TLS *tls.Config
	// Name is the program's in the ledger of applied versions and in gray releases by
	// percentage; "" keeps it out of both. Labels choose it for gray releases.
	Name   string
	Labels map[string]string
	// Namespace is where everything is that does not say another.
	Namespace string
	// Cache is a folder in which watches keep what they know; "" keeps it in memory only.
	// Its files can be read by their owner only, and never have secret configurations.
	Cache string

	// RequestTimeout bounds a request that is answered at once. Silence is after how long
	// without a byte a stream is taken for dead: more than the server's heartbeat.
	RequestTimeout, Silence time.Duration
	// MinPause and MaxPause bound the pauses after failures, which double.
	MinPause, MaxPause time.Duration
	// SavePeriod is how often a cache is written at most.
	SavePeriod time.Duration
	Logger     *slog.Logger // nil discards

	transport http.RoundTripper // for tests; nil is a transport of the Client's own
}

// Defaults returns the Config that every field starts from; it has no servers.
func Defaults() Config {
	return Config{
		Namespace: resource.DefaultNamespace, RequestTimeout: 10 * time.Second, Silence: 45 * time.Second,
		MinPause: 100 * time.Millisecond, MaxPause: 10 * time.Second, SavePeriod: time.Second,
	}
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, field string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %v: %s", field, value, want))
		}
	}
	check(len(c.Servers) > 0, "servers", c.Servers, "one must be given, such as http://127.0.0.1:7100")
	for _, s := range c.Servers {
		u, err := url.Parse(s)
		check(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && strings.Trim(u.Path, "/") == "" && u.RawQuery == "",
			"servers", fmt.Sprintf("%q", s), "must be an address such as http://127.0.0.1:7100")
	}
	check(len(c.Name) <= maxClientName && utf8.ValidString(c.Name) && !strings.ContainsFunc(c.Name, func(r rune) bool { return r < ' ' }), "name", fmt.Sprintf("%q", c.Name), fmt.Sprintf("must have %d printable bytes at most", maxClientName))
	for name, value := range c.Labels {
		check(name != "" && !strings.Contains(name, "="), "labels", fmt.Sprintf("%q", name), "must be a name without =")
		check(utf8.ValidString(name) && utf8.ValidString(value), "labels", fmt.Sprintf("%q=%q", name, value), "must be UTF-8")
	}
	check((resource.Ref{Kind: resource.Policies, Namespace: c.Namespace, Name: "x"}).Check() == nil, "namespace", fmt.Sprintf("%q", c.Namespace), "must have 1 to 63 of a-z, 0-9 and -")
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"request timeout", c.RequestTimeout}, {"silence", c.Silence}, {"min pause", c.MinPause}, {"save period", c.SavePeriod}} {
		check(d.value > 0, d.field, d.value, "must be more than 0")
	}
	check(c.MaxPause >= c.MinPause, "max pause", c.MaxPause, "must be the min pause or more")
	return errors.Join(errs...)
}

// maxClientName is what the server takes, in bytes.
const maxClientName = 253

// A Client has connections to the control plane. Its methods may be called from any
// goroutine.
type Client struct {
	cfg  Config
	log  *slog.Logger
	http *http.Client

	ctx        context.Context // ends with the Client
	stop       context.CancelFunc
	background sync.WaitGroup
	mu         sync.Mutex // guards closed, which nothing begins after
	closed     bool
}

// New checks cfg, whose error lists every fault, and returns a Client that has not
// connected yet.
func New(cfg Config) (*Client, error) {
	d := Defaults()
	for _, f := range []struct {
		field *time.Duration
		value time.Duration
	}{{&cfg.RequestTimeout, d.RequestTimeout}, {&cfg.Silence, d.Silence}, {&cfg.MinPause, d.MinPause}, {&cfg.MaxPause, d.MaxPause}, {&cfg.SavePeriod, d.SavePeriod}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	if cfg.Namespace == "" {
		cfg.Namespace = d.Namespace
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.transport == nil {
		cfg.transport = &http.Transport{TLSClientConfig: cfg.TLS, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second}
	}
	c := &Client{cfg: cfg, log: cfg.Logger, http: &http.Client{
		Transport: cfg.transport,
		// A token goes to the servers that it was given for.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// Close ends watches, whose caches are written, and lets registrations run out: to take
// an instance off at once, close its Registration before.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.background.Wait()
	c.http.CloseIdleConnections()
}

// ErrClosed says that the Client, the Watch or the Registration has ended.
var ErrClosed = errors.New("the client is closed")

// begin runs something until the Client ends.
func (c *Client) begin(f func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.background.Go(f)
	return nil
}

// A Problem is a server's refusal, as RFC 9457 has it.
type Problem struct {
	Status int    `json:"status"`
	Type   string `json:"type"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Errors resource.Invalid
}

func (p *Problem) Error() string {
	text := fmt.Sprintf("%s (%d): %s", p.Title, p.Status, p.Detail)
	if len(p.Errors) > 1 {
		text += ": " + p.Errors.Error()
	}
	return text
}

// lasting tells whether the same request would be refused again: only somebody can
// change that, so the pauses are the longest.
func lasting(err error) bool {
	var p *Problem
	if !errors.As(err, &p) {
		return errors.Is(err, ErrText)
	}
	switch p.Status {
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusRequestTimeout:
		return false
	}
	return p.Status >= 400 && p.Status < 500
}

// missing tells whether there is no such resource.
func missing(err error) bool {
	var p *Problem
	return errors.As(err, &p) && p.Status == http.StatusNotFound
}

// eventStream is the media type of server-sent events.
const eventStream = "text/event-stream"

// maxAnswer bounds what is read of an answer that is no stream, in bytes.
const maxAnswer = 1 << 20

// call asks one server and returns its answer's body.
func (c *Client) call(ctx context.Context, server, method, path string, query url.Values, body any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	answer, err := c.ask(ctx, server, method, path, query, body, nil)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	return io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
}

// ask sends a request. Its error is a *Problem where the server refuses; otherwise the
// answer's body is the caller's to close.
func (c *Client) ask(ctx context.Context, server, method, path string, query url.Values, body any, header http.Header) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		text, err := encode(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	for name, values := range query {
		if !utf8.ValidString(name) || slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }) {
			return nil, fmt.Errorf("%w: %q", ErrText, name)
		}
	}
	address := strings.TrimSuffix(server, "/") + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.cfg.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode < 300 {
		return answer, nil
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	p := &Problem{}
	if json.Unmarshal(text, p) != nil || p.Title == "" {
		p = &Problem{Title: "the answer is none of a control plane", Detail: fmt.Sprintf("%.200q", text)}
	}
	p.Status = answer.StatusCode
	return nil, p
}

// ErrText says that a request has text that is not UTF-8. No server takes it.
var ErrText = errors.New("text must be UTF-8")

// encode writes a document. Unlike encoding/json it refuses text that is not UTF-8, which the
// control plane would keep as something else.
func encode(body any) ([]byte, error) {
	text, err := jsonv2.Marshal(body, jsonv1.DefaultOptionsV1(), jsonv1.ReportErrorsWithLegacySemantics(false), jsontext.AllowInvalidUTF8(false))
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		return nil, fmt.Errorf("%w: %s", ErrText, syntactic.JSONPointer)
	}
	return text, err
}

// A route is which server to ask, and how long to pause after failures. It is for one
// goroutine.
type route struct {
	cfg   *Config
	at    int
	pause time.Duration
}

func (c *Client) route() route {
	return route{cfg: &c.cfg, at: rand.IntN(len(c.cfg.Servers)), pause: c.cfg.MinPause}
}

func (r *route) server() string { return r.cfg.Servers[r.at] }

// good says that the server answers.
func (r *route) good() { r.pause = r.cfg.MinPause }

// failed goes on to the next server, and returns how long to pause before it is asked:
// from half the pause to all of it, so that programs do not come all at once.
func (r *route) failed(err error) time.Duration {
	r.at = (r.at + 1) % len(r.cfg.Servers)
	pause := r.pause
	r.pause = min(2*r.pause, r.cfg.MaxPause)
	if lasting(err) {
		pause = r.cfg.MaxPause
	}
	return spread(pause)
}

// spread returns a time from half of d to d.
func spread(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// sleep returns false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
