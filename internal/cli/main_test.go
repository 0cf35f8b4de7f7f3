package cli

import (
	"context"
	"flag"
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
	})
}

// atOnce is how many parallel tests run at once without the flag of go test. Most of the
// time they wait, for windows of load to pass and for processes to end, so that there are
// more of them than CPUs.
const atOnce = "3"

// leakChecked fails when a goroutine outlives the tests.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	flag.Parse()
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	if !isSet {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			panic(err)
		}
	}
	return leak.Checked(l.m)
}
