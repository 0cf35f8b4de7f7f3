package detect

import (
	"crypto/tls"
	"errors"
	"io"
	quiet "log"
	"net/http/httptest"
	"testing"

	"dyno/internal/leak"
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
