//go:build linux

// Package sockets observes TCP from the kernel's side: the connections between the load and its target,
// the accept queue, and the counters of the whole network stack.
//
// Connections says where bytes pile up. Bytes that a side has received and not read
// are waiting for that side's program; bytes that are written and not sent are
// waiting for the network or for the other side's window. So these columns tell
// which program a slow exchange is waiting for, without looking into either.
package sockets

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"dyno/host/sockdiag"
	"dyno/internal/texts"
	"dyno/observe"
	"dyno/observe/poll"
)

// The defaults of a Config.
const (
	DefaultName       = "tcp"
	DefaultEvery      = time.Second
	DefaultMaxSockets = 100_000
)

// Bounds of a reading.
const (
	dumpTimeout   = 2 * time.Second
	leastEvery    = 10 * time.Millisecond
	queueReadings = 10 // of the accept queue, for one of the connections
	leastQueue    = 100 * time.Millisecond
	mostAddresses = 16 // of a host name; the filter's program is short
)

// A Config says whose connections to observe.
type Config struct {
	Name    string        // prefix of the columns; default "tcp"
	Address string        // of the target, as the load dials it: host:port
	PID     int           // a process of the target, which may have a network namespace of its own; 0: it has not
	Every   time.Duration // between readings; default 1 s, at least 10 ms

	// MaxSockets bounds a reading; default 100,000. When there are more, nothing is
	// known, and the error says so.
	MaxSockets int
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = DefaultName
	}
	if c.Every == 0 {
		c.Every = DefaultEvery
	}
	if c.MaxSockets == 0 {
		c.MaxSockets = DefaultMaxSockets
	}
	return c
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var errs []error
	if _, port, err := net.SplitHostPort(c.Address); !c.unix() && (err != nil || !validPort(port)) {
		errs = append(errs, fmt.Errorf("address: %q; want host:port", c.Address))
	}
	if c.PID < 0 {
		errs = append(errs, fmt.Errorf("pid: %d; want a process id, or 0 for this network namespace", c.PID))
	}
	if c.Every != 0 && c.Every < leastEvery {
		errs = append(errs, fmt.Errorf("every: %v; want at least %v, or 0 for %v", c.Every, leastEvery, DefaultEvery))
	}
	if c.MaxSockets < 0 {
		errs = append(errs, fmt.Errorf("max_sockets: %d; want more than none, or 0 for %d", c.MaxSockets, DefaultMaxSockets))
	}
	return errors.Join(errs...)
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

func (c Config) unix() bool { return strings.HasPrefix(c.Address, "unix:") }

// Connections observes the TCP connections to an address, on both sides where both are on this machine.
// It uses the kernel's own account (sock_diag(7), tcp(7) TCP_INFO). Columns of the accepting side begin
// with target_. Columns of the connecting side, whichever process that is, begin with generator_.
//
// A reading asks for all connections, on a goroutine of its own. The kernel finds
// ours by a filter, so that others cost next to nothing; of each of ours it takes
// the lock for a moment, as getsockopt would. The accept queue is read ten times as
// often.
type Connections struct {
	*poll.Poller
	name      string
	addresses []netip.AddrPort
	sources   []source
	most      int
	sides     [2]*tally // the target's, nil without, and the generator's
	queue     *queue    // nil when the target listens elsewhere
	missing   []error
}

// Index of a side.
const (
	target = iota
	generator
)

// A source answers for one network namespace.
type source struct {
	*sockdiag.Conn
	filter []byte
	sides  [2]bool // which sides it has
}

