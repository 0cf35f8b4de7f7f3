package cli

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"dyno/internal/leak"
)

// TestMain lets the test binary be the programs that the tests run: dyno itself, with
// everything that it starts, and servers: one that shows the requests it gets, and gRPC's
// health service.
func TestMain(m *testing.M) {
	// The race detector's run time sleeps a second before it exits: in every dyno.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	testscript.Main(leakChecked{m}, map[string]func(){
		"dyno": func() {
			os.Exit(Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
		"mirror":  mirror,
		"healthd": healthd,
		"peaking": peaking,
	})
}

// leakChecked fails when a goroutine outlives the tests.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int { return leak.Checked(l.m) }
