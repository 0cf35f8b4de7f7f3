package engine_test

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"dyno/load/engine/config"
	"dyno/load/engine/messages"
	"dyno/load/engine/record"
	"dyno/load/options"
	"dyno/load/wire"
	"dyno/load/wire/grpc"
)

// calls makes muxes that make one call, as many at once as there are streams.
func calls(t testing.TB, streams int, call grpc.Call) func(int) func() wire.Mux {
	t.Helper()
	call.Scheme, call.Authority = "http", "h"
	c := grpc.Config{Calls: []grpc.Call{call}, Streams: streams, Optimistic: true}
	if _, err := grpc.NewTemplate(c); err != nil {
		t.Fatal(err)
	}
	return func(int) func() wire.Mux {
		template, err := grpc.NewTemplate(c)
		if err != nil {
			panic(err)
		}
		return func() wire.Mux { return template.Client() }
	}
}

func echoCall(message string) grpc.Call {
	return grpc.Call{Path: "/p.S/Echo", Messages: [][]byte{[]byte(message)}}
}

// Faults of a server with a call.
const (
	callAnswered = iota
	callReset
	callWithoutTrailers
	callTooLate // DEADLINE_EXCEEDED
	callEndsAll // answers, says GOAWAY and takes no more
	callDeeds
)

// A faultyGRPC is a gRPC server, frame by frame. It has faults by chance, and GOAWAY after a number of
// calls on a connection.
type faultyGRPC struct {
	every   uint64 // calls on a connection until GOAWAY
	did     [callDeeds]atomic.Uint64
	ignored atomic.Uint64
	conns   atomic.Uint64
}

// literal is a header field that no table is needed for.
func literal(b []byte, name, value string) []byte {
	b = append(append(b, 0, byte(len(name))), name...)
	return append(append(b, byte(len(value))), value...)
}

// answered appends the answer to a call, but for its trailers.
func answered(out []byte, stream uint32) []byte {
	out = muxFrame(out, 1, 4, stream, literal([]byte{0x88}, "content-type", "application/grpc")...)
	return muxFrame(out, 0, 0, stream, 0, 0, 0, 0, 2, 'o', 'k')
}

// trailers returns the trailers of a call with a status.
func trailers(status string) []byte { return literal(nil, "grpc-status", status) }

func (f *faultyGRPC) serve(c net.Conn) {
	random := rand.New(rand.NewPCG(f.conns.Add(1), 0))
	gone, n := false, uint64(0)
	serveFrames(c, muxFrame(nil, 4, 0, 0), func(out []byte, got frame) ([]byte, bool) {
		stream := got.stream
		switch {
		case got.kind == 4 && got.flags == 0:
			return muxFrame(out, 4, 1, 0), true
		case !got.ends(): // the call ends with its content
			return out, true
		case gone:
			f.ignored.Add(1)
			return out, true
		}
		did := callAnswered
		if n++; n == f.every {
			did = callEndsAll
		} else if fault := random.IntN(100); fault < 3 {
			did = callReset + fault
		}
		f.did[did].Add(1)
		switch did {
		case callReset:
			return muxFrame(out, 3, 0, stream, 0, 0, 0, 2), true
		case callTooLate:
			return muxFrame(out, 1, 5, stream, append(literal([]byte{0x88}, "content-type", "application/grpc"), trailers("4")...)...), true
		case callWithoutTrailers:
			out = muxFrame(out, 1, 4, stream, literal([]byte{0x88}, "content-type", "application/grpc")...)
			return muxFrame(out, 0, 1, stream, 0, 0, 0, 0, 2, 'o', 'k'), true
		}
		out = muxFrame(answered(out, stream), 1, 5, stream, trailers("0")...)
		if gone = did == callEndsAll; gone {
			out = muxFrame(out, 7, 0, 0, byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream), 0, 0, 0, 0)
		}
		return out, true
	})
}

