//go:build linux && !portable

package engine_test

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/wire"
)

// leave leaves the process more descriptors than it has open.
func leave(t *testing.T, more int) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	// The limit is on numbers, and the lowest free ones are given first.
	less := limit
	for less.Cur = 0; more > 0; less.Cur++ {
		if _, err := unix.FcntlInt(uintptr(less.Cur), unix.F_GETFD, 0); errors.Is(err, unix.EBADF) {
			more--
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &less); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	})
}

// A shortage of the generator is a failure of its own kind, not an error of the target.
func TestDescriptorsAreTheGeneratorsOwn(t *testing.T) {
	c := config.Config{
		Address: mute(t), NewClients: echo(16), Connections: 20, Window: 100 * time.Millisecond,
		Drain: time.Millisecond, MaxBackoff: 10 * time.Millisecond,
	}
	leave(t, 13) // three of them for the poller
	r, err := engine.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	k := r.Counts
	if k.Generator == 0 || k.Errors != 0 || k.ByKind[wire.Generator] != k.Generator || k.ByKind[wire.Connect] != 0 || k.Unfinished == 0 {
		t.Errorf("counts %+v", k)
	}
	if n := r.Connections; n.Opened == 0 || n.Generator == 0 || n.Generator != n.Failed {
		t.Errorf("connections %+v", n)
	}
	conserved(t, r)
	// So it is in an open loop, and what is dropped from then on is its own, too. Before the first
	// attempt to connect has failed, requests that came in a burst may be dropped.
	c.Schedule, c.MaxWaiting = steady(t, 2000), 5
	if r, err = engine.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if k := r.Counts; k.Generator == 0 || k.Errors != 0 || k.Unsent > k.Dropped {
		t.Errorf("open loop: %+v", k)
	}
}

func TestExhausted(t *testing.T) {
	address := mute(t)
	leave(t, 3) // for the poller
	_, err := engine.Run(t.Context(), config.Config{Address: address, NewClients: echo(16), Connections: 3, Window: 50 * time.Millisecond})
	var exhausted *engine.Exhausted
	if !errors.As(err, &exhausted) || exhausted.Address != address {
		t.Errorf("%v, want that this machine has too few descriptors", err)
	}
}
