package events

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dyno/hub"
	"dyno/internal/fields"
	"dyno/internal/secretfile"
	"dyno/internal/textfile"
	"dyno/services/internal/serve"
)

// Config says where a server listens, and configures its hub. Start from Defaults.
type Config struct {
	Listen      string `yaml:"listen" doc:"where clients connect: host:port, [ipv6]:port or unix:PATH; port 0 picks one. It must be a loopback address unless allow_remote is set"`
	AllowRemote bool   `yaml:"allow_remote" doc:"permit addresses that other machines reach"`
	serve.AdminListener
	HTTP2 bool `yaml:"http2" default:"true" doc:"let clients also use HTTP/2 without TLS"`
	// Subscribers are disconnected one by one in the first 0.8 of DrainTimeout, and the rest at its
	// end.
	DrainTimeout time.Duration `yaml:"drain_timeout" range:"0..24h" default:"10s" doc:"over which subscribers are disconnected at the end"`
	// Publisher and Subscriber are files of the hub's keys.
	Publisher  *KeyFile `yaml:"publisher_key" otherwise:"none" doc:"verifies publishers' JWTs, as METHOD:FILE: HS256 with a secret, RS256, ES256 or EdDSA with a public key in PEM"`
	Subscriber *KeyFile `yaml:"subscriber_key" otherwise:"none" doc:"verifies subscribers' JWTs, as METHOD:FILE"`

	// Config is the hub's. If only this machine can reach Listen, all clients may publish, even without
	// AnonymousPublish and PublisherKey. The metrics are on the admin listener: Registerer must be nil. If only this
	// machine can reach Listen, requests from other sites' pages are refused: Foreign must be nil.
	hub.Config
}

// Defaults returns a Config with every default; Listen has none.
func Defaults() Config { return fields.Default[Config]() }

// Complete sets fields that follow from others, unless they are given.
func (c *Config) Complete(given func(field string) bool) {
	if !given("event_loop") {
		c.EventLoop = c.Hijack && c.Send == nil && !c.MeasureFlush // it needs connections of its own, and never flushes
	}
	if c.ClientBackoff > 0 && !given("heartbeat") {
		c.Heartbeat = 0
	}
	if !given("max_bodies") {
		c.MaxBodiesBytes = max(c.MaxBodiesBytes, c.MaxUpdateBytes)
	}
}

// withKeys returns the Config with the keys of the files.
func (c Config) withKeys() Config {
	if c.Publisher != nil {
		c.PublisherKey = &c.Publisher.Key
	}
	if c.Subscriber != nil {
		c.SubscriberKey = &c.Subscriber.Key
	}
	return c
}

// Validate reports every fault at once, including those of the hub's Config.
func (c Config) Validate() error { return fields.Validate(c, c.Check) }

// Check reports violations of rules across fields, which tags cannot express.
func (c Config) Check(r *fields.Report) {
	c = c.withKeys()
	serve.CheckListener(r, "listen", c.Listen, c.AllowRemote)
	c.AdminListener.Check(r, c.AllowRemote)
	r.Check(c.local() || c.PublisherKey != nil || c.AnonymousPublish, "publisher_key", "is missing: no client could publish to a hub that other machines reach", "give a key, or allow anonymous publishers")
	r.Check(c.Registerer == nil, "registerer", "must be nil", "the metrics are on the admin listener")
	r.Check(c.Foreign == nil, "foreign", "must be nil", "it follows from listen")
	c.Config.Check(r)
}

// foreign returns why a request is another site's, unless that site's pages are permitted.
func (c Config) foreign(r *http.Request) error {
	err := serve.Foreign(r)
	permitted := func(origin string) bool { return origin == "*" || origin == r.Header.Get("Origin") }
	if err == nil || err.Header != "host" && slices.ContainsFunc(slices.Concat(c.AllowOrigins, c.PublishOrigins), permitted) {
		return nil
	}
	return err
}

// local reports whether only this machine can reach the listener.
func (c Config) local() bool {
	a, err := serve.ParseAddress(c.Listen)
	return err == nil && a.Local()
}

// A KeyFile is a key for JSON Web Tokens that a file has.
type KeyFile struct{ hub.Key }

// maxPublicKey bounds a public key in PEM, in bytes.
const maxPublicKey = 64 << 10

// SetText reads the key of METHOD:FILE. The end of line is not part of a secret, and nobody else
// may read one; public keys are for everybody.
func (k *KeyFile) SetText(text, folder string) (err error) {
	method, file, ok := strings.Cut(text, ":")
	if !ok || file == "" {
		return fmt.Errorf("%q: want METHOD:FILE; such as HS256:secret.txt", text)
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(folder, file)
	}
	if k.Method = method; method == "HS256" {
		k.Material, err = secretfile.Read(file)
	} else {
		k.Material, err = textfile.ReadBytes(file, maxPublicKey)
	}
	return err
}
