package tlslayer

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestConfigFaults(t *testing.T) {
	ca, mine := authority(), clientCredentials()
	old := issue("old authority", nil, func(c *x509.Certificate) {
		asAuthority(c)
		c.NotBefore, c.NotAfter = time.Date(2019, 1, 2, 0, 0, 0, 0, time.UTC), time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)
	})
	early := issue("early authority", nil, func(c *x509.Certificate) {
		asAuthority(c)
		c.NotBefore, c.NotAfter = time.Date(2119, 1, 2, 0, 0, 0, 0, time.UTC), time.Date(2120, 1, 2, 0, 0, 0, 0, time.UTC)
	})
	cat := func(files ...[]byte) []byte { return slices.Concat(files...) }
	pair := func(cert, key []byte) func(*Config) {
		return func(c *Config) { c.Certificate, c.Key = File{"me.pem", cert}, File{"me.key", key} }
	}
	authorities := func(data []byte) func(*Config) { return func(c *Config) { c.CA = File{"ca.pem", data} } }
	for _, c := range []struct {
		name string
		edit func(*Config)
		want []string // the faults; none: it is in order
	}{
		{"the least", func(*Config) {}, nil},
		{"all", func(c *Config) {
			*c = Config{
				ServerName: "a.test", ALPN: []string{"h2", "http/1.1"}, CA: File{"ca.pem", ca.cert},
				Certificate: File{"me.pem", mine.cert}, Key: File{"me.key", mine.key},
				MinVersion: "1.2", MaxVersion: "1.3", Tickets: true,
				CipherSuites: []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "AES128-SHA"},
				Groups:       []string{"X25519", "p-256", "secp384r1", "X25519MLKEM768"},
			}
		}, nil},
		{"a key in the certificate's file", pair(cat(mine.cert, mine.key), cat(mine.cert, mine.key)), nil},
		{"text around PEM", authorities(cat([]byte("# our authority\n"), ca.cert, []byte("\nthe end\n"))), nil},
		{"one of two has expired", authorities(cat(old.cert, ca.cert)), nil},

		{"no name", func(c *Config) { c.ServerName = "" }, []string{"server name: is missing"}},
		{"a long name", func(c *Config) { c.ServerName = strings.Repeat("x", 256) }, []string{"server name: has 256 bytes"}},
		{"empty protocol", func(c *Config) { c.ALPN = []string{"h2", ""} }, []string{"alpn 2: has 0 bytes: want 1 to 255"}},
		{"long protocols", func(c *Config) { c.ALPN = slices.Repeat([]string{strings.Repeat("x", 255)}, 17) }, []string{"alpn: takes 4352 bytes: want at most 4096"}},
		{"versions", func(c *Config) { c.MinVersion, c.MaxVersion = "1.1", "TLS1.3" }, []string{
			`min version: "1.1" is not spoken: want 1.2 or 1.3`, `max version: "TLS1.3" is not spoken: want 1.2 or 1.3`,
		}},
		{"versions exchanged", func(c *Config) { c.MinVersion, c.MaxVersion = "1.3", "1.2" }, []string{"max version: 1.2 is below the min version, 1.3"}},
		{"suites", func(c *Config) {
			c.CipherSuites = []string{"AES", "TLS_AES_128_GCM_SHA256"}
		}, []string{`cipher suite 1: "AES" is not known: want some of TLS_ECDHE_`, "cipher suite 2: TLS_AES_128_GCM_SHA256 is one of TLS 1.3, whose suites cannot be chosen"}},
		{"suites for nothing", func(c *Config) {
			c.CipherSuites, c.MinVersion = []string{"AES128-SHA"}, "1.3"
		}, []string{"cipher suite 1: AES128-SHA is one of TLS 1.2, which is not offered"}},
		{"groups", func(c *Config) { c.Groups = []string{"x25519", "x448"} }, []string{`group 2: "x448" is not known: want some of X25519MLKEM768, `}},

		{"an empty file", authorities(nil), []string{"ca: ca.pem: is empty"}},
		{"words", authorities([]byte("hello\n")), []string{"ca: ca.pem: is not PEM"}},
		{"DER", authorities(ca.parsed.Raw), []string{"ca: ca.pem: is DER, want PEM: convert it"}},
		{"cut short", authorities(cat([]byte("\n\n"), ca.cert[:len(ca.cert)-30])), []string{"ca: ca.pem:3: the block that begins here is cut short"}},
		{"a key", authorities(cat(ca.cert, mine.key)), []string{"ca: ca.pem: block 2 is a PRIVATE KEY: want certificates only"}},
		{"not a certificate", authorities(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})), []string{"ca: ca.pem: certificate 1: "}},
		{"expired", authorities(old.cert), []string{"ca: ca.pem: certificate 1 (old authority) expired on 2020-01-02: get a new one"}},
		{"not yet valid", authorities(early.cert), []string{"ca: ca.pem: certificate 1 (early authority) is valid from 2119-01-02 only"}},
		{"too long", authorities(make([]byte, maxFile+1)), []string{"ca: ca.pem: has 4194305 bytes: want at most 4194304"}},

		{"no key", func(c *Config) { c.Certificate = File{"me.pem", mine.cert} }, []string{"key: is missing: the certificate, me.pem, needs its private key"}},
		{"no certificate", func(c *Config) { c.Key = File{"me.key", mine.key} }, []string{"certificate: is missing: the key, me.key, needs its certificate"}},
		{"another's key", pair(mine.cert, ca.key), []string{"certificate and key: me.pem, me.key: private key does not match"}},
		{"a certificate for a key", pair(mine.cert, mine.cert), []string{"certificate and key: me.pem, me.key: found a certificate rather than a key"}},
		{"no PEM", pair([]byte("x"), mine.key), []string{"certificate: me.pem: is not PEM"}},
		{"no PEM key", pair(mine.cert, []byte("x")), []string{"key: me.key: is not PEM"}},
		{"encrypted", pair(mine.cert, pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")})), []string{
			"key: me.key: is encrypted: decrypt it (openssl pkey -in me.key -out plain.pem)",
		}},
		{"encrypted in the old way", pair(mine.cert, pem.EncodeToMemory(&pem.Block{
			Type: "EC PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00"}, Bytes: []byte("x"),
		})), []string{"key: me.key: is encrypted"}},
		{"broken key", pair(mine.cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})), []string{"certificate and key: me.pem, me.key: failed to parse private key"}},
		{"many at once", func(c *Config) {
			*c = Config{MinVersion: "2", Groups: []string{"x"}, CA: File{"ca.pem", nil}, Key: File{"k", nil}}
		}, []string{"server name: ", "min version: ", "group 1: ", "ca: ", "certificate: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := Config{ServerName: "a.test"}
			c.edit(&config)
			err := config.Validate(time.Now())
			if len(c.want) == 0 {
				if err != nil {
					t.Errorf("%v", err)
				}
				return
			}
			if err == nil {
				t.Fatal("no fault was found")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(c.want) {
				t.Fatalf("%d faults, want %d:\n%v", len(lines), len(c.want), err)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("%s\nwant it to begin with %s", lines[i], want)
				}
			}
			if _, err := NewContext(config); err == nil || !strings.HasPrefix(err.Error(), "tls: ") {
				t.Errorf("a context of it: %v", err)
			}
		})
	}
}

// Without authorities of one's own, the system's are asked.
func TestSystemAuthorities(t *testing.T) {
	config := clientConfig("")
	config.CA = File{}
	x, err := NewContext(config)
	if err != nil {
		t.Skip("the system has no certificate authorities: ", err)
	}
	l := newLink(t, x, serverConfig()).handshake()
	if l.err == nil || !strings.Contains(l.err.Error(), "unknown authority (test authority)") {
		t.Errorf("%v", l.err)
	}
}
