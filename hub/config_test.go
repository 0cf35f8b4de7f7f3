package hub

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	if err := Defaults().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	for _, c := range []struct {
		change func(*Config)
		want   []string
	}{
		{func(c *Config) { c.History = "paper" }, []string{`history: "paper" is not possible; one of memory, file, redis`}},
		{func(c *Config) { c.History = HistoryFile }, []string{"file: goes with history file"}},
		{func(c *Config) { c.File = "x" }, []string{"file: goes with history file"}},
		{func(c *Config) { c.History, c.Redis = HistoryRedis, Redis{} }, []string{"redis: goes with history redis", "redis_stream: is empty", "redis_events: 0 is too little; from 1"}},
		{func(c *Config) { c.HistoryEvents, c.HistoryBytes, c.HistoryAge = 0, 0, -1 }, []string{"history_events: 0", "history_bytes: 0B", "history_age: -1ns"}},
		{func(c *Config) { c.PublisherKey = &Key{"HS256", []byte("short")} }, []string{"publisher_key: a secret of 5 bytes: HS256 needs at least 32"}},
		{func(c *Config) { c.SubscriberKey = &Key{"RS256", []byte("x")} }, []string{"subscriber_key: want an RSA public key in PEM"}},
		{func(c *Config) { c.SubscriberKey = &Key{"none", nil} }, []string{`subscriber_key: method: "none": must be HS256, RS256 or ES256`}},
		{func(c *Config) { c.AnonymousSubscribe = false }, []string{"subscriber_key: is missing: nobody could subscribe"}},
		{func(c *Config) { c.AllowOrigins = []string{"*", "https://a/"} }, []string{`allow_origins[0]: "*"`, `allow_origins[1]: "https://a/"`}},
		{func(c *Config) { c.PublishOrigins = []string{"*"} }, []string{`publish_origins[0]: "*"`}},
		{func(c *Config) { c.MaxSubscribers, c.MaxPerAddress, c.MaxUpdateBytes, c.MaxTopics = 0, 0, 0, 0 },
			[]string{"max_subscribers: 0", "max_per_address: 0", "max_update: 0B", "max_topics: 0"}},
		{func(c *Config) { c.MaxUpdateBytes, c.MaxBodiesBytes = 1000, 999 }, []string{"max_bodies: 999 is too little; at least max_update, 1000"}},
		{func(c *Config) { c.QueueEvents, c.QueueBytes, c.Outcome = c.HistoryEvents+1, 0, "x" }, []string{"queue_events: 10001 is too much; at most history_events, 10000", "queue_bytes: 0B", `outcome: "x"`}},
		{func(c *Config) { c.History, c.Redis.Address, c.Outcome = HistoryRedis, "127.0.0.1:1", Block }, []string{"outcome: block cannot hold up publishers at other hubs"}},
		{func(c *Config) { c.BlockTimeout, c.WriteTimeout = 0, 0 }, []string{"block_timeout: 0s", "write_timeout: 0s"}},
		{func(c *Config) { c.ClientBackoff = time.Second }, []string{"heartbeat: follows from client_backoff"}},
		{func(c *Config) { c.Heartbeat, c.ClientBackoff, c.Retry = -1, -1, time.Microsecond }, []string{"heartbeat: -1ns", "client_backoff: -1ns", "retry: 1µs"}},
		{func(c *Config) { c.Heartbeat, c.WriteTimeout = time.Millisecond, 25*time.Hour },
			[]string{"heartbeat: 1ms is too little; at least 16ms", "write_timeout: 25h is too much; from 16ms to 24h"}},
		{func(c *Config) { c.Hijack, c.EncodeOnce, c.MeasureFlush = false, false, true },
			[]string{"event_loop: needs hijack", "event_loop: needs encode_once", "measure_flush: the event loop flushes nothing"}},
		{func(c *Config) { c.EventLoop, c.BatchDelay = false, time.Second }, []string{"batch_delay: is only for the event loop"}},
		{func(c *Config) { c.BatchDelay = 11 * time.Second }, []string{"batch_delay: 11s is too much"}},
		{func(c *Config) { c.SingleWrite = false }, []string{"hijack: needs single_write"}},
		{func(c *Config) { c.SendBuffer, c.ReceiveBuffer = -1, 2<<30 }, []string{"send_buffer: -1B is too little", "receive_buffer: 2GiB is too much"}},
		{func(c *Config) { c.KeepAlive = KeepAlive{Idle: time.Millisecond, Count: 128} }, []string{"keepalive_idle: 1ms", "keepalive_interval: 0s", "keepalive_count: 128"}},
	} {
		config := Defaults()
		c.change(&config)
		_, err := New(config)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("not reported: %s in %v", want, err)
			}
		}
	}
}

