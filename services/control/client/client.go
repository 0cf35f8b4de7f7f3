// Package client is for programs that use the control plane: they register themselves,
// discover others, watch configuration and policies, and say what they have applied.
//
//	c, err := client.New(client.Config{Servers: []string{"http://127.0.0.1:7100"}, Name: "shop-1", Cache: "cache"})
//	defer c.Close()
//	registration, err := c.Register(instance)          // and keep it registered
//	watch, err := c.Watch(client.Query{Kinds: []resource.Kind{resource.Instances}, Names: []string{"shop"}})
//	snapshot, err := watch.Next(ctx, 0)                // and Next(ctx, snapshot.Generation) after that
//	session, err := c.Begin(ctx, "shop-1", 15*time.Second)
//	lock, err := session.Lock(ctx, "leader", address)  // until lock.Context() ends
//
// What it promises:
//
//   - Once a watch has data, it always answers. While no server can be reached, it
//     answers with the last data; after a restart of the program, from the cache. A
//     Snapshot says so.
//   - If the control plane loses a registered instance, the client registers it again.
//   - A program that takes snapshots slowly misses intermediate ones, and delays no other program.
//
// Do sends all other requests, such as those of command lines.
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
	// Servers are the addresses of replicas, such as http://127.0.0.1:7100. They are tried in turn, from a random
	// one.
	Servers []string
	// Token identifies the program to the server; "" sends none.
	Token string
	// TLS verifies servers at https addresses, and holds the certificate to show them. nil takes the system's
	// authorities and no certificate.
	TLS *tls.Config
	// Name identifies the program in the ledger of applied versions, and in gray releases by percentage. "" keeps it
	// out of both. Labels choose it for gray releases.
	Name   string
	Labels map[string]string
	// Namespace is the default for resources and queries.
	Namespace string
	// Cache is a folder in which watches keep their data; "" keeps it in memory only. Its files can be read by their
	// owner only, and never have secret configurations.
	Cache string

	// RequestTimeout bounds a request other than a stream. Silence is the time without a byte after which a stream
	// counts as dead; it must exceed the server's heartbeat period.
	RequestTimeout, Silence time.Duration
	// MinPause and MaxPause bound the pause after a failure. It doubles with each one.
	MinPause, MaxPause time.Duration
	// SavePeriod is the least time between two writes of a cache.
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
	mu         sync.Mutex // guards closed; nothing begins after it is set
	closed     bool
}

// New checks cfg and returns a Client that has not connected yet. The error lists every fault.
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
		// The token must go only to the configured servers.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// Close ends watches, writes their caches, and lets registrations expire. To remove an instance at once, close its
// Registration before.
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

// begin runs f in a goroutine, which Close waits for.
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
	// Primary is the address of the control plane that takes changes, if a follower has refused one.
	Primary string `json:"primary"`
}

func (p *Problem) Error() string {
	text := fmt.Sprintf("%s (%d): %s", p.Title, p.Status, p.Detail)
	if len(p.Errors) > 1 {
		text += ": " + p.Errors.Error()
	}
	return text
}

// lasting reports whether the same request would be refused again, until an operator changes something. So the pause
// is the longest.
func lasting(err error) bool {
	var p *Problem
	if !errors.As(err, &p) {
		return errors.Is(err, ErrText)
	}
	switch p.Status {
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusMisdirectedRequest:
		return false // a follower refuses with the last: another server may be the primary
	}
	return p.Status >= 400 && p.Status < 500
}

// missing reports whether a resource does not exist.
func missing(err error) bool {
	var p *Problem
	return errors.As(err, &p) && p.Status == http.StatusNotFound
}

// eventStream is the media type of server-sent events.
const eventStream = "text/event-stream"

// maxAnswer bounds the bytes that are read of a response that is not a stream.
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

// ask sends a request. Its error is a *Problem if the server refuses; otherwise the caller closes the response's
// body.
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
		p = &Problem{Title: "the answer is not from a control plane", Detail: fmt.Sprintf("%.200q", text)}
	}
	p.Status = answer.StatusCode
	return nil, p
}

// ErrText says that a request has text that is not UTF-8. No server takes it.
var ErrText = errors.New("text must be UTF-8")

// encode writes a document. Unlike encoding/json it refuses text that is not UTF-8: the control plane would store a
// different text.
func encode(body any) ([]byte, error) {
	text, err := jsonv2.Marshal(body, jsonv1.DefaultOptionsV1(), jsonv1.ReportErrorsWithLegacySemantics(false), jsontext.AllowInvalidUTF8(false))
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		return nil, fmt.Errorf("%w: %s", ErrText, syntactic.JSONPointer)
	}
	return text, err
}

// A route chooses the next server, and the pause after a failure. It is for one goroutine.
type route struct {
	cfg   *Config
	at    int
	pause time.Duration
}

func (c *Client) route() route {
	return route{cfg: &c.cfg, at: rand.IntN(len(c.cfg.Servers)), pause: c.cfg.MinPause}
}

func (r *route) server() string { return r.cfg.Servers[r.at] }

// good notes that the server has answered.
func (r *route) good() { r.pause = r.cfg.MinPause }

// failed chooses the next server, and returns the pause before its request. The pause is random, from half to all of
// its length, so that programs do not come back at once.
func (r *route) failed(err error) time.Duration {
	r.at = (r.at + 1) % len(r.cfg.Servers)
	pause := r.pause
	r.pause = min(2*r.pause, r.cfg.MaxPause)
	if lasting(err) {
		pause = r.cfg.MaxPause
	}
	return spread(pause)
}

// spread returns a random time from half of d to d.
func spread(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
