// Command connect is the echo over gRPC on connectrpc.com/connect and net/http.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"golang.org/x/sync/errgroup"

	"dyno/services/echo/rpc/echopb/echopbconnect"
	"dyno/services/echo/rpc/go/program"
)

func main() {
	program.Program{
		Name:  "connect",
		About: "the echo over gRPC on connect-go and net/http",
		Open:  func(o program.Options) (program.Server, error) { return open(o), nil },
	}.Main()
}

// server is a program.Server of net/http.
type server struct{ http *http.Server }

var _ program.Server = server{}

// healthName is the service of health checks.
const healthName = "grpc.health.v1.Health"

func open(o program.Options) server {
	options := []connect.HandlerOption{connect.WithReadMaxBytes(o.MaxMessage)}
	layers := program.NewLayers(o.Middleware)
	for i := range layers {
		options = append(options, connect.WithInterceptors(layer{&layers[i]}))
	}
	mux := http.NewServeMux()
	mux.Handle(echopbconnect.NewEchoHandler(service{}, options...))
	mux.Handle("/"+healthName+"/Check", connect.NewUnaryHandler("/"+healthName+"/Check", check, options...))
	mux.Handle("/"+healthName+"/Watch", connect.NewServerStreamHandler("/"+healthName+"/Watch", watch, options...))
	reflector := grpcreflect.NewStaticReflector(echopbconnect.EchoName, healthName)
	mux.Handle(grpcreflect.NewHandlerV1(reflector))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector))

	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return server{&http.Server{
		Handler:   asSent(mux),
		Protocols: protocols,
		// A client that goes away is no event.
		ErrorLog: log.New(io.Discard, "", 0),
		HTTP2:    &http.HTTP2Config{SendPingTimeout: o.KeepaliveTime, PingTimeout: o.KeepaliveTimeout},
	}}
}

// asSent has answers compressed if the call's messages are. The library would compress
// whenever the client accepts that.
func asSent(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, compressed := r.Header["Grpc-Encoding"]; !compressed {
			delete(r.Header, "Grpc-Accept-Encoding")
		}
		next.ServeHTTP(w, r)
	})
}

// Serve serves calls on all listeners.
func (s server) Serve(listeners []net.Listener) error {
	var g errgroup.Group
	for _, l := range listeners {
		g.Go(func() error {
			if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	return g.Wait()
}

// Drain ends the server.
func (s server) Drain(ctx context.Context) {
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close() // the time is over
	}
}
