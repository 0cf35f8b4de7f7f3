package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	v1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"dyno/internal/cli/command"
)

// maxPeak bounds the memory of a dyno that a bad server deals with: what of it was resident at
// its peak, in bytes. It takes some 40 MiB with a good one.
const maxPeak = 500 << 20

const mebibyte = 1 << 20

// A badServer speaks gRPC by net/http, which sends whatever the handler writes.
type badServer struct {
	services []string                                       // that it lists; none: a.S
	symbol   func(name string) *v1.ServerReflectionResponse // describes a service; nil: by a file that is right
	file     func(name string) *v1.ServerReflectionResponse // has a file
	raw      func(name string) []byte                       // in place of symbol, the answer's bytes

	reflects http.HandlerFunc // in place of all these
	answers  http.HandlerFunc // calls of a.S/M
}

func (b *badServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/grpc")
	reflects := strings.HasPrefix(r.URL.Path, "/grpc.reflection.v1.")
	switch {
	case reflects && b.reflects != nil:
		b.reflects(w, r)
	case reflects:
		b.reflect(w, r)
	default:
		_, _ = io.Copy(io.Discard, r.Body)
		b.answers(w, r)
	}
}

func (b *badServer) reflect(w http.ResponseWriter, r *http.Request) {
	var prefix [5]byte
	for {
		if _, err := io.ReadFull(r.Body, prefix[:]); err != nil {
			ends(w, codes.OK)
			return
		}
		question := make([]byte, binary.BigEndian.Uint32(prefix[1:]))
		var q v1.ServerReflectionRequest
		if _, err := io.ReadFull(r.Body, question); err != nil || proto.Unmarshal(question, &q) != nil {
			ends(w, codes.InvalidArgument)
			return
		}
		var answer *v1.ServerReflectionResponse
		switch name := q.GetFileContainingSymbol(); {
		case name != "" && b.raw != nil:
			framed(w, 0, b.raw(name))
			continue
		case name != "" && b.symbol != nil:
			answer = b.symbol(name)
		case name != "":
			answer = files(good())
		case q.GetFileByFilename() != "":
			answer = b.file(q.GetFileByFilename())
		default:
			answer = &v1.ServerReflectionResponse{MessageResponse: &v1.ServerReflectionResponse_ListServicesResponse{ListServicesResponse: &v1.ListServiceResponse{}}}
			list := answer.GetListServicesResponse()
			for _, s := range append([]string{"a.S"}, b.services...) {
				list.Service = append(list.Service, &v1.ServiceResponse{Name: s})
			}
		}
		message, err := proto.Marshal(answer)
		if err != nil {
			panic(err)
		}
		framed(w, 0, message)
	}
}

// ends ends a call.
func ends(w http.ResponseWriter, code codes.Code) {
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(int(code)))
}

// framed writes a message.
func framed(w io.Writer, flags byte, message []byte) {
	prefix := binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(message)))
	_, _ = w.Write(append(prefix, message...))
	w.(http.Flusher).Flush()
}

// zeros are what long messages consist of: the race detector makes it dear to allocate some
// for each answer.
var zeros [64 * mebibyte]byte

// framedZeros writes a message of n zeros.
func framedZeros(w io.Writer, size int) {
	_, _ = w.Write(binary.BigEndian.AppendUint32([]byte{0}, uint32(size)))
	_, _ = w.Write(zeros[:size])
	w.(http.Flusher).Flush()
}

// nothing answers with an empty message.
func nothing(w http.ResponseWriter, _ *http.Request) {
	framed(w, 0, nil)
	ends(w, codes.OK)
}

