// Package echopb holds the messages of the echo over gRPC, with the standard code of
// Protocol Buffers and that of vtprotobuf. The services' code is in packages next to it,
// one for each library, so that a program links the library that it uses and no other.
package echopb

//go:generate go run ../../../../scripts/protogen ../echo.proto google.golang.org/protobuf/cmd/protoc-gen-go github.com/planetscale/vtprotobuf/cmd/protoc-gen-go-vtproto,features=marshal+unmarshal+size+pool,pool=dyno/services/echo/rpc/echopb.EchoRequest,pool=dyno/services/echo/rpc/echopb.EchoResponse google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2,stubs=dyno/services/echo/rpc/echogrpc connectrpc.com/connect/cmd/protoc-gen-connect-go
