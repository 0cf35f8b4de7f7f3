package engine_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"dyno/load/engine/config"
	"dyno/load/wire/tlslayer"
)

// A gathering is a connection whose writes wait until they are sent together.
type gathering struct {
	net.Conn
	gathers bool
	held    bytes.Buffer
}

func (g *gathering) Write(p []byte) (int, error) {
	if g.gathers {
		return g.held.Write(p)
	}
	return g.Conn.Write(p)
}

// SetWriteDeadline keeps crypto/tls from forbidding all writes after the end of its side.
func (g *gathering) SetWriteDeadline(time.Time) error { return nil }

// A server may end its side of TLS with the response and leave the connection open. It gets no other
// request there.
func TestEndOfTLSComesWithResponse(t *testing.T) {
	for _, two := range []bool{false, true} {
		for _, open := range []bool{false, true} {
			settings := certified(t)
			if two {
				settings.NextProtos = []string{"h2"}
			}
			address := listen(t, func(c net.Conn) {
				g := &gathering{Conn: c}
				s := tls.Server(g, settings)
				r := bufio.NewReader(s)
				answer := awaitRequest
				if two {
					answer = awaitRequest2
				}
				response := answer(r)
				if response == nil {
					return
				}
				g.gathers = true
				_, err := s.Write(response)
				if err == nil {
					err = s.CloseWrite()
				}
				if err == nil {
					_, err = c.Write(g.held.Bytes())
				}
				if err == nil {
					_, _ = io.Copy(io.Discard, c) // until the client hangs up
				}
			})
			c := config.Config{
				Address: address, TLS: &tlslayer.Config{ServerName: "h", Insecure: true}, Connections: 2, Requests: 20, Drain: time.Minute,
			}
			if two {
				c.TLS.ALPN = []string{"h2"}
				c.NewMuxes = get2s(t, 1)
			} else {
				c.NewClients = get(t, "h")
			}
			if open {
				c.Schedule = poisson(t, 500)
			}
			if r := run(t, c); r.Counts.OK != 20 || r.Connections.Reused > 0 {
				t.Errorf("HTTP/2 %v, open loop %v: %+v, %v, %+v", two, open, r.Counts, r.Failures, r.Connections)
			}
		}
	}
}

// awaitRequest reads a request and returns the response to it; nil if none comes.
func awaitRequest(r *bufio.Reader) []byte {
	if _, err := http.ReadRequest(r); err != nil {
		return nil
	}
	return []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
}

// awaitRequest2 is awaitRequest of HTTP/2.
func awaitRequest2(r *bufio.Reader) []byte {
	if _, err := io.CopyN(io.Discard, r, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return nil
	}
	for {
		var head [9]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return nil
		}
		if _, err := io.CopyN(io.Discard, r, int64(head[1])<<8|int64(head[2])); err != nil {
			return nil
		}
		if head[3] != 1 { // HEADERS
			continue
		}
		out := muxFrame(muxFrame(nil, 4, 0, 0), 4, 1, 0) // SETTINGS
		return muxFrame(out, 1, 5, binary.BigEndian.Uint32(head[5:]), 0x88)
	}
}
