package store

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"dyno/services/internal/secretfile"
)

// Config says where the store is and how it is used. Start from Defaults.
type Config struct {
	// Dir is the data folder of the embedded etcd, which is created if need be and
	// belongs to one process at a time. Endpoints are the host:port of an etcd cluster
	// to use instead. One of the two must be given.
	Dir       string
	Endpoints []string

	// Name and Peers make the embedded etcd one member of a cluster of its own kind, in
	// which each replica has one: Name is this one's, and Peers the host:port of all
	// members by their names, this one's included, where they listen for each other. Peers
	// on other machines need PeerCA, PeerCert and PeerKey, files in PEM: all members show
	// and check certificates.
	Name                      string
	Peers                     map[string]string
	PeerCA, PeerCert, PeerKey string
	// PeerListen is the IP:port at which this one listens for its peers, where that is
	// another than its address among Peers: where they know it by a name. "" is that address.
	PeerListen string

	// CA is a file of certificates in PEM that an endpoint's must be signed by; with it,
	// connections are encrypted. Cert and Key are files with the certificate that the
	// store shows. User and Password are etcd's. All of them are for Endpoints only.
	CA, Cert, Key  string
	User, Password string

	// Prefix is what all keys in etcd begin with; it ends with a slash.
	Prefix string

	// Quota bounds the embedded etcd's database, in bytes. When it is reached, etcd
	// refuses writes until space is reclaimed; reads go on.
	Quota int64
	// NoSync leaves fsync out: a power cut then loses what was acknowledged. It is for
	// measurements and tests of the embedded etcd.
	NoSync bool

	// MaxInflightTxns is how many groups may be on their way to etcd at a time.
	MaxInflightTxns int
	// GroupRequests and GroupBytes bound one group. A group for a cluster at Endpoints also
	// stays within the 128 operations and 1.5 MiB that etcd takes unless it is told
	// otherwise; the embedded one is.
	GroupRequests int
	GroupBytes    int
	// Queue is how many requests may wait, those of the next group apart; beyond, Apply returns
	// ErrBusy.
	Queue int
	// Timeout bounds how long the fate of a group is pursued, and every read.
	Timeout time.Duration

	// HeadPeriod is how often the store is asked for its newest revision when nobody
	// else asks, to know how old what is in memory may be.
	HeadPeriod time.Duration

	// KeepRevisions is how many revisions remain for followers that come back when old
	// ones are compacted, as long as they are no more than KeepChanges changes of this
	// store: a revision is a group, and what remains takes memory by its changes.
	// What this store reads page by page, as for a backup, it keeps for up to 10 minutes more.
	// CompactPeriod is how often this is done; 0 leaves compaction to others, as is right for
	// a shared cluster.
	KeepRevisions int64
	KeepChanges   int64
	CompactPeriod time.Duration
	// JournalAge is how long the journal of changes is kept, and JournalBytes about how
	// much of what this store wrote to it: the oldest is removed.
	JournalAge   time.Duration
	JournalBytes int64

	// Logger takes etcd's warnings too; nil discards.
	Logger *slog.Logger

	diskOf func(folder string) (disk, error) // a test's; nil asks the system
}

// Limits of the fields.
const (
	maxInflightTxns  = 64
	maxGroupRequests = 512
	maxGroupBytes    = 1 << 20 // of etcd's 1.5 MiB; the journal takes some
	maxQueue         = 1 << 20
	minQuota         = 16 << 20
	maxQuota         = 100 << 30
)

// Operations of one transaction. A transaction within one has the more room the fewer
// operations are around it, so groups take half of them at most.
const (
	clusterOps  = 128 // that etcd takes unless it is told otherwise
	embeddedOps = 4096
)

// maxOps is how many operations a transaction may have.
func (c Config) maxOps() int {
	if c.Embedded() {
		return embeddedOps
	}
	return clusterOps
}

// Defaults returns the Config that every field starts from; it has no place.
func Defaults() Config {
	return Config{
		Prefix:          "dyno/",
		Quota:           4 << 30,
		MaxInflightTxns: 2,
		GroupRequests:   256,
		GroupBytes:      maxGroupBytes,
		Queue:           8192,
		Timeout:         10 * time.Second,
		HeadPeriod:      250 * time.Millisecond,
		KeepRevisions:   20_000,
		KeepChanges:     250_000,
		CompactPeriod:   10 * time.Second,
		JournalAge:      7 * 24 * time.Hour,
		JournalBytes:    32 << 20,
	}
}

// Embedded tells whether the etcd is in this process.
func (c Config) Embedded() bool { return len(c.Endpoints) == 0 }

