// Package healthpb holds the messages of health checks. Those of grpc-go come with grpc-go,
// which a program on another library does not link.
package healthpb

//go:generate go run ../../../../../../scripts/protogen health.proto google.golang.org/protobuf/cmd/protoc-gen-go
