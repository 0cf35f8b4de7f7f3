package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"testing"

	"dyno/internal/leak"
	"dyno/services/echo/rpc/go/grpcecho"
	"dyno/services/echo/rpc/go/program"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A client measures its first call, however it is warmed up, and keeps one connection.
func TestClient(t *testing.T) {
	secured, err := grpcecho.ECDSA.Options()
	if err != nil {
		t.Fatal(err)
	}
	server := grpcecho.New(program.Options{MaxMessage: 1 << 20}, grpcecho.Generated, secured...)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve([]net.Listener{listener}) }()
	for _, warm := range []string{"none", "connect", "calls"} {
		var out bytes.Buffer
		if err := run(t.Context(), []string{"--target", listener.Addr().String(), "--warm", warm, "--calls", "40", "--flight", "4"}, &out); err != nil {
			t.Fatal(err)
		}
		var figures map[string]float64
		if err := json.Unmarshal(out.Bytes(), &figures); err != nil || figures["connections"] != 1 || figures["first_seconds"] <= 0 {
			t.Errorf("%s: %v, %v", warm, figures, err)
		}
	}
	server.Drain(context.Background())
	if err := <-served; err != nil {
		t.Error(err)
	}
}
