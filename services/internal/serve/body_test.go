package serve

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTimelyHTTP2: over HTTP/2, a body that is read late is read all the same.
func TestTimelyHTTP2(t *testing.T) {
	server := httptest.NewUnstartedServer(Timely(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-time.After(unreadTime + 200*time.Millisecond)
		if body, err := io.ReadAll(r.Body); len(body) != 1<<20 || err != nil {
			t.Errorf("%d bytes, %v", len(body), err)
		}
	})))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	transport := &http.Transport{Protocols: server.Config.Protocols}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Post(server.URL, "", strings.NewReader(strings.Repeat("x", 1<<20)))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
}

// TestTimely: nobody waits for a body that is not read, or not to its end; and after a body that
// was read, a client that goes is noticed, however long that takes.
func TestTimely(t *testing.T) {
	gone := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/refused", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	mux.HandleFunc("/half", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadFull(r.Body, make([]byte, 5)); err != nil {
			t.Error(err)
		}
		if err := r.Body.Close(); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusTeapot)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
	})
	mux.HandleFunc("/whole", func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); string(body) != "hello" || err != nil {
			t.Errorf("%q %v", body, err)
		}
		w.WriteHeader(http.StatusAccepted)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
		close(gone)
	})
	server := httptest.NewServer(Timely(mux))
	defer server.Close()
	begin := func(t *testing.T, path, head, body string) (net.Conn, int) {
		t.Helper()
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n%s", path, head, body); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c, answer.StatusCode // which nobody reads: the connection ends
	}
	t.Run("unfinished", func(t *testing.T) {
		for name, b := range map[string]struct{ head, body string }{
			"sized": {"Content-Length: 100", "hello"}, "large": {"Content-Length: 1000000", "hello"}, "in pieces": {"Transfer-Encoding: chunked", "5\r\nhello\r\n"},
		} {
			for path, want := range map[string]int{"/refused": http.StatusUnauthorized, "/half": http.StatusTeapot} {
				t.Run(name+path, func(t *testing.T) {
					t.Parallel()
					c, status := begin(t, path, b.head, b.body)
					defer c.Close()
					if status != want {
						t.Errorf("%d, want %d", status, want)
					}
				})
			}
		}
	})
	c, status := begin(t, "/whole", "Content-Length: 5", "hello")
	if status != http.StatusAccepted {
		t.Errorf("%d", status)
	}
	select {
	case <-gone:
		t.Error("the client has not gone")
	default:
	}
	c.Close()
	<-gone
}

// TestTimelyAtOnce: a handler that refuses a large body, or one with Expect: 100-continue, answers at once.
func TestTimelyAtOnce(t *testing.T) {
	for name, head := range map[string]string{
		"large": "Content-Length: 1000000", "asks": "Content-Length: 100\r\nExpect: 100-continue",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := http.Server{Handler: Timely(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))}
				client, conn := net.Pipe()
				l := &oneListener{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
				l.conn <- conn
				served := make(chan error, 1)
				go func() { served <- server.Serve(l) }()
				start := time.Now()
				if _, err := fmt.Fprintf(client, "POST / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", head); err != nil {
					t.Fatal(err)
				}
				answer, err := http.ReadResponse(bufio.NewReader(client), nil)
				if err != nil || answer.StatusCode != http.StatusUnauthorized || time.Since(start) != 0 {
					t.Errorf("%v, %v after %v", answer, err, time.Since(start))
				}
				client.Close()
				server.Close()
				if err := <-served; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
				time.Sleep(time.Second) // net/http lets a client that goes on sending have the answer
			})
		})
	}
}

// A oneListener accepts one connection.
type oneListener struct {
	conn   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *oneListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *oneListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *oneListener) Addr() net.Addr { return &net.TCPAddr{} }
