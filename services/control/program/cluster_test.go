package program

import (
	"slices"
	"testing"
)

// TestPortsOfTheirOwn: no two flags' replicas listen at one port.
func TestPortsOfTheirOwn(t *testing.T) {
	taken := map[string]string{}
	for _, c := range []struct {
		owner     string
		addresses []string
		good      bool
	}{
		{"--listen", []string{"127.0.0.1:7100", "127.0.0.1:7101"}, true},
		{"--grpc", []string{"127.0.0.1:7102", "127.0.0.1:7103"}, true},
		{"--dns", []string{"127.0.0.2:7102"}, true}, // another address
		{"--admin", []string{"127.0.0.1:7099", "127.0.0.1:7100"}, false},
		{"--admin", []string{"localhost:7103"}, false},
		{"--admin", []string{"[::1]:7103"}, true},
	} {
		if err := claim(taken, c.owner, c.addresses); (err == nil) != c.good {
			t.Errorf("%s at %v: %v", c.owner, c.addresses, err)
		}
	}
}

func TestSuccessivePorts(t *testing.T) {
	for _, c := range []struct {
		address string
		want    []string // nil is an error
	}{
		{"127.0.0.1:7100", []string{"127.0.0.1:7100", "127.0.0.1:7101", "127.0.0.1:7102", "127.0.0.1:7103"}},
		{"[::1]:1", []string{"[::1]:1", "[::1]:2", "[::1]:3", "[::1]:4"}},
		{"localhost:65529", []string{"localhost:65529", "localhost:65530", "localhost:65531", "localhost:65532"}},
		{"localhost:65530", nil}, {"127.0.0.1:0", nil}, {"192.0.2.1:80", nil}, {"unix:x", nil}, {"127.0.0.1", nil}, {":80", nil},
	} {
		got, err := successive(c.address, 3)
		if !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%s: %q, %v; want %q", c.address, got, err, c.want)
		}
	}
}
