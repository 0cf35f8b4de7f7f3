package rpc

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	v1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	v1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// listen returns a listener on loopback.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serving runs a server until the test ends.
func serving(t *testing.T, l net.Listener, s *grpc.Server) Target {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // it ends with Stop
	}()
	t.Cleanup(func() { s.Stop(); <-done })
	return Target{Address: l.Addr().String(), Timeout: time.Minute}
}

// options makes grpc-go describe a schema that it knows nothing of.
func options(s *Schema) reflection.ServerOptions {
	return reflection.ServerOptions{Services: provider(s.Services()), DescriptorResolver: s.files}
}

// A provider lists services.
type provider []Service

func (p provider) GetServiceInfo() map[string]grpc.ServiceInfo {
	services := map[string]grpc.ServiceInfo{}
	for _, s := range p {
		services[s.Name] = grpc.ServiceInfo{}
	}
	return services
}

func TestFromReflection(t *testing.T) {
	described := shop(t)
	certificate, pool := certify(t)
	for _, tt := range []struct {
		name     string
		v1       bool
		v1alpha  bool
		unix     bool
		security *tls.Config
		want     string
	}{
		{name: "both", v1: true, v1alpha: true},
		{name: "v1", v1: true},
		{name: "v1alpha", v1alpha: true},
		{name: "none", want: "the server has no reflection: give --proto or --protoset"},
		{name: "unix socket", v1: true, unix: true},
		{name: "TLS", v1: true, security: &tls.Config{RootCAs: pool}},
		{name: "TLS, v1alpha", v1alpha: true, security: &tls.Config{RootCAs: pool, ServerName: "example.com"}},
		{name: "TLS of somebody else", v1: true, security: &tls.Config{}, want: "certificate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var with []grpc.ServerOption
			if tt.security != nil {
				with = append(with, grpc.Creds(credentials.NewServerTLSFromCert(&certificate)))
			}
			server := grpc.NewServer(with...)
			if tt.v1 {
				v1.RegisterServerReflectionServer(server, reflection.NewServerV1(options(described)))
			}
			if tt.v1alpha {
				v1alpha.RegisterServerReflectionServer(server, reflection.NewServer(options(described)))
			}
			l := listen(t)
			if tt.unix {
				l.Close()
				var err error
				if l, err = net.Listen("unix", filepath.Join(t.TempDir(), "s")); err != nil {
					t.Fatal(err)
				}
			}
			target := serving(t, l, server)
			target.TLS = tt.security
			if tt.unix {
				target.Address = "unix:" + target.Address
			}
			s, err := FromReflection(t.Context(), target)
			expect(t, err, tt.want)
			if tt.want != "" {
				return
			}
			if got, want := names(s), names(described); !slices.Equal(got, want) {
				t.Errorf("services %q, want %q", got, want)
			}
			exercise(t, find(t, s, "shop.v1.Shop/Buy"))
		})
	}
}

func names(s *Schema) (names []string) {
	for _, service := range s.Services() {
		names = append(names, service.Name)
		if service.Err != nil {
			names = append(names, service.Err.Error())
		}
	}
	return names
}

