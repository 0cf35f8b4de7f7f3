// Package plane is the control plane's operations on resources, without a protocol. It joins the store, the replica's
// catalog, those who watch, and the liveness of instances. An operation checks the request and the caller's
// permissions, and hides what the caller may not read. ProblemOf classifies its errors. Protocols only translate.
//
//	p, err := plane.Open(ctx, store, plane.Defaults())
//	item, err := p.Put(ctx, caller, &policy, plane.Options{})
//	item, age, err := p.Get(ctx, caller, ref, false)
//
// A change applies only to the version of the resource that it was made for; if that has changed, it is repeated.
// Reads wait until the replica knows all that had been acknowledged anywhere before them, unless they may be stale.
//
// To read the source: gate.go identifies callers, and problem.go classifies errors. read.go and operations.go have
// the operations, and watch.go sends changes. change.go makes a change. instances.go finds out which instances are
// alive. follower.go stores copies of another control plane.
package plane

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dyno/internal/fields"
	"dyno/services/control/access"
	"dyno/services/control/catalog"
	"dyno/services/control/health"
	"dyno/services/control/push"
	"dyno/services/control/resource"
	"dyno/services/control/store"
	"dyno/services/internal/wait"
)

// Config says how a Plane works. Start from Defaults.
type Config struct {
	// Replica is this replica's unique name. A lone replica with an embedded store has a fixed name, so it keeps its
	// instances after a restart.
	Replica       string
	Limits        resource.Limits         `yaml:",inline"`
	Liveness      resource.LivenessConfig `yaml:",inline"`
	QueueChanges  int                     `yaml:"queue_changes" range:"1..1048576" default:"1024" doc:"changes that may wait for one watcher; beyond, it is sent everything again"`
	RecentChanges int                     `yaml:"recent_changes" range:"1..16777216" default:"65536" doc:"changes that are remembered for watchers that come back"`
	// LedgerHoldings bounds the remembered pairs of client and resource. LedgerKeep is for how long disconnected
	// clients are remembered.
	LedgerHoldings int
	LedgerKeep     time.Duration
	// A new resource with a forgotten name begins with version 1.
	ForgetAfter time.Duration `yaml:"forget_after" range:"1h..87600h" default:"720h" doc:"how long the history of removed resources is kept"`
	// FreshPeriod is the pause between checks that the replica is up to date: stale reads are labelled with their
	// age.
	FreshPeriod time.Duration
	// Checks of instances: how many at once, and the programs that they may run.
	ChecksAtOnce  int          `yaml:"checks_at_once" range:"1..65536" default:"256" doc:"checks of instances that this replica makes at a time; more wait"`
	CheckCommands string       `yaml:"check_commands" kind:"path" otherwise:"checks run no programs" doc:"a folder: checks of instances may run its programs"`
	Primary       string       // the address of the control plane that a follower copies; "" is none
	Centres       []string     // names of other control planes, whose instances this one copies
	Book          *access.Book // gets the principals and roles of the store; nil is none
	Logger        *slog.Logger // nil discards
}

// maxHistory bounds the earlier versions of a resource.
const maxHistory = 1000

// Defaults returns the Config that every field starts from.
func Defaults() Config {
	c := fields.Default[Config]()
	c.Complete()
	return c
}

// Complete sets the defaults of fields that no file can set.
func (c *Config) Complete() {
	c.Replica, c.LedgerHoldings, c.LedgerKeep, c.FreshPeriod = "control", 1_000_000, 10*time.Minute, 250*time.Millisecond
	c.Limits, c.Liveness = resource.DefaultLimits(), resource.DefaultLiveness()
}

// Validate reports every fault at once.
func (c Config) Validate() error { return fields.Validate(c, c.Check) }

