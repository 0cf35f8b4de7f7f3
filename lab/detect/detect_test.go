package detect

import (
	"crypto/tls"
	"errors"
	"io"
	quiet "log"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gorilla/websocket"

	"dyno/internal/leak"
	"dyno/lab/plan"
)

func TestMain(m *testing.M) { leak.Main(m) }

// One that refuses the handshake speaks TLS, too.
func TestSpeaksTLS(t *testing.T) {
	refusing := httptest.NewUnstartedServer(nil)
	refusing.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, errors.New("not for you") }}
	refusing.Config.ErrorLog = quiet.New(io.Discard, "", 0)
	refusing.StartTLS()
	defer refusing.Close()
	plain := httptest.NewServer(nil)
	defer plain.Close()
	for s, want := range map[*httptest.Server]bool{refusing: true, plain: false} {
		if got := SpeaksTLS(t.Context(), "tcp", s.Listener.Addr().String()); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// Servers of gRPC refuse a GET in several ways, and answer a call of any method in one.
func TestAskForGRPC(t *testing.T) {
	for name, c := range map[string]struct {
		get, call string // the media types of the answers
		want      string
	}{
		"the GET is refused without a type": {"", grpcMedia, "grpc"},
		"the GET is refused as a call":      {grpcMedia, "", "grpc"},
		"it serves pages":                   {"text/html", "text/html", OverHTTP2},
	} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			media := c.get
			if r.Method == http.MethodPost {
				media = c.call
			}
			if media != "" {
				w.Header().Set("Content-Type", media)
			}
			w.WriteHeader(http.StatusMethodNotAllowed)
		}))
		server.Config.Protocols = new(http.Protocols)
		server.Config.Protocols.SetUnencryptedHTTP2(true)
		server.Start()
		e := plan.New(plan.HTTP, plan.HTTP)
		v := &e.Variants[0]
		v.Target.URL = plan.Quote(server.URL)
		v.Target.Complete()
		v.Load.Closed = &plan.Closed{Connections: 1}
		e.Complete()
		if got := Ask(t.Context(), v).Command(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		server.Close()
	}
}

// A server of WebSocket refuses other requests, in ways of its own.
func TestAskForWebSocket(t *testing.T) {
	upgrader := websocket.Upgrader{}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"it speaks WebSocket": {func(w http.ResponseWriter, r *http.Request) {
			if c, err := upgrader.Upgrade(w, r, nil); err == nil {
				_ = c.Close()
			}
		}, plan.WS},
		"it has no such page": {http.NotFound, ""},
		"it has pages, too": {func(w http.ResponseWriter, r *http.Request) {
			if websocket.IsWebSocketUpgrade(r) {
				t.Error("it is asked for more than a page")
			}
		}, ""},
	} {
		server := httptest.NewServer(c.handler)
		e := plan.New(plan.HTTP, plan.HTTP)
		v := &e.Variants[0]
		v.Target.URL = plan.Quote(server.URL)
		v.Target.Complete()
		v.Load.Closed = &plan.Closed{Connections: 1}
		if err := v.Fill(nil); err != nil {
			t.Fatal(err)
		}
		if got := Ask(t.Context(), v).Command(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		server.Close()
	}
}