// A server as people write them: with the health service, and reflection of itself.
func TestReflectionOfGeneratedCode(t *testing.T) {
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	target := serving(t, listen(t), server)
	s, err := FromReflection(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(s); !slices.Equal(got, []string{"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}) {
		t.Errorf("services %q", got)
	}
	m := find(t, s, "grpc.health.v1.Health/Check")
	got, err := m.AppendEncode(nil, []byte(`{"service": "x"}`))
	if err != nil {
		t.Fatal(err)
	}
	if want, err := proto.Marshal(&healthpb.HealthCheckRequest{Service: "x"}); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%x, want %x, %v", got, want, err)
	}
	response, err := proto.Marshal(&healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, m.Check(response), "")
	if got, err := m.Decode(response); err != nil || string(got) != `{"status":"SERVING"}` {
		t.Errorf("%s, %v", got, err)
	}
}

// A liar answers by functions.
type liar struct {
	v1.UnimplementedServerReflectionServer
	services []string
	symbol   func(name string) *v1.ServerReflectionResponse
	file     func(name string) *v1.ServerReflectionResponse
	stream   func(stream v1.ServerReflection_ServerReflectionInfoServer) error // instead of the others

	asked atomic.Int64 // questions
}

func (l *liar) ServerReflectionInfo(stream v1.ServerReflection_ServerReflectionInfoServer) error {
	if l.stream != nil {
		return l.stream(stream)
	}
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		l.asked.Add(1)
		var a *v1.ServerReflectionResponse
		switch q := r.MessageRequest.(type) {
		case *v1.ServerReflectionRequest_ListServices:
			a = listOf(l.services...)
		case *v1.ServerReflectionRequest_FileContainingSymbol:
			a = l.symbol(q.FileContainingSymbol)
		case *v1.ServerReflectionRequest_FileByFilename:
			a = l.file(q.FileByFilename)
		}
		if err := stream.Send(a); err != nil {
			return err
		}
	}
}

func listOf(services ...string) *v1.ServerReflectionResponse {
	list := &v1.ListServiceResponse{}
	for _, s := range services {
		list.Service = append(list.Service, &v1.ServiceResponse{Name: s})
	}
	return &v1.ServerReflectionResponse{MessageResponse: &v1.ServerReflectionResponse_ListServicesResponse{ListServicesResponse: list}}
}

func answerOf(files ...*descriptorpb.FileDescriptorProto) *v1.ServerReflectionResponse {
	var list [][]byte
	for _, f := range files {
		b, err := proto.Marshal(f)
		if err != nil {
			panic(err)
		}
		list = append(list, b)
	}
	return bytesOf(list...)
}

func bytesOf(list ...[]byte) *v1.ServerReflectionResponse {
	return &v1.ServerReflectionResponse{MessageResponse: &v1.ServerReflectionResponse_FileDescriptorResponse{FileDescriptorResponse: &v1.FileDescriptorResponse{FileDescriptorProto: list}}}
}

func errorOf(code codes.Code, message string) *v1.ServerReflectionResponse {
	return &v1.ServerReflectionResponse{MessageResponse: &v1.ServerReflectionResponse_ErrorResponse{ErrorResponse: &v1.ErrorResponse{ErrorCode: int32(code), ErrorMessage: message}}}
}

// serviceFile declares a service without methods, with imports.
func serviceFile(name, pkg, service string, imports ...string) *descriptorpb.FileDescriptorProto {
	f := declaring(file(name, imports...), pkg)
	f.Service = append(f.Service, &descriptorpb.ServiceDescriptorProto{Name: &service})
	return f
}

func symbol(a *v1.ServerReflectionResponse) func(string) *v1.ServerReflectionResponse {
	return func(string) *v1.ServerReflectionResponse { return a }
}

