// Package echopb has the messages of the echo over gRPC, with the code of Protocol Buffers and of vtprotobuf. Each
// library's service code is in a package next to it, so that a program links only its own library.
package echopb

//go:generate go run ../../../../scripts/protogen ../echo.proto google.golang.org/protobuf/cmd/protoc-gen-go github.com/planetscale/vtprotobuf/cmd/protoc-gen-go-vtproto,features=marshal+unmarshal+size+pool,pool=dyno/services/echo/rpc/echopb.EchoRequest,pool=dyno/services/echo/rpc/echopb.EchoResponse google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2,stubs=dyno/services/echo/rpc/echogrpc connectrpc.com/connect/cmd/protoc-gen-connect-go
