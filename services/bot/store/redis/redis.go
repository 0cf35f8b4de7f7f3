// Package redis keeps sessions and limits in Redis, for several gateways at once. Each operation is one script, which
// Redis runs atomically. So a reservation is atomic over all gateways. Simultaneous operations share an exchange.
//
// Keys are "PREFIX:{NAME}:…", of one API key, team or user, or of one session. A cluster of Redis is not supported.
package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"dyno/services/bot/store"
)

// Config says where Redis is.
type Config struct {
	// Address is host:port, unix:PATH, redis://user:password@host:port/db or, with TLS, rediss://…. No error shows
	// it.
	Address string
	// Prefix is what all keys begin with.
	Prefix string
	// Timeout bounds one operation.
	Timeout time.Duration
}

// maxConnections bounds the connections.
const maxConnections = 16

// remember is for how long a session's number of turns is remembered.
const remember = time.Hour

// Defaults returns the Config that every field starts from.
func Defaults() Config {
	return Config{Prefix: "dyno:bot", Timeout: time.Second}
}

// Store is a Redis. Its methods may be called from any goroutine. It reconnects after a lost connection.
type Store struct {
	cfg    Config
	client *redis.Client
	pipe   pipe
}

// silent is a log that discards everything.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// quiet stops the client's lines about failed connections on standard error: it also returns them as errors, and an
// outage has thousands of them.
var quiet = sync.OnceFunc(func() { redis.SetLogger(silent{}) })

// Open returns a store; Redis need not be running yet.
func Open(c Config) (*Store, error) {
	quiet()
	o, err := c.options()
	if err != nil {
		return nil, err
	}
	return newStore(c, o), nil
}

func newStore(c Config, o *redis.Options) *Store {
	client := redis.NewClient(o)
	return &Store{cfg: c, client: client, pipe: pipe{client: client, timeout: c.Timeout}}
}

// options are the client's.
func (c Config) options() (*redis.Options, error) {
	o, err := at(c.Address)
	if err != nil {
		return nil, err
	}
	// A failed request may have been carried out: a retry could count twice.
	o.MaxRetries = -1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = c.Timeout, c.Timeout, c.Timeout, c.Timeout
	o.ContextTimeoutEnabled, o.DisableIdentity, o.DialerRetries = true, true, 1
	o.PoolSize = maxConnections
	return o, nil
}

// CheckAddress validates an address. Its error does not show it: it may have a password.
func CheckAddress(address string) error {
	_, err := at(address)
	return err
}

// at returns the options of an address. It hides errors of the parsing packages, which would show a part of it.
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

// braces escapes the characters that would end the hash tag.
var braces = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// key returns the prefix of all keys of an API key or of a session.
func (s *Store) key(name string) string { return s.cfg.Prefix + ":{" + braces.Replace(name) + "}:" }

// grace is for how long a counter outlives its window: reservations are settled in the window in which they were
// made.
const grace = 24 * time.Hour

// giveBack is the part of scripts that releases expired reservations, some at a time.
const giveBack = `
local function give_back(now, ends, prefix)
  local late = redis.call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, 64)
  for _, id in ipairs(late) do
    local fields = redis.call('HGETALL', prefix .. id)
    for i = 1, #fields, 2 do
      if redis.call('EXISTS', fields[i]) == 1 then redis.call('DECRBY', fields[i], fields[i+1]) end
    end
    redis.call('DEL', prefix .. id)
    redis.call('ZREM', ends, id)
  end
end
`

// KEYS: the session's holder, its number of turns, the reservations by expiry, the prefix of their keys, a counter
// per limit. ARGV: the holder ("" locks nothing) and its lease in milliseconds; the ID of the reservation (""
// reserves nothing); now, its end and its retention, in milliseconds (retention 0: no end); for each limit its
// amount, the cost, and the counter's retention in milliseconds (0 is without end). Returns 0, the session's
// number of turns, -1 if unknown, and the usage of each limit; or -1 if the session is locked; or the number of the reached limit, and its usage.
// The number of turns stays unknown until the session is unlocked.
var begin = redis.NewScript(giveBack + `
if ARGV[1] ~= '' and redis.call('EXISTS', KEYS[1]) == 1 then return {-1, '0'} end
local answer = {0, '-1'}
if ARGV[3] ~= '' then
  give_back(ARGV[4], KEYS[3], KEYS[4])
  local used = redis.call('MGET', unpack(KEYS, 5))
  for i = 1, #KEYS - 4 do
    local at = 4 + i * 3
    if tonumber(used[i] or '0') + tonumber(ARGV[at + 1]) > tonumber(ARGV[at]) then return {i, used[i] or '0'} end
  end
  local taken = {}
  for i = 1, #KEYS - 4 do
    local at, counter = 4 + i * 3, KEYS[4 + i]
    answer[2 + i] = redis.call('INCRBY', counter, ARGV[at + 1])
    if not used[i] and ARGV[at + 2] ~= '0' then redis.call('PEXPIRE', counter, ARGV[at + 2]) end
    taken[2 * i - 1], taken[2 * i] = counter, ARGV[at + 1]
  end
  local reservation = KEYS[4] .. ARGV[3]
  redis.call('HSET', reservation, unpack(taken))
  if ARGV[6] ~= '0' then redis.call('PEXPIRE', reservation, ARGV[6]) end
  redis.call('ZADD', KEYS[3], ARGV[5], ARGV[3])
end
if ARGV[1] == '' then return answer end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
answer[2] = redis.call('GETDEL', KEYS[2]) or '-1'
return answer
`)