func TestServersThatLie(t *testing.T) {
	notFound := symbol(errorOf(codes.NotFound, "no \x1b[2J"))
	for _, tt := range []struct {
		name  string
		liar  *liar
		err   string // of the whole
		fault string // of service a.S
	}{
		{name: "truth", liar: &liar{symbol: symbol(answerOf(serviceFile("a.proto", "a", "S")))}},
		{name: "an import asked for", liar: &liar{
			symbol: symbol(answerOf(serviceFile("a.proto", "a", "S", "b.proto", "google/protobuf/any.proto"))),
			file:   symbol(answerOf(file("b.proto"))),
		}},
		{name: "listed, not described", liar: &liar{symbol: notFound}, fault: "a.S: the server does not describe this service: NOT_FOUND: no  [2J"},
		{name: "another service described", liar: &liar{symbol: symbol(answerOf(serviceFile("a.proto", "b", "X")))}, fault: "a.S: what the server sends for this service does not declare it"},
		{name: "other case", liar: &liar{symbol: symbol(answerOf(serviceFile("a.proto", "A", "s")))}, fault: `does not declare it; it declares "A.s"`},
		{name: "missing import", liar: &liar{symbol: symbol(answerOf(serviceFile("a.proto", "a", "S", "b.proto"))), file: notFound}, fault: `a.proto: imports "b.proto", which is missing`},
		{name: "cyclic imports", liar: &liar{
			symbol: symbol(answerOf(serviceFile("a.proto", "a", "S", "b.proto"))),
			file:   func(string) *v1.ServerReflectionResponse { return answerOf(file("b.proto", "a.proto")) },
		}, fault: "cyclic imports: a.proto → b.proto → a.proto"},
		{name: "contradiction", liar: &liar{symbol: symbol(answerOf(serviceFile("a.proto", "a", "S"), serviceFile("a.proto", "a", "T")))}, err: "a.proto: there are two files of this name, which contradict each other"},
		{name: "two declare it", liar: &liar{symbol: symbol(answerOf(
			withField(declaring(serviceFile("a.proto", "a", "S", "b.proto"), "a", "M"), "f", ".a.M"), declaring(file("b.proto"), "a", "M")))}, fault: "a.proto: it contradicts another file: "},
		{name: "files without end", liar: &liar{
			symbol: symbol(answerOf(serviceFile("a.proto", "a", "S", "0.proto"))),
			file: func(name string) *v1.ServerReflectionResponse {
				var n int
				_, _ = fmt.Sscanf(name, "%d.proto", &n)
				return answerOf(file(name, fmt.Sprintf("%d.proto", n+1)))
			},
		}, err: "100.proto: files import each other in a chain of more than 100"},
		{name: "more and more files", liar: &liar{
			symbol: symbol(answerOf(serviceFile("a.proto", "a", "S", "x.proto"))),
			file: func(name string) *v1.ServerReflectionResponse {
				var more []string
				for i := range 30 {
					more = append(more, fmt.Sprintf("%d%s", i, name))
				}
				return answerOf(file(name, more...))
			},
		}, err: "there are more than 10000 files"},
		{name: "more parts than may be", liar: &liar{symbol: func(string) *v1.ServerReflectionResponse {
			return answerOf(declaring(serviceFile("a.proto", "a", "S"), "a", make([]string, maxServedElements)...))
		}}, err: "there are more than 80000 parts in the descriptors"},
		{name: "longer names than may be", liar: &liar{symbol: func(string) *v1.ServerReflectionResponse {
			outer := &descriptorpb.DescriptorProto{Name: proto.String(strings.Repeat("x", 1000))}
			for i := range 45_000 {
				outer.NestedType = append(outer.NestedType, &descriptorpb.DescriptorProto{Name: proto.String(fmt.Sprint("M", i))})
			}
			f := serviceFile("a.proto", "a", "S")
			f.MessageType = append(f.MessageType, outer)
			return answerOf(f)
		}}, err: "the names of all declarations take more than 32 MiB"},
		{name: "garbage", liar: &liar{symbol: symbol(bytesOf([]byte("\xff\xff")))}, err: "a file's descriptor is not valid"},
		{name: "service of no name", liar: &liar{services: []string{"\x1b[2J"}}, err: `the server lists a service that cannot have its name: " [2J"`},
		{name: "too many services", liar: &liar{services: make([]string, maxFiles+1)}, err: "there are more than 10000 parts"},
		{name: "answer of 64 MiB", liar: &liar{symbol: symbol(bytesOf(make([]byte, 64<<20)))}, err: "larger than configured max 16777216"},
		{name: "error for the list", liar: &liar{stream: func(v1.ServerReflection_ServerReflectionInfoServer) error {
			return grpcstatus.Error(codes.PermissionDenied, "only for käufer")
		}}, err: "reflection: PERMISSION_DENIED: only for käufer"},
		{name: "end without answers", liar: &liar{stream: func(v1.ServerReflection_ServerReflectionInfoServer) error { return nil }}, err: "the server has ended the call without an answer"},
		{name: "10⁶ bytes of metadata", liar: &liar{stream: func(s v1.ServerReflection_ServerReflectionInfoServer) error {
			return s.SendHeader(metadata.Pairs("x", strings.Repeat("x", 1e6))) // grpc-go does not send it
		}}, err: "INTERNAL_ERROR"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.liar.services == nil {
				tt.liar.services = []string{"a.S"}
			}
			server := grpc.NewServer()
			v1.RegisterServerReflectionServer(server, tt.liar)
			target := serving(t, listen(t), server)
			s, err := FromReflection(t.Context(), target)
			expect(t, err, tt.err)
			if err != nil {
				if !strings.HasPrefix(err.Error(), target.Address+": ") {
					t.Errorf("%v does not name the server", err)
				}
				if strings.ContainsRune(err.Error(), '\x1b') {
					t.Errorf("%q is obeyed by terminals", err)
				}
				return
			}
			services := s.Services()
			if len(services) != 1 || services[0].Name != "a.S" {
				t.Fatalf("services %v", services)
			}
			expect(t, services[0].Err, tt.fault)
			if tt.fault != "" {
				_, err = s.Method("a.S/M")
				expect(t, err, tt.fault)
				_, err = s.Describe("a.S")
				expect(t, err, tt.fault)
			}
			if n := tt.liar.asked.Load(); n > 10 {
				t.Errorf("%d questions", n)
			}
		})
	}
}

