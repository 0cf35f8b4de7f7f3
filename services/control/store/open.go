package store

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"dyno/internal/secretfile"
)

// A Store has an embedded etcd, or a connection to a cluster. Its methods may be called from any goroutine.
type Store struct {
	cfg     Config
	log     *slog.Logger
	client  *clientv3.Client
	txns    txns // carries out transactions
	lessor  pb.LeaseClient
	server  *embed.Etcd // nil for a cluster
	lock    *os.File    // of the data folder; nil for a cluster
	epoch   atomic.Pointer[string]
	reading sync.Mutex // held while the epoch is read, so that an older answer never replaces a newer one

	id              uint32 // in names of groups
	counter         atomic.Uint32
	leases          leases
	heads           heads
	stats           stats
	holds           holds
	noted           atomic.Int64 // bytes written to the journal since upkeep's last look
	changes         atomic.Int64 // operations of all groups so far
	forceNestedTxns atomic.Int64 // remaining groups with nested transactions, before the next whole one
	touched         atomic.Int64 // when etcd last answered, as nanoseconds since started
	// answered is etcd's revision at the last linearizable read that noted it.
	answered atomic.Int64
	status   atomic.Pointer[Status] // as of upkeep's last query; nil before the first
	full     atomic.Pointer[disk]   // the embedded etcd's full disk; nil while there is room
	started  time.Time

	ctx  context.Context // ends after the last query of etcd
	stop context.CancelCauseFunc

	closing sync.RWMutex // guards against sending on the closed queue
	closed  bool
	queue   chan *pending

	inflight   sync.WaitGroup
	background sync.WaitGroup
}

// Open opens the store; ctx bounds how long it may take until etcd answers.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// open connects and begins to gather requests, without reading the store.
func open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	var id [4]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, err
	}
	s := &Store{
		cfg: cfg, log: cfg.Logger, id: binary.BigEndian.Uint32(id[:]), started: time.Now(),
		queue: make(chan *pending, cfg.Queue), stats: newStats(),
	}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	s.heads.read = s.readHead
	var err error
	if cfg.Embedded() {
		err = s.startServer(ctx)
	} else {
		err = s.connect(ctx)
	}
	if err != nil {
		s.stop(ErrClosed)
		return nil, err
	}
	s.inflight.Go(s.gather)
	return s, nil
}

// memberName is the name of a lone embedded etcd.
const memberName = "control"

// startServer starts the embedded etcd. Only this process queries it; it listens only for other members, if there are
// any.
func (s *Store) startServer(ctx context.Context) (err error) {
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if s.lock, err = lockFolder(s.cfg.Dir); err != nil {
		return err
	}
	c := embed.NewConfig()
	c.Dir = filepath.Join(s.cfg.Dir, "etcd")
	c.ListenPeerUrls, c.ListenClientUrls, c.AdvertiseClientUrls = nil, nil, nil
	if len(s.cfg.Peers) == 0 {
		c.Name = memberName
		// A member must have an address; no other member learns this one.
		c.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
		c.InitialCluster = c.InitialClusterFromName(memberName)
		c.SnapshotCatchUpEntries = loneCatchUp
	} else if err := s.joinPeers(c); err != nil {
		return errors.Join(err, s.lock.Close())
	}
	c.QuotaBackendBytes = s.cfg.Quota
	c.MaxTxnOps = embeddedOps
	c.MaxRequestBytes = uint(s.cfg.RequestBytes + maxGroupBytes) //nolint:gosec // bounded
	c.UnsafeNoFsync = s.cfg.NoSync
	c.BackendFreelistType = "map"
	c.EnableGRPCGateway = false
	logger := zap.New(zapCore{handler: s.log.Handler()})
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	if s.server, err = embed.StartEtcd(c); err != nil {
		return errors.Join(fmt.Errorf("start etcd in %s: %w", s.cfg.Dir, err), s.lock.Close())
	}
	select {
	case <-s.server.Server.ReadyNotify():
	case <-s.server.Server.StopNotify():
		err = errors.New("it stopped")
	case err = <-s.server.Err():
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		s.server.Close()
		return errors.Join(fmt.Errorf("start etcd in %s: %w", s.cfg.Dir, err), s.lock.Close())
	}
	s.client = v3client.New(s.server.Server)
	s.txns = adapter.KvServerToKvClient(v3rpc.NewQuotaKVServer(s.server.Server))
	s.lessor = adapter.LeaseServerToLeaseClient(v3rpc.NewQuotaLeaseServer(s.server.Server))
	return nil
}

