package engine_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		// A worker keeps a processor while it waits, and most tests do nothing else.
		runtime.GOMAXPROCS(4 * parallelTests)
		if err := flag.Set("test.parallel", strconv.Itoa(parallelTests)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	leak.Main(m)
}

// parallelTests is how many of the tests that call Parallel run at once. They have no more
// than two workers each.
const parallelTests = 4
