package engine_test

import (
	"net"
	"testing"
	"time"

	grpcgo "google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/options"
	"dyno/load/pace"
	"dyno/load/wire"
)

// enforcing starts a server of grpc-go with its enforcement of how often clients may ping. Its
// calls last until they are given up.
func enforcing(t *testing.T, policy keepalive.EnforcementPolicy) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpcgo.NewServer(grpcgo.KeepaliveEnforcementPolicy(policy), grpcgo.UnknownServiceHandler(func(_ any, stream grpcgo.ServerStream) error {
		<-stream.Context().Done()
		return stream.Context().Err()
	}))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-ended
	})
	return l.Addr().String()
}

// A client that pings more often than the server allows gets an error that names this;
// others get none.
func TestKeepaliveEnforced(t *testing.T) {
	const tooMany = "reset: connection ended by the peer (GOAWAY): ENHANCE_YOUR_CALM, too_many_pings"
	for _, tt := range []struct {
		name   string
		policy keepalive.EnforcementPolicy
		refuse bool
	}{
		{"grpc-go's default", keepalive.EnforcementPolicy{}, true}, // 5 minutes
		{"as often as this", keepalive.EnforcementPolicy{MinTime: time.Millisecond}, false},
	} {
		r, err := engine.Run(t.Context(), config.Config{
			Address: enforcing(t, tt.policy), NewMuxes: calls(t, 2, echoCall("hello")), Streams: 2, Connections: 2, Window: 500 * time.Millisecond,
			Drain: time.Millisecond, MaxBackoff: time.Millisecond, Keepalive: &options.Keepalive{Time: 10 * time.Millisecond, Timeout: hang},
		})
		if err != nil {
			t.Fatal(err)
		}
		conserved(t, r)
		n := r.Connections
		if n.Pings < 6 || n.PingsUnanswered > 0 || r.Counts.ByKind[wire.Keepalive] > 0 {
			t.Errorf("%s: %+v", tt.name, n)
		}
		if !tt.refuse {
			if n.Opened != 2 || n.GoAways > 0 || len(r.GoAways) > 0 || r.Counts.Unfinished != 4 {
				t.Errorf("%s: %+v, %v, %v", tt.name, n, r.GoAways, r.Failures)
			}
			continue
		}
		// grpc-go lets two pings pass that come too early.
		if got := r.GoAways[tooMany]; got == 0 || got != n.GoAways || n.Pings < 3*got {
			t.Errorf("%s: %d of %v, %+v", tt.name, got, r.GoAways, n)
		}
	}
}

// Calls on a connection that the server ended with a reason fail for that reason, even after a reset.
func TestGoAwayNamesFailures(t *testing.T) {
	address := answering(t, 1, func(c net.Conn, stream uint32) bool {
		_, _ = c.Write(muxFrame(nil, 7, 0, 0, append([]byte{0, 0, 0, byte(stream), 0, 0, 0, 11}, "too_many_pings"...)...))
		return false
	})
	r := run(t, config.Config{
		Address: address, NewMuxes: calls(t, 1, echoCall("hello")), Connections: 2, Requests: 10, Window: hang, MaxBackoff: time.Millisecond,
	})
	const why = "connection ended by the peer (GOAWAY): ENHANCE_YOUR_CALM, too_many_pings"
	if n := r.Failures["reset: grpc UNAVAILABLE: "+why]; n != 10 || r.Counts.Errors != 10 || r.GoAways["reset: "+why] != 10 {
		t.Errorf("%+v, %v, %v", r.Counts, r.Failures, r.GoAways)
	}
}

// answering is a server that runs answer for the first calls of a connection until answer returns
// false. Then it does nothing.
func answering(t *testing.T, calls int, answer func(c net.Conn, stream uint32) bool) string {
	t.Helper()
	return listen(t, func(c net.Conn) {
		answered := 0
		serveFrames(c, muxFrame(nil, 4, 0, 0), func(out []byte, f frame) ([]byte, bool) {
			if answered == calls || !f.ends() { // the call ends with its content
				return out, true
			}
			answered++
			return out, answer(c, f.stream)
		})
	})
}

// answerOK answers a call.
func answerOK(c net.Conn, stream uint32) bool {
	_, err := c.Write(muxFrame(answered(nil, stream), 1, 5, stream, trailers("0")...))
	return err == nil
}

// A connection whose peer does not answer a ping is given up. Its calls fail with a kind of their
// own.
func TestKeepaliveUnanswered(t *testing.T) {
	alive := options.Keepalive{Time: 20 * time.Millisecond, Timeout: 30 * time.Millisecond}
	r := run(t, config.Config{
		Address: answering(t, 0, nil), NewMuxes: calls(t, 2, echoCall("hello")), Streams: 2, Connections: 2, Requests: 12, Window: hang, Keepalive: &alive,
		MaxBackoff: time.Millisecond,
	})
	if k := r.Counts.ByKind[wire.Keepalive]; k != 12 || r.Counts.Errors != 12 || r.Failures["keepalive: no answer to a ping within 30ms, and nothing else on the connection"] != 12 {
		t.Errorf("%+v, %v", r.Counts, r.Failures)
	}
	// A peer's settings that come late are taken for a sign of life: then there is another ping.
	if n := r.Connections; n.PingsUnanswered != 6 || n.Pings < 6 || n.Pings > 12 || n.PeerClosed > 0 || n.GoAways > 0 {
		t.Errorf("%+v", n)
	}
	if f := r.Latency[record.Failed]; time.Duration(f.Min()) < alive.Timeout {
		t.Errorf("a call failed after %v", time.Duration(f.Min()))
	}

	// Between calls nothing is pinged, unless it was asked for. Connections that are given up
	// then are in no count of calls. There may be a ping with the first call: nothing had come
	// before it.
	for _, withoutCalls := range []bool{false, true} {
		alive := options.Keepalive{Time: 50 * time.Millisecond, Timeout: 400 * time.Millisecond, WithoutCalls: withoutCalls}
		r := run(t, config.Config{
			Address: answering(t, 1, answerOK), NewMuxes: calls(t, 1, echoCall("hello")), Connections: 2, Window: time.Second, Keepalive: &alive,
			Think: pace.Think{Constant: time.Minute},
		})
		n := r.Connections
		if r.Counts.OK != 2 || r.Counts.Sent != 2 || n.Opened < 2 || withoutCalls && n.PingsUnanswered < 2 || !withoutCalls && (n.PingsUnanswered > 0 || n.Pings > 2) {
			t.Errorf("without calls %v: %+v, %+v", withoutCalls, r.Counts, n)
		}
	}
}
