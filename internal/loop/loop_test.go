package loop

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestSlab compares a slab with a map: a key names the state that it was given for until
// that is freed, and never anything else.
func TestSlab(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Slab[int]
		live, stale := map[uint64]int{}, []uint64{}
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(*rapid.T) {
				for range 50 {
					key, v := s.Alloc()
					if _, taken := live[key]; taken || key&1 != 0 || *v != 0 {
						t.Fatalf("key %x: taken %v, value %d", key, taken, *v)
					}
					next++
					*v = next
					live[key] = next
				}
			},
			"free": func(t *rapid.T) {
				for key := range live {
					if rapid.Bool().Draw(t, "keep") {
						continue
					}
					s.Free(key)
					delete(live, key)
					stale = append(stale, key)
				}
			},
			"": func(t *rapid.T) {
				for key, want := range live {
					for _, k := range []uint64{key, key | 1} {
						if v := s.Get(k); v == nil || *v != want {
							t.Fatalf("key %x: %v, want %d", k, v, want)
						}
					}
				}
				for _, key := range stale {
					if s.Get(key) != nil {
						t.Fatalf("stale key %x still names something", key)
					}
					s.Free(key) // harmless
				}
				seen := 0
				for key, v := range s.All() {
					if live[key] != *v {
						t.Fatalf("All gives %x: %d, want %d", key, *v, live[key])
					}
					seen++
				}
				if seen != len(live) || s.Len() != len(live) {
					t.Fatalf("All gives %d, Len %d, want %d", seen, s.Len(), len(live))
				}
				parts := map[uint64]bool{}
				const step = 7
				for first := range step {
					for key, v := range s.Stride(first, step) {
						if live[key] != *v || parts[key] {
							t.Fatalf("Stride gives %x: %d, want %d, once: %v", key, *v, live[key], !parts[key])
						}
						parts[key] = true
					}
				}
				if len(parts) != len(live) {
					t.Fatalf("Stride gives %d in %d parts, want %d", len(parts), step, len(live))
				}
				for _, key := range []uint64{KeyWake, KeyTick, KeyListener} {
					if s.Get(key) != nil {
						t.Fatalf("reserved key %x names something", key)
					}
				}
			},
		})
	})
}

func TestBuffers(t *testing.T) {
	b := NewBuffers(10)
	lent := map[*byte]bool{}
	for range 100 {
		buf := b.Get()
		if len(buf) != 10 || lent[&buf[0]] {
			t.Fatalf("%d bytes, lent twice: %v", len(buf), lent[&buf[0]])
		}
		lent[&buf[0]] = true
		if len(lent)%2 == 0 {
			delete(lent, &buf[0])
			b.Put(buf)
		}
	}
}

// await waits, in both ways, until the key is reported with all of the bits.
func await(t *testing.T, p *Poller, key uint64, bits uint32) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		n, err := p.Wait(true)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if k, got := p.Event(i); k == key && got&bits == bits {
				return
			}
		}
	}
	t.Fatalf("key %x with bits %x never came", key, bits)
}

func TestPoller(t *testing.T) {
	p, err := NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if n, err := p.Wait(false); n != 0 || err != nil {
		t.Fatalf("nothing is ready, but Wait says %d, %v", n, err)
	}
	for range 3 {
		p.Wake()
		await(t, p, KeyWake, In)
	}
	if err := p.Tick(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		await(t, p, KeyTick, In)
	}
	if err := p.Tick(0); err != nil {
		t.Fatal(err)
	}

	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(fds[0])
	const key = 0xfedcba98_76543210
	if err := p.Add(fds[0], key, Stream); err != nil {
		t.Fatal(err)
	}
	await(t, p, key, Out)
	if n, errno := Send(fds[1], []byte("hello")); n != 5 || errno != 0 {
		t.Fatal(n, errno)
	}
	await(t, p, key, In)
	buf := make([]byte, 10)
	if n, errno := Recv(fds[0], buf); n != 5 || errno != 0 {
		t.Fatal(n, errno)
	}
	if _, errno := Recv(fds[0], buf); errno != unix.EAGAIN {
		t.Fatalf("an empty socket: %v", errno)
	}
	Shutdown(fds[1])
	await(t, p, key, In|End)
	if n, errno := Recv(fds[0], buf); n != 0 || errno != 0 {
		t.Fatalf("after the end: %d, %v", n, errno)
	}
	Close(fds[1])
	if _, errno := Send(fds[0], buf); errno != unix.EPIPE {
		t.Fatalf("writing to nobody: %v", errno)
	}
	if err := p.Remove(fds[0]); err != nil {
		t.Fatal(err)
	}
}

// TestPollerFails: a kernel that refuses to wait (EPERM), as a filter of system calls may
// make it do, ends the loop. If the loop took this for "no events", it would ask again at
// once, without end.
func TestPollerFails(t *testing.T) {
	p, err := NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	epoll := p.epoll
	p.epoll = -1 // which the kernel refuses with EBADF
	defer func() { p.epoll = epoll }()
	for name, wait := range map[string]func() (int, error){
		"Wait(true)":  func() (int, error) { return p.Wait(true) },
		"Wait(false)": func() (int, error) { return p.Wait(false) },
		"Park":        p.Park,
	} {
		if n, err := wait(); n != 0 || !errors.Is(err, unix.EBADF) {
			t.Errorf("%s: %d, %v; want the kernel's refusal", name, n, err)
		}
	}
}
