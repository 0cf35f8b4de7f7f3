// Command grpcloop is the echo over gRPC on event loops: epoll, frames of HTTP/2 and messages by
// hand. It has one goroutine for each loop and none for a call, and allocates nothing for a unary call.
//
// Packages hpack and http2 are the protocol without I/O. Package calls is what a call does next
// when a message, a moment or room for an answer has come, and package reactor carries the bytes.
// A connection holds at most 256 KiB of output and takes no input meanwhile, and has at most 2,048
// calls at once. 2,000 frames in vain (resets, pings, settings and the like), and 500 more each
// second, end it with ENHANCE_YOUR_CALM.
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