// NewConnections begins to observe. Ctx bounds the look-up of the host's name.
func NewConnections(ctx context.Context, cfg Config) (*Connections, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("sockets: %w", err)
	}
	cfg = cfg.withDefaults()
	unavailable := func(reason, remedy texts.Message, err error) error {
		return &observe.Unavailable{Observer: cfg.Name, Reason: reason, Remedy: remedy, Err: err}
	}
	if cfg.unix() {
		return nil, unavailable(texts.New("unavailable.unix"), texts.Message{}, nil)
	}
	addresses, err := resolve(ctx, cfg.Address)
	if err != nil {
		return nil, unavailable(texts.Verbatim(err.Error()), texts.Message{}, err)
	}
	c := &Connections{name: cfg.Name, addresses: addresses, most: cfg.MaxSockets, sides: [2]*tally{generator: {}}}
	refused := func(err error) (*Connections, error) {
		c.closeSources()
		return nil, unavailable(texts.New("unavailable.connections", "error", err.Error()), remedy(err), err)
	}
	pid := 0
	if cfg.PID != 0 && !sameNamespace(cfg.PID) {
		pid = cfg.PID
	}
	listeners, err := sockdiag.Open(pid, dumpTimeout)
	if err != nil {
		return refused(err)
	}
	c.queue = &queue{diag: listeners, addresses: addresses, most: cfg.MaxSockets}
	_, err = c.queue.read(ctx)
	switch {
	case errors.Is(err, errNotListening):
		listeners.Close()
		c.queue = nil
		c.missing = append(c.missing, unavailable(texts.New("unavailable.listener", "address", cfg.Address), texts.New("help.listener"), err))
	case err != nil:
		listeners.Close()
		return refused(err)
	default:
		c.sides[target] = &tally{}
	}
	if err := c.openSources(pid); err != nil {
		if c.queue != nil {
			listeners.Close()
		}
		return refused(err)
	}
	if c.queue != nil {
		c.queue.poller = poll.Start(queueColumns, max(leastQueue, cfg.Every/queueReadings), dumpTimeout, c.queue.observe)
	}
	c.Poller = poll.Start(len(c.Columns())-1-c.queueWidth(), cfg.Every, dumpTimeout, c.read)
	return c, nil
}

// remedy says what to do about the kernel's refusal.
func remedy(err error) texts.Message {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EINVAL):
		return texts.New("help.diag")
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return texts.New("help.netlink")
	}
	return texts.Message{}
}

// resolve returns the addresses of host:port. An unspecified one stands for all.
func resolve(ctx context.Context, hostPort string) ([]netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = netip.IPv4Unspecified().String()
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var addresses []netip.AddrPort
	for _, a := range found[:min(len(found), mostAddresses)] {
		if at := netip.AddrPortFrom(a.Unmap().WithZone(""), uint16(number)); !slices.Contains(addresses, at) {
			addresses = append(addresses, at)
		}
	}
	return addresses, nil
}

// sameNamespace tells whether a process has this one's network namespace. If that is unknown it says so
// too, because then it could not be entered either.
func sameNamespace(pid int) bool {
	ours, err := os.Readlink("/proc/thread-self/ns/net")
	theirs, err2 := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/net")
	return err != nil || err2 != nil || ours == theirs
}

// openSources opens what tells of either side.
func (c *Connections) openSources(targetPID int) error {
	open := func(pid int, sides [2]bool) error {
		d, err := sockdiag.Open(pid, dumpTimeout)
		if err != nil {
			return err
		}
		var conditions []condition
		for _, a := range c.addresses {
			if sides[target] {
				conditions = append(conditions, condition{opSource, a})
			}
			if sides[generator] {
				conditions = append(conditions, condition{opDest, a})
			}
		}
		c.sources = append(c.sources, source{d, compile(conditions), sides})
		return nil
	}
	if targetPID == 0 || c.sides[target] == nil {
		return open(0, [2]bool{c.sides[target] != nil, true})
	}
	return errors.Join(open(targetPID, [2]bool{target: true}), open(0, [2]bool{generator: true}))
}

func (c *Connections) closeSources() {
	for _, s := range c.sources {
		s.Close()
	}
	c.sources = nil
}

// Missing says which columns cannot be had here, and why.
func (c *Connections) Missing() []error { return c.missing }

// Name returns the name given.
func (c *Connections) Name() string { return c.name }

// Columns returns the columns: without the target's and the accept queue's where
// the target is elsewhere.
func (c *Connections) Columns() []observe.Column {
	var columns []observe.Column
	if c.sides[target] != nil {
		columns = append(columns, sideColumns("target_", "of the target")...)
	}
	columns = append(columns, sideColumns("generator_", "of those that connect to the target")...)
	columns = append(columns, poll.Column(""))
	if c.queue != nil {
		columns = append(columns, queueColumnsOf()...)
	}
	return columns
}

func (c *Connections) queueWidth() int {
	if c.queue == nil {
		return 0
	}
	return queueColumns
}

// Observe returns the newest reading. It does not wait for one.
func (c *Connections) Observe(row []float64) error {
	split := len(row) - c.queueWidth()
	err := c.Poller.Observe(row[:split])
	if c.queue != nil {
		err = errors.Join(err, c.queue.take(row[split:]))
	}
	return err
}

