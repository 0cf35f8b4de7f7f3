package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	pprof "github.com/google/pprof/profile"

	"dyno/host/loopback"
	"dyno/internal/contentcoding"
	"dyno/internal/texts"
	"dyno/observe"
)

// A Kind is a profile that Go programs offer.
type Kind string

// The kinds.
const (
	CPU       Kind = "cpu"       // CPU time, during the duration
	Heap      Kind = "heap"      // memory in use, as of the last collection before the call
	Allocs    Kind = "allocs"    // memory allocated during the duration
	Goroutine Kind = "goroutine" // stacks of all goroutines, at the call
	Mutex     Kind = "mutex"     // contention of mutexes during the duration
	Block     Kind = "block"     // waiting of goroutines during the duration
)

// Bounds of a fetch.
const (
	maxProfileBytes = 64 << 20
	answerTime      = 30 * time.Second // beyond the duration
	maxDuration     = time.Hour
	maxMessage      = 200 // bytes of a refusal that are shown
)

// A Source is where a Go program offers its profiles: the URL of net/http/pprof, such
// as http://127.0.0.1:6060/debug/pprof.
type Source struct {
	URL string
	// AnyHost lets profiles come from another machine. They say what a program
	// does, and asking for one slows it down: by default only loopback addresses
	// are asked, whatever a name resolves to.
	AnyHost bool
}

// Fetch takes a profile. CPU takes as long as the duration, in whole seconds. Allocs, Mutex and Block
// are the difference between the program's counts before and after the duration. Heap and Goroutine are
// snapshots and need no duration. A Go program counts allocations up to its latest garbage collection
// (runtime.MemProfile). So both ends of the difference may be one collection early.
//
// The differences are computed here. The endpoint (its parameter seconds) would decode two profiles
// inside the measured program.
//
// An *Unavailable says that the program has no such profile, or does not collect its
// data.
func (s Source) Fetch(ctx context.Context, kind Kind, d time.Duration) (*pprof.Profile, error) {
	if !slices.Contains([]Kind{CPU, Heap, Allocs, Goroutine, Mutex, Block}, kind) {
		return nil, fmt.Errorf("profile: kind: %q: want cpu, heap, allocs, goroutine, mutex or block", kind)
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("profile %s: url: %q: want http://host:port/debug/pprof", kind, s.URL)
	}
	window := kind != Heap && kind != Goroutine
	switch {
	case d < 0 || d > maxDuration || !window && d != 0:
		return nil, fmt.Errorf("profile %s: duration: %v: want 0 for heap and goroutine, else up to %v", kind, d, maxDuration)
	case kind == CPU && (d < time.Second || d%time.Second != 0):
		return nil, fmt.Errorf("profile cpu: duration: %v: want whole seconds", d)
	case window && d == 0:
		return nil, fmt.Errorf("profile %s: duration: 0: want the time to watch for", kind)
	}
	ctx, cancel := context.WithTimeout(ctx, d+answerTime)
	defer cancel()
	f := fetcher{kind: kind, url: u, client: &http.Client{Transport: &http.Transport{
		DialContext: loopback.Dialer(s.AnyHost).DialContext, DisableKeepAlives: true,
	}}}
	p, err := f.fetch(ctx, d)
	if err != nil {
		var u *observe.Unavailable
		if errors.As(err, &u) {
			return nil, err
		}
		return nil, fmt.Errorf("profile %s: %w", kind, err)
	}
	return p, nil
}

type fetcher struct {
	kind   Kind
	url    *url.URL
	client *http.Client
}

func (f *fetcher) fetch(ctx context.Context, d time.Duration) (*pprof.Profile, error) {
	switch f.kind {
	case CPU:
		return f.profile(ctx, "profile", url.Values{"seconds": {strconv.Itoa(int(d / time.Second))}})
	case Heap, Goroutine:
		return f.profile(ctx, string(f.kind), nil)
	}
	before, err := f.profile(ctx, string(f.kind), nil)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(d):
	}
	after, err := f.profile(ctx, string(f.kind), nil)
	if err != nil {
		return nil, err
	}
	passed := time.Since(start)
	if f.kind != Allocs && len(after.Sample) == 0 {
		return nil, f.empty(ctx)
	}
	p, err := subtract(after, before)
	if err != nil {
		return nil, err
	}
	p.TimeNanos, p.DurationNanos = start.UnixNano(), passed.Nanoseconds()
	return p, nil
}

// subtract returns what was added between two snapshots. It changes before.
func subtract(after, before *pprof.Profile) (*pprof.Profile, error) {
	before.Scale(-1)
	p, err := pprof.Merge([]*pprof.Profile{after, before})
	if err != nil {
		return nil, fmt.Errorf("difference of two snapshots: %w", err)
	}
	return p, nil
}

// empty says why a profile of contention is completely empty.
func (f *fetcher) empty(ctx context.Context) error {
	u := &observe.Unavailable{Profile: true, Observer: string(f.kind)}
	if f.kind == Block {
		u.Reason = texts.New("unavailable.block")
		u.Remedy = texts.New("help.block")
		return u
	}
	u.Reason = texts.New("unavailable.mutex")
	u.Remedy = texts.New("help.mutex")
	// The text form tells which.
	text, err := f.get(ctx, "mutex", url.Values{"debug": {"1"}})
	if err != nil {
		return err
	}
	if _, rest, found := strings.Cut(string(text), "sampling period="); found {
		period, _, _ := strings.Cut(rest, "\n")
		if period == "0" {
			u.Reason = texts.New("unavailable.mutex.off")
		} else {
			u.Reason, u.Remedy = texts.New("unavailable.mutex.none", "period", period), texts.Message{}
		}
	}
	return u
}

func (f *fetcher) profile(ctx context.Context, name string, query url.Values) (*pprof.Profile, error) {
	b, err := f.get(ctx, name, query)
	if err != nil {
		return nil, err
	}
	p, err := pprof.ParseData(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.url.JoinPath(name), err)
	}
	return p, nil
}

func (f *fetcher) get(ctx context.Context, name string, query url.Values) ([]byte, error) {
	u := f.url.JoinPath(name)
	u.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := f.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // only read
	switch {
	case answer.StatusCode == http.StatusNotFound:
		return nil, &observe.Unavailable{
			Profile: true, Observer: string(f.kind), Reason: texts.New("unavailable.pprof", "url", u.String()),
			Remedy: texts.New("help.pprof"),
		}
	case answer.StatusCode != http.StatusOK:
		b, _ := io.ReadAll(io.LimitReader(answer.Body, maxMessage)) // as much as there is
		return nil, fmt.Errorf("%s: %s: %s", u, answer.Status, bytes.TrimSpace(b))
	}
	body, err := contentcoding.Body(answer, maxProfileBytes+1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u, err)
	}
	b, err := io.ReadAll(io.LimitReader(body, maxProfileBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", u, err)
	case len(b) > maxProfileBytes:
		return nil, fmt.Errorf("%s: more than %d MiB", u, maxProfileBytes>>20)
	}
	return b, nil
}
