package tlslayer

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Config is what all connections of one context have in common. The zero value of each
// field but ServerName is a good default.
type Config struct {
	// ServerName is the name that is requested (server name indication, RFC 6066). The server's
	// certificate must be for it. An IP address is not asked for, but must be in the certificate. It
	// may be empty with Insecure.
	ServerName string

	// ALPN are the application protocols offered, the preferred one first, such as
	// "h2" and "http/1.1" (RFC 7301). The server may choose none; see Info.
	ALPN []string

	// CA are the certificate authorities that may vouch for the server. Without any
	// they are the system's.
	CA File

	// Certificate is this side's certificate, with those that lead to its authority
	// after it, and Key its private key: for servers that ask for one. Both may be in
	// one file.
	Certificate, Key File

	// Insecure accepts any certificate of the server's.
	Insecure bool

	// MinVersion and MaxVersion bound the versions offered: "1.2" or "1.3", which are
	// the defaults.
	MinVersion, MaxVersion string

	// CipherSuites are offered for TLS 1.2, by IANA's names or OpenSSL's. Their order does not matter.
	// By default crypto/tls chooses, as it always does for TLS 1.3.
	CipherSuites []string

	// Groups are the key exchange groups offered, by IANA's names. Their order does not
	// matter. Without any they are crypto/tls's own choice, which begins with
	// X25519MLKEM768. To a server that knows none of the groups with ML-KEM they cost
	// this side CPU time for nothing. TLS 1.2 needs the group of an ECDSA certificate's
	// key among them, too (RFC 8422, section 5.1).
	Groups []string

	// Tickets has the connections of a context resume the sessions of earlier ones,
	// where the server sends tickets. Data is never sent ahead of the handshake (0-RTT):
	// crypto/tls does not do it.
	Tickets bool
}

// A File is a file in PEM format that was read. Its name stands in errors.
type File struct {
	Name string
	Data []byte
}

// given tells whether there is such a file, be it empty.
func (f File) given() bool { return f.Name != "" || len(f.Data) > 0 }

// Validate reports everything that is wrong with the configuration at a time, each with
// the field that it is about.
func (c Config) Validate(now time.Time) error {
	_, err := c.read(now)
	return err
}

// read makes crypto/tls's configuration, without what verifies the server.
func (c Config) read(now time.Time) (*tls.Config, error) {
	var faults []error
	fault := func(field, format string, args ...any) {
		faults = append(faults, fmt.Errorf(field+": "+format, args...))
	}
	config := &tls.Config{
		ServerName:             c.ServerName,
		NextProtos:             c.ALPN,
		InsecureSkipVerify:     true, // unless Insecure, a verifier does it; see build
		SessionTicketsDisabled: !c.Tickets,
		// Few records, the same for each connection: crypto/tls would begin with small
		// ones and enlarge them.
		DynamicRecordSizingDisabled: true,
	}
	if c.ServerName == "" && !c.Insecure {
		fault("server name", "is missing: give the name that the server's certificate is for, or skip the check (insecure)")
	}
	if len(c.ServerName) > 255 {
		fault("server name", "has %d bytes: a host name has at most 255", len(c.ServerName))
	}
	size := 0
	for i, p := range c.ALPN {
		size += 1 + len(p)
		if len(p) == 0 || len(p) > 255 {
			fault(fmt.Sprintf("alpn %d", i+1), "has %d bytes: want 1 to 255, as in h2 or http/1.1", len(p))
		}
	}
	if size > 4<<10 {
		fault("alpn", "takes %d bytes: want at most 4096", size)
	}
	version := func(field, name string, otherwise uint16) uint16 {
		for _, v := range versions {
			if v.name == name {
				return v.id
			}
		}
		if name != "" {
			fault(field, "%q is not spoken: want 1.2 or 1.3", name)
		}
		return otherwise
	}
	config.MinVersion = version("min version", c.MinVersion, tls.VersionTLS12)
	config.MaxVersion = version("max version", c.MaxVersion, tls.VersionTLS13)
	if config.MinVersion > config.MaxVersion {
		fault("max version", "%s is below the min version, %s: exchange them", c.MaxVersion, c.MinVersion)
	}
	for i, name := range c.CipherSuites {
		field := fmt.Sprintf("cipher suite %d", i+1)
		switch s := suiteByName(name); {
		case s == nil:
			fault(field, "%q is not known: want some of %s", name, strings.Join(cipherSuiteNames(), ", "))
		case s.SupportedVersions[0] == tls.VersionTLS13:
			fault(field, "%s is one of TLS 1.3, whose suites cannot be chosen: leave it out", name)
		case config.MinVersion == tls.VersionTLS13:
			fault(field, "%s is one of TLS 1.2, which is not offered: leave it out, or lower the min version", name)
		default:
			config.CipherSuites = append(config.CipherSuites, s.ID)
		}
	}
	for i, name := range c.Groups {
		id, ok := groupByName(name)
		if !ok {
			fault(fmt.Sprintf("group %d", i+1), "%q is not known: want some of %s", name, strings.Join(groupNames(), ", "))
		}
		config.CurvePreferences = append(config.CurvePreferences, id)
	}
	if c.CA.given() {
		var err error
		if config.RootCAs, err = authorities(c.CA, now); err != nil {
			fault("ca", "%w", err)
		}
	}
	switch {
	case c.Certificate.given() && c.Key.given():
		pair, err := keyPair(c.Certificate, c.Key)
		if err != nil {
			faults = append(faults, err)
		}
		// A function returns the certificate, as crypto/tls otherwise sends none to servers that name
		// authorities that did not sign it. Then the server could not say why it refuses it.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	case c.Certificate.given():
		fault("key", "is missing: the certificate, %s, needs its private key", c.Certificate.Name)
	case c.Key.given():
		fault("certificate", "is missing: the key, %s, needs its certificate", c.Key.Name)
	}
	if c.Tickets {
		config.ClientSessionCache = &tickets{}
	}
	return config, errors.Join(faults...)
}

