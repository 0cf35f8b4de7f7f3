// Command formats is the echo on google.golang.org/grpc with default settings. Each call chooses Protocol Buffers,
// FlatBuffers or gob for its messages.
package main

import (
	"dyno/services/echo/rpc/go/grpcecho"
	"dyno/services/echo/rpc/go/grpcecho/formats"
	"dyno/services/echo/rpc/go/program"
)

func main() {
	formats.Register()
	program.Program{
		Name:  "formats",
		About: "the echo over gRPC on grpc-go, with messages in Protocol Buffers, FlatBuffers or gob, by each call's content-type",
		Open: func(o program.Options) (program.Server, error) {
			return grpcecho.Open(o, formats.Service()), nil
		},
	}.Main()
}
