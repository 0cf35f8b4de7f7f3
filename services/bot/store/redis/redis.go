// Package redis keeps sessions and limits in Redis, for several gateways at once. Each
// operation is one script, which Redis runs without any other in between: that is what
// makes a reservation atomic over all gateways.
//
// Keys are "PREFIX:{NAME}:…", of one API key or of one session. A cluster of Redis is not supported.
package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"dyno/services/bot/store"
)

// Config says where Redis is.
type Config struct {
	// Address is host:port, unix:PATH, redis://user:password@host:port/db or, with TLS, rediss://…: no error
	// shows it.
	Address string
	// Prefix is what all keys begin with.
	Prefix string
	// Timeout bounds one operation.
	Timeout time.Duration
	// MaxConnections bounds the connections; 0 is 16.
	MaxConnections int
	// Remember is for how long the number of a session's turns is remembered.
	Remember time.Duration
}

// Defaults returns what every field starts from.
func Defaults() Config {
	return Config{Prefix: "dyno:bot", Timeout: time.Second, MaxConnections: 16, Remember: time.Hour}
}

// Store is a Redis. Its methods may be called from any goroutine. A connection that is
// lost is made again.
type Store struct {
	cfg    Config
	client *redis.Client
}

// silent is a log of nothing.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// quiet keeps the client from writing a line to standard error for every connection that
// is not made: it returns that as an error, too, and an outage is thousands of them.
var quiet = sync.OnceFunc(func() { redis.SetLogger(silent{}) })

// Open returns a store; Redis need not be there yet.
func Open(c Config) (*Store, error) {
	quiet()
	o, err := c.options()
	if err != nil {
		return nil, err
	}
	return &Store{c, redis.NewClient(o)}, nil
}

// options are the client's.
func (c Config) options() (*redis.Options, error) {
	if c.Prefix == "" || strings.ContainsAny(c.Prefix, "{}") || c.Timeout <= 0 || c.Remember < time.Second {
		return nil, fmt.Errorf("redis: prefix %q, timeout %v, remember %v: want a prefix without braces, a timeout above 0 and a second at least", c.Prefix, c.Timeout, c.Remember)
	}
	o, err := at(c.Address)
	if err != nil {
		return nil, err
	}
	// A request that failed may have been carried out: asking again could count twice.
	o.MaxRetries = -1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = c.Timeout, c.Timeout, c.Timeout, c.Timeout
	o.ContextTimeoutEnabled, o.DisableIdentity, o.DialerRetries = true, true, 1
	if o.PoolSize = c.MaxConnections; o.PoolSize == 0 {
		o.PoolSize = 16
	}
	return o, nil
}

// CheckAddress returns what is wrong with an address, without showing it: it may have a password.
func CheckAddress(address string) error {
	_, err := at(address)
	return err
}

// at are the options that an address says. Errors of the packages that read it would show a part of it.
func at(address string) (*redis.Options, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if path == "" {
			return nil, errors.New("redis: unix: has no path")
		}
		return &redis.Options{Network: "unix", Addr: path}, nil
	}
	if !strings.Contains(address, "://") {
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			return nil, errors.New("redis: want host:port, unix:PATH, redis://user:password@host:port/db or rediss://…")
		}
		return &redis.Options{Addr: address}, nil
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("redis: the URL is not understood: in a password, write characters such as / @ : # and % as % and two hexadecimal digits")
	case u.Scheme != "redis" && u.Scheme != "rediss":
		return nil, errors.New("redis: the URL must begin with redis:// or, with TLS, rediss://")
	case u.Hostname() == "":
		return nil, errors.New("redis: the URL has no host")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("redis: the URL must have neither a query nor a fragment: in a password, ? is %3F and # is %23")
	}
	o, err := redis.ParseURL(address)
	if err != nil || o.DB < 0 {
		return nil, errors.New("redis: the URL must end in /N, the number of a database, or with the host and its port")
	}
	return o, nil
}

