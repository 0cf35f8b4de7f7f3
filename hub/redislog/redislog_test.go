package redislog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"dyno/hub/journal"
	"dyno/internal/freeport"
	"dyno/internal/leak"

	"github.com/redis/go-redis/v9"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A server is a redis-server of this test's own, on a port that stays the same.
type server struct {
	t       *testing.T
	dir     string
	address string
	args    []string
	stop    func()
}

func run(t *testing.T, args ...string) *server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("needs redis-server (Debian: redis-server)")
	}
	s := &server{t: t, dir: t.TempDir(), address: freeport.Address(t), args: args}
	s.start()
	t.Cleanup(func() { s.stop() })
	return s
}

// start runs the server and waits until it answers.
func (s *server) start() {
	s.t.Helper()
	_, port, err := net.SplitHostPort(s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command("redis-server", append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--daemonize", "no"}, s.args...)...)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	stopped := false
	s.stop = func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed, and says so
		}
	}
	client := redis.NewClient(&redis.Options{Addr: s.address, MaxRetries: 100, MinRetryBackoff: 20 * time.Millisecond, MaxRetryBackoff: 100 * time.Millisecond})
	defer client.Close()
	if err := client.Ping(s.t.Context()).Err(); err != nil {
		s.stop()
		s.t.Fatal(err)
	}
}