// Check reports faults that the tags of fields cannot express.
func (c Config) Check(r *fields.Report) {
	r.Check(resource.IsPlain(c.Replica), "replica", fmt.Sprintf("%q cannot be a name", c.Replica), "letters, digits, -, _, . and :")
	r.Check(c.Limits.Rules > 0 && c.Limits.Labels > 0, "limits", fmt.Sprintf("%d rules, %d labels", c.Limits.Rules, c.Limits.Labels), "at least 1")
	r.Check(c.Liveness.Window >= 0, "window", fmt.Sprintf("%v is too little", c.Liveness.Window), "at least 0")
	r.Check(c.Liveness.StallThreshold > lookPeriod, "stall_threshold", fmt.Sprintf("%v is too little", c.Liveness.StallThreshold), fmt.Sprintf("more than %v", lookPeriod))
	r.Check(c.LedgerHoldings > 0 && c.LedgerKeep >= 0, "ledger", fmt.Sprintf("%d for %v", c.LedgerHoldings, c.LedgerKeep), "at least 1, for 0 or more")
	r.Check(c.FreshPeriod > 0, "fresh_period", fmt.Sprintf("%v is too little", c.FreshPeriod), "more than 0")
}

// A Plane carries out the operations of one replica. Its methods may be called from any goroutine.
type Plane struct {
	cfg        Config
	log        *slog.Logger
	store      *store.Store
	catalog    *catalog.Catalog
	hub        *push.Hub
	ledger     *push.Ledger
	metrics    metrics
	traced     tracedChanges
	limits     atomic.Pointer[resource.Limits]
	dataPlanes dataPlanes
	calls      calls
	checker    *health.Checker
	unjudged   *paths // instances whose results have changed
	ended      *paths // sessions that have ended, while this replica leads

	beginTime time.Duration // how long a new watch waits for changes that were acknowledged before it

	started time.Time
	fresh   atomic.Int64           // when the catalog was last complete, in nanoseconds since started
	epoch   atomic.Pointer[string] // the catalog's epoch
	sender  string                 // this process, in signs of life

	mu sync.Mutex // guards the fields below; taken before the catalog's lock
	presence
	duties
	looked      time.Duration // when the presence was last examined
	sendFailure sendFailure
	duplicate   duplicateReplica
	following   following // has a lock of its own
	centres     []*Centre // those of Config.Centres; each has a lock of its own

	updating sync.Mutex // held while the book is given the store's principals; taken before the catalog's lock
	locks    lockQueues

	reporting sync.Mutex // held during reports to other replicas; taken before mu
	settling  chan found // instances to remove or take over

	ctx        context.Context
	stop       context.CancelFunc
	background sync.WaitGroup
}

// Open reads all resources and then follows their changes. The caller owns the store, and closes it after the Plane.
func Open(ctx context.Context, s *store.Store, cfg Config) (*Plane, error) {
	p, err := open(ctx, s, cfg)
	if err == nil {
		p.start()
	}
	return p, err
}

// start starts the background work.
func (p *Plane) start() {
	works := []func(){p.freshen, p.lookForSilent, p.forget}
	if !p.follows() { // a follower holds no instances
		works = append(works, p.giveSigns, p.report, p.settle, p.check, p.judge, p.share, p.dropCopies, p.noteEnds)
	}
	for _, work := range works {
		p.background.Go(work)
	}
}

