package store

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"dyno/internal/freeport"
)

// A cluster is an etcd of one member that listens, as somebody else's would.
type cluster struct {
	t       *testing.T
	dir     string
	address string
	tls     func(*embed.Config)
	etcd    *embed.Etcd
}

func newCluster(t *testing.T, tls func(*embed.Config)) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), address: "127.0.0.1:0", tls: tls}
	c.start()
	c.address = c.etcd.Clients[0].Addr().String() // the same when it is started again
	t.Cleanup(func() { c.etcd.Close() })
	return c
}

func (c *cluster) start() {
	c.t.Helper()
	scheme := "http"
	if c.tls != nil {
		scheme = "https"
	}
	e := embed.NewConfig()
	e.Dir, e.Name, e.UnsafeNoFsync = c.dir, "one", true
	e.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	e.InitialCluster = e.InitialClusterFromName("one")
	e.ListenPeerUrls = nil
	e.ListenClientUrls = []url.URL{{Scheme: scheme, Host: c.address}}
	e.AdvertiseClientUrls = e.ListenClientUrls
	e.BcryptCost = 4 // the least: passwords are tested, not their strength
	e.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	if c.tls != nil {
		c.tls(e)
	}
	var err error
	if c.etcd, err = embed.StartEtcd(e); err != nil {
		c.t.Fatal(err)
	}
	select {
	case <-c.etcd.Server.ReadyNotify():
	case <-c.t.Context().Done():
		c.t.Fatal("etcd is not ready")
	}
}

func (c *cluster) config() Config {
	s := Defaults()
	s.Endpoints = []string{c.address}
	s.CompactPeriod = 0
	return s
}

