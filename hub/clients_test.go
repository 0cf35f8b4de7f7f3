package hub

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A client is a program from another project. Given a subscription's URL, it reports each event, reconnects after a
// lost connection, and ends after "end".
type client struct {
	name  string
	needs []string // commands, and files below testdata/clients
	start func(t *testing.T, url string, got chan<- event)
}

func clients() []client {
	return []client{
		{"npm eventsource", []string{"node", "node_modules/eventsource/package.json"}, func(t *testing.T, url string, got chan<- event) {
			lines(t, got, exec.CommandContext(t.Context(), "node", "eventsource.mjs", url))
		}},
		{"httpx-sse", []string{"python3", "python/httpx_sse/__init__.py"}, func(t *testing.T, url string, got chan<- event) {
			c := exec.CommandContext(t.Context(), "python3", "httpx_client.py", url)
			c.Env = append(os.Environ(), "PYTHONPATH=python")
			lines(t, got, c)
		}},
		{"Chromium", []string{"chromium"}, browse},
	}
}

// missing returns what a client needs and is not installed.
func (c client) missing() string {
	for _, need := range c.needs {
		_, err := os.Stat(filepath.Join("testdata/clients", need))
		if err != nil && filepath.Base(need) == need {
			_, err = exec.LookPath(need)
		}
		if err != nil {
			return need
		}
	}
	return ""
}

// lines runs a program that prints events as lines of JSON.
func lines(t *testing.T, got chan<- event, c *exec.Cmd) {
	t.Helper()
	c.Dir, c.Stderr = "testdata/clients", os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := bufio.NewScanner(out); s.Scan(); {
			report(t, got, s.Bytes())
		}
	}()
	t.Cleanup(func() {
		<-done
		_ = c.Wait() // ended by itself, or killed with the test
	})
}

func report(t *testing.T, got chan<- event, line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		t.Errorf("%q: %v", line, err)
		return
	}
	select {
	case got <- e:
	case <-t.Context().Done():
	}
}

// browse has Chromium open a page of another origin that subscribes.
func browse(t *testing.T, at string, got chan<- event) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "testdata/clients/page.html") })
	mux.HandleFunc("POST /seen", func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		report(t, got, body)
	})
	pages := httptest.NewServer(mux)
	ctx, cancel := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(),
		"--remote-debugging-port=0", pages.URL+"/?hub="+url.QueryEscape(at))
	// The browser has children that write to its folder. They end with it, and hold the
	// pipe that Wait reads to its end.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.Stdout, c.WaitDelay = io.Discard, 10*time.Second
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = c.Wait() // killed
		pages.CloseClientConnections()
		pages.Close()
	})
}

// Real clients get what is published, with type, ID and all lines. When their connection
// is lost, they continue where they were: no event twice, none missing, no gap.
func TestClients(t *testing.T) {
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			if need := c.missing(); need != "" {
				t.Skipf("no %s: scripts/setup.sh installs it", need)
			}
			inModes(t, func(t *testing.T, set func(*Config)) { subscribe(t, c, set) })
		})
	}
}

func subscribe(t *testing.T, c client, set func(*Config)) {
	h, b := handler(t, func(c *Config) {
		set(c)
		c.Retry, c.AllowOrigins = 50*time.Millisecond, []string{"*"}
	})
	network := startCutter(t, strings.TrimPrefix(b.url, "http://"))
	publish := func(e event) event {
		t.Helper()
		id, err := h.Publish(t.Context(), Update{Topics: []string{"t"}, Type: e.Type, Data: []byte(e.Data)})
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == "" {
			e.Type = "message"
		}
		return event{ID: id, Type: e.Type, Data: e.Data}
	}
	want := []event{publish(event{Data: "before anybody came"})}
	first := want[0].ID

	got := make(chan event)
	c.start(t, "http://"+network.Addr().String()+"/events?topic=t&lastEventID=earliest", got)
	next := func() event {
		t.Helper()
		select {
		case e := <-got:
			return e
		case <-time.After(3 * time.Minute): // a browser starts slowly on a busy machine
			t.Fatal("no event")
		}
		panic("unreachable")
	}
	if e := next(); e.ID != first {
		t.Fatalf("the first event is %+v, want the one of the history", e)
	}
	seen := []event{want[0]}
	for _, e := range []event{{Type: "named", Data: "two\nlines\n\nand an empty one"}, {Data: "snow ☃, and : a colon"}} {
		want = append(want, publish(e))
		seen = append(seen, next())
	}
	// The connection is lost, and events arrive at the hub meanwhile.
	network.cut()
	for _, data := range []string{"while away", "end"} {
		want = append(want, publish(event{Data: data}))
	}
	for len(seen) < len(want) {
		seen = append(seen, next())
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

// A cutter forwards connections to an address, and cuts them on request.
type cutter struct {
	net.Listener
	to      string
	mu      sync.Mutex // guards open
	open    map[net.Conn]bool
	running sync.WaitGroup
}

func startCutter(t *testing.T, to string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l, to: to, open: map[net.Conn]bool{}}
	c.running.Go(c.serve)
	t.Cleanup(func() {
		l.Close()
		c.cut()
		c.running.Wait()
	})
	return c
}

func (c *cutter) serve() {
	for {
		near, err := c.Accept()
		if err != nil {
			return // closed
		}
		far, err := net.Dial("tcp", c.to)
		if err != nil {
			near.Close()
			continue
		}
		c.mu.Lock()
		c.open[near], c.open[far] = true, true
		c.mu.Unlock()
		for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
			c.running.Go(func() {
				_, _ = io.Copy(way[0], way[1]) // until it is cut, or one of them ends it
				near.Close()
				far.Close()
			})
		}
	}
}

// cut ends all connections there are.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.open {
		x.Close()
	}
	clear(c.open)
}