// open opens a Plane whose only background work is to follow the store.
func open(ctx context.Context, s *store.Store, cfg Config) (*Plane, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Plane{
		cfg: cfg, log: cfg.Logger, store: s, catalog: catalog.New(), started: time.Now(), sender: rand.Text(),
		hub: push.NewHub(cfg.QueueChanges, cfg.RecentChanges), ledger: push.NewLedger(cfg.LedgerHoldings, cfg.LedgerKeep),
		beginTime: beginTime, presence: newPresence(cfg.Replica, cfg.Liveness), metrics: newMetrics(), traced: tracedChanges{seed: maphash.MakeSeed()}, settling: make(chan found),
		duties: duties{checked: map[string]*resource.Instance{}}, unjudged: newPaths(), ended: newPaths(),
	}
	p.checker = health.New(health.Config{AtOnce: cfg.ChecksAtOnce, Commands: cfg.CheckCommands, Changed: p.unjudged.add})
	p.following.copied = make(chan struct{})
	for _, name := range cfg.Centres {
		p.centres = append(p.centres, &Centre{plane: p, name: name})
	}
	p.SetLimits(cfg.Limits)
	epoch := s.Epoch()
	p.epoch.Store(&epoch)
	p.duplicate.own = p.sender
	p.ctx, p.stop = context.WithCancel(context.Background())
	listed := make(chan struct{})
	once := sync.OnceFunc(func() { close(listed) })
	p.background.Go(func() {
		// It ends only with the Plane or the store.
		_ = s.Follow(p.ctx, store.State, func(b store.Batch) { p.take(b); once() })
	})
	if err := p.await(ctx, 1); err != nil {
		p.Close()
		return nil, err
	}
	<-listed // the catalog is ahead of the presence
	p.mu.Lock()
	p.looked = p.now()
	p.presence.begin(p.looked)
	p.mu.Unlock()
	if err := p.openFollowing(ctx); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close ends all subscriptions and background work.
func (p *Plane) Close() {
	p.hub.Close()
	p.stop()
	p.background.Wait()
}

// now returns the time by a monotonic clock.
func (p *Plane) now() time.Duration { return time.Since(p.started) }

// Itself is the caller of the replica's own changes.
func (p *Plane) Itself() Caller {
	return Caller{Principal: &access.Principal{Name: p.cfg.Replica, Grants: access.Anonymous().Grants}, From: "itself"}
}

// Replica returns this replica's name.
func (p *Plane) Replica() string { return p.cfg.Replica }

// Limits returns the limits in force.
func (p *Plane) Limits() resource.Limits { return *p.limits.Load() }

// SetLimits changes the limits, from the next change on.
func (p *Plane) SetLimits(l resource.Limits) { p.limits.Store(&l) }

// take applies a batch: first to the catalog, then to the liveness, then to watchers, who may read the catalog.
func (p *Plane) take(b store.Batch) {
	revision, _ := p.catalog.Revision()
	deltas := p.catalog.Apply(b, func(key string, err error) {
		if key != store.State+"head" && !isOfReplicas(key) {
			p.log.Warn("the store has a value that is not a resource", "key", key, "error", err)
		}
	})
	// Under one lock: reports of replicas may concern instances that this batch removes or takes over.
	p.mu.Lock()
	p.learnOfReplicas(b)
	p.learnOfInstances(deltas)
	p.mu.Unlock()
	p.detectDuplicateReplica(b.Events)
	if slices.ContainsFunc(deltas, func(d catalog.Delta) bool { return cmp.Or(d.New, d.Old).Kind.OfAccess() }) {
		p.updateBook()
	}
	changes := make([]push.Change, len(deltas))
	for i, d := range deltas {
		if d.New == nil {
			p.locks.wake(d.Old.Path)
			if d.Old.Kind == resource.Sessions && p.leads() {
				p.ended.add(d.Old.Path)
			}
			changes[i] = push.Change{Ref: d.Old.Ref, Revision: d.Revision, Changed: d.Revision, Version: d.Old.Version, Removed: true}
			continue
		}
		changes[i] = Change(d.New)
	}
	if b.Listed {
		before, epoch := *p.epoch.Load(), b.Epoch
		p.epoch.Store(&epoch) // after the catalog, so that no token of the new epoch refers to the old state
		rebuilt := epoch != before || b.Revision < revision
		if rebuilt {
			// After the catalog, which refuses acknowledgements of old versions, and before everything is sent again.
			p.ledger.Forget()
		}
		p.hub.PublishListing(changes, b.Revision, rebuilt)
	} else {
		p.hub.Publish(changes, b.Revision)
	}
	p.metrics.changes.Add(float64(len(changes)))
}

// Change returns an item as a change for subscribers.
func Change(i *catalog.Item) push.Change {
	return push.Change{Ref: i.Ref, Revision: i.Revision, Changed: i.Revision, Version: i.Version, Resource: i.Resource, Body: i.Body}
}

// await waits until the catalog has reached a revision. It never has if the store was restored to an earlier state
// meanwhile.
func (p *Plane) await(ctx context.Context, revision int64) error {
	for before := int64(0); ; {
		at, moved := p.catalog.Revision()
		if at >= revision {
			return nil
		}
		if at < before {
			return fmt.Errorf("%w: this replica was at revision %d, and the store has gone back to %d: ask again", store.ErrUnavailable, before, at)
		}
		before = at
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("%w: this replica is at revision %d and should be at %d: %w", store.ErrUnavailable, at, revision, context.Cause(ctx))
		case <-p.ctx.Done():
			return store.ErrClosed
		}
	}
}

