package engine_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/subscribe"
	"dyno/load/options"
	"dyno/load/wire/sse"
	"dyno/load/wire/tlslayer"
)

// A measurement that is interrupted in the middle of handshakes ends, and so do those.
func TestSubscriberHandshakeInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	mum := listen(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1)) // the handshake has begun
		cancel()
		_, _ = io.Copy(io.Discard, c)
	})
	_, err := engine.Run(ctx, config.Config{
		Address: mum, TLS: &tlslayer.Config{Insecure: true, ServerName: "example.com"}, Window: time.Second, Timeouts: options.Timeouts{ConnectTimeout: hang},
		Subscribers: &subscribe.Config{Count: 3, NewStreams: streams(t, sse.StreamConfig{})},
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
