package observe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"
)

// Bounds of asking a program for its goroutines.
const (
	goroutinesEvery   = time.Second
	goroutinesTimeout = time.Second
	goroutinesLine    = 256 // bytes of the first line
)

// Goroutines observes how many goroutines a Go program has, by its own profile
// (net/http/pprof), once a second. It has a price: to answer, the program stops
// and dumps the stacks of all its goroutines. So it belongs into long trials
// that look for leaks.
type Goroutines struct {
	name   string
	url    string
	client *http.Client
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex // guards the fields below
	count float64    // NaN: not known
	err   error      // why not; nil before the first answer
}

// NewGoroutines begins to ask the program whose profiles are below pprof, a URL
// such as http://127.0.0.1:6060/debug/pprof. Name is the prefix of the column.
// It talks to loopback addresses only.
func NewGoroutines(name, pprof string) (*Goroutines, error) {
	u, err := url.Parse(pprof)
	if err == nil && (u.Scheme != "http" || u.Host == "") {
		err = errors.New("want http://host:port/path")
	}
	if err != nil {
		return nil, &Unavailable{Observer: name, Reason: fmt.Sprintf("goroutines: %q: %v", pprof, err), Err: err}
	}
	u = u.JoinPath("goroutine")
	u.RawQuery = "debug=1"
	dialer := net.Dialer{Control: loopbackOnly}
	ctx, cancel := context.WithCancel(context.Background())
	g := &Goroutines{
		name: name, url: u.String(), cancel: cancel, done: make(chan struct{}), count: math.NaN(),
		client: &http.Client{
			Timeout: goroutinesTimeout,
			// Only the first line is read, which leaves no connection to keep.
			Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true},
		},
	}
	go g.run(ctx)
	return g, nil
}

// loopbackOnly refuses to connect to another machine, whatever a name resolves to.
func loopbackOnly(_, address string, _ syscall.RawConn) error {
	if a, err := netip.ParseAddrPort(address); err != nil || !a.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%s is no loopback address", address)
	}
	return nil
}

func (g *Goroutines) run(ctx context.Context) {
	defer close(g.done)
	t := time.NewTicker(goroutinesEvery)
	defer t.Stop()
	for {
		n, err := g.ask(ctx)
		g.mu.Lock()
		g.count, g.err = n, err
		g.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

func (g *Goroutines) ask(ctx context.Context) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url, nil)
	if err != nil {
		return math.NaN(), err
	}
	answer, err := g.client.Do(request)
	if err != nil {
		return math.NaN(), err
	}
	defer func() { _ = answer.Body.Close() }() // the rest is not wanted
	if answer.StatusCode != http.StatusOK {
		return math.NaN(), fmt.Errorf("%s: status %d", g.url, answer.StatusCode)
	}
	line, err := bufio.NewReaderSize(answer.Body, goroutinesLine).ReadSlice('\n')
	if err != nil {
		return math.NaN(), fmt.Errorf("%s: the first line: %w", g.url, err)
	}
	n, err := parseGoroutines(line)
	if err != nil {
		return math.NaN(), fmt.Errorf("%s: the first line: %w", g.url, err)
	}
	return float64(n), nil
}

// Name returns the name given.
func (g *Goroutines) Name() string { return g.name }

// Columns returns the column.
func (g *Goroutines) Columns() []Column {
	return []Column{{"goroutines", Gauge, "goroutines of a Go program, by its own answer of up to a second or two ago"}}
}

// Observe returns the last answer. It does not wait for one.
func (g *Goroutines) Observe(row []float64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	row[0] = g.count
	return g.err
}

// Close ends the asking and waits for it.
func (g *Goroutines) Close() error {
	g.cancel()
	<-g.done
	g.client.CloseIdleConnections()
	return nil
}
