package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"dyno/internal/command"
	"dyno/internal/exit"
	"dyno/internal/leak"
	"dyno/services/relay/conditions"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A line keeps the order, takes its delay, never exceeds its rate or its queue, and loses what it says.
func TestLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Conditions{
			Delay:   time.Duration(rapid.IntRange(0, 50).Draw(t, "delay")) * time.Millisecond,
			Rate:    conditions.Rate(rapid.SampledFrom([]int{0, 10_000, 1_000_000}).Draw(t, "rate")),
			Loss:    rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(t, "loss"),
			Queue:   rapid.IntRange(1600, 20_000).Draw(t, "queue"),
			LowRate: conditions.Rate(rapid.SampledFrom([]int{0, 5_000}).Draw(t, "low")),
			Period:  100 * time.Millisecond,
		}
		l := newLine(c, 0)
		var now time.Duration
		var sent []byte
		var at []time.Duration
		bytesArrived, arrived := 0, 0
		collect := func() {
			for data := l.receive(now); data != nil; data = l.receive(now) {
				if data[0] != sent[arrived] || now < at[arrived]+c.Delay {
					t.Fatalf("packet %d of %v arrives at %v as %d", arrived, at[arrived], now, data[0])
				}
				arrived++
				bytesArrived += len(data)
			}
		}
		for i := range rapid.IntRange(1, 200).Draw(t, "packets") {
			now += time.Duration(rapid.IntRange(0, 3000).Draw(t, "pause")) * time.Microsecond
			collect()
			data := bytes.Repeat([]byte{byte(i)}, rapid.IntRange(1, maxPacket).Draw(t, "bytes"))
			if l.send(now, data) {
				sent, at = append(sent, data[0]), append(at, now)
			}
			if l.waiting > c.Queue || l.waiting < 0 {
				t.Fatalf("%d bytes wait in a queue of %d", l.waiting, c.Queue)
			}
			if most := float64(max(c.Rate, c.LowRate)) * now.Seconds(); c.Rate > 0 && float64(bytesArrived) > most+1 {
				t.Fatalf("%d bytes arrived in %v, at most %v can", bytesArrived, now, most)
			}
		}
		now += time.Hour
		collect()
		if arrived != len(sent) || c.Loss == 1 && arrived > 0 || c.Loss+float64(c.Rate+c.LowRate) == 0 && l.lost > 0 {
			t.Fatalf("%d of %d packets arrived, %d are lost", arrived, len(sent), l.lost)
		}
		if _, ok := l.next(); ok || l.waiting < 0 {
			t.Fatalf("nothing is on its way, and %d bytes wait", l.waiting)
		}
	})
}

// A handshake crosses the link twice, and settings hold at both ends.
func TestLink(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces and devices take root")
	}
	if _, err := os.Stat("/dev/net/tun"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("this kernel has no TUN devices, or this container does not show them: ", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: it ends in namespaces of its own
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		near, far, err := open(t.Context(), Settings{Sysctl: map[string]string{"net.ipv4.tcp_fin_timeout": "7"}, Route: "quickack 1"})
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(near)
		defer unix.Close(far)
		if got, err := os.ReadFile(setting + "ipv4/tcp_fin_timeout"); err != nil || strings.TrimSpace(string(got)) != "7" {
			t.Errorf("the far end has %q: %v", got, err)
		}
		var stop atomic.Bool
		carried := make(chan error, 1)
		go func() { carried <- carry(Conditions{Delay: 5 * time.Millisecond, Queue: 1 << 16}, near, far, &stop) }()
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(fd)
		began := time.Now()
		err = unix.Connect(fd, &unix.SockaddrInet4{Port: 1, Addr: [4]byte{10, 99, 0, 1}})
		if took := time.Since(began); !errors.Is(err, unix.ECONNREFUSED) || took < 10*time.Millisecond {
			t.Errorf("connecting to the other end: %v after %v; want a refusal after a round trip", err, took)
		}
		stop.Store(true)
		if err := <-carried; err != nil {
			t.Error(err)
		}
	}()
	<-done
}

func TestMisuse(t *testing.T) {
	for args, want := range map[string]string{
		"--delay 1ms":             "no command for the far end",
		"--loss 2 -- true":        "--loss",
		"--queue 10 -- true":      "--queue",
		"--rate fast -- true":     "--rate",
		"--sysctl nothing -- cat": "--sysctl",
	} {
		var stdout, stderr bytes.Buffer
		code := command.Main(t.Context(), newCommand(), strings.Fields(args), &stdout, &stderr)
		if code != exit.Usage || !strings.Contains(stderr.String(), want) || !strings.Contains(stderr.String(), "hint: ") {
			t.Errorf("link %s: exit code %d: %s", args, code, &stderr)
		}
	}
}
