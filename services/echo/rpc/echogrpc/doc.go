// Package echogrpc holds the echo's client and service for google.golang.org/grpc.
package echogrpc