// The services that a server does describe can be used.
func TestSomeServicesAreDescribed(t *testing.T) {
	server := grpc.NewServer()
	v1.RegisterServerReflectionServer(server, &liar{services: []string{"a.Good", "a.Bad", "a.Good"}, symbol: func(name string) *v1.ServerReflectionResponse {
		if name == "a.Good" {
			return answerOf(serviceFile("a.proto", "a", "Good"))
		}
		return errorOf(codes.Internal, "oops")
	}})
	s, err := FromReflection(t.Context(), serving(t, listen(t), server))
	if err != nil {
		t.Fatal(err)
	}
	if got := names(s); len(got) != 3 || got[0] != "a.Bad" || got[2] != "a.Good" {
		t.Errorf("services %q", got)
	}
}

// Files that servers repeat for each service count once.
func TestRepeatedFiles(t *testing.T) {
	const n = 70 // more than all files together may take
	large := declaring(file("large.proto"), "large", "M")
	large.SourceCodeInfo = &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{{Span: []int32{0, 0, 0}, LeadingComments: proto.String(strings.Repeat("x", 1<<20))}}}
	l := &liar{symbol: func(name string) *v1.ServerReflectionResponse {
		service := strings.TrimPrefix(name, "a.")
		return answerOf(serviceFile(service+".proto", "a", service, "large.proto"), large)
	}}
	for i := range n {
		l.services = append(l.services, fmt.Sprintf("a.S%d", i))
	}
	server := grpc.NewServer()
	v1.RegisterServerReflectionServer(server, l)
	s, err := FromReflection(t.Context(), serving(t, listen(t), server))
	if err != nil {
		t.Fatal(err)
	}
	if got := names(s); len(got) != n {
		t.Errorf("services %q", got)
	}
}

func TestMetadataIsSent(t *testing.T) {
	server := grpc.NewServer()
	v1.RegisterServerReflectionServer(server, &liar{stream: func(s v1.ServerReflection_ServerReflectionInfoServer) error {
		md, _ := metadata.FromIncomingContext(s.Context())
		if got := fmt.Sprint(md["authorization"], md["raw-bin"], md[":authority"]); got != "[Bearer x] [\x00\xff] [shop.example]" {
			return grpcstatus.Errorf(codes.Unauthenticated, "%q", got)
		}
		return grpcstatus.Error(codes.Aborted, "as it should be")
	}})
	target := serving(t, listen(t), server)
	target.Metadata = http.Header{"authorization": {"Bearer x"}, "raw-bin": {"AP8"}, "Content-Type": {"text/html"}}
	target.Authority = "shop.example"
	_, err := FromReflection(t.Context(), target)
	expect(t, err, "ABORTED: as it should be")
}

