package engine_test

import (
	"io"
	"net"
	"testing"

	"dyno/load/engine/config"
	"dyno/load/engine/subscribe"
	"dyno/load/options"
	"dyno/load/wire/sse"
)

// always answers each request with the same bytes.
func always(answer string) func(net.Conn) {
	return func(c net.Conn) {
		for readHead(c) {
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}

// Responses that depart from the protocol without doubt are good ones, and counted apart.
func TestDeviationsAreCounted(t *testing.T) {
	const requests = 10
	for name, answer := range map[string]string{
		"folded_lines":          "HTTP/1.1 200 OK\r\nX-Policy: a;\r\n b\r\nContent-Length: 2\r\n\r\nok",
		"bare_lf":               "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
		"spaces_at_chunk_sizes": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2  \r\nok\r\n0\r\n\r\n",
		"":                      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	} {
		r := run(t, config.Config{Address: listen(t, always(answer)), NewClients: get(t, "h"), Connections: 2, Requests: requests})
		want := uint64(requests)
		if name == "" {
			want = 0
		}
		if r.Counts.OK != requests || r.Deviations[name] != want || len(r.Deviations) != min(int(want), 1) {
			t.Errorf("%q: %+v, %v, deviations %v", name, r.Counts, r.Failures, r.Deviations)
		}
	}
}

// Those of subscriptions are, too.
func TestDeviationsOfSubscriptions(t *testing.T) {
	answer := "HTTP/1.1 200 OK\nContent-Type:\n text/event-stream\nContent-Length: 9\n\ndata: x\n\n"
	address := listen(t, func(c net.Conn) {
		if readHead(c) {
			_, _ = io.WriteString(c, answer)
			_, _ = io.Copy(io.Discard, c) // until the client hangs up
		}
	})
	r := run(t, config.Config{
		Address: address, Window: hang / 100,
		Subscribers: &subscribe.Config{Count: 1, NewStreams: streams(t, sse.StreamConfig{}), Backoff: options.Backoff{MinBackoff: hang, MaxBackoff: hang}},
	})
	if n := r.Deviations; r.Streams.Opened != 1 || n["bare_lf"] != 1 || n["folded_lines"] != 1 {
		t.Errorf("%+v, deviations %v", r.Streams, n)
	}
}
