// Package redislog keeps a hub's history in a Redis stream that several hubs share. Each
// hub publishes to the stream, and reads the stream into a journal of its own. Event IDs
// are those of the stream, so any hub can continue the stream of another hub's
// subscriber.
//
// The script that adds an update to the stream also numbers it, by the update before it. It has one key, as Redis
// Cluster demands. A hub may find a number missing: the stream was trimmed faster than the hub could read, or Redis
// lost what it had not saved. Then the hub breaks its journal, so that every subscriber gets a gap event. IDs of the
// stream begin with the time. So Redis's clock must not go back when Redis loses data. While Redis cannot be reached,
// subscribers stay connected, and publishing fails.
package redislog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"dyno/hub/journal"

	"github.com/redis/go-redis/v9"
)

// Config says where the stream is. All fields except Logger are required.
type Config struct {
	Address string // host:port
	Stream  string // its key
	Events  int64  // about how many the stream holds: the oldest are removed
	Journal journal.Config
	Logger  *slog.Logger // nil discards
}

// The times and sizes of the connection.
const (
	requestTimeout = 2 * time.Second
	blockTime      = time.Second // of a read that waits for updates
	minPause       = 50 * time.Millisecond
	maxPause       = time.Second
	loadTimeout    = 30 * time.Second // of reading the stream at the start
	readCount      = 512              // updates of one read
)

// A Log is a journal that follows a stream. Its methods may be called from any goroutine.
type Log struct {
	cfg     Config
	log     *slog.Logger
	client  *redis.Client
	journal *journal.Journal
	ctx     context.Context // of the reader
	stop    context.CancelFunc
	reader  sync.WaitGroup
	closed  sync.Once
	closing error

	mu    sync.Mutex // guards the following fields
	last  streamID   // the stream has been read up to here
	moved chan struct{}

	sequence uint64 // of last; only the reader uses it
}

// addScript publishes: it numbers an update and adds it in one step. Programs that write without numbers must not end
// the numbering, unless they wrote all of the last entries.
//
//	KEYS: the stream. ARGV: about how many to hold, the update.
const addScript = `local n = 0
for _, count in ipairs({1, 100}) do
  for _, entry in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', count)) do
    if n == 0 and entry[2][1] == 'n' then n = tonumber(entry[2][2]) or 0 end
  end
end
return redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'n', string.format('%.0f', n + 1), 'u', ARGV[2])`

// Open connects to Redis and reads the stream into a journal. It does not use c.Journal's
// epoch and head, because IDs are the stream's.
func Open(c Config) (*Log, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Journal.Epoch, c.Journal.Head = "", 0
	j, err := journal.New(c.Journal)
	if err != nil {
		return nil, err
	}
	l := &Log{cfg: c, log: c.Logger.With("stream", c.Stream), journal: j, moved: make(chan struct{})}
	l.client = redis.NewClient(&redis.Options{
		Addr: c.Address,
		// Redis may have carried out a request that failed: a second attempt could add an
		// update twice.
		MaxRetries:  -1,
		DialTimeout: requestTimeout, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout,
		ContextTimeoutEnabled: true,
		DisableIdentity:       true,
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			return (&net.Dialer{Timeout: requestTimeout}).DialContext(ctx, network, address)
		},
	})
	l.ctx, l.stop = context.WithCancel(context.Background())
	if err := l.load(); err != nil {
		l.stop()
		return nil, errors.Join(fmt.Errorf("redis at %s: stream %s: %w", c.Address, c.Stream, err), l.client.Close())
	}
	l.reader.Go(l.follow)
	return l, nil
}

// load reads the updates that the stream holds.
func (l *Log) load() error {
	ctx, cancel := context.WithTimeout(l.ctx, loadTimeout)
	defer cancel()
	for {
		messages, err := l.client.XRangeN(ctx, l.cfg.Stream, "("+l.last.String(), "+", readCount).Result()
		if err != nil {
			return err
		}
		l.take(messages)
		if len(messages) < readCount {
			return nil
		}
	}
}

// Journal returns the journal that subscribers read. Only the Log appends to it.
func (l *Log) Journal() *journal.Journal { return l.journal }

// Append adds u to the stream and returns its ID. The journal has the update when it has
// been read back. If Append fails, u may still have been added.
func (l *Log) Append(ctx context.Context, u journal.Update) (id string, err error) {
	if err := l.journal.Check(&u); err != nil {
		return "", err
	}
	text, err := journal.EncodeRecord(time.Now(), u)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	added, err := l.client.Eval(ctx, addScript, []string{l.cfg.Stream}, l.cfg.Events, text).Text()
	if err != nil {
		return "", fmt.Errorf("redis: %w", err)
	}
	if u.ID != "" {
		return u.ID, nil
	}
	return journal.Scheme + added, nil
}

