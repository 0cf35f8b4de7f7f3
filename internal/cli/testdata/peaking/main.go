// Peaking is dyno, which writes its peak of resident memory in KiB to the descriptor after
// standard error. Its parent could not tell: what the kernel says of a child that has ended has
// the parent's own peak in it. It is a program of its own, so that tests with the race detector,
// which multiplies memory, build it without.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"dyno/internal/cli"
)

func main() {
	code := cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	status, err := os.Open("/proc/self/status")
	if err != nil {
		panic(err)
	}
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if peak, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			fmt.Fprintln(os.NewFile(3, "peak"), strings.TrimSuffix(strings.TrimSpace(peak), " kB"))
		}
	}
	os.Exit(code)
}
