package contract

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	v1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"dyno/services/echo/rpc/echogrpc"
	"dyno/services/echo/rpc/echopb"
)

func health(t *testing.T, p *peer) {
	client := healthpb.NewHealthClient(p.conn)
	for _, service := range []string{"", echogrpc.Echo_ServiceDesc.ServiceName} {
		got, err := client.Check(p.ctx, &healthpb.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		if got.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%q is %v", service, got.Status)
		}
		stream, err := client.Watch(p.ctx, &healthpb.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		if got, err = stream.Recv(); err != nil {
			t.Fatal(err)
		}
		if got.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%q is %v in a watch", service, got.Status)
		}
	}
	_, err := client.Check(p.ctx, &healthpb.HealthCheckRequest{Service: "nothing"})
	expectCode(t, err, codes.NotFound)
}

// reflection finds the service as grpcurl would: all services, the file of one, and a
// file by its name.
func reflection(t *testing.T, p *peer) {
	if p.has(NoReflection) {
		t.Skip("this program exists to be measured, and serves no reflection")
	}
	stream, err := v1.NewServerReflectionClient(p.conn).ServerReflectionInfo(p.ctx)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(r *v1.ServerReflectionRequest) *v1.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
		got, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	list := ask(&v1.ServerReflectionRequest{MessageRequest: &v1.ServerReflectionRequest_ListServices{ListServices: "*"}})
	var names []string
	for _, s := range list.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	const service = "dyno.echo.v1.Echo"
	for _, want := range []string{service, "grpc.health.v1.Health"} {
		if !slices.Contains(names, want) {
			t.Errorf("services %v, want %s among them", names, want)
		}
	}
	file := func(r *v1.ServerReflectionResponse) *descriptorpb.FileDescriptorProto {
		t.Helper()
		for _, raw := range r.GetFileDescriptorResponse().GetFileDescriptorProto() {
			var f descriptorpb.FileDescriptorProto
			if err := proto.Unmarshal(raw, &f); err != nil {
				t.Fatal(err)
			}
			if f.GetPackage() == "dyno.echo.v1" {
				return &f
			}
		}
		t.Fatalf("no file of dyno.echo.v1 in %v", r)
		return nil
	}
	symbol := func(name string) *v1.ServerReflectionResponse {
		t.Helper()
		return ask(&v1.ServerReflectionRequest{MessageRequest: &v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name}})
	}
	f := file(symbol(service))
	var methods []string
	for _, m := range f.GetService()[0].GetMethod() {
		methods = append(methods, m.GetName())
	}
	if want := []string{"Echo", "Collect", "Expand", "Chat"}; !slices.Equal(methods, want) {
		t.Errorf("methods %v, want %v", methods, want)
	}
	file(symbol("dyno.echo.v1.ExpandRequest"))
	file(ask(&v1.ServerReflectionRequest{MessageRequest: &v1.ServerReflectionRequest_FileByFilename{FileByFilename: f.GetName()}}))
	if p.has(ReflectionEnds) {
		err := stream.Send(&v1.ServerReflectionRequest{MessageRequest: &v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "dyno.echo.v1.Nothing"}})
		if err == nil {
			_, err = stream.Recv()
		}
		expectCode(t, err, codes.NotFound)
	} else if got := symbol("dyno.echo.v1.Nothing").GetErrorResponse(); codes.Code(got.GetErrorCode()) != codes.NotFound {
		t.Errorf("a symbol that does not exist: %v, want %v", got, codes.NotFound)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Echo(p.ctx, &echopb.EchoRequest{}); err != nil {
		t.Fatal(err)
	}
}
