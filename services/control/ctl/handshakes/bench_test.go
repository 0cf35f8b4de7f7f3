package handshakes

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// BenchmarkCost: what a packet costs, by the kernel's own account of eBPF programs. Packets of
// others are most of a machine's, those of a server that is followed carry what is no handshake.
func BenchmarkCost(b *testing.B) {
	for _, follows := range []bool{false, true} {
		b.Run(map[bool]string{false: "others", true: "followed"}[follows], func(b *testing.B) {
			w := begin(b)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			s, err := l.Accept()
			if err != nil {
				b.Fatal(err)
			}
			go func() { // until it is closed, which is the end of the copy
				defer s.Close()
				_, _ = io.Copy(s, s)
			}()
			if follows {
				count(b, w, map[netip.AddrPort]string{netip.MustParseAddrPort(l.Addr().String()): "s"})
			}
			stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
			if err != nil {
				b.Fatal(err)
			}
			defer stats.Close()
			if err := c.SetDeadline(time.Now().Add(hangGuard)); err != nil {
				b.Fatal(err)
			}
			line := make([]byte, 100)
			for b.Loop() {
				if _, err := c.Write(line); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, line); err != nil {
					b.Fatal(err)
				}
			}
			ran, err := w.program.Stats()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(ran.Runtime.Nanoseconds())/float64(ran.RunCount), "ns/packet")
		})
	}
}
