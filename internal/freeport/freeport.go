// Package freeport finds addresses for tests of servers that cannot choose a port themselves, or that
// listen there again.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// The ports are below those that Linux gives to clients (net.ipv4.ip_local_port_range). A port that the
// kernel chose may become any client's port after its listener has closed. Then listening there fails.
const first, last = 10_000, 32_767

// Address returns an unused address of 127.0.0.1. The port is chosen at random: two callers get the
// same one only if both ask before either listens, and then once in 22,768.
func Address(test interface{ Fatalf(string, ...any) }) string {
	var err error
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first+1))
		var l net.Listener
		if l, err = net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	test.Fatalf("no free port: %v", err)
	return ""
}

// Port returns the port of an Address.
func Port(test interface{ Fatalf(string, ...any) }) string {
	_, port, err := net.SplitHostPort(Address(test))
	if err != nil {
		test.Fatalf("%v", err)
	}
	return port
}
