package control

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"dyno/internal/fields"
	"dyno/internal/textfile"
	"dyno/services/control/access"
	"dyno/services/control/dns"
	"dyno/services/control/follow"
	"dyno/services/control/identity"
	"dyno/services/control/plane"
	"dyno/services/control/rest"
	"dyno/services/control/store"
	"dyno/services/internal/oidc"
	"dyno/services/internal/serve"
	"dyno/services/internal/trace"
)

// Config says what a Server does. Start from Defaults.
type Config struct {
	// An address that is not a loopback one needs principals, and a certificate or PlainHTTP.
	Listen string `yaml:"listen" doc:"where clients connect: host:port, [ipv6]:port or unix:PATH; port 0 picks one. It must be a loopback address unless allow_remote is set"`
	GRPC   string `yaml:"grpc" otherwise:"nowhere" doc:"where clients connect by gRPC, and find services over xDS, in the same forms"`
	// DNS has no access control.
	DNS    string `yaml:"dns" otherwise:"nowhere" doc:"where DNS listens, over UDP and TCP: host:port. It has no access control"`
	Domain string `yaml:"domain" default:"control.internal." doc:"the suffix of services' names: SERVICE.NAMESPACE.DOMAIN"`
	// Programs that find services by Consul's DNS go on without a change.
	ConsulDomain     string `yaml:"consul_domain" otherwise:"no names of Consul's form" doc:"a second domain, such as consul., with names of Consul's form: SERVICE.service.DOMAIN"`
	ConsulDatacenter string `yaml:"consul_datacenter" default:"dc1" doc:"the datacenter that these names may have: SERVICE.service.DATACENTER.DOMAIN"`

	AllowRemote bool `yaml:"allow_remote" doc:"permit addresses that other machines reach; needs principals"`
	PlainHTTP   bool `yaml:"plain_http" doc:"permit that without TLS, for a proxy that encrypts"`
	serve.AdminListener

	Principals string `yaml:"principals" kind:"path" otherwise:"no access control, on this machine only" doc:"the file of principals and their permissions, read again when it changes"`
	serve.TLS
	// Clients may show a certificate instead of a token.
	ClientCA string      `yaml:"tls_client_ca" live:"true" kind:"path" doc:"authorities of clients' certificates, read again when it changes"`
	OIDC     oidc.Config `yaml:",inline"`

	// Proxies of services get certificates over xDS. Without a given authority, the store has one.
	TrustDomain    string        `yaml:"trust_domain" default:"control.internal" doc:"the domain of services' identities: spiffe://DOMAIN/ns/NAMESPACE/sa/SERVICE"`
	AuthorityCert  string        `yaml:"authority_cert" kind:"path" otherwise:"one that the control plane makes, and keeps in its store" doc:"the certificate that signs those of services, in PEM"`
	AuthorityKey   string        `yaml:"authority_key" kind:"path" doc:"its key, in PKCS #8"`
	CertificateTTL time.Duration `yaml:"certificate_ttl" range:"1s..8760h" default:"24h" doc:"how long certificates of services are valid; they are replaced after half of that"`

	Store  store.Config  `yaml:",inline"`
	Plane  plane.Config  `yaml:",inline"`
	Follow follow.Config `yaml:",inline"`

	// A principal's own rate overrides it.
	Rate  float64 `yaml:"rate" live:"true" range:"0..1000000000" doc:"requests per second of one client; more get 429; 0 is no limit"`
	Burst int     `yaml:"burst" live:"true" range:"0..1073741824" doc:"requests of one client at once"`

	MaxWatchers int           `yaml:"max_watchers" range:"1..1048576" default:"20000" doc:"streams and long polls at a time; more get 503"`
	Heartbeat   time.Duration `yaml:"heartbeat" range:"1ms..24h" default:"15s" doc:"of streams: a comment is sent after this time without a change"`

	// These exceed the store's own timeouts.
	ReadTimeout   time.Duration `yaml:"read_timeout" range:"1ms..24h" default:"15s" doc:"of reading a request"`
	WriteTimeout  time.Duration `yaml:"write_timeout" range:"1ms..24h" default:"15s" doc:"of writing an answer, or one write to a stream"`
	IdleTimeout   time.Duration `yaml:"idle_timeout" range:"1ms..24h" default:"1m" doc:"of waiting for a connection's next request"`
	HTTP2         bool          `yaml:"http2" default:"true" doc:"let clients speak HTTP/2, without TLS as well"`
	TraceEndpoint string        `yaml:"trace_endpoint" otherwise:"nothing is traced" doc:"a collector's URL (OTLP over HTTP), such as http://127.0.0.1:4318/v1/traces"`
	TraceRatio    float64       `yaml:"trace_ratio" range:"0..1" default:"0.01" doc:"the share of HTTP requests that is traced, of those that do not say themselves"`
	DrainTimeout  time.Duration `yaml:"drain_timeout" range:"0..24h" default:"10s" doc:"how long draining may take"`
	OpenTimeout   time.Duration `yaml:"open_timeout" range:"1ms..24h" default:"1m" doc:"how long the store may take to answer at the start: a member that was away for long first receives the database"`

	// File is the configuration file, and Reread reads it again, as at the start. It returns an error if it changes a
	// field that needs a restart. Without a File, Reread is not called.
	File   string
	Reread func() (Config, error)
	Logger *slog.Logger // nil discards
	// Tune changes the server of HTTP before it serves; nil changes nothing.
	Tune func(*http.Server)
}

