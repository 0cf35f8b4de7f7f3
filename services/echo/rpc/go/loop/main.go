// Command loop is the echo over gRPC on event loops: epoll, frames of HTTP/2 and messages
// without a library, one goroutine for each loop and none for a call.
package main

import (
	"flag"
	"runtime"

	"dyno/services/echo/rpc/go/loop/reactor"
	"dyno/services/echo/rpc/go/program"
)

func main() {
	loops := 0
	program.Program{
		Name:  "loop",
		About: "the echo over gRPC on event loops",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&loops, "loops", runtime.GOMAXPROCS(0), "`N` event loops")
		},
		Open: func(o program.Options) (program.Server, error) {
			return reactor.New(reactor.Config{Loops: max(loops, 0), Options: o})
		},
	}.Main()
}