// CPUSeconds returns the CPU time that all readings so far have used.
func (c *Connections) CPUSeconds() float64 {
	s := c.Poller.CPUSeconds()
	if c.queue != nil {
		s += c.queue.poller.CPUSeconds()
	}
	return s
}

// Close ends the observing.
func (c *Connections) Close() error {
	err := c.Poller.Close()
	c.closeSources()
	if c.queue != nil {
		err = errors.Join(err, c.queue.poller.Close())
		c.queue.diag.Close()
	}
	return err
}

// read takes one reading.
func (c *Connections) read(ctx context.Context, row []float64) error {
	for _, t := range c.sides {
		if t != nil {
			t.begin()
		}
	}
	n := 0
	for _, s := range c.sources {
		err := s.Dump(ctx, sockdiag.Request{States: sockdiag.Sending, Info: true, Filter: s.filter}, func(k *sockdiag.Socket) error {
			if n++; n > c.most {
				return fmt.Errorf("more than %d sockets", c.most)
			}
			if s.sides[target] && matches(c.addresses, k.Local) {
				c.sides[target].add(k)
			} else if s.sides[generator] && matches(c.addresses, k.Remote) {
				c.sides[generator].add(k)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, t := range c.sides {
		if t != nil {
			t.end()
			t.fill(row)
			row = row[sideWidth:]
		}
	}
	return nil
}

// sideWidth is how many columns a side has.
const sideWidth = 14

// matches tells whether an address is among those; unspecified ones stand for any.
func matches(those []netip.AddrPort, a netip.AddrPort) bool {
	for _, t := range those {
		if a.Port() == t.Port() && (a.Addr() == t.Addr() || t.Addr().IsUnspecified()) {
			return true
		}
	}
	return false
}

var errNotListening = errors.New("nothing listens there")

// A queue reads the accept queue of the sockets that listen on the target's address.
type queue struct {
	poller    *poll.Poller
	diag      *sockdiag.Conn
	addresses []netip.AddrPort
	most      int

	mu   sync.Mutex // guards peak
	peak float64    // since it was taken; NaN without a reading since
}

// A backlog is how many connections wait to be accepted, and how many may.
type backlog struct{ waiting, limit uint32 }

const queueColumns = 3

func queueColumnsOf() []observe.Column {
	return []observe.Column{
		{Name: "accept_queue", Kind: observe.Gauge, Help: "connections that wait to be accepted, in the longest queue where several sockets listen"},
		{Name: "accept_queue_limit", Kind: observe.Gauge, Help: "how many may wait there before the kernel drops more"},
		{Name: "accept_queue_peak", Kind: observe.Peak, Help: "longest queue seen, by a reading every tenth of a second or more"},
	}
}

// read returns the longest queue.
func (q *queue) read(ctx context.Context) (longest backlog, err error) {
	n, found := 0, false
	err = q.diag.Dump(ctx, sockdiag.Request{States: sockdiag.Listening, Port: q.addresses[0].Port()}, func(k *sockdiag.Socket) error {
		if n++; n > q.most {
			return fmt.Errorf("more than %d listening sockets", q.most)
		}
		if q.answersFor(k.Local) && (!found || k.ReceiveQueue > longest.waiting) {
			longest, found = backlog{k.ReceiveQueue, k.SendQueue}, true
		}
		return nil
	})
	if err != nil {
		return backlog{}, err
	}
	if !found {
		return backlog{}, errNotListening
	}
	return longest, nil
}

// answersFor tells whether a socket that listens there may get our connections.
func (q *queue) answersFor(local netip.AddrPort) bool {
	return local.Addr().IsUnspecified() || matches(q.addresses, local)
}

// observe is the queue's Read.
func (q *queue) observe(ctx context.Context, row []float64) error {
	b, err := q.read(ctx)
	if err != nil {
		return fmt.Errorf("accept queue: %w", err)
	}
	row[0], row[1] = float64(b.waiting), float64(b.limit)
	q.mu.Lock()
	defer q.mu.Unlock()
	if !(q.peak >= row[0]) {
		q.peak = row[0]
	}
	return nil
}

// take returns the newest reading, and the longest queue since it was called last.
func (q *queue) take(row []float64) error {
	var newest [queueColumns + 1]float64
	err := q.poller.Observe(newest[:])
	copy(row, newest[:queueColumns])
	q.mu.Lock()
	defer q.mu.Unlock()
	row[2], q.peak = q.peak, math.NaN()
	return err
}
