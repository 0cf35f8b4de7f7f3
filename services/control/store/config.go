package store

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"dyno/internal/fields"
	"dyno/internal/secretfile"
)

// Config says where the store is, and has its bounds. Start from Defaults.
type Config struct {
	// One process at a time may use the data folder. Either it or Endpoints must be given.
	Dir       string   `yaml:"data" kind:"path" doc:"the folder of an etcd of its own, which is created if need be"`
	Endpoints []string `yaml:"etcd" doc:"an etcd cluster instead: host:port,host:port"`

	// Name and Peers join the embedded etcds of several replicas into a cluster, with one member each. Peers on other
	// machines need PeerCA, PeerCert and PeerKey, files in PEM: all members show and verify certificates.
	Name       string            `yaml:"name" doc:"this replica's name among the peers"`
	Peers      map[string]string `yaml:"peers" names:"any" most:"7" doc:"where the etcds of all replicas listen for each other, by name; as a flag: a=host:port,b=host:port,c=host:port"`
	Join       bool              `yaml:"join" doc:"the other peers run already: join them, once they were told by dyno ctl member add"`
	PeerListen string            `yaml:"peer_listen" otherwise:"its address among the peers" doc:"where this one's etcd listens for its peers, if they know it by a name: IP:port"`
	PeerCA     string            `yaml:"peer_ca" kind:"path" doc:"certificates that the peers' are signed by"`
	PeerCert   string            `yaml:"peer_cert" kind:"path" doc:"the certificate to show peers"`
	PeerKey    string            `yaml:"peer_key" kind:"path" doc:"its key"`

	// These are for Endpoints only.
	CA       string          `yaml:"etcd_ca" kind:"path" doc:"certificates that the cluster's are signed by; connections are encrypted then"`
	Cert     string          `yaml:"etcd_cert" kind:"path" doc:"the certificate to show the cluster"`
	Key      string          `yaml:"etcd_key" kind:"path" doc:"its key"`
	User     string          `yaml:"etcd_user" doc:"the cluster's user to be"`
	Password secretfile.Text `yaml:"etcd_password_file" doc:"the file of that user's password"`

	Prefix string `yaml:"etcd_prefix" default:"dyno/" doc:"the prefix of all keys; it ends with a slash"`

	// When the database is full, etcd refuses writes until space is reclaimed; reads go on.
	Quota int64 `yaml:"quota" kind:"size" range:"16MiB..100GiB" default:"4GiB" doc:"bytes that the database of data may have; beyond, writes are refused"`
	// NoSync is for measurements and tests of the embedded etcd.
	NoSync bool `yaml:"no_sync" doc:"do not wait for the disk: a power cut loses acknowledged changes"`

	MaxInflightTxns int `yaml:"max_inflight_txns" range:"1..64" default:"2" doc:"transactions on their way at a time"`
	// GroupRequests and GroupBytes bound one group. With a cluster at Endpoints, a group also stays within etcd's
	// default bounds, 128 operations and 1.5 MiB; the embedded etcd has larger ones.
	GroupRequests int `yaml:"group_requests" range:"1..512" default:"256" doc:"changes in one transaction"`
	GroupBytes    int
	RequestBytes  int // bounds one request, which goes alone if it is larger than a group; etcd in the process takes as much
	// Queue does not count the requests of the next group. If it is full, Apply returns ErrBusy.
	Queue   int           `yaml:"queue" range:"1..1048576" default:"8192" doc:"changes that may wait; beyond: 503"`
	Timeout time.Duration `yaml:"store_timeout" range:"1ms..1h" default:"10s" doc:"how long the store may take to answer"`

	// HeadPeriod is the longest pause between two queries of the newest revision. They bound the age of the state in
	// memory.
	HeadPeriod time.Duration

	// A revision is a group; kept revisions take memory by their changes. A revision that is read page by page, as
	// for a backup, is kept for up to 10 minutes more.
	KeepRevisions int64         `yaml:"keep_revisions" range:"0..9007199254740992" default:"20000" doc:"revisions that remain for replicas that come back"`
	KeepChanges   int64         `yaml:"keep_changes" range:"0..9007199254740992" default:"250000" doc:"the most changes of this replica that these revisions may have; a KiB counts as one more"`
	CompactPeriod time.Duration `yaml:"compact_period" range:"0..24h" default:"10s" doc:"how often older ones are removed; 0 is never, as with etcd"`
	// It must be long enough: a group that is sent again is recognized by its journal entry.
	JournalAge   time.Duration `yaml:"audit_age" range:"1m..87600h" default:"168h" doc:"how long the audit goes back"`
	JournalBytes int64         `yaml:"audit_bytes" kind:"size" range:"1MiB..1024GiB" default:"32MiB" doc:"about how many bytes of it are kept"`

	// Logger takes etcd's warnings too; nil discards.
	Logger *slog.Logger

	diskOf      func(folder string) (disk, error) // for tests; nil asks the system
	reclaimTime time.Duration                     // how long Reclaim may take, but in tests maxReclaimTime
}

// The bounds of a group. The journal takes a part of etcd's 1.5 MiB.
const (
	maxGroupRequests = 512
	maxGroupBytes    = 1 << 20
)

// Bounds on the operations of one transaction. Nested transactions get what the outer operations leave, so groups
// take at most half of them.
const (
	clusterOps  = 128 // etcd's default
	embeddedOps = 4096
)

