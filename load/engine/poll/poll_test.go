package poll

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A wait that cannot be had sleeps all the same, if coarsely: by another system call.
func TestCoarseWait(t *testing.T) {
	for errno, want := range map[unix.Errno]bool{
		unix.ENOSYS: true, // an old kernel
		unix.EPERM:  true, // an old filter of system calls
		unix.EINTR:  false, unix.EBADF: false, unix.EINVAL: false,
	} {
		if got := lacks(errno); got != want {
			t.Errorf("%v: %v, want %v", errno, got, want)
		}
	}
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.coarse = true
	const wait = 20 * time.Millisecond
	waits := 0
	for from := time.Now(); time.Since(from) < wait-time.Millisecond; waits++ { // signals end waits
		if events := p.Wait(wait - time.Since(from)); len(events) > 0 {
			t.Errorf("events %v, want none", events)
		}
	}
	if waits > 1000 {
		t.Errorf("%d waits within %v: want it to sleep", waits, wait)
	}
	p.Wake()
	if events := p.Wait(time.Minute); len(events) != 1 || events[0].Fd != WakeToken {
		t.Errorf("events %v, want the wake-up", events)
	}
}
