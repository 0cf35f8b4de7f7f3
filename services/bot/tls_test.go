package bot

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dyno/services/internal/serve"
)

// An authority signs certificates into files of a folder.
type authority struct {
	t      *testing.T
	folder string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, folder: t.TempDir()}
	a.cert, a.key = a.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign writes NAME.pem and NAME.key.
func (a *authority) sign(name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	a.must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	a.must(err)
	a.must(os.WriteFile(a.file(name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	a.must(os.WriteFile(a.file(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	cert, err := x509.ParseCertificate(der)
	a.must(err)
	return cert, key
}

func (a *authority) file(name string) string { return filepath.Join(a.folder, name) }

func (a *authority) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// TestTLS: curl asks by TLS, with streams over HTTP/2 and HTTP/1.1. Without a certificate of the right authority, it is
// refused by the API, and by the admin listener if that has an authority. Another certificate is shown after the files
// have changed; a faulty one is not.
func TestTLS(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("needs curl")
	}
	a, other := newAuthority(t), newAuthority(t)
	server := func(name string) {
		a.sign(name, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	}
	server("server")
	for _, by := range []*authority{a, other} {
		by.sign("client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	}
	own := []string{"--cert", a.file("client.pem"), "--key", a.file("client.key")}
	foreign := []string{"--cert", other.file("client.pem"), "--key", other.file("client.key")}
	model := newLLM(t, nil)
	for name, c := range map[string]struct {
		ca, adminCA string
		shown       []string // curl's flags
		api, admin  bool     // whether they answer
	}{
		"no authority":         {api: true, admin: true},
		"no certificate":       {ca: a.file("ca.pem"), admin: true},
		"a certificate":        {ca: a.file("ca.pem"), adminCA: a.file("ca.pem"), shown: own, api: true, admin: true},
		"of another authority": {ca: a.file("ca.pem"), adminCA: a.file("ca.pem"), shown: foreign},
		"none for admin":       {adminCA: a.file("ca.pem"), api: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := serving(t, model, func(config *Config) {
				config.Admin, config.TLS, config.ClientCA, config.AdminClientCA = "127.0.0.1:0", serve.TLS{Certificate: a.file("server.pem"), Key: a.file("server.key")}, c.ca, c.adminCA
			})
			ask := func(address net.Addr, path string, answers bool, says string, flags ...string) {
				t.Helper()
				args := append([]string{"-sSiN", "--max-time", "60", "--noproxy", "*", "--cacert", a.file("ca.pem"), "https://" + address.String() + path}, append(flags, c.shown...)...)
				text, err := exec.CommandContext(t.Context(), curl, args...).CombinedOutput()
				if (err == nil) != answers || answers && !strings.HasPrefix(string(text), says) {
					t.Errorf("%s %v: %v: %s", path, flags, err, text)
				}
				if strings.HasSuffix(path, "completions") && answers && !strings.Contains(string(text), "data: [DONE]") {
					t.Errorf("%s", text)
				}
			}
			question := `{"model":"dyno-1","stream":true,"messages":[{"role":"user","content":"hi"}]}`
			ask(b.Addr(), "/v1/chat/completions", c.api, "HTTP/2 200", "--http2", "-d", question)
			ask(b.Addr(), "/v1/chat/completions", c.api, "HTTP/1.1 200", "--http1.1", "-d", question)
			ask(b.AdminAddr(), "/api/v1/keys", c.admin, "HTTP/2 200", "--http2", "-H", "Origin: https://"+b.AdminAddr().String())
			ask(b.AdminAddr(), "/api/v1/keys", c.admin, "HTTP/2 403", "--http2", "-H", "Origin: http://"+b.AdminAddr().String())
		})
	}
	b := serving(t, model, func(config *Config) {
		config.TLS = serve.TLS{Certificate: a.file("server.pem"), Key: a.file("server.key")}
	})
	shows := func() string {
		roots := x509.NewCertPool()
		roots.AddCert(a.cert)
		c, err := tls.Dial("tcp", b.Addr().String(), &tls.Config{RootCAs: roots})
		a.must(err)
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	replace := func(with ...string) error {
		for i, name := range []string{"server.pem", "server.key"} {
			a.must(os.Rename(a.file(with[i]), a.file(name)))
			a.must(os.Chtimes(a.file(name), time.Time{}, time.Now().Add(time.Duration(len(with[0]))*time.Second)))
		}
		return b.host.Files().LookNow()
	}
	server("second")
	if err := replace("second.pem", "second.key"); err != nil || shows() != "second" {
		t.Errorf("%v: %s", err, shows())
	}
	server("a third")
	if err := replace("a third.key", "a third.pem"); err == nil || shows() != "second" {
		t.Errorf("%v: %s", err, shows())
	}
}
