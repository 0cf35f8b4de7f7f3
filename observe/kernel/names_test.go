package kernel

import (
	"runtime"
	"testing"
)

func TestCallNames(t *testing.T) {
	names := callNames()
	for _, g := range callGroups() {
		for _, call := range g.calls {
			// arm64 does without.
			if n := len(numbersOf(&names, []string{call})); n != 1 && (runtime.GOARCH != "arm64" || call != "epoll_wait") {
				t.Errorf("%s: %d numbers", call, n)
			}
		}
	}
	for slot, want := range map[int]string{lastSlot: "other", 500: "syscall_500"} {
		if got := callName(&names, slot); got != want {
			t.Errorf("slot %d: %s; want %s", slot, got, want)
		}
	}
	if n := numbersOf(&names, []string{"read", "write"}); len(n) != 2 || callName(&names, n[0]) != "read" && callName(&names, n[1]) != "read" {
		t.Errorf("read and write: %v", n)
	}
}
