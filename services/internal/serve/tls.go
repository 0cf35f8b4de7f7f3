package serve

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync/atomic"

	"dyno/internal/fields"
	"dyno/internal/secretfile"
)

// A TLS configures the certificates of a listener. Without any, it goes without TLS.
type TLS struct {
	Certificate string `yaml:"tls_cert" kind:"path" doc:"the certificate to show clients, in PEM, read again when it changes, as is the key"`
	Key         string `yaml:"tls_key" kind:"path" doc:"its key"`
}

// Check reports a field that lacks the other.
func (t TLS) Check(r *fields.Report) {
	r.Check((t.Certificate == "") == (t.Key == ""), "tls_cert", "a certificate and its key go together", "give both --tls-cert and --tls-key")
}

// CheckClientCA reports a field with client CAs that clients never show a certificate to.
func (t TLS) CheckClientCA(r *fields.Report, field, file string) {
	r.Check(file == "" || t.Certificate != "", field, "needs a certificate: clients show theirs by TLS only", "give --tls-cert and --tls-key")
}

// Certificates are what the files of a TLS and its client CAs had when they were read last.
type Certificates struct {
	from *TLS
	ca   *string
	pair atomic.Pointer[tls.Certificate]
	cas  atomic.Pointer[x509.CertPool] // nil without client CAs
}

// Certificates reads the files of a TLS and of client CAs, and again when they change. Only functions of Add may then
// change the names.
func (f *Files) Certificates(from *TLS, ca *string) (*Certificates, error) {
	c := &Certificates{from: from, ca: ca}
	f.Add("client CA", c.ReadCAs, ca)
	f.Add("certificate", c.readPair, &from.Certificate, &from.Key)
	if from.Certificate != "" {
		if err := c.readPair(); err != nil {
			return nil, err
		}
	}
	return c, c.ReadCAs()
}

func (c *Certificates) readPair() error {
	pair, err := secretfile.LoadKeyPair(c.from.Certificate, c.from.Key)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	c.pair.Store(&pair)
	return nil
}

// ReadCAs reads the client CAs. After an error, those before stay in force.
func (c *Certificates) ReadCAs() error {
	if *c.ca == "" {
		c.cas.Store(nil)
		return nil
	}
	pool, err := secretfile.Authorities(*c.ca)
	if err != nil {
		return fmt.Errorf("client CA: %w", err)
	}
	c.cas.Store(pool)
	return nil
}

// Web returns Config for a server of HTTP.
func (c *Certificates) Web(auth tls.ClientAuthType, http2 bool) *tls.Config {
	if http2 {
		return c.Config(auth, "h2", "http/1.1")
	}
	return c.Config(auth, "http/1.1")
}

// Config returns the configuration of TLS, with protocols to choose from; nil is without TLS. With client CAs, clients
// are asked for a certificate as auth says.
func (c *Certificates) Config(auth tls.ClientAuthType, protocols ...string) *tls.Config {
	if c.pair.Load() == nil {
		return nil
	}
	t := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.pair.Load(), nil },
	}
	t.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool := c.cas.Load()
		if pool == nil {
			return nil, nil //nolint:nilnil // that is t
		}
		one := t.Clone()
		one.ClientCAs, one.ClientAuth = pool, auth
		return one, nil
	}
	return t
}
