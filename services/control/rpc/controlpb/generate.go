// Package controlpb is the control plane's contract over gRPC, as Go code.
package controlpb

//go:generate go run ../../../../scripts/protogen ../control.proto google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
