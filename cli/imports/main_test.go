package imports

import (
	"os"
	"testing"

	"dyno/cli/imports/k6"
	"dyno/cli/imports/wrk"
	process "dyno/host/child"
	"dyno/internal/leak"
)

// TestMain lets the test binary be the process in which scripts of k6 run.
func TestMain(m *testing.M) {
	if code, ran := process.Run(os.Args[1:], k6.Role(), wrk.Role()); ran {
		os.Exit(code)
	}
	leak.Main(m)
}
