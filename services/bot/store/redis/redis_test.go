package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dyno/internal/leak"
	"dyno/services/bot/store"
	"dyno/services/bot/store/storetest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// password has all that a URL does not take as it is.
const password = "p/a:s@s#w%o?r d"

// front passes connections on to a socket, until the test ends. With a configuration it ends TLS, as what stands
// before a Redis does.
func front(t *testing.T, socket string, c *tls.Config) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { _ = l.Close() })
	all.Go(func() {
		for {
			outer, err := l.Accept()
			if err != nil {
				return
			}
			inner, err := net.Dial("unix", socket)
			if err != nil {
				t.Error(err)
				_ = outer.Close()
				return
			}
			if c != nil {
				outer = tls.Server(outer, c)
			}
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from) // until one of the two goes
				_ = errors.Join(to.Close(), from.Close())
			}
			all.Go(func() { pass(outer, inner) })
			all.Go(func() { pass(inner, outer) })
		}
	})
	return l.Addr().String()
}

// TestURL: a Redis that asks for a user and a password, with and without TLS, in one of its databases. With a wrong
// password, or with a certificate that nobody knows, nothing is done, and no error shows a password.
func TestURL(t *testing.T) {
	quiet()
	_, address := storetest.Own(t, func() (*storetest.Server, string, error) { return storetest.RedisWith("--requirepass", password) })
	socket := strings.TrimPrefix(address, "unix:")
	signed := httptest.NewTLSServer(nil) // its certificate, of 127.0.0.1
	defer signed.Close()
	known := x509.NewCertPool()
	known.AddCert(signed.Certificate())
	open, secret := front(t, socket, nil), front(t, socket, &tls.Config{Certificates: signed.TLS.Certificates, MinVersion: tls.VersionTLS12})
	for name, c := range map[string]struct {
		scheme, at, user, password, path string
		known                            *x509.CertPool
		good                             bool
	}{
		"a password":              {"redis", open, "", password, "", nil, true},
		"a user and a database":   {"redis", open, "default", password, "/3", nil, true},
		"TLS":                     {"rediss", secret, "default", password, "/3", known, true},
		"a wrong password":        {"redis", open, "default", password + "x", "", nil, false},
		"nobody's certificate":    {"rediss", secret, "default", password, "", nil, false},
		"TLS where there is none": {"rediss", open, "default", password, "", known, false},
	} {
		t.Run(name, func(t *testing.T) {
			config := Defaults()
			config.Address, config.Timeout = c.scheme+"://"+url.UserPassword(c.user, c.password).String()+"@"+c.at+c.path, time.Minute
			if c.scheme == "rediss" && !c.good {
				config.Timeout = time.Second // nobody answers
			}
			o, err := config.options()
			if err != nil {
				t.Fatal(err)
			}
			if o.TLSConfig != nil {
				o.TLSConfig.RootCAs = c.known
			}
			s := newStore(config, o)
			defer s.Close() //nolint:errcheck // nothing is to be kept
			r := &store.Reservation{ID: "r", Key: "key", Limits: []store.Limit{{Resource: store.Requests, Amount: 10}}, Cost: store.Cost{Requests: 1}, At: time.Now(), Lease: time.Minute}
			_, err = s.Begin(context.Background(), nil, r)
			if c.good {
				if err != nil {
					t.Fatal(err)
				}
				if err := s.End(context.Background(), nil, 0, r, store.Cost{}); err != nil {
					t.Error(err)
				}
				if n, err := s.client.DBSize(context.Background()).Result(); err != nil || n == 0 || c.path == "/3" && o.DB != 3 {
					t.Errorf("%d keys in database %d, %v", n, o.DB, err)
				}
				return
			}
			if err == nil {
				t.Error("it was let in")
			} else if strings.Contains(err.Error(), password) || strings.Contains(err.Error(), url.QueryEscape(password)) {
				t.Error(err)
			}
		})
	}
}

// TestAddress: what is no address is refused, and not shown; of what is one, bounds stay the gateway's own.
func TestAddress(t *testing.T) {
	for address, want := range map[string]string{
		"": "want host:port", "redis": "want host:port", "127.0.0.1:": "want host:port", "unix:": "has no path",
		"http://u:hunter2@h:1": "must begin with redis://", "redis://u:hunter2@": "has no host", "redis://u:hunter2@h:port": "not understood", "redis://u:hunter2/x@h:1": "not understood",
		"redis://u:hunter2@h:1/x": "must end in /N", "redis://u:hunter2@h:1/1/2": "must end in /N", "redis://u:hunter2@h:1/-1": "must end in /N",
		"redis://u:hunter2@h:1?pool_size=1": "neither a query", "redis://u:hunter2@h:1/1#x": "neither a query",
	} {
		if err := CheckAddress(address); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, want %s", address, err, want)
		}
	}
	for address, want := range map[string]redis.Options{
		"h:1":                        {Addr: "h:1"},
		"[::1]:1":                    {Addr: "[::1]:1"},
		"unix:/s":                    {Network: "unix", Addr: "/s"},
		"redis://h":                  {Network: "tcp", Addr: "h:6379"},
		"redis://:x@[::1]:1":         {Network: "tcp", Addr: "[::1]:1", Password: "x"},
		"rediss://bot:%2Fx%40@h:1/7": {Network: "tcp", Addr: "h:1", Username: "bot", Password: "/x@", DB: 7},
	} {
		c := Defaults()
		c.Address = address
		o, err := c.options()
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if o.Network != want.Network || o.Addr != want.Addr || o.Username != want.Username || o.Password != want.Password || o.DB != want.DB || (o.TLSConfig != nil) != strings.HasPrefix(address, "rediss") {
			t.Errorf("%s: %+v", address, o)
		}
		if o.MaxRetries != -1 || o.ReadTimeout != c.Timeout || o.DialTimeout != c.Timeout || o.PoolSize != 16 || !o.ContextTimeoutEnabled {
			t.Errorf("%s: %+v", address, o)
		}
	}
}
