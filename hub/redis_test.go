package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dyno/internal/freeport"
)

// redisServer runs a redis-server that keeps what it acknowledges, and returns its
// address and what restarts it.
func redisServer(t *testing.T) (address string, restart func()) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("needs redis-server (Debian: redis-server)")
	}
	address, dir := freeport.Address(t), t.TempDir()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	var cmd *exec.Cmd
	stop := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed, and says so
	}
	begin := func() {
		cmd = exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		client := redis.NewClient(&redis.Options{Addr: address, MaxRetries: 100, MinRetryBackoff: 20 * time.Millisecond, MaxRetryBackoff: 100 * time.Millisecond})
		defer client.Close()
		if err := client.Ping(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	begin()
	t.Cleanup(func() { stop() })
	return address, func() { stop(); begin() }
}

// unreadable is a history that cannot be asked.
type unreadable struct{ memory }

func (unreadable) CatchUp(context.Context) error { return errors.New("no answer") }

// TestPostponed: while it is unknown whether a client misses events, it is asked to reconnect: it gets neither an
// error nor a gap.
func TestPostponed(t *testing.T) {
	inModes(t, func(t *testing.T, set func(*Config)) {
		h := newHub(t, set)
		h.history = unreadable{memory{h.journal}}
		b := servingOn(t, listen(t, "tcp", "127.0.0.1:0"), h)
		id := b.say("t", "x")
		s := b.subscribe("topic=t&lastEventID=unknown").awaitReady()
		if e, ok := s.next(); ok || s.resp.StatusCode != http.StatusOK {
			t.Errorf("%s, %+v", s.resp.Status, e)
		}
		s = b.subscribe("topic=t&lastEventID=" + id)
		b.say("t", "y")
		s.want(event{Data: "y"})
		if st := b.Stats(); st.Postponed != 1 || st.Gaps != 0 || st.Subscribers != 1 {
			t.Errorf("%+v", st)
		}
		b.end()
		if b.places != 0 || len(b.selectors.used) != 0 {
			t.Errorf("left: %d places, %v", b.places, b.selectors.used)
		}
	})
}

// TestRedis moves subscribers between two hubs of one stream while both publish and
// Redis is restarted: each sees every update once, in the same order.
func TestRedis(t *testing.T) {
	address, restart := redisServer(t)
	hub := func() *bed {
		return serving(t, func(c *Config) { c.History, c.Redis.Address = HistoryRedis, address })
	}
	hubs := []*bed{hub(), hub()}
	const updates, clients = 200, 4
	seen := make([][]string, clients)
	ready := make(chan struct{}, clients)
	var reading sync.WaitGroup
	for c := range clients {
		reading.Go(func() {
			query := "topic=t"
			for connection := 0; ; connection++ {
				s := hubs[(c+connection)%2].subscribe(query)
				if connection == 0 {
					s.awaitReady()
					ready <- struct{}{}
				}
				for range 5 + c*3 {
					e, ok := s.next()
					if !ok {
						break // Redis could not be asked where to go on
					}
					if e.Type == "gap" {
						t.Errorf("client %d: %+v", c, e)
						return
					}
					if e.ID == "" {
						continue
					}
					query = "topic=t&lastEventID=" + url.QueryEscape(e.ID)
					seen[c] = append(seen[c], e.Data)
					if e.Data == "end" {
						return
					}
				}
				if len(seen[c]) > 0 { // else it has no place to go on from
					s.conn.Close()
				}
			}
		})
	}
	for range clients {
		<-ready
	}
	hubs[0].say("t", "first")
	var publishing sync.WaitGroup
	refused := make([]int, 2)
	for p, h := range hubs {
		publishing.Go(func() {
			for i := range updates {
				for tries := 0; ; tries++ { // numbered: what is refused may be kept all the same
					if _, err := h.Publish(context.Background(), Update{Topics: []string{"t"}, Data: []byte(fmt.Sprint(p, " ", i, " ", tries))}); err == nil {
						break
					}
					refused[p]++
				}
				if p == 0 && i == updates/2 {
					restart()
				}
			}
		})
	}
	publishing.Wait()
	hubs[1].say("t", "end")
	reading.Wait()
	for c := range clients {
		if strings.Join(seen[c], ",") != strings.Join(seen[0], ",") {
			t.Errorf("clients 0 and %d saw different things", c)
		}
	}
	// What was refused may have been kept: every update is there with some try.
	tried := map[string]bool{}
	for _, data := range seen[0] {
		if tried[data] {
			t.Errorf("seen twice: %q", data)
		}
		tried[data] = true
		if f := strings.Fields(data); len(f) == 3 {
			tried[f[0]+" "+f[1]] = true
		}
	}
	for p := range hubs {
		for i := range updates {
			if !tried[fmt.Sprint(p, " ", i)] {
				t.Errorf("lost: update %d of hub %d", i, p)
			}
		}
	}
	t.Logf("%d seen, refused at the hubs: %v", len(seen[0]), refused)
}