// good describes service a.S, which has one method of each kind of response.
func good(imports ...string) *descriptorpb.FileDescriptorProto {
	method := func(name string, stream bool) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{Name: &name, InputType: proto.String(".a.E"), OutputType: proto.String(".a.E"), ServerStreaming: &stream}
	}
	return &descriptorpb.FileDescriptorProto{
		Name: proto.String("a.proto"), Package: proto.String("a"), Syntax: proto.String("proto3"), Dependency: imports,
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("E")}},
		Service:     []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S"), Method: []*descriptorpb.MethodDescriptorProto{method("M", false), method("Many", true)}}},
	}
}

// files is an answer with files.
func files(all ...*descriptorpb.FileDescriptorProto) *v1.ServerReflectionResponse {
	var list [][]byte
	for _, f := range all {
		b, err := proto.Marshal(f)
		if err != nil {
			panic(err)
		}
		list = append(list, b)
	}
	return &v1.ServerReflectionResponse{MessageResponse: &v1.ServerReflectionResponse_FileDescriptorResponse{FileDescriptorResponse: &v1.FileDescriptorResponse{FileDescriptorProto: list}}}
}

// empty is a file that only imports others.
func empty(name string, imports ...string) *descriptorpb.FileDescriptorProto {
	return &descriptorpb.FileDescriptorProto{Name: &name, Dependency: imports}
}

// wrapped puts bytes into length-delimited fields, the last number outermost.
func wrapped(b []byte, numbers ...protowire.Number) []byte {
	for _, n := range numbers {
		b = protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), b)
	}
	return b
}

