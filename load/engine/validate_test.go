package engine_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/messages"
	"dyno/load/engine/record"
	"dyno/load/engine/subscribe"
	"dyno/load/engine/users"
	"dyno/load/options"
	"dyno/load/pace"
	"dyno/load/scenario"
	"dyno/load/wire"
	"dyno/load/wire/sse"
	"dyno/load/wire/tlslayer"
)

// All faults of a configuration are reported at once.
func TestValidate(t *testing.T) {
	_, secure := https(t, true, func(http.ResponseWriter, *http.Request) {})
	for _, tt := range []struct {
		name   string
		config config.Config
		want   []string
	}{
		{"requests", config.Config{
			Network: "udp", Connections: -1, Threads: options.Threads{Workers: 2}, Timeouts: options.Timeouts{Timeout: -1}, Intervals: record.Intervals{Interval: 1}, Waiting: options.Waiting{MaxWaiting: -3},
			Schedule: poisson(t, 1), Think: pace.Think{Constant: 1},
		}, []string{"network", "clients", "connections", "workers", "max_waiting", "window", "timeout", "interval", "think time"}},
		{"messages", config.Config{
			Address: "h:1", Window: time.Second, NewClients: get(t, "h"),
			Messages: &messages.Config{Interval: time.Millisecond}, TimedOut: &wire.Error{Kind: wire.Reset},
		}, []string{"want muxes alone", "want kind timeout"}},
		{"keepalive", config.Config{
			Address: "h:1", Requests: 1, NewClients: get(t, "h"), Keepalive: &options.Keepalive{Timeout: time.Second},
		}, []string{"Keepalive: time: 0s", "keepalive: want muxes"}},
		{"muxes", config.Config{
			Address: "h:1", Requests: 1, NewMuxes: get2(t, "h", 1), NewClients: get(t, "h"), Streams: -1,
		}, []string{"muxes", "streams"}},
		{"exchanges", config.Config{Address: "h:1", Requests: 1, NewMuxes: get2(t, "h", 1), Streams: 10_000, Connections: 1000}, []string{"4000000 exchanges"}},
		{"TLS", config.Config{
			Address: "h:1", Requests: 1, NewClients: get(t, "h"), TLS: &tlslayer.Config{ALPN: []string{"h2"}, MinVersion: "1.1"},
		}, []string{"server name", "min version", "alpn"}},
		{"users", config.Config{
			Address: "h:1", Requests: 1, NewClients: get(t, "h"), Connections: 3, Threads: options.Threads{Workers: 3}, Think: pace.Think{Constant: 1},
			Users: &users.Config{Count: 2}, Shard: pace.Shard{Index: 3, Count: 2},
		}, []string{"want a scenario", "users 2: want at least one for each of 3 workers", "think time", "shard 3 of 2"}},
		{"subscribers", config.Config{
			Address: "h:1", Window: time.Second, Requests: 1, Threads: options.Threads{Workers: 3},
			Subscribers: &subscribe.Config{
				Count: 2, Ramp: -1, Backoff: options.Backoff{MinBackoff: time.Minute, MaxBackoff: time.Second}, Slow: 3, SlowRate: -1, ReceiveBuffer: -1,
			},
		}, []string{"workers 3", "streams", "ramp", "longest back-off", "slow 3", "slow rate", "receive buffer", "requests 1"}},
		{"subscribers next to a choice", config.Config{
			Address: "h:1", Window: time.Second, NewMuxes: get2s(t, 1), NewClients: get(t, "h"), TLS: offer(secure, "h2"), Connections: 1,
			Subscribers: &subscribe.Config{Count: 1, NewStreams: streams(t, sse.StreamConfig{})},
		}, []string{"clients or muxes together with subscribers"}},
	} {
		err := tt.config.Validate()
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not among the faults: %v", tt.name, want, err)
			}
		}
	}
	if _, err := engine.Run(t.Context(), config.Config{}); err == nil {
		t.Error("an empty configuration is accepted")
	}
	one := compile(t, scenario.Spec{Steps: []scenario.Step{{Name: "a", Path: "/"}}})
	_, err := engine.Run(t.Context(), config.Config{
		Address: "127.0.0.1:1", Requests: 1, NewClients: echo(1), Users: &users.Config{Scenario: one},
	})
	if err == nil || !strings.Contains(err.Error(), "one request only") {
		t.Errorf("users of clients that send one request: %v", err)
	}
}
