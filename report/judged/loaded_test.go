package judged

import (
	"testing"

	"dyno/results/rundir"
)

func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		of   rundir.Loaded
		want string
	}{
		{rundir.Loaded{Streams: 5, Allowed: 1}, "1 of 5 streams on each allowed by the server"},
		{rundir.Loaded{Streams: 5, Allowed: 5}, ""},
		{rundir.Loaded{Streams: 5}, ""}, // it sets no limit
		{rundir.Loaded{Allowed: 100}, ""},
	} {
		if got := Allowed(&c.of); got != c.want {
			t.Errorf("%+v: %q, want %q", c.of, got, c.want)
		}
	}
}

// Addresses are listed where they were not loaded alike, or something is wrong with one.
func TestUnlike(t *testing.T) {
	even := func(change func(*rundir.Address)) []rundir.Address {
		list := []rundir.Address{{Address: "a", Opened: 2, Requests: 100}, {Address: "b", Opened: 2, Requests: 110}}
		if change != nil {
			change(&list[1])
		}
		return list
	}
	for _, c := range []struct {
		of   []rundir.Address
		says string // of the second
		want bool
	}{
		{even(nil), "b 2 connections, 110 requests", false},
		{even(func(a *rundir.Address) { a.Requests = 1 }), "b 2 connections, 1 request", true},
		{even(func(a *rundir.Address) { a.Bad = 3 }), "b 2 connections, 110 requests, 3 failed", true},
		{even(func(a *rundir.Address) { a.Failed = 4 }), "b 2 connections, 110 requests, 4 not opened", true},
		{even(func(a *rundir.Address) { *a = rundir.Address{Address: "b"} }), "b not loaded", true},
		{even(func(a *rundir.Address) { *a = rundir.Address{Address: "b", Unreachable: "refused"} }), "b not loaded: refused", true},
		// One of the processes did not reach it.
		{even(func(a *rundir.Address) { a.Unreachable = "timed out" }), "b 2 connections, 110 requests", true},
	} {
		if got := Unlike(&rundir.Loaded{Addresses: c.of}); got != c.want || OnAddress(&c.of[1]) != c.says {
			t.Errorf("%+v: %v, %q", c.of, got, OnAddress(&c.of[1]))
		}
	}
	if Unlike(&rundir.Loaded{Addresses: []rundir.Address{{Address: "a", Bad: 1}}}) {
		t.Error("one address differs from itself")
	}
}
