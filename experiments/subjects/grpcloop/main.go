// Command grpcloop is the echo over gRPC on event loops: epoll, frames of HTTP/2 and messages by
// hand. It has one goroutine for each loop and none for a call, and allocates nothing for a unary call.
//
// Packages hpack and http2 are the protocol without I/O. Package calls decides what a call does next, and
// package reactor carries the bytes. A connection holds at most 256 KiB of output, and reads no input while it
// is full. It has at most 2,048 calls at once. Frames without use (resets, pings, settings and the like) are
// limited to 2,000, and 500 more each second. Beyond that, ENHANCE_YOUR_CALM ends the connection.
package main

import (
	"flag"
	"runtime"

	"dyno/experiments/subjects/grpcloop/reactor"
	"dyno/services/echo/rpc/go/program"
)

func main() {
	loops := 0
	program.Program{
		Name:  "grpcloop",
		About: "the echo over gRPC on event loops",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&loops, "loops", runtime.GOMAXPROCS(0), "`N` event loops")
		},
		Open: func(o program.Options) (program.Server, error) {
			return reactor.New(reactor.Config{Loops: max(loops, 0), Options: o})
		},
	}.Main()
}
