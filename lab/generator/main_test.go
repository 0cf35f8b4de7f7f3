package generator

import (
	"os"
	"testing"

	"dyno/host/child"
	"dyno/internal/leak"
)

// TestMain lets the test binary be the processes that carry a part of a load.
func TestMain(m *testing.M) {
	if code, ran := child.Run(os.Args[1:], Role()); ran {
		os.Exit(code)
	}
	leak.Main(m)
}
