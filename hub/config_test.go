package hub

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/hub/journal"
	"dyno/internal/fields"
)

func TestValidate(t *testing.T) {
	if err := Defaults().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	for _, c := range []struct {
		change func(*Config)
		want   []string // fields
	}{
		{func(c *Config) { c.History = HistoryFile }, []string{"file"}},
		{func(c *Config) { c.File = "x" }, []string{"file"}},
		{func(c *Config) { c.History, c.Redis = HistoryRedis, Redis{} }, []string{"redis", "redis_events", "redis_stream"}},
		{func(c *Config) { c.PublisherKey = &Key{"HS256", []byte("short")} }, []string{"publisher_key"}},
		{func(c *Config) { c.SubscriberKey = &Key{"RS256", []byte("x")} }, []string{"subscriber_key"}},
		{func(c *Config) { c.SubscriberKey = &Key{"none", nil} }, []string{"subscriber_key"}},
		{func(c *Config) { c.AnonymousSubscribe = false }, []string{"subscriber_key"}},
		{func(c *Config) { c.AllowOrigins = []string{"*", "https://a/"} }, []string{"allow_origins[0]", "allow_origins[1]"}},
		{func(c *Config) { c.PublishOrigins = []string{"*"} }, []string{"publish_origins[0]"}},
		{func(c *Config) { c.MaxUpdateBytes, c.MaxBodiesBytes = 1000, 999 }, []string{"max_bodies"}},
		{func(c *Config) { c.QueueEvents, c.QueueBytes, c.Outcome = c.HistoryEvents+1, c.HistoryBytes+1, "x" }, []string{"outcome", "queue_bytes", "queue_events"}},
		{func(c *Config) { c.History, c.Redis.Address, c.Outcome = HistoryRedis, "127.0.0.1:1", Block }, []string{"outcome"}},
		{func(c *Config) { c.ClientBackoff = time.Second }, []string{"heartbeat"}},
		{func(c *Config) { c.Heartbeat, c.ClientBackoff, c.Retry = 0, time.Millisecond, time.Microsecond }, []string{"client_backoff", "retry"}},
		{func(c *Config) { c.Heartbeat = time.Millisecond }, []string{"heartbeat"}},
		{func(c *Config) { c.Hijack = false }, []string{"event_loop"}},
		{func(c *Config) {
			c.Send, c.MeasureFlush = func(*journal.Entry, func([]byte) error) error { return nil }, true
		}, []string{"event_loop", "measure_flush"}},
		{func(c *Config) { c.EventLoop, c.BatchDelay = false, time.Second }, []string{"batch_delay"}},
		{func(c *Config) { c.KeepAlive = KeepAlive{Idle: time.Millisecond, Count: 128} }, []string{"keepalive_count", "keepalive_idle", "keepalive_interval"}},
	} {
		config := Defaults()
		c.change(&config)
		_, err := New(config)
		var faults *fields.Faults
		if !errors.As(err, &faults) {
			t.Errorf("%v: got %v", c.want, err)
			continue
		}
		var got []string
		for _, f := range faults.Faults {
			got = append(got, f.Field)
		}
		slices.Sort(got)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s%v", diff, err)
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
	// A selector that does not compile, or would take long to match, matches only its own text.
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