// CatchUp asks for the stream's last update and waits until the journal has it, for at
// most requestTimeout: Redis may be restarting.
func (l *Log) CatchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var want streamID
	for {
		var err error
		if want, err = l.newest(ctx); err == nil {
			break
		}
		select {
		case <-time.After(minPause):
		case <-ctx.Done():
			return fmt.Errorf("redis: %w", err)
		}
	}
	for {
		l.mu.Lock()
		last, moved := l.last, l.moved
		l.mu.Unlock()
		if !last.less(want) {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("redis: read up to %v of %v: %w", last, want, context.Cause(ctx))
		}
	}
}

// newest returns the ID of the stream's last update, or zero if there is none.
func (l *Log) newest(ctx context.Context) (streamID, error) {
	messages, err := l.client.XRevRangeN(ctx, l.cfg.Stream, "+", "-", 1).Result()
	if err != nil || len(messages) == 0 {
		return streamID{}, err
	}
	return parseStreamID(messages[0].ID)
}

// Close stops following the stream.
func (l *Log) Close() error {
	l.closed.Do(func() {
		l.stop()
		l.reader.Wait()
		if err := l.client.Close(); err != nil {
			l.closing = fmt.Errorf("redis: %w", err)
		}
	})
	return l.closing
}

// follow reads the stream until Close. It never gives up.
func (l *Log) follow() {
	pause := minPause
	for l.ctx.Err() == nil {
		streams, err := l.client.XRead(l.ctx, &redis.XReadArgs{
			Streams: []string{l.cfg.Stream, l.last.String()}, Count: readCount, Block: blockTime,
		}).Result()
		switch {
		case err == nil || errors.Is(err, redis.Nil): // Nil: no update came within blockTime
			if pause > minPause {
				l.log.Info("redis answers again")
				pause = minPause
			}
		case l.ctx.Err() != nil:
			return
		default:
			if pause == minPause {
				l.log.Warn("redis does not answer", "error", err)
			}
			select {
			case <-l.ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, maxPause)
			continue
		}
		for _, s := range streams {
			l.take(s.Messages)
		}
	}
}

// take appends messages of the stream to the journal.
func (l *Log) take(messages []redis.XMessage) {
	for _, m := range messages {
		if err := l.takeOne(m); err != nil {
			// Another program writes to the stream. Its message cannot be used and counts
			// as missing.
			l.log.Warn("message of the stream cannot be used", "id", m.ID, "error", err)
			l.journal.Break()
		}
		if id, err := parseStreamID(m.ID); err == nil {
			l.mu.Lock()
			l.last = id
			close(l.moved)
			l.moved = make(chan struct{})
			l.mu.Unlock()
		}
	}
}

func (l *Log) takeOne(m redis.XMessage) error {
	text, _ := m.Values["n"].(string)
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return fmt.Errorf("its number: %w", err)
	}
	if l.last != (streamID{}) && number != l.sequence+1 {
		l.log.Warn("updates of the stream are missing", "after", l.sequence, "before", number)
		l.journal.Break()
	}
	l.sequence = number
	record, _ := m.Values["u"].(string)
	_, u, err := journal.DecodeRecord([]byte(record))
	if err != nil {
		return err
	}
	// The time is this machine's, not that of Redis: times must not go back.
	_, err = l.journal.AppendAs(journal.Scheme+m.ID, u)
	return err
}

// A streamID is a Redis stream's ID: a Unix time in milliseconds, and a number within
// that millisecond.
type streamID struct{ millis, number uint64 }

func parseStreamID(text string) (id streamID, err error) {
	a, b, ok := strings.Cut(text, "-")
	if !ok {
		return streamID{}, fmt.Errorf("stream ID %q: want two numbers", text)
	}
	if id.millis, err = strconv.ParseUint(a, 10, 64); err != nil {
		return streamID{}, fmt.Errorf("stream ID %q: %w", text, err)
	}
	if id.number, err = strconv.ParseUint(b, 10, 64); err != nil {
		return streamID{}, fmt.Errorf("stream ID %q: %w", text, err)
	}
	return id, nil
}

func (a streamID) less(b streamID) bool {
	return a.millis < b.millis || a.millis == b.millis && a.number < b.number
}

func (a streamID) String() string { return fmt.Sprintf("%d-%d", a.millis, a.number) }