// build makes crypto/tls's configuration.
func (c Config) build(now time.Time) (*tls.Config, error) {
	config, err := c.read(now)
	if err != nil {
		return nil, err
	}
	if c.Insecure {
		return config, nil
	}
	if config.RootCAs == nil {
		// Now, and not in the first handshake: it takes milliseconds.
		if config.RootCAs, err = x509.SystemCertPool(); err != nil {
			return nil, fmt.Errorf("the system's certificate authorities: %w: give some (ca), or skip the check (insecure)", err)
		}
	}
	config.VerifyConnection = (&verifier{roots: config.RootCAs, name: c.ServerName}).verify
	return config, nil
}

// Standard returns crypto/tls's configuration for the same connections, for requests to a
// server that are not part of the load. Sessions are not resumed.
func (c Config) Standard(now time.Time) (*tls.Config, error) {
	c.Tickets = false
	return c.build(now)
}

// maxFile bounds a file's size: the system's authorities together take 250 KB.
const maxFile = 4 << 20

// blocks returns the PEM blocks of a file, or a fault if there is none or one is cut short.
func blocks(f File) (found []*pem.Block, err error) {
	if len(f.Data) > maxFile {
		return nil, fmt.Errorf("%s: has %d bytes: want at most %d", f.Name, len(f.Data), maxFile)
	}
	rest := f.Data
	for {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		found = append(found, b)
	}
	if i := bytes.Index(rest, []byte("-----BEGIN ")); i >= 0 {
		line := 1 + bytes.Count(f.Data[:len(f.Data)-len(rest)+i], []byte("\n"))
		return nil, fmt.Errorf("%s:%d: the block that begins here is cut short or is not base64: copy the file again", f.Name, line)
	}
	switch {
	case len(found) > 0:
		return found, nil
	case len(bytes.TrimSpace(f.Data)) == 0:
		return nil, fmt.Errorf("%s: is empty: want PEM, which begins with -----BEGIN", f.Name)
	case f.Data[0] == 0x30: // an ASN.1 sequence
		return nil, fmt.Errorf("%s: is DER, want PEM: convert it (openssl x509 -inform DER, openssl pkey -inform DER)", f.Name)
	default:
		return nil, fmt.Errorf("%s: is not PEM: want a file with lines -----BEGIN CERTIFICATE----- or -----BEGIN PRIVATE KEY-----", f.Name)
	}
}

// authorities reads certificates to be trusted.
func authorities(f File, now time.Time) (*x509.CertPool, error) {
	found, err := blocks(f)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	var stale error
	valid := false
	for i, b := range found {
		if b.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("%s: block %d is a %s: want certificates only", f.Name, i+1, b.Type)
		}
		cert, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: certificate %d: %w", f.Name, i+1, err)
		}
		switch {
		case now.Before(cert.NotBefore):
			stale = fmt.Errorf("%s: certificate %d (%s) is valid from %s only: get another, or correct the clock", f.Name, i+1, nameOf(cert.Subject), day(cert.NotBefore))
		case now.After(cert.NotAfter):
			stale = fmt.Errorf("%s: certificate %d (%s) expired on %s: get a new one", f.Name, i+1, nameOf(cert.Subject), day(cert.NotAfter))
		default:
			valid = true
		}
		pool.AddCert(cert)
	}
	if !valid {
		return nil, stale
	}
	return pool, nil
}

// keyPair reads a certificate and its key.
func keyPair(certificate, key File) (tls.Certificate, error) {
	if _, err := blocks(certificate); err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	keys, err := blocks(key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("key: %w", err)
	}
	for _, b := range keys {
		if b.Type == "ENCRYPTED PRIVATE KEY" || b.Headers["DEK-Info"] != "" {
			return tls.Certificate{}, fmt.Errorf("key: %s: is encrypted: decrypt it (openssl pkey -in %s -out plain.pem)", key.Name, key.Name)
		}
	}
	pair, err := tls.X509KeyPair(certificate.Data, key.Data)
	if err != nil {
		err = fmt.Errorf("certificate and key: %s, %s: %w", certificate.Name, key.Name, bare(err))
	}
	return pair, err
}

// day writes a time as in 2025-01-31.
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
