//go:build !portable

package poll

import (
	"syscall"
	"testing"
	"time"
)

// A wait that cannot be had sleeps all the same, if coarsely: by another system call.
func TestCoarseWait(t *testing.T) {
	for errno, want := range map[syscall.Errno]bool{
		syscall.ENOSYS: true, // an old kernel
		syscall.EPERM:  true, // an old filter of system calls
		syscall.EINTR:  false, syscall.EBADF: false, syscall.EINVAL: false,
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
}