// A server that lies about itself, or says too much, costs dyno a clear error and little memory.
func TestBadServers(t *testing.T) {
	program := filepath.Join(t.TempDir(), "peaking")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/peaking").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	many := make([]string, 40)
	for i := range many {
		many[i] = fmt.Sprintf("a.S%d", i)
	}
	always := func(f *descriptorpb.FileDescriptorProto) func(string) *v1.ServerReflectionResponse {
		return func(string) *v1.ServerReflectionResponse { return files(f) }
	}
	metadata := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Large", strings.Repeat("x", 1e6)) }
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(make([]byte, 64*mebibyte)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		server badServer
		args   string // other than the number of calls, the address and the method
		code   int
		want   string // in what it says
	}{
		{"a good one", badServer{answers: nothing}, "--check", command.ExitDone, "20 ok"},

		// Reflection.
		{"a service that is listed and not described", badServer{symbol: func(string) *v1.ServerReflectionResponse {
			return &v1.ServerReflectionResponse{MessageResponse: &v1.ServerReflectionResponse_ErrorResponse{ErrorResponse: &v1.ErrorResponse{ErrorCode: int32(codes.NotFound), ErrorMessage: "who?"}}}
		}}, "", command.ExitTarget, "a.S: the server does not describe this service: NOT_FOUND: who?"},
		{"another service's description", badServer{symbol: always(empty("x.proto"))}, "", command.ExitTarget, "a.S: what the server sends for this service does not declare it"},
		{"a type that is not there", badServer{symbol: func(string) *v1.ServerReflectionResponse {
			f := good()
			f.MessageType = nil
			return files(f)
		}}, "", command.ExitTarget, "a.proto: "},
		{"cyclic imports", badServer{symbol: always(good("b.proto")), file: always(empty("b.proto", "a.proto"))}, "", command.ExitTarget, "cyclic imports: a.proto → b.proto → a.proto"},
		{"an import of itself", badServer{symbol: always(good("a.proto"))}, "", command.ExitTarget, "cyclic imports: a.proto → a.proto"},
		{"an import that is not there", badServer{symbol: always(good("b.proto")), file: always(empty("c.proto"))}, "", command.ExitTarget, `imports "b.proto", which is missing`},
		{"two files of one name", badServer{symbol: func(string) *v1.ServerReflectionResponse { return files(good(), empty("a.proto")) }}, "", command.ExitTarget, "there are two files of this name, which contradict each other"},
		{"imports without end", badServer{symbol: always(good("0.proto")), file: func(name string) *v1.ServerReflectionResponse {
			n, _ := strconv.Atoi(strings.TrimSuffix(name, ".proto"))
			return files(empty(name, fmt.Sprintf("%d.proto", n+1)))
		}}, "", command.ExitTarget, "files import each other in a chain of more than 100"},
		{"more files each time", badServer{symbol: always(good("x.proto")), file: func(name string) *v1.ServerReflectionResponse {
			f := empty(name)
			for i := range 30 {
				f.Dependency = append(f.Dependency, strconv.Itoa(i)+name)
			}
			return files(f)
		}}, "", command.ExitTarget, "there are more than 10000 files"},
		{"what is no file", badServer{raw: func(string) []byte { return wrapped([]byte("\xff\xff"), 1, 4) }}, "", command.ExitTarget, "a file's descriptor is not valid"},
		{"what is no answer", badServer{raw: func(string) []byte { return []byte("\xff\xff") }}, "", command.ExitTarget, "descriptor is not valid"},
		{"an answer of 64 MiB", badServer{raw: func(string) []byte { return wrapped(make([]byte, 64*mebibyte), 1, 4) }}, "", command.ExitTarget, "larger than configured max 16777216"},
		{"an answer of 4 GiB that does not come", badServer{reflects: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("\x00\xff\xff\xff\xff"))
		}}, "", command.ExitTarget, "message size 4294967295 is larger than configured max 16777216"},
		{"15 MiB for each service", badServer{services: many, symbol: func(name string) *v1.ServerReflectionResponse {
			f := empty(name + ".proto")
			f.Package = proto.String(strings.Repeat("x", 1000))
			f.SourceCodeInfo = &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{{Span: []int32{0, 0, 0}, LeadingComments: proto.String(strings.Repeat("x", 15*mebibyte))}}}
			return files(f)
		}}, "", command.ExitTarget, "the descriptors take more than 64 MiB"},
		{"millions of fields of two bytes", badServer{raw: func(string) []byte {
			return wrapped(append(wrapped([]byte("a.proto"), 1), wrapped(bytes.Repeat([]byte{0x12, 0}, 7*mebibyte), 4)...), 1, 4)
		}}, "", command.ExitTarget, "parts in the descriptors"},
		{"as many messages as may be", badServer{symbol: func(string) *v1.ServerReflectionResponse {
			f := good()
			for i := range 75_000 {
				f.MessageType = append(f.MessageType, &descriptorpb.DescriptorProto{Name: proto.String("M" + strconv.Itoa(i))})
			}
			return files(f)
		}, answers: nothing}, "", command.ExitDone, "20 ok"},
		{"names as long as may be", badServer{symbol: func(string) *v1.ServerReflectionResponse {
			f := good()
			outer := &descriptorpb.DescriptorProto{Name: proto.String(strings.Repeat("x", 1000))}
			for i := range 30_000 {
				outer.NestedType = append(outer.NestedType, &descriptorpb.DescriptorProto{Name: proto.String("M" + strconv.Itoa(i))})
			}
			f.MessageType = append(f.MessageType, outer)
			return files(f)
		}, answers: nothing}, "", command.ExitDone, "20 ok"},
		{"longer names", badServer{symbol: func(string) *v1.ServerReflectionResponse {
			f := good()
			outer := &descriptorpb.DescriptorProto{Name: proto.String(strings.Repeat("x", 1000))}
			for i := range 45_000 {
				outer.NestedType = append(outer.NestedType, &descriptorpb.DescriptorProto{Name: proto.String("M" + strconv.Itoa(i))})
			}
			f.MessageType = append(f.MessageType, outer)
			return files(f)
		}}, "", command.ExitTarget, "the names of all declarations take more than 32 MiB"},
		{"10⁶ bytes of metadata with reflection", badServer{reflects: metadata}, "", command.ExitTarget, "the server's header fields are not valid, or take more than 64 KiB"},
		{"10⁶ bytes of trailers with reflection", badServer{reflects: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(http.TrailerPrefix+"Grpc-Message", strings.Repeat("x", 1e6))
			ends(w, codes.Internal)
		}}, "", command.ExitTarget, "header"},

		// Calls.
		{"a message of 64 MiB", badServer{answers: func(w http.ResponseWriter, _ *http.Request) {
			framedZeros(w, 64*mebibyte)
			ends(w, codes.OK)
		}}, "--check", command.ExitInvalid, "larger than the limit, which is 4 MiB: --max-message raises it"},
		{"a message of 4 GiB that does not come", badServer{answers: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("\x00\xff\xff\xff\xff"))
		}}, "--check", command.ExitInvalid, "larger than the limit, which is 4 MiB: --max-message raises it"},
		{"64 MiB compressed", badServer{answers: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Grpc-Encoding", "gzip")
			framed(w, 1, bomb.Bytes())
			ends(w, codes.OK)
		}}, "--check", command.ExitInvalid, "larger than the limit, which is 4 MiB: --max-message raises it"},
		{"many messages for one", badServer{answers: func(w http.ResponseWriter, _ *http.Request) {
			for range 64 {
				framedZeros(w, mebibyte)
			}
			ends(w, codes.OK)
		}}, "", command.ExitTarget, "more than one message in a response that has one"},
		{"10⁶ bytes of metadata", badServer{answers: func(w http.ResponseWriter, r *http.Request) {
			metadata(w, r)
			framed(w, 0, nil)
			ends(w, codes.OK)
		}}, "", command.ExitInvalid, "grpc RESOURCE_EXHAUSTED: header larger than the limit, which is 64 KiB unless --max-header raises it"},
		{"10⁶ bytes of trailers", badServer{answers: func(w http.ResponseWriter, _ *http.Request) {
			framed(w, 0, nil)
			w.Header().Set(http.TrailerPrefix+"X-Large", strings.Repeat("x", 1e6))
			ends(w, codes.OK)
		}}, "", command.ExitInvalid, "grpc RESOURCE_EXHAUSTED: header larger than the limit, which is 64 KiB unless --max-header raises it"},
		{"50,000 bytes of status", badServer{answers: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(http.TrailerPrefix+"Grpc-Message", strings.Repeat("x", 50_000))
			ends(w, codes.Internal)
		}}, "", command.ExitTarget, "INTERNAL × 20"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // it waits for connections to end
			s := httptest.NewUnstartedServer(&c.server)
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
			s.Start()
			defer s.Close()
			peak, code, said := peakOf(t, program, append(append([]string{"grpc", "-q", "--no-color", "-n", "20", "-c", "2", "--streams", "2"}, strings.Fields(c.args)...), s.Listener.Addr().String(), "a.S/M")...)
			said = strings.Join(strings.Fields(said), " ") // lines are broken to fit a screen
			// What else the machine does may disturb the figures of the calls.
			if disturbed := code == command.ExitInvalid && strings.Contains(said, "requests/s"); code != c.code && !disturbed || !strings.Contains(said, c.want) {
				t.Errorf("exit code %d, want %d, and %q in: %s", code, c.code, c.want, said)
			}
			if len(said) > 20_000 {
				t.Errorf("it says %d bytes", len(said))
			}
			if peak > maxPeak {
				t.Errorf("%d MiB of memory, want at most %d", peak>>20, maxPeak>>20)
			}
		})
	}
}

// peakOf runs the program of testdata/peaking, and returns its peak of resident memory in bytes,
// its exit code, and what it said.
func peakOf(t *testing.T, program string, args ...string) (peak, code int, said string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "GOMEMLIMIT=off", "GOGC=100")
	cmd.ExtraFiles = []*os.File{w}
	out, err := cmd.CombinedOutput()
	w.Close()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	kibibytes, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatalf("%v; dyno said:\n%s", err, out)
	}
	return kibibytes << 10, cmd.ProcessState.ExitCode(), string(out)
}
