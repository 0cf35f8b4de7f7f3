package tlslayer

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestKernelTLS(t *testing.T) {
	available, reason := KernelTLS()
	list, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_ulp")
	if err != nil {
		t.Skip("the kernel has no list of what may lie over TCP: ", err)
	}
	if listed := slices.Contains(strings.Fields(string(list)), "tls"); available != listed {
		t.Errorf("available: %v (%s); the kernel lists %q", available, reason, list)
	}
}

func TestKernelsAnswer(t *testing.T) {
	for _, c := range []struct {
		err       error
		available bool
		reason    string
	}{
		{nil, true, ""},
		{unix.ENOTCONN, true, ""},
		{unix.ENOENT, false, "modprobe tls"},
		{unix.ENOPROTOOPT, false, "older than 4.13"},
		{unix.EPERM, false, "refuses it: operation not permitted"},
	} {
		available, reason := kernelTLS(c.err)
		if available != c.available || !strings.Contains(reason, c.reason) || available != (reason == "") {
			t.Errorf("%v: %v, %q", c.err, available, reason)
		}
	}
}
