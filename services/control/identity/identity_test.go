package identity

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"
)

func TestIssue(t *testing.T) {
	now := time.Now()
	cert, key, err := New("control.internal", now)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Parse("control.internal", cert, key)
	if err != nil {
		t.Fatal(err)
	}
	one, err := a.Issue("default", "shop", now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(one.Chain, one.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.Roots())
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			t.Error(err)
		}
	}
	if got := pair.Leaf.URIs[0].String(); got != "spiffe://control.internal/ns/default/sa/shop" || pair.Leaf.IsCA || !pair.Leaf.NotAfter.Equal(one.Expires.Truncate(time.Second)) {
		t.Errorf("%s until %v", got, pair.Leaf.NotAfter)
	}
	if long, err := a.Issue("default", "shop", now, 100*365*24*time.Hour); err != nil || !long.Expires.Equal(a.cert.NotAfter) {
		t.Errorf("%v: a certificate outlives its authority", err)
	}
	if _, err := a.Issue("default", "shop", a.cert.NotAfter, time.Hour); err == nil {
		t.Error("an authority that has ended issues")
	}
}

func TestParse(t *testing.T) {
	cert, key, err := New("a", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := New("a", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	a, err := Parse("a", cert, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := a.Issue("n", "s", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2][]byte{
		"nothing": {nil, nil}, "no certificate": {key, key}, "no key": {cert, cert}, "another's key": {cert, other}, "one that may not sign": {leaf.Chain, leaf.Key},
	} {
		if _, err := Parse("a", c[0], c[1]); err == nil {
			t.Errorf("%s: no fault", name)
		}
	}
}