// txns is etcd's interface for transactions. Its messages are built directly: those built by the client's package
// take three times their memory.
type txns interface {
	Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error)
}

// joinPeers configures the embedded etcd as one of several members.
func (s *Store) joinPeers(c *embed.Config) error {
	c.Name = s.cfg.Name
	scheme := s.cfg.peerScheme()
	if s.cfg.PeerCA != "" {
		if err := secretfile.Check(s.cfg.PeerKey); err != nil {
			return fmt.Errorf("peer key: %w", err)
		}
		c.PeerTLSInfo.TrustedCAFile, c.PeerTLSInfo.CertFile, c.PeerTLSInfo.KeyFile = s.cfg.PeerCA, s.cfg.PeerCert, s.cfg.PeerKey
		c.PeerTLSInfo.ClientCertAuth = true
	}
	own := url.URL{Scheme: scheme, Host: s.cfg.Peers[s.cfg.Name]}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{own}, []url.URL{own}
	if s.cfg.PeerListen != "" {
		c.ListenPeerUrls = []url.URL{{Scheme: scheme, Host: s.cfg.PeerListen}}
	}
	var members []string
	for _, name := range slices.Sorted(maps.Keys(s.cfg.Peers)) {
		members = append(members, name+"="+scheme+"://"+s.cfg.Peers[name])
	}
	c.InitialCluster = strings.Join(members, ",")
	if s.cfg.Join {
		c.ClusterState = embed.ClusterStateFlagExisting
	}
	// A follower this far behind receives the whole database.
	c.SnapshotCatchUpEntries = 10_000
	return nil
}

// loneCatchUp is how many groups a member without followers keeps in memory.
const loneCatchUp = 100

// lockFolder keeps a second process from using the folder: bbolt would let it wait silently.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close() // it was never used
		return nil, fmt.Errorf("data folder %s: another process uses it: %w", dir, err)
	}
	return f, nil
}

// maxMessage bounds etcd's responses, such as a page of large values.
const maxMessage = 64 << 20

// connect connects to the cluster. It does not fail while the cluster is away: later queries do.
func (s *Store) connect(context.Context) error {
	t, err := s.cfg.tls()
	if err != nil {
		return err
	}
	s.client, err = clientv3.New(clientv3.Config{
		Endpoints: s.cfg.Endpoints, TLS: t, Username: s.cfg.User, Password: string(s.cfg.Password),
		DialTimeout: s.cfg.Timeout, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
		MaxCallSendMsgSize: 2 * s.cfg.RequestBytes, MaxCallRecvMsgSize: maxMessage,
		Logger: zap.New(zapCore{handler: s.log.Handler()}), Context: s.ctx,
		DialOptions: []grpc.DialOption{grpc.WithDisableServiceConfig()},
	})
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	s.txns = clientv3.RetryKVClient(s.client)
	s.lessor = pb.NewLeaseClient(s.client.ActiveConnection())
	return nil
}

// begin reads the epoch, or begins the first, and starts the background work.
func (s *Store) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	got, err := s.client.Get(ctx, s.cfg.Prefix+restoreKey)
	if err != nil {
		return unavailable(ctx, err)
	}
	if len(got.Kvs) > 0 {
		return errors.New("a restore was begun and not finished: remove everything under the prefix (or the data folder) and restore again")
	}
	base, err := nextTokenBase(nil)
	if err != nil {
		return err
	}
	_, err = s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(s.cfg.Prefix+TokenBase), "=", 0)).Then(clientv3.OpPut(s.cfg.Prefix+TokenBase, base)).Commit()
	if err != nil {
		return unavailable(ctx, err)
	}
	epoch := newEpoch()
	answer, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(s.cfg.Prefix+epochKey), "=", 0)).
		Then(clientv3.OpPut(s.cfg.Prefix+epochKey, epoch), clientv3.OpPut(s.cfg.Prefix+headKey, "")).
		Else(clientv3.OpGet(s.cfg.Prefix + epochKey)).Commit()
	if err != nil {
		return unavailable(ctx, err)
	}
	if !answer.Succeeded {
		kvs := answer.Responses[0].GetResponseRange().GetKvs()
		if len(kvs) != 1 {
			return errAnswer
		}
		epoch = string(kvs[0].Value)
	}
	s.epoch.Store(&epoch)
	s.contact()
	s.background.Go(s.pulse)
	s.background.Go(s.upkeep)
	if s.cfg.Embedded() {
		s.watchDisk()
		s.background.Go(s.getVote)
	}
	return nil
}

