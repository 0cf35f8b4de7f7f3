package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"dyno/experiments/subjects/measurement"
	"dyno/internal/command"
)

func main() {
	os.Exit(command.Main(context.Background(), newCommand(), os.Args[1:], os.Stdout, os.Stderr))
}

// newCommand returns the command line: a command for each program.
func newCommand() *cobra.Command {
	root := measurement.NewCommand("micro", "Measure what a load test cannot: context switches, stacks, locks, pinning, I/O models, socket options, pools, jitter filters")
	measurement.Add[Switch](root, "switch", "The cost of a hand-over to another goroutine or thread")
	measurement.Add[Stack](root, "stack", "The memory that a parked goroutine or thread takes")
	measurement.Add[Units](root, "units", "How many goroutines or threads can be parked at once")
	measurement.Add[Lock](root, "lock", "Counters under locks of several kinds")
	measurement.Add[Pin](root, "pin", "Threads bound to one CPU each, or left to the scheduler")
	measurement.Add[IO](root, "io", "An echo server with a chosen I/O model")
	measurement.Add[Alternate](root, "alternate", "Two I/O models, or floating and pinned threads, by turns in one process")
	measurement.Add[Pipeline](root, "pipeline", "Jobs over channels to workers, and waits with a timeout")
	measurement.Add[Channels](root, "channels", "Records carried from TCP connections into a file, and how many are lost")
	measurement.Add[Buffers](root, "buffers", "The sizes of socket buffers: requested, and given by the kernel")
	measurement.Add[LowLatency](root, "lowlatency", "What a connection carries with and without tcp_low_latency")
	measurement.Add[NoDelay](root, "nodelay", "Round trips of messages written in parts, with or without Nagle's algorithm")
	measurement.Add[Filter](root, "filter", "What a jitter filter leaves of a server's response times, and what there was")
	measurement.Add[KeepAlive](root, "keepalive", "How long a connection takes to notice that its peer has fallen silent")
	measurement.Add[Ticker](root, "ticker", "How late ticks are, next to goroutines that compute")
	measurement.Add[Direct](root, "direct", "Events written by a buffer, directly, or to two writers")
	measurement.Add[Garbage](root, "garbage", "What pools of buffers and identifiers leave to the garbage collector")
	measurement.Add[Registers](root, "registers", "Floating-point results of goroutines that the scheduler interrupts")
	measurement.Add[Closed](root, "closed", "Which connections the kernel still has, some time after they were closed")
	measurement.Add[Handshake](root, "handshake", "What ALPN and a stapled OCSP response add to a TLS handshake")
	measurement.Add[Pool](root, "pool", "An HTTP client's pool of connections: hits, waiting and times at a rate")
	return root
}