// Each call is accounted for under its status. The server says GOAWAY every 1,000 calls. It resets 1 %,
// leaves out trailers in 1 %, and exceeds the deadline in 1 %.
func TestGRPCFaults(t *testing.T) {
	for _, open := range []bool{false, true} {
		f := &faultyGRPC{every: 1000}
		c := config.Config{
			Address: listen(t, f.serve), NewMuxes: calls(t, 16, echoCall("hello")), Streams: 16, Connections: 8, Requests: 30_000, Drain: time.Minute,
		}
		if open {
			c.Requests, c.Schedule, c.Connections = 10_000, poisson(t, 20_000), 2
		}
		r := run(t, c)
		did := func(what int) uint64 { return f.did[what].Load() }
		good := did(callAnswered) + did(callEndsAll)
		if r.Counts.OK != good || r.Status[int(grpc.OK)] != good {
			t.Errorf("open loop %v: %d good calls, by status %v; the server answered %d", open, r.Counts.OK, r.Status, good)
		}
		for _, tt := range []struct {
			deed int
			kind wire.Kind
			text string
		}{
			{callReset, wire.Reset, "reset: grpc INTERNAL: stream reset by the peer: INTERNAL_ERROR"},
			{callWithoutTrailers, wire.Protocol, "protocol: grpc UNKNOWN: response without grpc-status"},
			{callTooLate, wire.Status, "status: grpc DEADLINE_EXCEEDED"},
		} {
			if want := did(tt.deed); want == 0 || r.Counts.ByKind[tt.kind] != want || r.Failures[tt.text] != want {
				t.Errorf("open loop %v: %d of kind %v, %v; the server did it %d times", open, r.Counts.ByKind[tt.kind], tt.kind, r.Failures, want)
			}
		}
		if want := did(callTooLate); r.Status[int(grpc.DeadlineExceeded)] != want {
			t.Errorf("open loop %v: by status %v, want %d DEADLINE_EXCEEDED", open, r.Status, want)
		}
		n := r.Connections
		if n.GoAways != did(callEndsAll) || n.GoAways == 0 || n.Refused != f.ignored.Load() || n.Resent != n.Refused {
			t.Errorf("open loop %v: connections %+v, GOAWAY %d times, ignored %d", open, n, did(callEndsAll), f.ignored.Load())
		}
	}
}

// A call that has no response in time is named by its status.
func TestGRPCTimedOut(t *testing.T) {
	address := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	late := &wire.Error{Kind: wire.Timeout, Text: "too late"}
	r := run(t, config.Config{
		Address: address, NewMuxes: calls(t, 1, echoCall("hello")), Connections: 2, Requests: 4, Timeouts: options.Timeouts{Timeout: 20 * time.Millisecond}, TimedOut: late,
	})
	kept := run(t, config.Config{
		Address: address, NewMuxes: calls(t, 1, echoCall("hello")), Connections: 2, Requests: 4, Timeouts: options.Timeouts{Timeout: 20 * time.Millisecond}, TimedOut: late, Deadline: true,
	})
	if kept.Counts.Timeouts != 4 || kept.Failures["timeout: too late"] != 4 || kept.Connections.Opened != 2 {
		t.Errorf("with a deadline: %+v, %v, %+v", kept.Counts, kept.Failures, kept.Connections)
	}
	if r.Counts.Timeouts != 4 || r.Failures["timeout: too late, and nothing else on the connection"] != 4 {
		t.Errorf("%+v, %v", r.Counts, r.Failures)
	}
}

// serveMessages serves streams of gRPC by net/http: Echo answers each message as it comes. Expand
// answers one message with 5, each a pause after the one before.
func serveMessages(t *testing.T, pause time.Duration) string {
	return serve2(t, http.HTTP2Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		flush := http.NewResponseController(w).Flush
		head := make([]byte, 5)
		for {
			if _, err := io.ReadFull(r.Body, head); err != nil {
				break
			}
			message := make([]byte, binary.BigEndian.Uint32(head[1:]))
			if _, err := io.ReadFull(r.Body, message); err != nil {
				return
			}
			switch r.URL.Path {
			case "/p.S/Echo":
				<-time.After(pause)
				_, _ = w.Write(append(slices.Clone(head), message...))
				_ = flush()
			case "/p.S/Expand":
				for range 5 {
					<-time.After(pause)
					_, _ = w.Write([]byte{0, 0, 0, 0, 1, 'x'})
					_ = flush()
				}
			}
		}
		if r.URL.Path == "/p.S/Collect" {
			_, _ = w.Write([]byte{0, 0, 0, 0, 1, 'x'})
		}
		w.Header().Set("Grpc-Status", strconv.Itoa(int(grpc.OK)))
	})
}

