package trial

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"dyno/host/child"
	"dyno/host/sysctl"
	"dyno/host/target"
	"dyno/internal/leak"
	"dyno/lab/generator"
	"dyno/lab/observation"
	"dyno/lab/remote"
	"dyno/selftest/oracle"
)

// TestMain lets the test binary be the programs that the tests start: the supervisor, the
// process that keeps kernel settings, and a target.
func TestMain(m *testing.M) {
	if code, ran := child.Run(os.Args[1:], target.Role(), sysctl.Role(), remote.Role(), generator.Role(observation.OfPart)); ran {
		os.Exit(code)
	}
	switch {
	case len(os.Args) == 3 && os.Args[1] == "null":
		os.Exit(null(os.Args[2]))
	case len(os.Args) == 4 && os.Args[1] == "killed":
		os.Exit(killed(os.Args[2], os.Args[3]))
	}
	// The race detector's run time sleeps a second before it exits: in every target.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	leak.Main(m)
}

// null serves HTTP until it is asked to stop.
func null(address string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server, err := oracle.StartNull(ctx, oracle.Config{Addr: address})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("serving")
	<-ctx.Done()
	if err := server.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
