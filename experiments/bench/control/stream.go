package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
)

// A stream is one watch by server-sent events. It reads the raw lines of the response. Each event is one chunk
// (RFC 9112, section 7.1), so lines with chunk sizes are between events.
type stream struct {
	conn net.Conn
	in   *bufio.Reader
}

// watch opens a stream of what a query asks for.
func watch(ctx context.Context, address, token, query string) (*stream, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &stream{conn, bufio.NewReaderSize(conn, 1024)}
	var authorization string
	if token != "" {
		authorization = "Authorization: Bearer " + token + "\r\n"
	}
	if _, err := fmt.Fprintf(conn, "GET /v1/watch?%s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n%s\r\n", query, address, authorization); err != nil {
		return nil, err
	}
	head, err := s.in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(head, fmt.Sprintf("HTTP/1.1 %d ", http.StatusOK)) {
		return nil, fmt.Errorf("watch: %s", strings.TrimSpace(head))
	}
	return s, nil
}

// events calls take with the data of each event, until the stream ends.
func (s *stream) events(take func(data []byte)) {
	var long []byte
	for {
		line, err := s.in.ReadSlice('\n')
		if err == bufio.ErrBufferFull { //nolint:errorlint // it is documented to be the very one
			long = append(long, line...)
			continue
		}
		if err != nil {
			return
		}
		if long != nil {
			line, long = append(long, line...), nil
		}
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			take(data)
		}
	}
}

// dialled opens n streams, some at a time.
func dialled(ctx context.Context, n int, address, token string, query func(i int) string) ([]*stream, error) {
	const together = 64
	streams := make([]*stream, n)
	errs := make([]error, together)
	var wg sync.WaitGroup
	for w := range together {
		wg.Go(func() {
			for i := w; i < n && errs[w] == nil; i += together {
				streams[i], errs[w] = watch(ctx, address, token, query(i))
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return streams, nil
}
