package scrape

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/internal/leak"
	"dyno/observe"
)

var (
	_ observe.Observer = (*Endpoint)(nil)
	_ observe.Observer = (*Command)(nil)
)

// hangGuard bounds every wait of these tests. It is no expectation of speed.
const hangGuard = time.Minute

// TestMain lets the test binary be a command of a user's.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "hang" {
		fmt.Println("hanging 1")
		_ = unix.Pause() // until it is killed: without cgo, an empty select is a deadlock
	}
	leak.Main(m)
}

// A refresher is what the observers of this package have in common.
type refresher interface {
	observe.Observer
	Refresh(context.Context) error
}

// values are a fresh reading by column.
func values(t *testing.T, o refresher) map[string]float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
	defer cancel()
	if err := o.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	m, err := observed(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func observed(o observe.Observer) (map[string]float64, error) {
	columns := o.Columns()
	row := make([]float64, len(columns))
	err := o.Observe(row)
	m := make(map[string]float64)
	for i, c := range columns {
		m[c.Name] = row[i]
	}
	return m, err
}

func kinds(o observe.Observer) map[string]observe.Kind {
	m := make(map[string]observe.Kind)
	for _, c := range o.Columns() {
		m[c.Name] = c.Kind
	}
	return m
}

// serve answers every request with what text returns.
func serve(t *testing.T, text func() string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text()) }))
	t.Cleanup(s.Close)
	return s
}

func endpoint(t *testing.T, cfg Config) *Endpoint {
	t.Helper()
	cfg.Every = time.Hour // readings are asked for
	e, err := NewEndpoint(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("%v; want %q", err, p)
		}
	}
}
