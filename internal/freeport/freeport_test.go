package freeport

import (
	"net"
	"strconv"
	"testing"
)

func TestAddress(t *testing.T) {
	l, err := net.Listen("tcp", Address(t))
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if port, err := strconv.Atoi(Port(t)); err != nil || port < first || port > last {
		t.Errorf("port %d, %v", port, err)
	}
}
