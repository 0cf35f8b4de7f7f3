// Command tuned is dyno-control with another server of HTTP, for report R0. Its environment says how it differs:
//
//	WORKERS   how many goroutines carry out requests, while those of connections wait; 0: each connection's own does
//	WINDOW    bytes of a request, and of a connection, that a client may send ahead over HTTP/2; net/http takes 64 KiB to 4 MiB
//	TICKETS   false: no session tickets of TLS
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"

	"dyno/services/control/program"
)

func main() {
	workers, err := number("WORKERS")
	window, fault := number("WINDOW")
	if err != nil || fault != nil {
		fmt.Fprintln(os.Stderr, "tuned:", err, fault)
		os.Exit(2)
	}
	os.Exit(program.Tuned(context.Background(), os.Args[1:], os.Stdout, os.Stderr, func(s *http.Server) {
		if workers > 0 {
			s.Handler = pooled(s.Handler, workers)
		}
		if window > 0 {
			s.HTTP2.MaxReceiveBufferPerStream, s.HTTP2.MaxReceiveBufferPerConnection = window, window
		}
		if s.TLSConfig != nil {
			s.TLSConfig.SessionTicketsDisabled = os.Getenv("TICKETS") == "false"
		}
	}))
}

// number reads a setting; 0 is none.
func number(name string) (int, error) {
	text := os.Getenv(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s: %q: must be a number", name, text)
	}
	return n, nil
}

// pooled has n goroutines carry out requests. Those of connections are the only queue. A panic ends the connection, as without the
// pool.
func pooled(next http.Handler, n int) http.Handler {
	tasks := make(chan func())
	for range n {
		go func() {
			for task := range tasks {
				task()
			}
		}()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var failed any
		done := make(chan struct{})
		tasks <- func() {
			defer close(done)
			defer func() { failed = recover() }()
			next.ServeHTTP(w, r)
		}
		if <-done; failed != nil {
			panic(failed)
		}
	})
}
