//go:build !interop

package grpcecho

import "google.golang.org/grpc"

// registerInterop adds nothing: without the tag interop there is only what is measured.
func registerInterop(*grpc.Server) {}
