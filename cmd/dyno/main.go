// Command dyno is a dynamometer for network services: it loads a server, watches it,
// repeats and interleaves trials, and reports the results and how certain they are.
package main

import (
	"context"
	"os"

	"dyno/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