// maxOps returns the bound on a transaction's operations.
func (c Config) maxOps() int {
	if c.Embedded() {
		return embeddedOps
	}
	return clusterOps
}

// Defaults returns the Config that every field starts from. It has neither a folder nor endpoints.
func Defaults() Config {
	c := fields.Default[Config]()
	c.Complete()
	return c
}

// Complete sets the defaults of fields that no file can set.
func (c *Config) Complete() {
	c.GroupBytes, c.RequestBytes, c.HeadPeriod, c.reclaimTime = maxGroupBytes, 5*maxGroupBytes, 250*time.Millisecond, maxReclaimTime
}

// Embedded reports whether etcd runs in this process.
func (c Config) Embedded() bool { return len(c.Endpoints) == 0 }

// Validate reports every fault at once.
func (c Config) Validate() error { return fields.Validate(c, c.Check) }

// Check reports violations of rules across fields, which tags cannot express.
func (c Config) Check(r *fields.Report) {
	r.Check((c.Dir != "") != (len(c.Endpoints) > 0), "data", "there must be either a folder for an etcd of its own or the endpoints of a cluster", "one of --data and --etcd")
	for i, e := range c.Endpoints {
		host, port, err := net.SplitHostPort(e)
		r.Check(err == nil && host != "" && port != "", fmt.Sprintf("etcd[%d]", i), fmt.Sprintf("%q is not an address", e), "host:port")
	}
	if c.Embedded() {
		r.Check(c.CA == "" && c.Cert == "" && c.Key == "" && c.User == "" && c.Password == "", "etcd_ca", "credentials are for an etcd cluster, not for an etcd of its own", "leave them out")
	} else {
		r.Check(!c.NoSync, "no_sync", "is for an etcd of its own", "leave it out")
	}
	r.Check((c.Cert == "") == (c.Key == ""), "etcd_cert", "a certificate and its key go together", "give both --etcd-cert and --etcd-key")
	r.Check(c.Cert == "" || c.CA != "", "etcd_ca", "is missing: without it, any server would get the certificate", "give --etcd-ca")
	r.Check((c.User == "") == (c.Password == ""), "etcd_user", "a user and a password go together", "give both --etcd-user and --etcd-password-file")
	r.Check(strings.HasSuffix(c.Prefix, "/") && len(c.Prefix) <= 64, "etcd_prefix", fmt.Sprintf("%q cannot be a prefix", c.Prefix), "a slash at its end, and at most 64 bytes")
	r.Check(c.GroupBytes >= 1024 && c.GroupBytes <= maxGroupBytes, "group_bytes", fmt.Sprintf("%d is not possible", c.GroupBytes), fmt.Sprintf("from 1024 to %d", maxGroupBytes))
	r.Check(c.HeadPeriod > 0, "head_period", fmt.Sprintf("%v is too little", c.HeadPeriod), "more than 0")
	c.checkPeers(r)
}

// checkPeers reports faults of the members.
func (c Config) checkPeers(r *fields.Report) {
	const secure = "--peer-ca, --peer-cert and --peer-key"
	secured := c.PeerCA != "" && c.PeerCert != "" && c.PeerKey != ""
	r.Check(secured || c.PeerCA+c.PeerCert+c.PeerKey == "", "peer_cert", "CA, certificate and key go together, and none alone", secure)
	if len(c.Peers) == 0 {
		r.Check(c.Name == "" && !secured && c.PeerListen == "" && !c.Join, "peers", "none: must be given with a name, a certificate, an address of a member or --join", "such as --peers a=127.0.0.1:1,b=127.0.0.1:2,c=127.0.0.1:3")
		return
	}
	r.Check(c.Embedded(), "peers", "are for an etcd of its own, not for a cluster that is there", "leave them out")
	if c.PeerListen != "" {
		at, err := netip.ParseAddrPort(c.PeerListen)
		r.Check(err == nil, "peer_listen", fmt.Sprintf("%q is not an address", c.PeerListen), "IP:port")
		r.Check(err != nil || at.Addr().Unmap().IsLoopback() || secured, "peer_listen", fmt.Sprintf("%q can be reached from other machines", c.PeerListen), secure)
	}
	if _, ok := c.Peers[c.Name]; !ok {
		r.Fault("name", fmt.Sprintf("%q is not among the peers", c.Name), "one of "+strings.Join(slices.Sorted(maps.Keys(c.Peers)), ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Peers)) {
		address := c.Peers[name]
		host, port, err := net.SplitHostPort(address)
		if err != nil || host == "" || port == "" || strings.ContainsAny(name, ",= ") {
			r.Fault("peers."+name, fmt.Sprintf("%q is not an address", address), "NAME=host:port")
			continue
		}
		r.Check(isLocal(host) || secured, "peers."+name, fmt.Sprintf("%q can be reached from other machines", address), secure)
	}
}

// isLocal reports whether other machines cannot reach a host.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// peerScheme is the scheme of peers' addresses.
func (c Config) peerScheme() string {
	if c.PeerCA != "" {
		return "https"
	}
	return "http"
}

// tls returns the TLS configuration for the endpoints; nil is without TLS.
func (c Config) tls() (*tls.Config, error) {
	if c.CA == "" {
		return nil, nil
	}
	return secretfile.ClientTLS("etcd_", c.CA, c.Cert, c.Key)
}
