package control

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestReconfigure: a configuration that has changed holds at once, all of it or nothing; the log says why it does not.
func TestReconfigure(t *testing.T) {
	c := config(t)
	c.File = filepath.Join(t.TempDir(), "control.yaml")
	at := time.Now()
	touch := func() {
		at = at.Add(time.Second)
		renew(t, c.File, "", at)
	}
	touch()
	var (
		next   Config
		failed error
		log    record
	)
	c.Reread = func() (Config, error) { return next, failed }
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s, _ := serving(t, c)
	put := func(name string, want int) {
		t.Helper()
		if got, text := do(t, http.DefaultClient, "PUT", "http://"+s.Addr().String()+"/v1/configs/"+name, `{"content":""}`); got != want {
			t.Errorf("%d, want %d: %s", got, want, text)
		}
	}
	put("a", 201)
	next = c
	next.Plane.Limits.Configs = 2
	if err := s.host.Files().LookNow(); err != nil { // the file has not changed
		t.Error(err)
	}
	put("b", 201)
	put("c", 201)
	touch()
	if err := s.host.Files().LookNow(); err != nil {
		t.Error(err)
	}
	put("d", 403)
	log.take()
	next.Plane.Limits.Configs, next.ClientCA = 100, filepath.Join(t.TempDir(), "none.pem")
	touch()
	if err := s.host.Files().LookNow(); err == nil || !strings.Contains(log.take(), "none.pem") {
		t.Errorf("no such file: %v", err)
	}
	put("d", 403)
	next.ClientCA, failed = "", errors.New("listen: needs a restart to change")
	touch()
	if err := s.host.Files().LookNow(); err == nil || !strings.Contains(log.take(), "listen: needs a restart") {
		t.Errorf("a field that needs a restart: %v", err)
	}
	put("d", 403)
	failed, next.Rate, next.Burst = nil, 0.001, 1
	touch()
	if err := s.host.Files().LookNow(); err != nil {
		t.Error(err)
	}
	put("d", 201)
	put("d", 429)
}

// TestClientCAIsReadAgain: certificates of an authority that is added are accepted by HTTP and by gRPC without a restart,
// and those of one that is removed are not.
func TestClientCAIsReadAgain(t *testing.T) {
	ca, first, second := newAuthority(t), newAuthority(t), newAuthority(t)
	server := ca.sign("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	clients := []pair{first.sign("ann", &x509.Certificate{ExtKeyUsage: usage}), second.sign("ann", &x509.Certificate{ExtKeyUsage: usage})}
	c := config(t)
	c.GRPC = "127.0.0.1:0"
	c.Principals = filepath.Join(t.TempDir(), "principals.yaml")
	renew(t, c.Principals, "principals: [{name: ann, certificate: ann, grants: [{namespace: '*', role: reader}]}]", time.Now())
	c.Certificate, c.Key = server.file, server.privateKey
	c.ClientCA = filepath.Join(t.TempDir(), "ca.pem")
	texts := []string{string(read(t, first.file)), string(read(t, second.file))}
	renew(t, c.ClientCA, texts[0], time.Now())
	s, _ := serving(t, c)
	known := func(p pair, address, protocol string) bool {
		conf := &tls.Config{RootCAs: x509.NewCertPool(), NextProtos: []string{protocol}, Certificates: []tls.Certificate{{Certificate: [][]byte{p.cert.Raw}, PrivateKey: p.key}}}
		conf.RootCAs.AddCert(ca.cert)
		connection, err := tls.Dial("tcp", address, conf)
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close() //nolint:errcheck // it was only read
		if got := connection.ConnectionState().NegotiatedProtocol; got != protocol {
			t.Errorf("%s: %q is spoken", protocol, got)
		}
		// A refused certificate shows at the first read.
		if err := connection.SetReadDeadline(time.Now().Add(hangGuard)); err != nil {
			t.Fatal(err)
		}
		if protocol == "http/1.1" {
			if _, err := fmt.Fprintf(connection, "GET /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
				return false
			}
		}
		_, err = connection.Read(make([]byte, 1))
		return err == nil
	}
	hold := func(what string, want ...bool) {
		t.Helper()
		for i, p := range clients {
			if known(p, s.Addr().String(), "http/1.1") != want[i] || known(p, s.Addr().String(), "h2") != want[i] || known(p, s.GRPCAddr().String(), "h2") != want[i] {
				t.Errorf("%s: the certificate of authority %d: want %v", what, i+1, want[i])
			}
		}
	}
	hold("at the start", true, false)
	renew(t, c.ClientCA, texts[0]+texts[1], time.Now().Add(time.Second))
	if err := s.host.Files().LookNow(); err != nil {
		t.Error(err)
	}
	hold("both", true, true)
	renew(t, c.ClientCA, "nothing", time.Now().Add(2*time.Second))
	if err := s.host.Files().LookNow(); err == nil {
		t.Error("a file without certificates is taken")
	}
	hold("a fault", true, true)
	renew(t, c.ClientCA, texts[1], time.Now().Add(3*time.Second))
	if err := s.host.Files().LookNow(); err != nil {
		t.Error(err)
	}
	hold("the second", false, true)
}