// catchUp waits until the catalog has all changes that had been acknowledged at the call.
func (p *Plane) catchUp(ctx context.Context) error {
	began := p.now()
	head, err := p.store.Head(ctx)
	if err != nil {
		return err
	}
	if err := p.await(ctx, head); err != nil {
		return err
	}
	raise(&p.fresh, int64(began))
	return nil
}

// raise makes a number at least as large as another.
func raise(n *atomic.Int64, least int64) {
	for {
		old := n.Load()
		if old >= least || n.CompareAndSwap(old, least) {
			return
		}
	}
}

// freshen keeps the catalog's age small.
func (p *Plane) freshen() {
	wait.Every(p.ctx, p.cfg.FreshPeriod, func() {
		if p.Age() >= p.cfg.FreshPeriod/2 {
			_ = p.catchUp(p.ctx) // a failure shows in the age
		}
	})
}

// Age returns for how long the replica may have missed changes. Those of a follower's primary count too.
func (p *Plane) Age() time.Duration { return p.now() - time.Duration(p.fresh.Load()) + p.behind() }

// Sync brings the catalog up to date for the next read; with stale it does nothing. It returns how old the catalog
// may be. A follower's is always as old as its copy.
func (p *Plane) Sync(ctx context.Context, stale bool) (age time.Duration, err error) {
	if stale {
		return p.Age(), nil
	}
	err = p.catchUp(ctx)
	return p.behind(), err
}

// Reconnected counts a client that has come back to a stream of changes.
func (p *Plane) Reconnected() { p.metrics.reconnects.Inc() }

// metrics counts what a Plane does.
type metrics struct {
	changes          prometheus.Counter
	conflicts        prometheus.Counter
	expired, adopted prometheus.Counter
	beats            prometheus.Counter
	reconnects       prometheus.Counter
	acks             *prometheus.CounterVec
	applied          *prometheus.HistogramVec
}

func newMetrics() metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "control_" + name, Help: help})
	}
	return metrics{
		changes:    counter("changes_total", "Changes of resources learnt from the store."),
		conflicts:  counter("conflicts_total", "Changes that were repeated because the resource had changed meanwhile."),
		expired:    counter("instances_expired_total", "Instances removed because they were silent for too long."),
		adopted:    counter("instances_adopted_total", "Instances taken over from other replicas."),
		reconnects: counter("reconnects_total", "Streams of watches whose clients said where they had been: they were cut off before."),
		beats:      counter("heartbeats_total", "Heartbeats of instances."),
		acks:       prometheus.NewCounterVec(prometheus.CounterOpts{Name: "control_acks_total", Help: "Answers of clients to versions that they were sent."}, []string{"kind", "state"}),
		applied: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "control_applied_seconds", Help: "Time from the change of a resource, by its replica's clock, until a client says that it has applied it.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 18),
		}, []string{"kind"}),
	}
}

var _ prometheus.Collector = (*Plane)(nil)

// Describe implements prometheus.Collector.
func (p *Plane) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(p, ch) }