// Validate reports every fault at once: the field, its value, what would be right.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, field string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %v: %s", field, value, want))
		}
	}
	between := func(field string, value, low, high int64) {
		check(low <= value && value <= high, field, value, fmt.Sprintf("must be from %d to %d", low, high))
	}
	check((c.Dir != "") != (len(c.Endpoints) > 0), "data folder", fmt.Sprintf("%q and %d endpoints", c.Dir, len(c.Endpoints)),
		"give a folder for an etcd of our own, or the endpoints of a cluster")
	for i, e := range c.Endpoints {
		host, port, err := net.SplitHostPort(e)
		check(err == nil && host != "" && port != "", fmt.Sprintf("etcd %d", i+1), fmt.Sprintf("%q", e), "want host:port")
	}
	if c.Embedded() {
		check(c.CA == "" && c.Cert == "" && c.Key == "" && c.User == "" && c.Password == "", "etcd credentials", "given", "are for an etcd cluster, not for one of our own")
		between("quota", c.Quota, minQuota, maxQuota)
	} else {
		check(!c.NoSync, "no sync", c.NoSync, "is for an etcd of our own")
	}
	errs = append(errs, c.validatePeers()...)
	check((c.Cert == "") == (c.Key == ""), "etcd certificate", fmt.Sprintf("%q", c.Cert), "goes with its key, and neither alone")
	check(c.Cert == "" || c.CA != "", "etcd CA", `""`, "must be given with a certificate: it says whom to show it to")
	check((c.User == "") == (c.Password == ""), "etcd user", fmt.Sprintf("%q", c.User), "goes with its password, and neither alone")
	check(strings.HasSuffix(c.Prefix, "/") && len(c.Prefix) <= 64, "prefix", fmt.Sprintf("%q", c.Prefix), "must end with a slash and have 64 bytes at most")
	between("max inflight txns", int64(c.MaxInflightTxns), 1, maxInflightTxns)
	between("group requests", int64(c.GroupRequests), 1, maxGroupRequests)
	between("group bytes", int64(c.GroupBytes), 1024, maxGroupBytes)
	between("queue", int64(c.Queue), 1, maxQueue)
	check(c.Timeout > 0, "timeout", c.Timeout, "must be more than 0")
	check(c.HeadPeriod > 0, "head period", c.HeadPeriod, "must be more than 0")
	check(c.KeepRevisions >= 0, "keep revisions", c.KeepRevisions, "must be 0 or more")
	check(c.KeepChanges >= 0, "keep changes", c.KeepChanges, "must be 0 or more")
	check(c.CompactPeriod >= 0, "compact period", c.CompactPeriod, "must be 0 (never) or more")
	check(c.JournalBytes >= 1<<20, "journal bytes", c.JournalBytes, "must be 1048576 or more")
	check(c.JournalAge >= time.Minute, "journal age", c.JournalAge, "must be 1m or more: a group is recognized by its entry")
	return errors.Join(errs...)
}

// maxMembers bounds a cluster; more would be slower and not safer.
const maxMembers = 7

// validatePeers reports what is wrong with the members.
func (c Config) validatePeers() (errs []error) {
	fault := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	secured := c.PeerCA != "" && c.PeerCert != "" && c.PeerKey != ""
	if !secured && c.PeerCA+c.PeerCert+c.PeerKey != "" {
		fault("peer certificate", "CA, certificate and key go together, and none alone")
	}
	if len(c.Peers) == 0 {
		if c.Name != "" || secured || c.PeerListen != "" {
			fault("peers", "none: must be given with a name, a certificate or an address of a member")
		}
		return errs
	}
	if !c.Embedded() {
		fault("peers", "are for an etcd of our own, not for a cluster that is there")
	}
	if c.PeerListen != "" {
		at, err := netip.ParseAddrPort(c.PeerListen)
		switch {
		case err != nil:
			fault("peer listen", "%q: want IP:port", c.PeerListen)
		case !at.Addr().Unmap().IsLoopback() && !secured:
			fault("peer listen", "%q: can be reached from other machines: give a CA, a certificate and a key", c.PeerListen)
		}
	}
	if _, ok := c.Peers[c.Name]; !ok {
		fault("name", "%q: must be one of the peers'", c.Name)
	}
	if len(c.Peers) > maxMembers {
		fault("peers", "%d: must be %d at most", len(c.Peers), maxMembers)
	}
	for name, address := range c.Peers {
		host, port, err := net.SplitHostPort(address)
		if err != nil || host == "" || port == "" || strings.ContainsAny(name, ",= ") {
			fault("peer "+name, "%q: want NAME=host:port", address)
			continue
		}
		ip := net.ParseIP(host)
		if host != "localhost" && (ip == nil || !ip.IsLoopback()) && !secured {
			fault("peer "+name, "%q: can be reached from other machines: give a CA, a certificate and a key", address)
		}
	}
	return errs
}

// tls returns how to encrypt connections to the endpoints; nil is not at all.
func (c Config) tls() (*tls.Config, error) {
	if c.CA == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(c.CA)
	if err != nil {
		return nil, fmt.Errorf("etcd CA: %w", err)
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if !t.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("etcd CA: %s: has no certificate in PEM", c.CA)
	}
	if c.Cert != "" {
		pair, err := secretfile.LoadKeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("etcd certificate: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}
