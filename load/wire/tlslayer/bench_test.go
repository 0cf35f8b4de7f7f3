package tlslayer

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"iter"
	"net"
	"testing"
	"time"
)

// What a small request and its response take: 100 bytes there, 200 back.
const (
	requestSize  = 100
	responseSize = 200
)

// BenchmarkExchange is of the client's side alone: Seal and Open, as an event loop calls
// them.
func BenchmarkExchange(b *testing.B) {
	for _, version := range []string{"1.2", "1.3"} {
		b.Run(version, func(b *testing.B) {
			l := established(b, newContext(b, clientConfig(version)), serverConfig())
			request, response := make([]byte, requestSize), make([]byte, responseSize)
			responses := make([][]byte, 1000)
			var out []byte
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%len(responses) == 0 {
					b.StopTimer()
					for j := range responses {
						responses[j] = must(l.server.Seal(responses[j][:0], response))
					}
					b.StartTimer()
				}
				out = must(l.client.Seal(out[:0], request))
				if data, err := l.client.Open(responses[i%len(responses)]); err != nil || len(data) != responseSize {
					b.Fatalf("%d bytes, error %v", len(data), err)
				}
			}
		})
	}
}

// BenchmarkBothSides is of both sides: once by the layer, and once by tls.Conn as it is
// meant to be used, with a goroutine for the server.
func BenchmarkBothSides(b *testing.B) {
	b.Run("layer", func(b *testing.B) {
		l := established(b, newContext(b, clientConfig("1.3")), serverConfig())
		request, response := make([]byte, requestSize), make([]byte, responseSize)
		var out []byte
		for b.Loop() {
			out = must(l.client.Seal(out[:0], request))
			must(l.server.Open(out))
			out = must(l.server.Seal(out[:0], response))
			if data := must(l.client.Open(out)); len(data) != responseSize {
				b.Fatalf("%d bytes", len(data))
			}
		}
	})
	b.Run("net.Pipe", func(b *testing.B) {
		client, server := net.Pipe()
		benchmarkConns(b, client, server)
	})
	b.Run("loopback", func(b *testing.B) {
		listener := must(net.Listen("tcp", "127.0.0.1:0"))
		client := must(net.Dial("tcp", listener.Addr().String()))
		server := must(listener.Accept())
		listener.Close()
		benchmarkConns(b, client, server)
	})
}

// benchmarkConns has two tls.Conns exchange messages.
func benchmarkConns(b *testing.B, client, server net.Conn) {
	roots := x509.NewCertPool()
	roots.AddCert(authority().parsed)
	there := tls.Server(server, serverConfig())
	ended := make(chan error, 1)
	go func() {
		request, response := make([]byte, requestSize), make([]byte, responseSize)
		for {
			if _, err := io.ReadFull(there, request); err != nil {
				ended <- err
				return
			}
			if _, err := there.Write(response); err != nil {
				ended <- err
				return
			}
		}
	}()
	here := tls.Client(client, &tls.Config{ServerName: serverName, RootCAs: roots})
	request, response := make([]byte, requestSize), make([]byte, responseSize)
	for b.Loop() {
		must(here.Write(request))
		must(io.ReadFull(here, response))
	}
	client.Close()
	if err := <-ended; err == nil {
		b.Error("the server did not end")
	}
	server.Close()
}

// BenchmarkHandshake measures the client's share of handshakes, the server's certificate
// being one of ECDSA P-256 under an authority: the time of its calls, how many a CPU
// does a second, and the longest single call, which is what other connections wait for.
func BenchmarkHandshake(b *testing.B) {
	for _, bm := range []struct {
		name string
		edit func(*Config)
	}{
		{"1.2", func(c *Config) { c.MaxVersion = "1.2" }},
		{"1.2/resumed", func(c *Config) { c.MaxVersion, c.Tickets = "1.2", true }},
		{"1.3", func(*Config) {}},
		{"1.3/resumed", func(c *Config) { c.Tickets = true }},
		{"1.3/ml-kem", func(c *Config) { c.Groups = nil }},
		{"1.3/insecure", func(c *Config) { c.Insecure = true }},
	} {
		b.Run(bm.name, func(b *testing.B) {
			config, server := clientConfig(""), serverConfig()
			bm.edit(&config)
			server.SessionTicketsDisabled = !config.Tickets
			x := newContext(b, config)
			var total, longest time.Duration
			var out []byte
			timed := func(call func()) {
				start := time.Now()
				call()
				took := time.Since(start)
				total += took
				longest = max(longest, took)
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				c, s := x.Conn(), newServer(server)
				timed(func() { out = must(c.Start(out[:0])) })
				for len(out) > 0 {
					must(s.Open(out))
					from := s.Flush(nil)
					timed(func() {
						must(c.Open(from))
						out = c.Flush(out[:0])
					})
				}
				if c.State() != Established || s.State() != Established {
					b.Fatal(c.err, s.err)
				}
				c.Reset()
				s.Reset()
				n++
			}
			b.ReportMetric(float64(total.Microseconds())/float64(n), "client-µs")
			b.ReportMetric(float64(n)/total.Seconds(), "handshakes/CPU-s")
			b.ReportMetric(float64(longest.Microseconds()), "longest-µs")
		})
	}
}

// BenchmarkHandOver is what a handshake would need twice if it ran on a goroutine of its
// own: to a goroutine and back from a thread that is locked, as the engine's are. In
// comparison, what it needs now: to a coroutine and back.
func BenchmarkHandOver(b *testing.B) {
	b.Run("goroutine", func(b *testing.B) {
		onLockedThread(func() {
			there, back := make(chan struct{}), make(chan struct{})
			go func() {
				for range there {
					back <- struct{}{}
				}
				close(back)
			}()
			for b.Loop() {
				there <- struct{}{}
				<-back
			}
			close(there)
			<-back
		})
	})
	b.Run("coroutine", func(b *testing.B) {
		onLockedThread(func() {
			next, stop := iter.Pull(func(yield func(struct{}) bool) {
				for yield(struct{}{}) {
				}
			})
			defer stop()
			for b.Loop() {
				next()
			}
		})
	})
}
