package sse

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"dyno/internal/contentcoding/codingtest"
	"dyno/load/wire"
)

// The events of a stream that the server encodes, and flushes after each, are found as they come.
func TestEncodedStreams(t *testing.T) {
	for name, writer := range codingtest.Writers {
		s := newStream(t, StreamConfig{})
		s.Reset()
		s.Request()
		header := okHead + "Content-Encoding: " + codingtest.Field(name) + "\r\nTransfer-Encoding: chunked\r\n\r\n"
		if n, e, err := s.Next([]byte(header)); n != len(header) || e.Kind != wire.Opened || err != nil {
			t.Fatalf("%s: %d, %+v, %v", name, n, e, err)
		}
		var sent bytes.Buffer
		w := writer(&sent)
		take := func(want int) {
			t.Helper()
			p := fmt.Appendf(nil, "%x\r\n%s\r\n", sent.Len(), sent.Bytes())
			size := sent.Len()
			sent.Reset()
			found, total := 0, 0
			for {
				n, e, err := s.Next(p)
				p = p[n:]
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if e.Kind == wire.Nothing {
					break
				}
				if found++; e.Kind != wire.Message || !e.Stamped {
					t.Errorf("%s: %+v", name, e)
				}
				total += e.Bytes
			}
			if found != want || total > size {
				t.Errorf("%s: %d events of %d bytes in %d, want %d", name, found, total, size, want)
			}
		}
		for range 3 {
			_, _ = w.Write([]byte(strings.Repeat("data: "+stampWords+"\r\r", 3))) // a bytes.Buffer takes all
			_ = w.Flush()
			take(3)
		}
		_, _ = w.Write([]byte("data: " + stampWords + "\n\n"))
		_ = w.Close()
		p := fmt.Appendf(nil, "%x\r\n%s\r\n0\r\n\r\n", sent.Len(), sent.Bytes())
		var ends []wire.EventKind
		for len(ends) < 2 {
			n, e, err := s.Next(p)
			if p = p[n:]; err != nil || e.Kind == wire.Nothing {
				t.Fatalf("%s: the end: %+v, %v", name, e, err)
			}
			ends = append(ends, e.Kind)
		}
		if ends[0] != wire.Message || ends[1] != wire.Exhausted || len(p) > 0 {
			t.Errorf("%s: the end: %v", name, ends)
		}
		s.Reset()
	}
}

func TestBrokenEncodedStreams(t *testing.T) {
	gzip := codingtest.Encode("gzip", []byte("data: a\n\n"))
	bombField, bomb := codingtest.Bomb(4 << 20)
	for _, tt := range []struct {
		name, field string
		body        []byte
		events      int
		want        error
	}{
		{"whole", "gzip", gzip, 1, nil},
		{"empty", "gzip", nil, 0, nil},
		{"cut off", "gzip", gzip[:len(gzip)-4], 0, wire.ErrCoding},
		{"another", "zstd", gzip, 0, wire.ErrCoding},
		{"unknown", "compress", gzip, 0, wire.ErrUnknownCoding},
		{"a bomb", bombField, bomb, 0, ErrLine},
	} {
		s := newStream(t, StreamConfig{})
		response := fmt.Sprintf("%sContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", okHead, tt.field, len(tt.body), tt.body)
		found, _, err := subscribe(t, s, response)
		events := 0
		for _, e := range found {
			if e.Kind == wire.Message {
				events++
			}
		}
		if events != tt.events || !errors.Is(err, tt.want) {
			t.Errorf("%s: %d events, %v; want %d, %v", tt.name, events, err, tt.events, tt.want)
		}
		s.Reset()
	}
}