// newEpoch returns a unique name.
func newEpoch() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // documented to never fail
	return hex.EncodeToString(b[:])
}

// Epoch returns a name that changes when the store is restored from a backup: revisions of different epochs cannot be
// compared. If etcd itself was restored to an earlier state, the first store that notices begins a new epoch.
func (s *Store) Epoch() string {
	if epoch := s.epoch.Load(); epoch != nil {
		return *epoch
	}
	return "" // begin has not read it yet
}

// readEpoch reads the epoch, which another store may have changed.
func (s *Store) readEpoch(ctx context.Context) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	kv, err := s.Get(ctx, epochKey)
	if err == nil && kv.Revision == 0 {
		err = fmt.Errorf("%w: %s is gone: another client has removed it", ErrUnavailable, epochKey)
	}
	if err != nil {
		return err
	}
	if epoch := string(kv.Value); epoch != s.Epoch() {
		s.log.Warn("the store is of a new epoch", "epoch", epoch, "before", s.Epoch())
		s.epoch.Store(&epoch)
	}
	return nil
}

// RenewEpoch begins a new epoch, unless another store has done so since this one read it. An etcd that was restored
// to an earlier state has the old epoch's name. So has a store whose contents were brought to an earlier state.
func (s *Store) RenewEpoch(ctx context.Context) error {
	attempt, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	key := s.cfg.Prefix + epochKey
	before, err := s.Get(attempt, TokenBase)
	if err != nil {
		return err
	}
	base, err := nextTokenBase(before.Value)
	if err != nil {
		return err
	}
	_, err = s.client.Txn(attempt).If(clientv3.Compare(clientv3.Value(key), "=", s.Epoch())).Then(clientv3.OpPut(key, newEpoch()), clientv3.OpPut(s.cfg.Prefix+TokenBase, base)).Commit()
	if err != nil {
		return unavailable(attempt, err)
	}
	return s.readEpoch(ctx)
}

// contact notes that etcd has answered.
func (s *Store) contact() { s.touched.Store(int64(time.Since(s.started))) }

// Silence returns for how long etcd has not answered. It grows up to Config.HeadPeriod without a fault.
func (s *Store) Silence() time.Duration {
	return time.Since(s.started) - time.Duration(s.touched.Load())
}

// Failed is closed when the embedded etcd has stopped by itself; for a cluster, never.
func (s *Store) Failed() <-chan struct{} {
	if s.server == nil {
		return nil
	}
	return s.server.Server.StopNotify()
}

// Close carries out waiting requests, for at most Config.Timeout, and ends.
func (s *Store) Close() error {
	s.closing.Lock()
	if s.closed {
		s.closing.Unlock()
		return nil
	}
	s.closed = true
	close(s.queue)
	s.closing.Unlock()

	s.inflight.Wait()
	s.stop(ErrClosed)
	s.background.Wait()
	var errs []error
	if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		errs = append(errs, fmt.Errorf("etcd: %w", err))
	}
	if s.server != nil {
		s.server.Close()
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// stats counts what the store does.
type stats struct {
	busy, retries atomic.Uint64
	group, commit prometheus.Histogram
	resyncs       atomic.Uint64
}

func newStats() stats {
	return stats{
		group: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "control_store_group_requests", Help: "Requests in one transaction.", Buckets: prometheus.ExponentialBuckets(1, 2, 7),
		}),
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "control_store_commit_seconds", Help: "From sending a transaction to its outcome.", Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
	}
}
