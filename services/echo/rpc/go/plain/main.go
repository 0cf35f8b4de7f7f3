// Command plain is the echo on google.golang.org/grpc with the library's default settings.
package main

import (
	"flag"

	"dyno/services/echo/rpc/go/grpcecho"
	"dyno/services/echo/rpc/go/program"
)

func main() {
	serialization := grpcecho.Generated
	var security grpcecho.Security
	program.Program{
		Name:  "plain",
		About: "the echo over gRPC on grpc-go with its default settings",
		Flags: func(f *flag.FlagSet) {
			serialization.Define(f)
			security.Define(f)
		},
		Open: func(o program.Options) (program.Server, error) {
			secured, err := security.Options()
			if err != nil {
				return nil, err
			}
			return grpcecho.New(o, serialization, secured...), nil
		},
	}.Main()
}
