package conditions

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// bench is a client and a server with a Copy from one to the other.
type bench struct {
	client, server net.Conn // the ends
	src, dst       net.Conn // the relay's
	n              int64
	err            error
	done           chan struct{}
}

func pipes(ctx context.Context, p *Profile) *bench {
	b := &bench{done: make(chan struct{})}
	b.client, b.src = net.Pipe()
	b.dst, b.server = net.Pipe()
	go func() {
		b.n, b.err = p.Copy(ctx, b.dst, b.src, ToServer, 1)
		b.dst.Close()
		close(b.done)
	}()
	return b
}

// write sends p. If that fails, the received bytes show it.
func (b *bench) write(p []byte) { _, _ = b.client.Write(p) }

func (b *bench) close() {
	b.client.Close()
	b.server.Close()
	<-b.done
	b.src.Close()
}

func TestDelayIsExactAndDoesNotThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := pipes(t.Context(), &Profile{ToServer: Link{Delay: 100 * time.Millisecond}})
		defer b.close()
		begin := time.Now()
		const chunks = 50
		go func() {
			for range chunks {
				b.write([]byte{1})
				time.Sleep(time.Millisecond)
			}
			b.client.Close()
		}()
		for i := range chunks {
			if _, err := io.ReadFull(b.server, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			// All of them travel at once: each takes its 100 ms, none waits for another.
			if got, want := time.Since(begin), time.Duration(100+i)*time.Millisecond; got != want {
				t.Fatalf("byte %d arrived after %v, want %v", i, got, want)
			}
		}
		if _, err := b.server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Fatalf("end of stream: %v", err)
		}
		if got := time.Since(begin); got != 150*time.Millisecond {
			t.Errorf("the end arrived after %v, want 150ms", got)
		}
		if <-b.done; b.err != nil || b.n != chunks {
			t.Errorf("Copy = %d, %v", b.n, b.err)
		}
	})
}

func TestFullBufferHoldsTheSenderBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := pipes(t.Context(), &Profile{ToServer: Link{Delay: time.Second, Buffer: 1000}})
		defer b.close()
		begin := time.Now()
		go func() {
			b.write(make([]byte, 3000))
			b.client.Close()
		}()
		if _, err := io.ReadFull(b.server, make([]byte, 3000)); err != nil {
			t.Fatal(err)
		}
		// The buffer lets 1000 bytes a second travel.
		if got := time.Since(begin); got != 3*time.Second {
			t.Errorf("took %v, want 3s", got)
		}
	})
}

func TestSlowReaderHoldsTheSenderBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := pipes(t.Context(), &Profile{ToServer: Link{ReadRate: 1000}})
		defer b.close()
		go func() { _, _ = io.Copy(io.Discard, b.server) }()
		begin := time.Now()
		if _, err := b.client.Write(make([]byte, 1050)); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(begin); got != time.Second {
			t.Errorf("the sender got rid of 1050 bytes in %v, want 1s", got)
		}
	})
}

func TestResetAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := pipes(t.Context(), &Profile{ToServer: Link{ResetAfter: 1500, Delay: time.Millisecond}})
		defer b.close()
		go b.write(make([]byte, 5000))
		n, _ := io.Copy(io.Discard, b.server)
		if <-b.done; !errors.Is(b.err, ErrReset) || b.n != 1500 || n != 1500 {
			t.Errorf("Copy = %d, %v with %d received; want 1500 and a reset", b.n, b.err, n)
		}
	})
}

func TestCancelEndsCopyWhereverItWaits(t *testing.T) {
	for name, l := range map[string]Link{
		"plain":       {},
		"travelling":  {Delay: time.Hour},
		"full":        {Delay: time.Hour, Buffer: 1},
		"slow reader": {ReadRate: 1},
		"writing":     {Delay: time.Nanosecond}, // nobody reads
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				b := pipes(ctx, &Profile{ToServer: l})
				go b.write(make([]byte, 100))
				time.Sleep(time.Second)
				why := errors.New("enough")
				cancel(why)
				<-b.done
				b.close()
				if !errors.Is(b.err, why) {
					t.Errorf("Copy = %v, want the cause", b.err)
				}
			})
		})
	}
}

func TestFailuresAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := pipes(t.Context(), &Profile{ToServer: Link{Delay: time.Millisecond}})
		b.server.Close() // writing fails while the reader waits for more
		b.write([]byte("x"))
		<-b.done
		if !errors.Is(b.err, io.ErrClosedPipe) || b.n != 0 {
			t.Errorf("dst gone: Copy = %d, %v", b.n, b.err)
		}
		b.close()
	})
	synctest.Test(t, func(t *testing.T) {
		b := pipes(t.Context(), &Profile{ToServer: Link{Delay: time.Second}})
		defer b.close()
		b.write([]byte("x"))
		b.src.SetReadDeadline(time.Now().Add(time.Millisecond))
		got, _ := io.ReadAll(b.server)
		if <-b.done; string(got) != "x" || b.err == nil {
			t.Errorf("src failed: delivered %q before %v, want the byte first", got, b.err)
		}
	})
}

// Whatever the profile, the received bytes are those that were sent, up to a reset. The
// same seed gives the same stream at the same times, but for what one write takes: of two events at
// the same instant either may be first.
func TestIntegrityAndDeterminism(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := &Profile{Seed: rapid.Uint64().Draw(rt, "seed"), ToServer: links(rt)}
		p.ToServer.Buffer = rapid.SampledFrom([]int64{0, 1, 777, 100000}).Draw(rt, "buffer")
		if p.ToServer.Bandwidth == 1 {
			p.ToServer.Bandwidth = 10000
		}
		writes := rapid.SliceOfN(rapid.IntRange(1, 5000), 1, 12).Draw(rt, "writes")
		type result struct {
			sum  [32]byte
			took time.Duration
			n    int64
			err  error
		}
		run := func() (res result) {
			synctest.Test(t, func(t *testing.T) {
				b := pipes(t.Context(), p)
				rng := rand.NewChaCha8([32]byte{1})
				var sent bytes.Buffer
				var writer sync.WaitGroup
				writer.Go(func() {
					for _, n := range writes {
						chunk := make([]byte, n)
						rng.Read(chunk)
						sent.Write(chunk)
						b.write(chunk)
						time.Sleep(time.Millisecond)
					}
					b.client.Close()
				})
				begin := time.Now()
				got, _ := io.ReadAll(b.server)
				took := time.Since(begin)
				b.close()
				writer.Wait()
				if int64(len(got)) != b.n || !bytes.HasPrefix(sent.Bytes(), got) {
					t.Fatalf("%d bytes arrived, %d counted; altered: %v", len(got), b.n, !bytes.HasPrefix(sent.Bytes(), got))
				}
				if b.err == nil && len(got) != sent.Len() {
					t.Fatalf("%d of %d bytes arrived without an error", len(got), sent.Len())
				}
				if b.err != nil && !errors.Is(b.err, ErrReset) {
					t.Fatal(b.err)
				}
				res = result{sha256.Sum256(got), took, b.n, b.err}
			})
			return res
		}
		slack := time.Millisecond
		if rate := float64(p.ToServer.Bandwidth); rate > 0 {
			slack += time.Duration(float64(slices.Max(writes)) / rate * float64(time.Second))
		}
		a, b := run(), run()
		if (a.took-b.took).Abs() > slack || a.sum != b.sum || a.n != b.n || !errors.Is(a.err, b.err) {
			rt.Fatalf("two runs differ: %+v, %+v", a, b)
		}
	})
}