// upAge is the largest age of a catalog whose replica counts as up. The age grows to Config.FreshPeriod and the time
// of a check, some tens of milliseconds.
const upAge = 5 * time.Second

var (
	descUp          = prometheus.NewDesc("control_up", "1 while this replica knows the contents of the store; 0 when it has not for 5 s.", nil, nil)
	descResources   = prometheus.NewDesc("control_resources", "Resources.", []string{"kind"}, nil)
	descAge         = prometheus.NewDesc("control_age_seconds", "For how long this replica may have missed changes.", nil, nil)
	descCentreAge   = prometheus.NewDesc("control_centre_age_seconds", "For how long the copies of another centre's instances may have missed changes, at the replica that copies them.", []string{"centre"}, nil)
	descKnown       = prometheus.NewDesc("control_instances_watched", "Instances whose silence is watched.", nil, nil)
	descOverdue     = prometheus.NewDesc("control_instances_overdue", "Instances that are silent for longer than they said.", nil, nil)
	descProtected   = prometheus.NewDesc("control_protected", "1 while too many are silent to remove any.", nil, nil)
	descDuplicate   = prometheus.NewDesc("control_replica_name_taken", "1 while another process gives signs of life under this replica's name.", nil, nil)
	descChecked     = prometheus.NewDesc("control_instances_checked", "Instances that this replica checks.", nil, nil)
	descChecks      = prometheus.NewDesc("control_checks_total", "Checks of instances that this replica made.", nil, nil)
	descChecksLate  = prometheus.NewDesc("control_checks_late_seconds", "How late the last check began: more than a few milliseconds is too many checks for this replica.", nil, nil)
	descSubscribers = prometheus.NewDesc("control_subscribers", "Watchers.", nil, nil)
	descOffered     = prometheus.NewDesc("control_push_offered_total", "Changes put into the queues of watchers.", nil, nil)
	descCoalesced   = prometheus.NewDesc("control_push_coalesced_total", "Of these, in the place of an older one.", nil, nil)
	descOverflows   = prometheus.NewDesc("control_push_overflows_total", "Queues that were full.", nil, nil)
	descResumed     = prometheus.NewDesc("control_push_resumed_total", "Watchers that went on where they were.", nil, nil)
	descHoldings    = prometheus.NewDesc("control_ledger_holdings", "Versions of resources that clients are known to have.", nil, nil)
)

// Collect implements prometheus.Collector.
func (p *Plane) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v uint64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	for _, k := range resource.Kinds() {
		gauge(descResources, float64(p.catalog.Count(k)), string(k))
	}
	gauge(descAge, p.Age().Seconds())
	up := 0.0
	if p.Age() < upAge {
		up = 1
	}
	gauge(descUp, up)
	for name, c := range p.Centres() {
		gauge(descCentreAge, c.Age, name)
	}
	pulse := p.Pulse()
	gauge(descKnown, float64(pulse.Known))
	gauge(descOverdue, float64(pulse.Overdue))
	protected := 0.0
	if pulse.Protected {
		protected = 1
	}
	gauge(descProtected, protected)
	taken := 0.0
	if p.NameTaken() {
		taken = 1
	}
	gauge(descDuplicate, taken)
	checked, checks, late := p.checker.Counts()
	gauge(descChecked, float64(checked))
	counter(descChecks, checks)
	gauge(descChecksLate, late.Seconds())
	counts := p.hub.Counts()
	gauge(descSubscribers, float64(counts.Subscribers))
	counter(descOffered, counts.Offered)
	counter(descCoalesced, counts.Coalesced)
	counter(descOverflows, counts.Overflows)
	counter(descResumed, counts.Resumed)
	gauge(descHoldings, float64(p.ledger.Holdings()))
	for _, c := range []prometheus.Collector{p.metrics.changes, p.metrics.conflicts, p.metrics.expired, p.metrics.adopted, p.metrics.beats, p.metrics.reconnects, p.metrics.acks, p.metrics.applied} {
		c.Collect(ch)
	}
}