// Defaults returns the Config that every field starts from. It has no address, and its store has no folder.
func Defaults() Config {
	c := fields.Default[Config]()
	c.Complete()
	return c
}

// Complete sets the defaults of fields that no file can set.
func (c *Config) Complete() {
	c.Store.Complete()
	c.Plane.Complete()
}

// Validate reports every fault at once.
func (c Config) Validate() error { return fields.Validate(c, c.Check) }

// Check reports violations of rules across fields, which tags cannot express.
func (c Config) Check(r *fields.Report) {
	listener := func(field, address string) {
		serve.CheckListener(r, field, address, c.AllowRemote)
		if a, err := serve.ParseAddress(address); err == nil && !a.Local() && c.AllowRemote {
			r.Check(c.Principals != "", field, "can be reached from other machines without a token or a certificate", "give --principals")
			r.Check(c.Certificate != "" || c.PlainHTTP, field, "can be reached from other machines without TLS", "give --tls-cert, or --plain-http behind a proxy that encrypts")
		}
	}
	listener("listen", c.Listen)
	if c.GRPC != "" {
		listener("grpc", c.GRPC)
	}
	if c.DNS != "" {
		serve.CheckListener(r, "dns", c.DNS, c.AllowRemote)
		r.Check(!strings.HasPrefix(c.DNS, "unix:"), "dns", fmt.Sprintf("%q is a socket", c.DNS), "host:port")
		r.Error("domain", dns.CheckDomain(c.Domain))
		if c.ConsulDomain != "" {
			r.Error("consul_domain", dns.CheckDomain(c.ConsulDomain))
			label := dns.CheckDomain(c.ConsulDatacenter+".") == nil && !strings.Contains(c.ConsulDatacenter, ".")
			r.Check(label, "consul_datacenter", fmt.Sprintf("%q is not one label in lower case", c.ConsulDatacenter), "such as dc1")
			r.Check(!strings.HasSuffix("."+c.ConsulDomain, "."+c.Domain), "consul_domain", fmt.Sprintf("%q is in %q", c.ConsulDomain, c.Domain), "a domain of its own")
		}
	}
	c.AdminListener.Check(r, c.AllowRemote)
	c.OIDC.Check(r)
	r.Check(c.OIDC.Issuer == "" || c.Principals != "", "oidc_issuer", "needs principals: without them there is no access control", "give --principals")
	c.TLS.Check(r)
	c.CheckClientCA(r, "tls_client_ca", c.ClientCA)
	r.Check(c.ClientCA == "" || c.Principals != "", "tls_client_ca", "needs principals, which certificates identify", "give --principals")
	r.Check((c.AuthorityCert == "") == (c.AuthorityKey == ""), "authority_cert", "a certificate and its key go together", "give both --authority-cert and --authority-key")
	r.Error("trust_domain", identity.CheckDomain(c.TrustDomain))
	if c.TraceEndpoint != "" {
		r.Error("trace_endpoint", trace.CheckEndpoint(c.TraceEndpoint))
	}
	c.Follow.Check(r)
	r.Check(c.Follow.Primary() == "" || c.Store.Embedded() && len(c.Store.Peers) == 0, "follow", "needs a store that no other replica uses", "give --data, without --etcd and --peers")
	r.Check(c.Burst > 0 || c.Rate == 0, "burst", "is missing: a rate needs one", "such as --burst 100")
	c.Store.Check(r)
	c.Plane.Check(r)
}

// api is the part of the API's configuration that is given.
func (c Config) api() rest.Config {
	return rest.Config{MaxWatchers: c.MaxWatchers, Heartbeat: c.Heartbeat, WriteTimeout: c.WriteTimeout}
}

// book reads the principals; nil is none.
func (c Config) book() (*access.Book, error) {
	if c.Principals == "" {
		return nil, nil
	}
	text, err := textfile.Read(c.Principals, textfile.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("principals: %w", err)
	}
	book, err := access.ParseBook(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Principals, err)
	}
	if book.Certificates() && c.ClientCA == "" {
		return nil, fmt.Errorf("%s: has principals with certificates: give a client CA, or clients cannot show them", c.Principals)
	}
	return book, nil
}