func TestServersThatAreSilent(t *testing.T) {
	release := make(chan struct{})
	server := grpc.NewServer()
	v1.RegisterServerReflectionServer(server, &liar{stream: func(s v1.ServerReflection_ServerReflectionInfoServer) error {
		<-release
		return nil
	}})
	target := serving(t, listen(t), server)
	t.Cleanup(func() { close(release) })
	target.Timeout = 50 * time.Millisecond
	_, err := FromReflection(t.Context(), target)
	expect(t, err, target.Address+": no complete answer within 50ms")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	target.Timeout = 0
	if _, err := FromReflection(ctx, target); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The error says that the server is not a gRPC server.
func TestServersOfSomethingElse(t *testing.T) {
	for _, tt := range []struct {
		name string
		tls  bool // spoken by dyno
		peer func(c net.Conn)
		want string
	}{
		{"closes", false, func(c net.Conn) {}, "HTTP/2"},
		{"HTTP/1.1", false, func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }, "HTTP/2"},
		{"no TLS", true, func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }, "does the server speak TLS?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := listen(t)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = c.Read(make([]byte, 1024))
					tt.peer(c)
					c.Close()
				}
			}()
			t.Cleanup(func() { l.Close(); <-done })
			target := Target{Address: l.Addr().String()}
			if tt.tls {
				target.TLS = &tls.Config{}
			}
			_, err := FromReflection(t.Context(), target)
			expect(t, err, target.Address+": ", tt.want)
		})
	}
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"404", http.NotFound, "the server has no reflection"},
		{"a page", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, `invalid content-type: "text/html; charset=utf-8"`},
		{"10⁶ bytes of metadata", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1e6)) }, "the server's header fields are not valid, or take more than 64 KiB"},
		{"no trailers", grpcBytes(), "no Grpc-Status trailer"},
		{"half a message", grpcBytes(0, 0, 0, 0, 9, 1), "promised 9 bytes"},
		{"compressed", grpcBytes(1, 0, 0, 0, 1, 1), "compressed message"},
		{"no message", grpcBytes(0, 0, 0, 0, 1, 0xff), "descriptor is not valid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			protocols := &http.Protocols{}
			protocols.SetUnencryptedHTTP2(true)
			server := &http.Server{Handler: tt.handler, Protocols: protocols}
			l := listen(t)
			done := make(chan struct{})
			go func() { defer close(done); _ = server.Serve(l) }() // it ends with Close
			t.Cleanup(func() { server.Close(); <-done })
			_, err := FromReflection(t.Context(), Target{Address: l.Addr().String()})
			expect(t, err, l.Addr().String()+": ", tt.want)
		})
	}
}

// grpcBytes answers with these bytes, and no trailers.
func grpcBytes(b ...byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		_, _ = w.Write(b)
	}
}

func TestServersOfHTTP1(t *testing.T) {
	certificate, pool := certify(t)
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	for name, config := range map[string]*tls.Config{"plain": nil, "TLS": {RootCAs: pool}} {
		t.Run(name, func(t *testing.T) {
			l := listen(t)
			server := &http.Server{Handler: http.NotFoundHandler(), Protocols: protocols, ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
			done := make(chan struct{})
			go func() {
				defer close(done)
				if config == nil {
					_ = server.Serve(l) // it ends with Close
				} else {
					_ = server.ServeTLS(l, "", "")
				}
			}()
			t.Cleanup(func() { server.Close(); <-done })
			_, err := FromReflection(t.Context(), Target{Address: l.Addr().String(), TLS: config})
			expect(t, err, l.Addr().String()+": ", "HTTP/2")
		})
	}
}

func TestAddressesThatAreNone(t *testing.T) {
	for _, address := range []string{"", "localhost", "http://localhost:1", "::1"} {
		_, err := FromReflection(t.Context(), Target{Address: address})
		expect(t, err, "host:port, [ipv6]:port or unix:/path")
	}
	_, err := FromReflection(t.Context(), Target{Address: "unix:" + t.TempDir() + "/none"})
	expect(t, err, "no such file")
}

// certify returns a certificate of 127.0.0.1 and example.com, and who vouches for it.
func certify(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return s.TLS.Certificates[0], pool
}
