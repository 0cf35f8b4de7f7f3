// Command tuned is the echo on google.golang.org/grpc with all that the library offers to
// make calls cheaper: workers instead of a goroutine for each call, larger windows and
// buffers, and vtprotobuf with pools of messages. Write buffers that connections share are
// the library's default by now, so plain has them too.
package main

import (
	"errors"
	"flag"
	"runtime"

	"google.golang.org/grpc"

	"dyno/services/echo/rpc/go/grpcecho"
	"dyno/services/echo/rpc/go/program"
)

func main() {
	serialization := grpcecho.VTProtobuf
	var workers, stream, connection, write, read int
	program.Program{
		Name:  "tuned",
		About: "the echo over gRPC on grpc-go with settings for cheap calls",
		Flags: func(f *flag.FlagSet) {
			serialization.Define(f)
			f.IntVar(&workers, "workers", runtime.GOMAXPROCS(0), "`N` goroutines that carry out calls; 0 is one for each call")
			f.IntVar(&stream, "stream-window", 1<<20, "flow-control window of a stream, in `BYTES`; 0 is the library's")
			f.IntVar(&connection, "connection-window", 4<<20, "flow-control window of a connection, in `BYTES`; 0 is the library's")
			f.IntVar(&write, "write-buffer", 64<<10, "write buffer in `BYTES`")
			f.IntVar(&read, "read-buffer", 64<<10, "read buffer in `BYTES`")
		},
		Open: func(o program.Options) (program.Server, error) {
			if workers < 0 || stream < 0 || connection < 0 || write < 0 || read < 0 {
				return nil, errors.New("workers, windows and buffers must not be negative")
			}
			return grpcecho.New(o, serialization,
				grpc.NumStreamWorkers(uint32(workers)),
				grpc.InitialWindowSize(int32(stream)),
				grpc.InitialConnWindowSize(int32(connection)),
				grpc.WriteBufferSize(write),
				grpc.ReadBufferSize(read),
			), nil
		},
	}.Main()
}