func (s *server) open(events int64) *Log {
	s.t.Helper()
	l, err := Open(Config{Address: s.address, Stream: "test", Events: events, Journal: journal.Defaults()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { l.Close() })
	return l
}

func add(t *testing.T, l *Log, data string) string {
	t.Helper()
	id, err := l.Append(t.Context(), journal.Update{Topics: []string{"t"}, Data: []byte(data)})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// until waits for the journal to have an entry with that ID.
func until(t *testing.T, l *Log, id string) {
	t.Helper()
	appended := make(chan struct{}, 1)
	stop := l.Journal().Notify(func() {
		select {
		case appended <- struct{}{}:
		default:
		}
	})
	defer stop()
	timeout := time.After(time.Minute)
	for {
		if _, found := l.Journal().Seek(id); found {
			return
		}
		select {
		case <-appended:
		case <-timeout:
			t.Fatalf("the journal never has %s", id)
		}
	}
}

// held returns what the journal holds, and whether a reader from the start got a gap.
func held(l *Log) (ids, data []string, gap bool) {
	entries, oldest := l.Journal().Since(0, nil, 100_000)
	for _, e := range entries {
		ids = append(ids, e.ID)
		data = append(data, string(e.Data))
	}
	return ids, data, oldest > 1
}

// TestTwo: two logs of one stream have equal updates, in one order and with equal IDs. A later log has them as well.
func TestTwo(t *testing.T) {
	s := run(t)
	a, b := s.open(1000), s.open(1000)
	for i := range 100 {
		l := []*Log{a, b}[i%2]
		add(t, l, fmt.Sprint(i))
	}
	id, err := a.Append(t.Context(), journal.Update{ID: "mine", Topics: []string{"t", "u"}, Private: true, Type: "x", Retry: time.Second})
	if err != nil || id != "mine" {
		t.Fatalf("%q %v", id, err)
	}
	for _, l := range []*Log{a, b, s.open(1000)} {
		if err := l.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		ids, data, gap := held(l)
		if len(ids) != 101 || gap {
			t.Fatalf("%d held, gap %v", len(ids), gap)
		}
		for i := range 100 {
			if data[i] != fmt.Sprint(i) || !strings.HasPrefix(ids[i], "dyno:") {
				t.Errorf("entry %d is %s %s", i, ids[i], data[i])
			}
		}
		want, _, _ := held(a)
		if strings.Join(ids, " ") != strings.Join(want, " ") {
			t.Error("IDs differ")
		}
		entries, _ := l.Journal().Since(100, nil, 1)
		if e := entries[0]; e.ID != "mine" || !e.Private || e.Type != "x" || e.Retry != time.Second || len(e.Topics) != 2 {
			t.Errorf("%+v", e)
		}
	}
}

// TestRestarted: a Redis that keeps its data is gone for a while. Publishing is
// refused meanwhile, and nothing is lost.
func TestRestarted(t *testing.T) {
	s := run(t, "--appendonly", "yes", "--appendfsync", "always")
	a, b := s.open(1000), s.open(1000)
	add(t, a, "0")
	s.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := a.Append(ctx, journal.Update{Topics: []string{"t"}}); err == nil || errors.Is(err, journal.ErrUpdate) {
		t.Errorf("published without Redis: %v", err)
	}
	if err := b.CatchUp(ctx); err == nil {
		t.Error("caught up without Redis")
	}
	s.start()
	id := add(t, a, "1")
	for _, l := range []*Log{a, b} {
		until(t, l, id)
		if _, data, gap := held(l); gap || strings.Join(data, " ") != "0 1" {
			t.Errorf("%q, gap %v", data, gap)
		}
	}
}

// TestLost: Redis comes back with nothing. Everybody gets a gap.
func TestLost(t *testing.T) {
	s := run(t)
	a, b := s.open(1000), s.open(1000)
	for i := range 3 {
		add(t, a, fmt.Sprint(i))
	}
	old := add(t, a, "3")
	until(t, a, old)
	until(t, b, old)
	s.stop()
	s.start()
	id := add(t, a, "new")
	for _, l := range []*Log{a, b} {
		until(t, l, id)
		cursor := uint64(4) // one who has been given all
		if entries, oldest := l.Journal().Since(cursor, nil, 10); oldest != 6 || len(entries) != 1 || string(entries[0].Data) != "new" {
			t.Errorf("a reader at the head: %d entries from %d", len(entries), oldest)
		}
		if _, found := l.Journal().Seek(old); found {
			t.Error("an ID from before the loss is known")
		}
	}
}

// TestTrimmed: a stream that was cut faster than a hub could read leaves a gap, not a
// silence.
func TestTrimmed(t *testing.T) {
	s := run(t)
	a := s.open(10)
	until(t, a, add(t, a, "0"))
	admin := redis.NewClient(&redis.Options{Addr: s.address})
	defer admin.Close()
	// All that follows happens between two reads of the hub.
	script := `for i = 1, 50 do
  redis.call('XADD', KEYS[1], 'MAXLEN', '=', 10, '*', 'n', i + 1, 'u', '{"topics":["t"],"data":"' .. i .. '"}')
end`
	if err := admin.Eval(t.Context(), script, []string{"test"}).Err(); err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	until(t, a, add(t, a, "end"))
	entries, oldest := a.Journal().Since(1, nil, 100)
	if oldest != 3 || len(entries) != 11 || string(entries[0].Data) != "41" {
		t.Errorf("%d entries from %d", len(entries), oldest)
	}
}

// TestForeign: what somebody else puts into the stream shows as a gap.
func TestForeign(t *testing.T) {
	s := run(t)
	a := s.open(1000)
	until(t, a, add(t, a, "0"))
	admin := redis.NewClient(&redis.Options{Addr: s.address})
	defer admin.Close()
	if err := admin.XAdd(t.Context(), &redis.XAddArgs{Stream: "test", Values: []string{"some", "thing"}}).Err(); err != nil {
		t.Fatal(err)
	}
	until(t, a, add(t, a, "1"))
	if entries, oldest := a.Journal().Since(1, nil, 10); oldest < 3 || len(entries) != 1 {
		t.Errorf("%d entries from %d", len(entries), oldest)
	}
}

// TestCluster: a node of a Redis Cluster takes updates, whatever the stream is called.
func TestCluster(t *testing.T) {
	// Otherwise it takes the port 10,000 above its own, which another program may have.
	_, port, err := net.SplitHostPort(freeport.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	s := run(t, "--cluster-enabled", "yes", "--cluster-port", port)
	admin := redis.NewClient(&redis.Options{Addr: s.address})
	defer admin.Close()
	if err := admin.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	for ready := false; !ready; {
		info, err := admin.ClusterInfo(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		ready = strings.Contains(info, "cluster_state:ok")
	}
	for _, stream := range []string{"test", "{events}:a", "a{}b", "a}b{"} {
		l, err := Open(Config{Address: s.address, Stream: stream, Events: 1000, Journal: journal.Defaults()})
		if err != nil {
			t.Fatal(err)
		}
		add(t, l, "0")
		until(t, l, add(t, l, "1"))
		if _, data, gap := held(l); gap || strings.Join(data, " ") != "0 1" {
			t.Errorf("%s: %q, gap %v", stream, data, gap)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNumbersGoOn: new events continue the numbers of an existing stream. This holds after another program wrote to the
// stream, and without the key that earlier versions counted with.
func TestNumbersContinue(t *testing.T) {
	s := run(t)
	admin := redis.NewClient(&redis.Options{Addr: s.address})
	defer admin.Close()
	record, err := journal.EncodeRecord(time.Now(), journal.Update{Topics: []string{"t"}, Data: []byte("old")})
	if err != nil {
		t.Fatal(err)
	}
	for _, values := range [][]any{{"n", "9007199254740990", "u", record}, {"some", "thing"}} {
		if err := admin.XAdd(t.Context(), &redis.XAddArgs{Stream: "test", Values: values}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	l := s.open(1000)
	until(t, l, add(t, l, "new"))
	last, err := admin.XRevRangeN(t.Context(), "test", "+", "-", 1).Result()
	if err != nil || last[0].Values["n"] != "9007199254740991" {
		t.Errorf("%v, %v", last, err)
	}
}

// TestReservedIDs: IDs that publishers may not choose are refused. If somebody else puts one into the stream, the update
// gets the stream's ID.
func TestReservedIDs(t *testing.T) {
	s := run(t)
	a := s.open(1000)
	first := add(t, a, "0")
	until(t, a, first)
	for _, id := range []string{first, journal.Scheme + "99999999999999-0", journal.Earliest} {
		if _, err := a.Append(t.Context(), journal.Update{ID: id, Topics: []string{"t"}}); !errors.Is(err, journal.ErrUpdate) {
			t.Errorf("%s: %v", id, err)
		}
	}
	record, err := journal.EncodeRecord(time.Now(), journal.Update{ID: first, Topics: []string{"t"}, Data: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(&redis.Options{Addr: s.address})
	defer admin.Close()
	added, err := admin.Eval(t.Context(), addScript, []string{"test"}, 1000, record).Text()
	if err != nil {
		t.Fatal(err)
	}
	until(t, a, journal.Scheme+added)
	if ids, _, gap := held(a); gap || strings.Join(ids, " ") != first+" "+journal.Scheme+added {
		t.Errorf("%q, gap %v", ids, gap)
	}
}

func TestOpenFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := Open(Config{Address: l.Addr().String(), Stream: "x", Events: 1, Journal: journal.Defaults()}); err == nil || !strings.Contains(err.Error(), "redis at 127.0.0.1:") {
		t.Errorf("got %v", err)
	}
	s := run(t)
	admin := redis.NewClient(&redis.Options{Addr: s.address})
	defer admin.Close()
	if err := admin.Set(t.Context(), "test", "a string", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Address: s.address, Stream: "test", Events: 1, Journal: journal.Defaults()}); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("got %v", err)
	}
}

func TestStreamID(t *testing.T) {
	for _, text := range []string{"", "1", "1-", "-1", "a-1", "1-a", "1-2-3"} {
		if id, err := parseStreamID(text); err == nil {
			t.Errorf("%q became %v", text, id)
		}
	}
	a, b := streamID{1, 9}, streamID{2, 0}
	if !a.less(b) || b.less(a) || a.less(a) || !a.less(streamID{1, 10}) {
		t.Error("wrong order")
	}
	if text := a.String(); text != "1-9" {
		t.Error(text)
	}
}