// KEYS: those of begin. ARGV: the holder ("" unlocks nothing), the number of turns (-1 is unknown), for how many milliseconds it is
// remembered; the ID of the reservation ("" settles nothing), and for each limit the usage. Returns whether the session
// was locked and whether the reservation was held, for what is left out too.
var end = redis.NewScript(`
local locked, held = 1, 1
if ARGV[4] ~= '' then
  local reservation = KEYS[4] .. ARGV[4]
  held = redis.call('ZREM', KEYS[3], ARGV[4])
  if held == 1 then
    local taken = redis.call('HMGET', reservation, unpack(KEYS, 5))
    local counters = redis.call('MGET', unpack(KEYS, 5))
    for i = 1, #KEYS - 4 do
      local used = ARGV[4 + i]
      if taken[i] and counters[i] and taken[i] ~= used then
        if #used < 16 and #taken[i] < 16 then
          redis.call('INCRBY', KEYS[4 + i], string.format('%.0f', tonumber(used) - tonumber(taken[i])))
        else -- two steps: Lua calculates in floating point
          redis.call('INCRBY', KEYS[4 + i], used)
          redis.call('DECRBY', KEYS[4 + i], taken[i])
        end
      end
    end
    redis.call('DEL', reservation)
  end
end
if ARGV[1] ~= '' then
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    if ARGV[2] ~= '-1' then redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3]) end
    redis.call('DEL', KEYS[1])
  else
    locked = 0
  end
end
return {locked, held}
`)

// KEYS: a counter for each limit. ARGV: the difference for each.
var correct = redis.NewScript(`
for i = 1, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then redis.call('INCRBY', KEYS[i], ARGV[i]) end
end
return 0
`)

// KEYS: the set of reservations by when they end, the prefix of their own keys, and a counter for each limit. ARGV: now.
// Returns the usage of each limit.
var usage = redis.NewScript(giveBack + `
give_back(ARGV[1], KEYS[1], KEYS[2])
local list = redis.call('MGET', unpack(KEYS, 3))
for i = 1, #list do list[i] = list[i] or '0' end
return list
`)

