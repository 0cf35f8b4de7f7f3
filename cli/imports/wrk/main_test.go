package wrk

import (
	"os"
	"testing"

	process "dyno/host/child"
	"dyno/internal/leak"
)

// TestMain lets the test binary be the process in which scripts of wrk run.
func TestMain(m *testing.M) {
	if code, ran := process.Run(os.Args[1:], Role()); ran {
		os.Exit(code)
	}
	leak.Main(m)
}