// The messages of a stream of the server's are timed: the first from the request, the others
// from the one before.
func TestGRPCServerStream(t *testing.T) {
	const pause = 2 * time.Millisecond
	call := echoCall("hello")
	call.Path, call.ServerStream = "/p.S/Expand", true
	r := run(t, config.Config{
		Address: serveMessages(t, pause), NewMuxes: calls(t, 4, call), Streams: 4, Connections: 2, Requests: 40, Messages: &messages.Config{},
	})
	first, gap := r.Latency[record.FirstMessage], r.Latency[record.MessageGap]
	if r.Counts.OK != 40 || first.Count() != 40 || gap.Count() != 160 || r.Latency[record.Message].Count() != 0 {
		t.Fatalf("%d calls, %d first messages, %d gaps", r.Counts.OK, first.Count(), gap.Count())
	}
	if r.Messages == nil || *r.Messages != 200 {
		t.Errorf("%v messages, want 200", r.Messages)
	}
	// A timer may wake the server late and the next one early, so that single gaps say little.
	if first.Quantile(0) < int64(pause) || gap.Quantile(0.5) < int64(pause)/2 {
		t.Errorf("the first message came after %v at the earliest, the median gap is %v", time.Duration(first.Quantile(0)), time.Duration(gap.Quantile(0.5)))
	}
}

// In lockstep each answer is timed from when its message was due.
func TestGRPCLockstep(t *testing.T) {
	const pause = 2 * time.Millisecond
	call := grpc.Call{Path: "/p.S/Echo", Messages: [][]byte{[]byte("a"), []byte("bb")}, Count: 6, ClientStream: true, ServerStream: true, Lockstep: true}
	r := run(t, config.Config{
		Address: serveMessages(t, pause), NewMuxes: calls(t, 4, call), Streams: 4, Connections: 2, Requests: 40,
		Messages: &messages.Config{Answered: true},
	})
	first, answers := r.Latency[record.FirstMessage], r.Latency[record.Message]
	if r.Counts.OK != 40 || first.Count() != 40 || answers.Count() != 240 || r.Latency[record.MessageGap].Count() != 0 {
		t.Fatalf("%+v, %v; %d first messages, %d answers", r.Counts, r.Failures, first.Count(), answers.Count())
	}
	if answers.Quantile(0) < int64(pause) || r.Latency[record.Service].Quantile(0) < 6*int64(pause) {
		t.Errorf("an answer took %v, a call %v", time.Duration(answers.Quantile(0)), time.Duration(r.Latency[record.Service].Quantile(0)))
	}
}

// Messages at a pace are sent when they are due, whatever is answered, and answers are timed
// from then.
func TestGRPCPaced(t *testing.T) {
	const interval = 3 * time.Millisecond
	call := grpc.Call{Path: "/p.S/Echo", Messages: [][]byte{[]byte("a")}, Count: 5, ClientStream: true, ServerStream: true, Paced: true}
	r := run(t, config.Config{
		Address: serveMessages(t, 0), NewMuxes: calls(t, 4, call), Streams: 4, Connections: 2, Requests: 40,
		Messages: &messages.Config{Answered: true, Interval: interval},
	})
	if r.Counts.OK != 40 || r.Latency[record.Message].Count() != 200 {
		t.Fatalf("%+v, %v; %d answers", r.Counts, r.Failures, r.Latency[record.Message].Count())
	}
	if took := time.Duration(r.Latency[record.Service].Quantile(0)); took < 4*interval {
		t.Errorf("a call took %v, and its last message was due after %v", took, 4*interval)
	}
	collect := grpc.Call{Path: "/p.S/Collect", Messages: [][]byte{[]byte("a")}, Count: 3, ClientStream: true, Paced: true}
	r = run(t, config.Config{
		Address: serveMessages(t, 0), NewMuxes: calls(t, 4, collect), Streams: 4, Connections: 2, Schedule: poisson(t, 1000), Requests: 40, Drain: time.Minute,
		Messages: &messages.Config{Interval: interval},
	})
	if took := time.Duration(r.Latency[record.Service].Quantile(0)); r.Counts.OK != 40 || took < 2*interval {
		t.Errorf("%+v, %v; a call took %v", r.Counts, r.Failures, took)
	}
}

// A call with more messages than can wait continues as they are written, before the server says
// anything.
func TestGRPCLongClientStream(t *testing.T) {
	address := listen(t, func(c net.Conn) {
		serveFrames(c, largeWindows(), func(out []byte, f frame) ([]byte, bool) {
			if f.ends() {
				out = muxFrame(answered(out, f.stream), 1, 5, f.stream, trailers("0")...)
			}
			return out, true
		})
	})
	call := grpc.Call{Path: "/p.S/Collect", Messages: [][]byte{make([]byte, 16<<10)}, Count: 64, ClientStream: true}
	r := run(t, config.Config{
		Address: address, NewMuxes: calls(t, 2, call), Streams: 2, Connections: 2, Requests: 12, Timeouts: options.Timeouts{Timeout: hang / 2},
	})
	if r.Counts.OK != 12 {
		t.Errorf("%+v, %v", r.Counts, r.Failures)
	}
}
