package storetest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Own starts a server of one test, or skips the test for want of it. The server ends with the test.
func Own(t testing.TB, start func() (*Server, string, error)) (*Server, string) {
	t.Helper()
	s, address, err := start()
	require(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, address
}

// require skips a test whose server is not installed, and fails one whose server does not start.
func require(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, ErrMissing) {
		t.Skipf("%v: scripts/setup.sh installs it", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A Shared server is for all tests of a package. The first test that needs it starts it.
type Shared struct {
	start   func() (*Server, string, error)
	once    sync.Once
	server  *Server
	address string
	err     error
}

// The shared servers.
var (
	SharedRedis    = &Shared{start: Redis}
	SharedPostgres = &Shared{start: Postgres}
)

// Use returns the server's address, or skips the test for want of it.
func (s *Shared) Use(t testing.TB) string {
	t.Helper()
	s.once.Do(func() { s.server, s.address, s.err = s.start() })
	require(t, s.err)
	return s.address
}

// Ending runs tests, and ends the shared servers after them.
type Ending struct{ Tests interface{ Run() int } }

// Run returns the exit code of the tests.
func (e Ending) Run() int {
	code := e.Tests.Run()
	for _, s := range []*Shared{SharedRedis, SharedPostgres} {
		if s.server == nil {
			continue
		}
		if err := s.server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}
