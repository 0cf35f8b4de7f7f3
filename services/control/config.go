package control

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"dyno/services/control/access"
	"dyno/services/control/dns"
	"dyno/services/control/format"
	"dyno/services/control/plane"
	"dyno/services/control/rest"
	"dyno/services/control/store"
	"dyno/services/internal/serve"
)

// Config says what a Server does. Start from Defaults.
type Config struct {
	// Listen is where clients connect: host:port, [ipv6]:port or unix:PATH; port 0 picks
	// one. It must be a loopback address unless AllowRemote is set, and then there must be
	// principals, and a certificate or PlainHTTP.
	Listen string
	// GRPC is where clients connect by gRPC, and find services over xDS, in the same forms
	// and with the same conditions; "" means nowhere.
	GRPC string
	// DNS is where services are found by DNS, over UDP and TCP: host:port; "" means nowhere.
	// It knows no principals: whoever reaches it may know which services there are. Domain
	// ends their names.
	DNS    string
	Domain string
	// AllowRemote permits addresses that other machines reach.
	AllowRemote bool
	// PlainHTTP permits tokens over connections that are not encrypted, for a server behind
	// a proxy that does that.
	PlainHTTP bool
	serve.AdminListener

	// Principals is a file in YAML of who may do what (package access); "" lets everybody
	// who reaches the loopback listener do everything. It is read again when it has changed.
	Principals string
	// Certificate and Key are files in PEM, which are read again when they have. ClientCA is a file of certificates that
	// clients' must be signed by, who may show one instead of a token.
	Certificate, Key, ClientCA string
	// SessionTickets lets clients of TLS come back without a full handshake.
	SessionTickets bool

	Store store.Config
	Plane plane.Config

	// Rate is how many requests a second a client may make, and Burst how many at once; 0
	// is without a limit. Principals may have their own.
	Rate  float64
	Burst int
	// MaxWatchers bounds streams and long polls at a time.
	MaxWatchers int
	// Heartbeat is after how long without a change a stream has a comment.
	Heartbeat time.Duration

	// ReadTimeout bounds reading a request, WriteTimeout writing an answer, or one write of
	// a stream, and IdleTimeout waiting for the next request of a connection.
	ReadTimeout, WriteTimeout, IdleTimeout time.Duration
	// HTTP2 lets clients speak HTTP/2, without TLS as well.
	HTTP2 bool
	// StreamWindow and ConnectionWindow are how many bytes clients may send ahead by HTTP/2,
	// gRPC included, of one request and of all of a connection. 0 leaves it to the
	// libraries, which give 1 MiB over HTTP and find out by the round trip over gRPC.
	StreamWindow, ConnectionWindow int
	// Workers is how many goroutines carry out requests over HTTP; 0 is each connection's
	// own.
	Workers int
	// Formats are those that clients may choose instead of JSON.
	Formats format.Formats
	// DrainTimeout is how long the end may take.
	DrainTimeout time.Duration
	// OpenTimeout is how long the store may take to answer at the start.
	OpenTimeout time.Duration

	Logger *slog.Logger // nil discards
}

// Defaults returns the Config that every field starts from; it has no address, and the
// store no place.
func Defaults() Config {
	api := rest.Defaults()
	return Config{
		Store: store.Defaults(), Plane: plane.Defaults(), Domain: "control.internal.", Formats: api.Formats, MaxWatchers: api.MaxWatchers, Heartbeat: api.Heartbeat, SessionTickets: true,
		ReadTimeout: 15 * time.Second, WriteTimeout: 15 * time.Second, // longer than the store may take
		IdleTimeout: time.Minute, HTTP2: true, DrainTimeout: 10 * time.Second, OpenTimeout: time.Minute,
	}
}