// KEYS: the holder of the session. ARGV: the holder, the lease in milliseconds. Returns whether the session was locked.
var extend = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
`)

// sessionKeys are those of a lock; nil has none.
func (s *Store) sessionKeys(l *store.Lock) []string {
	if l == nil {
		return []string{"", ""}
	}
	name := s.key(l.Session)
	return []string{name + "holder", name + "turns"}
}

// limitKeys adds those of a key's limits. Reservations that others' limits count, too, are all in one set: the
// next request under such limits releases those of a gateway that has died.
func (s *Store) limitKeys(keys []string, key string, limits []store.Limit, at time.Time) []string {
	of := s.key(key)
	if slices.ContainsFunc(limits, func(l store.Limit) bool { return l.Part.Account() != "" }) {
		of = s.cfg.Prefix + ":shared:"
	}
	keys = append(keys, of+"leases", of+"lease:")
	for _, l := range limits {
		keys = append(keys, s.key(l.Of(key).Account())+l.Counter(at))
	}
	return keys
}

// reservationKeys adds those of a reservation; nil has none.
func (s *Store) reservationKeys(keys []string, r *store.Reservation) []string {
	if r == nil {
		return keys
	}
	return s.limitKeys(keys, r.Key, r.Limits, r.At)
}

// Begin is store.Coordinator's.
func (s *Store) Begin(ctx context.Context, l *store.Lock, r *store.Reservation) (int64, error) {
	args := make([]any, 0, 6+3*store.MaxLimits)
	if l == nil {
		args = append(args, "", 0)
	} else {
		args = append(args, l.Holder, l.Lease.Milliseconds())
	}
	var limits []store.Limit
	if r == nil {
		args = append(args, "")
	} else {
		limits = r.Limits
		args = appendReservation(args, r)
	}
	found, err := s.numbers(s.pipe.run(ctx, begin, s.reservationKeys(s.sessionKeys(l), r), args...))
	switch {
	case err != nil:
		return 0, err
	case found[0] == -1:
		return 0, store.ErrBusy
	case found[0] == 0 && len(found) == 2+len(limits):
		if r != nil {
			r.Used = found[2:]
		}
		return found[1], nil
	case found[0] <= 0 || found[0] > int64(len(limits)):
		return 0, fmt.Errorf("redis: a strange answer: %v", found)
	}
	return 0, store.Beyond(limits[found[0]-1], found[1], r.At)
}

// numbers reads an answer of two numbers or more.
func (s *Store) numbers(answer *redis.Cmd) ([]int64, error) {
	found, err := answer.Int64Slice()
	switch {
	case err != nil:
		return nil, fmt.Errorf("redis: %w", err)
	case len(found) < 2:
		return nil, fmt.Errorf("redis: a strange answer: %v", found)
	}
	return found, nil
}

// appendReservation appends the arguments of a reservation. It is kept until its release, which may be long after the
// lease's end: at the next use of the key. No counter is kept longer than that.
func appendReservation(args []any, r *store.Reservation) []any {
	args = append(args, r.ID, r.At.UnixMilli(), r.At.Add(r.Lease).UnixMilli(), int64(0))
	longest, ever := time.Duration(0), false
	for _, l := range r.Limits {
		keep := int64(0)
		if l.Window > 0 {
			keep = (l.Window + grace).Milliseconds()
		}
		longest, ever = max(longest, l.Window), ever || l.Window == 0
		args = append(args, l.Amount, r.Cost.Of(l.Resource), keep)
	}
	if !ever {
		args[5] = (r.Lease + longest + grace).Milliseconds()
	}
	return args
}

// End is store.Coordinator's.
func (s *Store) End(ctx context.Context, l *store.Lock, turns int64, r *store.Reservation, used store.Cost) error {
	args := make([]any, 0, 4+store.MaxLimits)
	if l == nil {
		args = append(args, "", 0, 0)
	} else {
		args = append(args, l.Holder, turns, remember.Milliseconds())
	}
	if r == nil {
		args = append(args, "")
	} else {
		args = append(args, r.ID)
		for _, limit := range r.Limits {
			args = append(args, used.Of(limit.Resource))
		}
	}
	found, err := s.numbers(s.pipe.run(ctx, end, s.reservationKeys(s.sessionKeys(l), r), args...))
	if err != nil {
		return err
	}
	var errs [2]error
	if found[0] == 0 {
		errs[0] = store.ErrUnlocked
	}
	if found[1] == 0 {
		errs[1] = store.ErrGone
	}
	return errors.Join(errs[:]...)
}

// Extend is store.Coordinator's.
func (s *Store) Extend(ctx context.Context, l *store.Lock) error {
	locked, err := s.pipe.run(ctx, extend, s.sessionKeys(l)[:1], l.Holder, l.Lease.Milliseconds()).Bool()
	switch {
	case err != nil:
		return fmt.Errorf("redis: %w", err)
	case !locked:
		return store.ErrUnlocked
	}
	return nil
}

// Correct is store.Coordinator's.
func (s *Store) Correct(ctx context.Context, key string, limits []store.Limit, at time.Time, more store.Cost) error {
	args := make([]any, 0, store.MaxLimits)
	for _, l := range limits {
		args = append(args, more.Of(l.Resource))
	}
	return s.pipe.run(ctx, correct, s.limitKeys(nil, key, limits, at)[2:], args...).Err()
}

// Used is store.Coordinator's.
func (s *Store) Used(ctx context.Context, key string, limits []store.Limit, now time.Time) ([]int64, error) {
	if len(limits) == 0 {
		return nil, nil
	}
	list, err := s.pipe.run(ctx, usage, s.limitKeys(nil, key, limits, now), now.UnixMilli()).Int64Slice()
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	return list, nil
}

// globs escapes the characters that patterns of SCAN give a meaning.
var globs = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

// scanned is how many keys of the database one SCAN looks at.
const scanned = 1000

// Erase is store.Coordinator's. It looks at all keys of the database, a part at a time.
func (s *Store) Erase(ctx context.Context, user string) error {
	for _, pattern := range []string{s.key("*/*/"+url.QueryEscape(user)+"/*") + "turns", s.key(globs.Replace(store.Part{Owner: user}.Account())) + "*"} {
		for cursor := uint64(0); ; {
			keys, next, err := s.client.Scan(ctx, cursor, pattern, scanned).Result()
			if err == nil && len(keys) > 0 {
				err = s.client.Del(ctx, keys...).Err()
			}
			if err != nil {
				return fmt.Errorf("redis: %w", err)
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return nil
}

var _ store.Coordinator = (*Store)(nil)
