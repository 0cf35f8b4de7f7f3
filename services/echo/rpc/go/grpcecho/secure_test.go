package grpcecho

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"dyno/services/echo/rpc/echogrpc"
	"dyno/services/echo/rpc/echopb"
	"dyno/services/echo/rpc/go/program"
)

// A secured server has a certificate for its address, with the requested key, and lets clients resume sessions.
func TestSecure(t *testing.T) {
	for kind, algorithm := range map[Security]x509.PublicKeyAlgorithm{ECDSA: x509.ECDSA, RSA: x509.RSA} {
		options, err := kind.Options()
		if err != nil {
			t.Fatal(err)
		}
		server := New(program.Options{MaxMessage: 1 << 20}, Generated, options...)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve([]net.Listener{l}) }()

		// A first connection learns whom to trust.
		first, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AddCert(first.ConnectionState().PeerCertificates[0])
		first.Close()
		var resumed []bool
		config := &tls.Config{RootCAs: roots, ClientSessionCache: tls.NewLRUClientSessionCache(1), VerifyConnection: func(s tls.ConnectionState) error {
			if got := s.PeerCertificates[0].PublicKeyAlgorithm; got != algorithm || s.NegotiatedProtocol != "h2" {
				t.Errorf("%s: a key of %v, protocol %q", kind, got, s.NegotiatedProtocol)
			}
			resumed = append(resumed, s.DidResume)
			return nil
		}}
		for range 2 {
			conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(config)))
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
			if m, err := echogrpc.NewEchoClient(conn).Echo(ctx, &echopb.EchoRequest{Text: "t"}); err != nil || m.Text != "t" {
				t.Errorf("%s: %v, %v", kind, m, err)
			}
			stop()
			conn.Close()
		}
		if !slices.Equal(resumed, []bool{false, true}) {
			t.Errorf("%s: sessions resumed: %v, want the second", kind, resumed)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		server.Drain(ctx)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if options, err := Insecure.Options(); options != nil || err != nil {
		t.Errorf("%v, %v; want nothing", options, err)
	}
}