// Validate reports every fault at once: the field, its value, what would be right.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, field string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %v: %s", field, value, want))
		}
	}
	for _, l := range []struct{ field, address string }{{"listen", c.Listen}, {"grpc", c.GRPC}} {
		if l.field == "grpc" && l.address == "" {
			continue
		}
		if err := serve.CheckListen(l.field, l.address, c.AllowRemote); err != nil {
			errs = append(errs, err)
		} else if a, err := serve.ParseAddress(l.address); err == nil && !a.Local() {
			check(c.Principals != "", l.field, fmt.Sprintf("%q", l.address), "can be reached from other machines: give principals, who have tokens or certificates")
			check(c.Certificate != "" || c.PlainHTTP, l.field, fmt.Sprintf("%q", l.address), "can be reached from other machines: give a certificate, or allow plain HTTP behind a proxy that encrypts")
		}
	}
	if c.DNS != "" {
		if err := serve.CheckListen("dns", c.DNS, c.AllowRemote); err != nil {
			errs = append(errs, err)
		}
		check(!strings.HasPrefix(c.DNS, "unix:"), "dns", fmt.Sprintf("%q", c.DNS), "must be host:port")
		if err := dns.CheckDomain(c.Domain); err != nil {
			errs = append(errs, err)
		}
	}
	if err := c.CheckAdmin(c.AllowRemote); err != nil {
		errs = append(errs, err)
	}
	check((c.Certificate == "") == (c.Key == ""), "certificate", fmt.Sprintf("%q", c.Certificate), "goes with its key, and neither alone")
	check(c.ClientCA == "" || c.Certificate != "", "client CA", fmt.Sprintf("%q", c.ClientCA), "needs a certificate: clients show theirs by TLS only")
	check(c.ClientCA == "" || c.Principals != "", "client CA", fmt.Sprintf("%q", c.ClientCA), "needs principals, who are known by certificates")
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"read timeout", c.ReadTimeout}, {"write timeout", c.WriteTimeout}, {"idle timeout", c.IdleTimeout}, {"open timeout", c.OpenTimeout}} {
		check(d.value > 0, d.field, d.value, "must be more than 0")
	}
	for _, w := range []struct {
		field string
		value int
	}{{"stream window", c.StreamWindow}, {"connection window", c.ConnectionWindow}} {
		check(w.value == 0 || w.value >= minWindow && w.value < maxWindow, w.field, w.value, fmt.Sprintf("must be 0 (the libraries' own) or from %d to less than %d", minWindow, maxWindow))
	}
	check(c.Rate >= 0, "rate", c.Rate, "must be 0 (no limit) or more")
	check(c.Burst >= 0 && (c.Burst > 0 || c.Rate == 0), "burst", c.Burst, "must be more than 0 with a rate")
	check(c.DrainTimeout >= 0, "drain timeout", c.DrainTimeout, "must be 0 (cut at once) or more")
	for _, part := range []struct {
		name string
		err  error
	}{{"store", c.Store.Validate()}, {"plane", c.Plane.Validate()}, {"api", c.api().Validate()}} {
		if part.err != nil {
			errs = append(errs, part.err)
		}
	}
	return errors.Join(errs...)
}

// What net/http takes as windows; it silently ignores anything else.
const (
	minWindow = 64 << 10
	maxWindow = 4 << 20
)

// api is the part of the API's configuration that is given.
func (c Config) api() rest.Config {
	return rest.Config{Workers: c.Workers, Formats: c.Formats, MaxWatchers: c.MaxWatchers, Heartbeat: c.Heartbeat, WriteTimeout: c.WriteTimeout}
}

// book reads the principals; nil is none.
func (c Config) book() (*access.Book, error) {
	if c.Principals == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.Principals)
	if err != nil {
		return nil, fmt.Errorf("principals: %w", err)
	}
	book, err := access.ParseBook(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Principals, err)
	}
	if book.Certificates() && c.ClientCA == "" {
		return nil, fmt.Errorf("%s: has principals with certificates: give a client CA, or nobody can show one", c.Principals)
	}
	return book, nil
}

// tls returns how connections are encrypted, with the certificate that pair returns; nil is not
// at all.
func (c Config) tls(pair func() *tls.Certificate) (*tls.Config, error) {
	if c.Certificate == "" {
		return nil, nil
	}
	t := &tls.Config{
		MinVersion: tls.VersionTLS12, SessionTicketsDisabled: !c.SessionTickets,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair(), nil },
	}
	if c.ClientCA != "" {
		pem, err := os.ReadFile(c.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("client CA: %w", err)
		}
		t.ClientCAs = x509.NewCertPool()
		if !t.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("client CA: %s: has no certificate in PEM", c.ClientCA)
		}
		t.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return t, nil
}
