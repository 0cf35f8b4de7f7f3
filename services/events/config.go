package events

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"dyno/hub"
	"dyno/services/internal/secretfile"
	"dyno/services/internal/serve"
)

// Config says where a server listens, and configures its hub. Start from Defaults.
type Config struct {
	// Listen is where clients connect: host:port, [ipv6]:port or unix:PATH; port 0 picks
	// one. It must be a loopback address unless AllowRemote is set.
	Listen string
	// AllowRemote permits Listen and Admin addresses that other machines reach.
	AllowRemote bool
	serve.AdminListener
	// HTTP2 lets clients speak HTTP/2 without TLS, in addition to HTTP/1.1.
	HTTP2 bool
	// DrainTimeout is how long stopping may take: subscribers are disconnected one by one
	// in the first 0.8 of this time, and the rest at its end.
	DrainTimeout time.Duration

	// Config is the hub's. If only this machine can reach Listen, everybody may publish,
	// even without AnonymousPublish and PublisherKey. The metrics are on the admin
	// listener: Registerer must be nil. If only this machine can reach Listen, requests from
	// other sites' pages are refused: Foreign must be nil.
	hub.Config
}

// Defaults returns a Config with every default; Listen has none.
func Defaults() Config {
	return Config{HTTP2: true, DrainTimeout: 10 * time.Second, Config: hub.Defaults()}
}

// Validate reports every fault at once, including those of the hub's Config: the field,
// its value, and what would be right.
func (c Config) Validate() error {
	var errs []error
	if err := serve.CheckListen("listen", c.Listen, c.AllowRemote); err != nil {
		errs = append(errs, err)
	}
	if err := c.CheckAdmin(c.AllowRemote); err != nil {
		errs = append(errs, err)
	}
	if !c.local() && c.PublisherKey == nil && !c.AnonymousPublish {
		errs = append(errs, errors.New("publisher key: none: nobody could publish to a hub that other machines reach: give a key, or allow anonymous publishers"))
	}
	if c.DrainTimeout < 0 {
		errs = append(errs, fmt.Errorf("drain timeout: %v: must be 0 (cut at once) or more", c.DrainTimeout))
	}
	if c.Registerer != nil {
		errs = append(errs, errors.New("registerer: must be nil: the metrics are on the admin listener"))
	}
	if c.Foreign != nil {
		errs = append(errs, errors.New("foreign: must be nil: it follows from listen"))
	}
	return errors.Join(append(errs, c.Config.Validate())...)
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

// maxPublicKey bounds a public key in PEM, in bytes.
const maxPublicKey = 64 << 10

// ReadKey reads the file of a key for JSON Web Tokens by a method. The end of line is not part of a secret, and nobody
// else may read one; public keys are for everybody.
func ReadKey(method, file string) (*hub.Key, error) {
	var (
		material []byte
		err      error
	)
	if method == "HS256" {
		material, err = secretfile.Read(file)
	} else {
		material, err = serve.ReadFile(file, maxPublicKey)
	}
	return &hub.Key{Method: method, Material: material}, err
}
