package rest

import (
	"encoding/json"
	"strings"
	"testing"

	"dyno/services/control/plane"
)

// state reads events up to a state, and returns it with the kinds and names of those before it.
func (s *stream) state() (state plane.State, before []string, id string) {
	s.t.Helper()
	for {
		e := s.next()
		if e.id != "" {
			id = e.id
		}
		if e.kind == "state" {
			if err := json.Unmarshal([]byte(e.data), &state); err != nil {
				s.t.Fatal(err)
			}
			return state, before, id
		}
		var c changeEvent
		if err := json.Unmarshal([]byte(e.data), &c); err != nil {
			s.t.Fatal(err)
		}
		before = append(before, strings.TrimSpace(e.kind+" "+c.Name+" "+string(c.Resource)))
	}
}

// TestFollowerStream: a follower gets all that it may read, after the overdue instances, and then a state. Its token is for
// its permissions only.
func TestFollowerStream(t *testing.T) {
	b := withBook(t, nil)
	b.token = "root"
	b.want(201, "", "PUT", "/v1/configs/secret?namespace=shop", `{"content":"password","secret":true}`)
	b.want(201, "", "PUT", "/v1/configs/open?namespace=shop", `{"content":"x"}`)
	b.want(201, "", "PUT", "/v1/configs/far?namespace=far", `{"content":"x"}`)
	read := func(who, id string) (*stream, []string, string) {
		b.token = who
		s := b.follow("/v1/watch?follower=true", "Last-Event-ID", id)
		if first, before, _ := s.state(); first.Whole || first.Overdue == nil || len(before) > 0 {
			t.Errorf("%s: first %+v, after %q", who, first, before)
		}
		state, before, id := s.state()
		if !state.Whole || state.Overdue != nil || state.Seconds <= 0 {
			t.Errorf("%s: %+v", who, state)
		}
		return s, before, id
	}
	want := func(who string, got []string, want ...string) {
		t.Helper()
		for _, one := range want {
			found := 0
			for _, e := range got {
				if strings.Contains(e, one) {
					found++
				}
			}
			if found != 1 {
				t.Errorf("%s: %q: %d of %q", who, got, found, one)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %q, want %q", who, got, want)
		}
	}
	s, got, id := read("reader", "")
	want("reader", got, "resync", "withhold secret", "put open", "synced")
	_, got, _ = read("editor", "")
	want("editor", got, "resync", "password", "put open", "synced")
	_, got, _ = read("reader", id)
	want("reader again", got)
	_, got, _ = read("editor", id) // may read more than the token's owner
	want("editor with it", got, "resync", "password", "put open", "synced")
	_, got, _ = read("root", "")
	want("root", got, "resync", "password", "put open", "put far", "synced")

	b.token = "root"
	b.want(200, "", "PUT", "/v1/configs/open?namespace=shop", `{"content":"y"}`)
	b.want(200, "", "PUT", "/v1/configs/far?namespace=far", `{"content":"y"}`)
	for len(got) != 1 {
		_, got, _ = s.state()
	}
	want("reader", got, "put open")
	b.want(400, "parameter", "GET", "/v1/watch?follower=perhaps", "")
}
