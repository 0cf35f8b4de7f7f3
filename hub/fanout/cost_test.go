package fanout

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"dyno/hub/journal"
	"dyno/internal/loop"
)

// If the environment has crowdAddress, this program is a crowd of idle clients of a
// server: one process does not have enough descriptors for both ends.
const crowdAddress = "FANOUT_TEST_CROWD"

// crowd holds connections until its standard input ends: as many as the number in
// its first line.
func crowd(address string) {
	in := bufio.NewScanner(os.Stdin)
	in.Scan()
	n, err := strconv.Atoi(in.Text())
	if err != nil {
		panic(err)
	}
	for range n {
		c, err := net.Dial("tcp", address)
		if err != nil {
			panic(err)
		}
		defer c.Close()
	}
	in.Scan()
}

// TestMemory: what an idle subscriber costs in resident memory, at 15,000.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: opens 15,000 connections, and measures memory")
	}
	const many = 15_000
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c := Defaults()
	c.Arrivals = 1
	l := runs(t, c, newJournal(t, 10))
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), crowdAddress+"="+listener.Addr().String())
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		if err := child.Wait(); err != nil {
			t.Error(err)
		}
	}()
	before := resident(t)
	fmt.Fprintln(in, many)
	for i := range many {
		s, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		fd := detach(t, s.(*net.TCPConn))
		sub := Subscriber{Match: all, Address: s.RemoteAddr().String(), Preamble: []byte(": hello\n\n")}
		if err := l.Add(t.Context(), fd, sub); err != nil {
			t.Fatalf("subscriber %d: %v", i, err)
		}
	}
	until(t, l, "all are there", func(s Stats) bool { return s.Subscribers == many && s.Late == 0 })
	each := (resident(t) - before) / many
	t.Logf("%d B for each of %d idle subscribers", each, many)
	if limit := 2048; each > limit {
		t.Errorf("%d B of resident memory for an idle subscriber, want %d at most", each, limit)
	}
}

// resident is this process's resident memory in bytes, without memory that the garbage
// collector can give back.
func resident(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// bench is a loop without a goroutine, subscribers, and a way to read what they
// were sent.
func bench(t fatal, subscribers int) (l *Loop, j *journal.Journal, drain func(), end func()) {
	c := Defaults()
	c.Heartbeat, c.WriteTimeout = 0, 0
	j = newJournal(t, 1000)
	l = newLoop(t, c, j)
	var peers []int
	for range subscribers {
		fd, peer := connect(t, false)
		peers = append(peers, detach(t, peer))
		if err := l.Add(context.Background(), fd, Subscriber{Match: all}); err != nil {
			t.Fatal(err)
		}
	}
	for l.Stats().Subscribers < int64(subscribers) || l.Stats().Late > 0 {
		steps(t, l, 1)
	}
	buf := make([]byte, 64<<10)
	drain = func() {
		for _, fd := range peers {
			_, _ = loop.Recv(fd, buf)
		}
	}
	end = func() {
		l.Close()
		for _, fd := range peers {
			loop.Close(fd)
		}
	}
	return l, j, drain, end
}

// TestNoAllocations: sending to subscribers that are up to date allocates nothing, for
// one entry and for several.
func TestNoAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	l, j, drain, end := bench(t, 10)
	defer end()
	first := j.Head()
	for range 2 {
		add(t, j, "a", 100)
	}
	entries, _ := j.Since(first, nil, 2)
	for n := 1; n <= 2; n++ {
		l.seen = entries[n-1].Seq
		if allocs := testing.AllocsPerRun(100, func() {
			l.deliver(l.order[0], entries[:n], first)
			drain()
		}); allocs != 0 {
			t.Errorf("%v allocations to deliver %d entries to 10 subscribers", allocs, n)
		}
	}
	if s := l.Stats(); s.Late != 0 {
		t.Errorf("%+v", s)
	}
}

func BenchmarkDeliver(b *testing.B) {
	const subscribers = 1000
	for _, batch := range []int{1, 4} {
		b.Run(fmt.Sprint(batch), func(b *testing.B) {
			l, j, drain, end := bench(b, subscribers)
			defer end()
			b.ReportAllocs()
			for n := 0; n < b.N; n += subscribers * batch {
				for range batch {
					add(b, j, "a", 100)
				}
				l.turn()
				b.StopTimer()
				drain()
				b.StartTimer()
			}
		})
	}
}