func openCluster(t *testing.T, c Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// TestClusterRestored: after a restore of etcd, followers get the whole state, and all replicas have a new epoch.
func TestClusterRestored(t *testing.T) {
	t.Parallel() // it waits for elections and for servers that are away
	c := newCluster(t, nil)
	first := openCluster(t, c.config())
	kept := set(t, first, "s/kept", "1")
	epoch := first.Epoch()
	batches := make(chan Batch, 10_000)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- first.Follow(ctx, State, func(b Batch) { batches <- b }) }()
	c.etcd.Close()
	earlier := filepath.Join(t.TempDir(), "earlier")
	if err := os.CopyFS(earlier, os.DirFS(c.dir)); err != nil {
		t.Fatal(err)
	}
	c.start()
	var last int64
	for i := 0; i < 10 || last == 0; i++ { // the client connects when it does
		if o, err := first.Apply(t.Context(), Request{Then: []Op{{Key: "s/lost", Value: []byte("1")}}}); err == nil {
			last = o.Revision
		}
	}
	for b := range batches {
		if b.Epoch != "" && b.Epoch != epoch {
			t.Fatalf("batch %+v, and the epoch was %s", b, epoch)
		}
		if b.Revision >= last {
			break
		}
	}
	c.etcd.Close()
	c.dir = earlier
	c.start()
	for b := range batches {
		if b.Revision >= last {
			continue // of before
		}
		events := map[string]Event{}
		for _, e := range b.Events {
			events[e.Key] = e
		}
		if !b.Listed || b.Epoch == epoch || events["s/kept"].Revision != kept || !events["s/lost"].Removed || events["s/lost"].Revision != b.Revision {
			t.Errorf("told %+v", b)
		}
		break
	}
	if first.Epoch() == epoch {
		t.Error("the epoch is the same, and so are the tokens of what is lost")
	}
	second := openCluster(t, c.config())
	if second.Epoch() != first.Epoch() {
		t.Errorf("epochs %s and %s", first.Epoch(), second.Epoch())
	}
	// The store that noticed nothing learns it from the other.
	second.epoch.Store(&epoch)
	if err := second.readEpoch(t.Context()); err != nil || second.Epoch() != first.Epoch() {
		t.Errorf("epochs %s and %s, %v", first.Epoch(), second.Epoch(), err)
	}
	second.epoch.Store(&epoch)
	if err := second.RenewEpoch(t.Context()); err != nil || second.Epoch() != first.Epoch() {
		t.Errorf("two new epochs: %s and %s, %v", first.Epoch(), second.Epoch(), err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// TestClusterRefusesLarge: what an etcd with default bounds refuses fails by itself, and says which flag of etcd helps.
func TestClusterRefusesLarge(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil).config()
	c.RequestBytes = 20 << 20
	s := openCluster(t, c)
	var group []*pending
	for name, size := range map[string]int{"small": 1, "more than etcd takes": 1600 << 10, "more than its gRPC takes": 10 << 20} {
		group = append(group, &pending{request: Request{Then: []Op{{Key: "s/" + name, Value: make([]byte, size)}}}, size: size, done: make(chan result, 1)})
	}
	s.commit(group)
	for _, p := range group {
		got := <-p.done
		if p.size == 1 && (got.err != nil || !got.outcome.Done) {
			t.Errorf("%s: %+v", p.request.Then[0].Key, got)
		}
		if p.size > 1 && (!errors.Is(got.err, ErrTooLarge) || !strings.Contains(got.err.Error(), "--max-request-bytes")) {
			t.Errorf("%s: %v", p.request.Then[0].Key, got.err)
		}
	}
}

// TestClusterOfLargeValues: large values that exceed one message are listed, backed up, and followed after an
// interruption.
func TestClusterOfLargeValues(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: fills a cluster with large values")
	}
	t.Parallel()
	s := openCluster(t, newCluster(t, nil).config())
	const size = 320 << 10
	const n = maxMessage/size + 20
	value := strings.Repeat("x", size)
	before, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 { // small ones before them, so that a page is expected to take more
		var ops []Op
		for k := range MaxRequestOps {
			ops = append(ops, Op{Key: fmt.Sprintf("s/a%02d-%02d", i, k), Value: []byte("small")})
		}
		done(t, s, Request{Then: ops})
	}
	var last int64
	for i := range n {
		last = set(t, s, fmt.Sprintf("s/b%04d", i), value)
	}
	for name, f := range map[string]*follower{
		"who lists":             {},
		"who has missed it all": {known: map[string]int64{}, revision: before},
	} {
		large := 0
		ctx, cancel := context.WithCancel(t.Context())
		f.store, f.prefix = s, State
		f.take = func(b Batch) {
			for _, e := range b.Events {
				if len(e.Value) == size {
					large++
				}
			}
			if b.Revision >= last {
				cancel()
			}
		}
		if _, err := f.watchOnce(ctx); ctx.Err() == nil || large != n {
			t.Errorf("%s was told %d of %d: %v", name, large, n, err)
		}
		cancel()
	}
	if kvs, more, err := s.List(t.Context(), "s/b", "", n-1); err != nil || len(kvs) != n-1 || !more {
		t.Errorf("listed %d, %v, %v: want %d, and more", len(kvs), more, err, n-1)
	}
	if _, err := snapshot(t, s, func() {}); err != nil {
		t.Error(err)
	}
}

// TestClusterWithCredentials: TLS in both directions, and a user who has no more than the
// prefix.
func TestClusterWithCredentials(t *testing.T) {
	t.Parallel() // it waits for elections and for servers that are away
	dir := t.TempDir()
	ca := sign(t, dir, "ca", nil, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	server := sign(t, dir, "server", ca, &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	client := sign(t, dir, "client", ca, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	c := newCluster(t, func(e *embed.Config) {
		e.ClientTLSInfo.CertFile, e.ClientTLSInfo.KeyFile = server.file, server.private
		e.ClientTLSInfo.TrustedCAFile, e.ClientTLSInfo.ClientCertAuth = ca.file, true
	})
	config := c.config()
	config.CA, config.Cert, config.Key = ca.file, client.file, client.private
	config.Timeout = 5 * time.Second

	t.Run("permitted", func(t *testing.T) {
		root := openCluster(t, config)
		auth := root.client.Auth
		for _, step := range []func() error{
			func() error { _, err := auth.UserAdd(t.Context(), "root", "r"); return err },
			func() error { _, err := auth.RoleAdd(t.Context(), "root"); return err },
			func() error { _, err := auth.UserGrantRole(t.Context(), "root", "root"); return err },
			func() error { _, err := auth.UserAdd(t.Context(), "dyno", "secret"); return err },
			func() error { _, err := auth.RoleAdd(t.Context(), "dyno"); return err },
			func() error {
				_, err := auth.RoleGrantPermission(t.Context(), "dyno", "dyno/", clientv3.GetPrefixRangeEnd("dyno/"), clientv3.PermissionType(clientv3.PermReadWrite))
				return err
			},
			func() error { _, err := auth.UserGrantRole(t.Context(), "dyno", "dyno"); return err },
			func() error { _, err := auth.AuthEnable(t.Context()); return err },
		} {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		user := config
		user.User, user.Password = "dyno", "secret"
		s := openCluster(t, user)
		set(t, s, "s/a", "1")
		done(t, s, Request{Then: []Op{{Key: "l/a", Expires: true}}})
		if got := get(t, s, "s/a"); string(got.Value) != "1" {
			t.Errorf("%+v", got)
		}
		if _, err := s.Status(t.Context()); err != nil {
			t.Error(err)
		}
	})
	for name, change := range map[string]func(*Config){
		"wrong password": func(c *Config) { c.User, c.Password = "dyno", "other" },
		"no user":        func(*Config) {},
		"other prefix":   func(c *Config) { c.User, c.Password, c.Prefix = "dyno", "secret", "x/" },
		"no certificate": func(c *Config) { c.User, c.Password, c.Cert, c.Key = "dyno", "secret", "", "" },
		"no TLS":         func(c *Config) { c.User, c.Password, c.CA, c.Cert, c.Key = "dyno", "secret", "", "", "" },
	} {
		t.Run(name, func(t *testing.T) {
			bad := config
			bad.Timeout = time.Second
			change(&bad)
			if s, err := Open(t.Context(), bad); err == nil {
				t.Errorf("opened: %v", s.Close())
			}
		})
	}
}

// A signed certificate, and its files.
type signed struct {
	cert          *x509.Certificate
	key           *ecdsa.PrivateKey
	file, private string
}

func sign(t *testing.T, dir, name string, by *signed, template *x509.Certificate) *signed {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	s := &signed{cert, key, filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")}
	for file, block := range map[string]*pem.Block{s.file: {Type: "CERTIFICATE", Bytes: der}, s.private: {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestMembers: three stores that are members of one cluster, over TLS. Package faults holds
// that one that ends stops nobody, and catches up when it is back.
func TestMembers(t *testing.T) {
	t.Parallel() // it waits for elections and for servers that are away
	dir := t.TempDir()
	ca := sign(t, dir, "ca", nil, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	member := sign(t, dir, "member", ca, &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	names := []string{"a", "b", "c"}
	peers := map[string]string{}
	for _, name := range names {
		peers[name] = freeport.Address(t)
	}
	stores := make([]*Store, 3)
	var wg sync.WaitGroup
	for i, name := range names {
		c := config(t.TempDir())
		c.Name, c.Peers = name, peers
		c.PeerCA, c.PeerCert, c.PeerKey = ca.file, member.file, member.private
		c.Timeout = 20 * time.Second
		wg.Go(func() {
			var err error
			if stores[i], err = Open(t.Context(), c); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for i, s := range stores {
		set(t, s, "s/"+names[i], "1")
	}
	for _, s := range stores {
		for _, name := range names {
			if got := get(t, s, "s/"+name); string(got.Value) != "1" {
				t.Errorf("%+v", got)
			}
		}
		if s.Epoch() != stores[0].Epoch() {
			t.Error("epochs differ")
		}
	}
	for i, s := range stores {
		wg.Go(func() {
			if err := s.Close(); err != nil {
				t.Errorf("%s: %v", names[i], err)
			}
		})
	}
	wg.Wait()
}