// Close closes the connections.
func (s *Store) Close() error { return s.client.Close() }

func (s *Store) key(name, kind string) string {
	// A brace within would end what decides on the slot.
	return s.cfg.Prefix + ":{" + strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D").Replace(name) + "}:" + kind
}

// grace is for how much longer than its window a counter is there: reservations are
// settled in the window in which they were made.
const grace = 24 * time.Hour

// script is one with what goes with all of them. Reservations that nobody has settled in
// time are given back by whatever script comes next, some at a time.
func script(body string) *redis.Script {
	return redis.NewScript(`
local function give_back(now)
  local late = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 64)
  for _, id in ipairs(late) do
    local fields = redis.call('HGETALL', KEYS[2] .. id)
    for i = 1, #fields, 2 do
      if redis.call('EXISTS', fields[i]) == 1 then redis.call('DECRBY', fields[i], fields[i+1]) end
    end
    redis.call('DEL', KEYS[2] .. id)
    redis.call('ZREM', KEYS[1], id)
  end
end
` + body)
}

// KEYS: the set of reservations by when they end, the prefix of their own keys, a counter
// for each limit. ARGV: now and the lease's end in milliseconds, for how many milliseconds what
// is reserved is known (0 is for ever), the ID, and for each limit its amount, what is to be taken, and for how many milliseconds the counter
// is there (0 is for ever). Returns 0, or which limit is reached and what is used of it.
var reserve = script(`
give_back(ARGV[1])
for i = 3, #KEYS do
  local used = redis.call('GET', KEYS[i]) or '0'
  local at = 5 + (i - 3) * 3
  if tonumber(used) + tonumber(ARGV[at + 1]) > tonumber(ARGV[at]) then return {i - 2, used} end
end
for i = 3, #KEYS do
  local at = 5 + (i - 3) * 3
  redis.call('INCRBY', KEYS[i], ARGV[at + 1])
  if ARGV[at + 2] ~= '0' then redis.call('PEXPIRE', KEYS[i], ARGV[at + 2], 'NX') end
  redis.call('HSET', KEYS[2] .. ARGV[4], KEYS[i], ARGV[at + 1])
end
if ARGV[3] ~= '0' then redis.call('PEXPIRE', KEYS[2] .. ARGV[4], ARGV[3]) end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[4])
return {0, 0}
`)

// KEYS: as above. ARGV: the ID, and for each limit what was used. Returns whether it was
// held.
var settle = redis.NewScript(`
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
for i = 3, #KEYS do
  local reserved = redis.call('HGET', KEYS[2] .. ARGV[1], KEYS[i])
  if reserved and redis.call('EXISTS', KEYS[i]) == 1 then
    redis.call('INCRBY', KEYS[i], ARGV[i - 1]) -- two steps: Lua would calculate in floating point
    redis.call('DECRBY', KEYS[i], reserved)
  end
end
redis.call('DEL', KEYS[2] .. ARGV[1])
return 1
`)

// KEYS: as above. ARGV: now. Returns what is used of each.
var usage = script(`
give_back(ARGV[1])
local list = {}
for i = 3, #KEYS do list[i - 2] = redis.call('GET', KEYS[i]) or '0' end
return list
`)

func (s *Store) keys(key string, limits []store.Limit, at time.Time) []string {
	keys := []string{s.key(key, "leases"), s.key(key, "lease:")}
	for _, l := range limits {
		keys = append(keys, s.key(key, l.Counter(at)))
	}
	return keys
}

