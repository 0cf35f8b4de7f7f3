package detect

import (
	"crypto/tls"
	"errors"
	"io"
	quiet "log"
	"net/http"
	"net/http/httptest"
	"testing"

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