func TestSelector(t *testing.T) {
	for _, c := range []struct {
		selector, topic string
		want            bool
	}{
		{"*", "anything", true}, {"a", "a", true}, {"a", "ab", false}, {"", "a", false},
		{"/users/{id}", "/users/1", true}, {"/users/{id}", "/users/1/x", false}, {"/users/{id}", "x/users/1", false},
		{"/users/{id}", "/users/{id}", true}, {"/f{?x,y}", "/f?x=1&y=2", true}, {"/f{/p*}", "/f/a/b", true},
		{"{", "{", true}, {"{", "x", false}, {"a.c", "abc", false}, {"/{a}.c", "/xbc", false},
		{"/{+path}", "/a/b", true}, {"https://x/{a}/{b}", "https://x/1/2", true},
	} {
		s := newSelector(c.selector)
		for range 2 { // the second time from memory
			if got := s.match(c.topic); got != c.want {
				t.Errorf("%q and %q: %v", c.selector, c.topic, got)
			}
		}
		if s.match("something else") != (c.selector == "*") {
			t.Errorf("%q remembers the wrong topic", c.selector)
		}
	}
	// A selector that the library cannot turn into an expression matches its own text, and so does
	// one that would take long to match.
	large := "/{" + strings.Repeat("x,", 1200) + "x}"
	for text, want := range map[string]bool{
		strings.Repeat("{+a}", maxVariables): true, "{" + strings.Repeat("a,", maxVariables-1) + "a}": true,
		strings.Repeat("{+a}", maxVariables+1): false, "{" + strings.Repeat("a,", maxVariables) + "a}": false,
		"/{x}" + strings.Repeat("y", maxTemplate): false,
	} {
		if s := newSelector(text); (s.template != nil) != want {
			t.Errorf("%.20q… is a template: %v", text, !want)
		}
	}
	if s := compile(large); s != nil {
		t.Error("a template of 1201 variables makes an expression")
	}
	if !newSelector(large).match(large) {
		t.Error("does not match itself")
	}
}

// BenchmarkCostliestTemplate matches the template that takes the longest of those that may be
// subscribed to.
func BenchmarkCostliestTemplate(b *testing.B) {
	s := newSelector(strings.Repeat("{+a}", maxVariables) + "x")
	for _, size := range []int{50, maxTopic} {
		topic := strings.Repeat("a", size)
		b.Run(fmt.Sprintf("%d bytes", size), func(b *testing.B) {
			for b.Loop() {
				s.template.MatchString(topic)
			}
		})
	}
}

// TestSelectorsAreForgotten: selectors are shared, and freed with the last subscriber.
func TestSelectorsAreForgotten(t *testing.T) {
	s := newSelectors()
	one, two := s.acquire([]string{"a", "b"}), s.acquire([]string{"b"})
	if one[1] != two[0] {
		t.Error("not shared")
	}
	s.release(one)
	if len(s.used) != 1 {
		t.Errorf("%d are left", len(s.used))
	}
	s.release(two)
	if len(s.used) != 0 {
		t.Errorf("%d are left", len(s.used))
	}
}

// TestSelectorsAreKept: those of publishers stay for the next request, up to a bound. Those that come again stay longest.
func TestSelectorsAreKept(t *testing.T) {
	s := newSelectors()
	first := s.keep([]string{"/{a}", "/{b}"})
	s.release(s.acquire([]string{"/{a}"})) // of a subscriber that has gone
	again := s.keep([]string{"/{a}"})
	if again[0] != first[0] {
		t.Error("compiled again")
	}
	for i := range maxKept - 1 {
		s.keep([]string{fmt.Sprint(i)})
	}
	if len(s.used) != maxKept || s.kept.Len() != maxKept {
		t.Errorf("%d are used and %d kept, want %d", len(s.used), s.kept.Len(), maxKept)
	}
	if s.used["/{a}"] != first[0] || s.used["/{b}"] != nil {
		t.Error("not the one that was asked for least lately is gone")
	}
	used := s.acquire([]string{"/{a}"})
	for i := range maxKept {
		s.keep([]string{fmt.Sprint("other ", i)})
	}
	if s.used["/{a}"] != first[0] {
		t.Error("one that a subscriber uses is gone")
	}
	s.release(used)
	if s.used["/{a}"] != nil {
		t.Error("one that nobody uses is left")
	}
}

func FuzzSelector(f *testing.F) {
	for _, s := range []string{"*", "/users/{id}", "{+x}{#y}{.z*}{/a,b}{;c:3}{?d}{&e}", "{", "{a", "/{x:9999}"} {
		f.Add(s, "/users/1")
	}
	f.Fuzz(func(t *testing.T, text, topic string) {
		s := newSelector(text)
		if !s.match(text) {
			t.Errorf("%q does not match itself", text)
		}
		if first := s.match(topic); s.match(topic) != first {
			t.Errorf("%q changes its mind about %q", text, topic)
		}
	})
}

// FuzzForm publishes any form: it is refused, or it is one event.
func FuzzForm(f *testing.F) {
	for _, s := range []string{"topic=t&data=x", "topic=a&topic=b&private=on&id=1&type=x&retry=5&data=a%0Ab", "topic=t&type=a%0Ad", "topic=%zz", "a;b", "topic=t&retry=-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		form, err := url.ParseQuery(body)
		if err != nil {
			return
		}
		u, err := parseUpdate(form)
		if err != nil {
			return
		}
		if u.Retry < 0 || u.Retry > maxRetry || u.Private != form.Has("private") {
			t.Errorf("%q became %+v", body, u)
		}
		if u.Check() == nil && (len(u.Topics) == 0 || strings.ContainsAny(u.ID+u.Type, "\r\n")) {
			t.Errorf("%q passes as %+v", body, u)
		}
	})
}