// Reserve is store.Limits'.
func (s *Store) Reserve(ctx context.Context, key string, limits []store.Limit, cost store.Cost, now time.Time, lease time.Duration) (store.Reservation, error) {
	r := store.Reservation{ID: store.NewID(), Key: key, Limits: limits, At: now, Cost: cost}
	// What is reserved is known until it is given back, which may be long after the lease's end:
	// when the key is used again. No counter is there any longer than that.
	args := []any{now.UnixMilli(), now.Add(lease).UnixMilli(), int64(0), r.ID}
	longest, ever := time.Duration(0), false
	for _, l := range limits {
		keep := int64(0)
		if l.Window > 0 {
			keep = (l.Window + grace).Milliseconds()
		}
		longest, ever = max(longest, l.Window), ever || l.Window == 0
		args = append(args, l.Amount, cost.Of(l.Resource), keep)
	}
	if !ever {
		args[2] = (lease + longest + grace).Milliseconds()
	}
	found, err := reserve.Run(ctx, s.client, s.keys(key, limits, now), args...).Int64Slice()
	switch {
	case err != nil:
		return r, fmt.Errorf("redis: %w", err)
	case len(found) != 2 || found[0] < 0 || found[0] > int64(len(limits)):
		return r, fmt.Errorf("redis: a strange answer: %v", found)
	case found[0] > 0:
		return store.Reservation{}, store.Beyond(limits[found[0]-1], found[1], now)
	}
	return r, nil
}

// Settle is store.Limits'.
func (s *Store) Settle(ctx context.Context, r store.Reservation, used store.Cost) error {
	args := []any{r.ID}
	for _, l := range r.Limits {
		args = append(args, used.Of(l.Resource))
	}
	held, err := settle.Run(ctx, s.client, s.keys(r.Key, r.Limits, r.At), args...).Bool()
	switch {
	case err != nil:
		return fmt.Errorf("redis: %w", err)
	case !held:
		return store.ErrGone
	}
	return nil
}

// Used is store.Limits'.
func (s *Store) Used(ctx context.Context, key string, limits []store.Limit, now time.Time) ([]int64, error) {
	list, err := usage.Run(ctx, s.client, s.keys(key, limits, now), now.UnixMilli()).Int64Slice()
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	return list, nil
}

// KEYS: who holds the session, how many turns it has. ARGV: the holder, the lease in
// milliseconds. Returns how many turns it has, -1 if that is not known, -2 if it is held.
// The number is not known again until it is released.
var acquire = redis.NewScript(`
if not redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then return -2 end
return tonumber(redis.call('GETDEL', KEYS[2]) or '-1')
`)

// KEYS: as above. ARGV: the holder, the number of turns, for how many milliseconds it is
// remembered. Returns whether it was held.
var release = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] ~= '-1' then redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3]) end
redis.call('DEL', KEYS[1])
return 1
`)

// KEYS: who holds the session. ARGV: the holder, the lease in milliseconds. Returns whether
// it was held.
var extend = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
`)

func (s *Store) sessionKeys(session string) []string {
	return []string{s.key(session, "holder"), s.key(session, "turns")}
}

// Acquire is store.Sessions'.
func (s *Store) Acquire(ctx context.Context, session, holder string, lease time.Duration) (int64, error) {
	n, err := acquire.Run(ctx, s.client, s.sessionKeys(session), holder, lease.Milliseconds()).Int64()
	switch {
	case err != nil:
		return 0, fmt.Errorf("redis: %w", err)
	case n == -2:
		return 0, store.ErrBusy
	}
	return n, nil
}

// Extend is store.Sessions'.
func (s *Store) Extend(ctx context.Context, session, holder string, lease time.Duration) error {
	held, err := extend.Run(ctx, s.client, s.sessionKeys(session), holder, lease.Milliseconds()).Bool()
	switch {
	case err == nil && !held:
		return store.ErrGone
	case err != nil:
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

// Release is store.Sessions'.
func (s *Store) Release(ctx context.Context, session, holder string, count int64) error {
	held, err := release.Run(ctx, s.client, s.sessionKeys(session), holder, count, s.cfg.Remember.Milliseconds()).Bool()
	switch {
	case err == nil && !held:
		return store.ErrGone
	case err != nil:
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

var (
	_ store.Limits   = (*Store)(nil)
	_ store.Sessions = (*Store)(nil)
)
