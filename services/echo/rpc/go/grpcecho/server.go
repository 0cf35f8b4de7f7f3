package grpcecho

import (
	"context"
	"net"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // accepts and answers gzip
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"dyno/services/echo/rpc/echogrpc"
	"dyno/services/echo/rpc/go/program"
)

// Server is a program.Server of grpc-go.
type Server struct{ grpc *grpc.Server }

var _ program.Server = Server{}

// New returns a server with the options of all programs, and those of one. The messages of
// all its calls are encoded in the same way.
func New(o program.Options, s Serialization, own ...grpc.ServerOption) Server {
	return Open(o, s.Service(), append(own, grpc.ForceServerCodecV2(s.Codec()))...)
}

// Open is New for an echo that is described by desc, whose methods are those of Service.
func Open(o program.Options, desc *grpc.ServiceDesc, own ...grpc.ServerOption) Server {
	options := append(own, grpc.MaxRecvMsgSize(o.MaxMessage))
	if o.KeepaliveTime > 0 || o.KeepaliveTimeout > 0 {
		options = append(options, grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: o.KeepaliveTime, Timeout: o.KeepaliveTimeout,
		}), grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			// A client whose clock runs a little fast pings a little early.
			MinTime: o.KeepaliveTime / 2, PermitWithoutStream: true,
		}))
	}
	layers := program.NewLayers(o.Middleware)
	for i := range layers {
		l := &layers[i]
		options = append(options,
			grpc.ChainUnaryInterceptor(func(ctx context.Context, m any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
				l.Calls.Add(1)
				return next(ctx, m)
			}),
			grpc.ChainStreamInterceptor(func(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
				l.Calls.Add(1)
				return next(service, stream)
			}))
	}
	server := grpc.NewServer(options...)
	server.RegisterService(desc, Service{})
	checks := health.NewServer()
	checks.SetServingStatus(echogrpc.Echo_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(server, checks)
	reflection.Register(server)
	return Server{server}
}

// Serve serves calls on all listeners.
func (s Server) Serve(listeners []net.Listener) error {
	var g errgroup.Group
	for _, l := range listeners {
		g.Go(func() error { return s.grpc.Serve(l) })
	}
	return g.Wait()
}

// Drain ends the server.
func (s Server) Drain(ctx context.Context) {
	stop := context.AfterFunc(ctx, s.grpc.Stop)
	defer stop()
	s.grpc.GracefulStop()
}
