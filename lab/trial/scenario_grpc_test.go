package trial

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"dyno/results/rundir"
)

// A desk is a service of gRPC with log-in, by the official library.
type desk struct {
	testpb.UnimplementedTestServiceServer

	mu     sync.Mutex // guards what follows
	logins map[string]int
	orders map[string]int
	calls  map[string]int // that were answered well, by kind
	wrong  []string
}

func (d *desk) answered(kind string) { d.calls[kind]++ }

func (d *desk) UnaryCall(ctx context.Context, r *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	in, _ := metadata.FromIncomingContext(ctx)
	one := func(name string) string { return strings.Join(in.Get(name), "|") }
	body := string(r.GetPayload().GetBody())
	if r.GetFillUsername() {
		d.logins[body]++
		_ = grpc.SetHeader(ctx, metadata.Pairs("x-session", "S-"+body))
		_ = grpc.SetTrailer(ctx, metadata.Pairs("x-cost", "3 of "+body))
		return &testpb.SimpleResponse{Username: "T-" + body, Payload: r.GetPayload()}, nil
	}
	user, ok := strings.CutPrefix(one("authorization"), "Bearer T-")
	if s := r.GetResponseStatus(); s != nil {
		d.answered("missing")
		return nil, status.Error(codes.Code(s.GetCode()), s.GetMessage())
	}
	if !ok || d.logins[user] == 0 || one("x-session") != "S-"+user || one("x-cost") != "3 of "+user || one("x-all") != "all" {
		d.wrong = append(d.wrong, fmt.Sprintf("%v %q", in, body))
		return nil, status.Error(codes.Unauthenticated, "who are you?")
	}
	if body == "slow" {
		d.mu.Unlock()
		<-ctx.Done()
		d.mu.Lock()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	d.orders[user+body]++
	return &testpb.SimpleResponse{Payload: r.GetPayload()}, nil
}

func (d *desk) StreamingOutputCall(r *testpb.StreamingOutputCallRequest, s grpc.ServerStreamingServer[testpb.StreamingOutputCallResponse]) error {
	for _, p := range r.GetResponseParameters() {
		if err := s.Send(&testpb.StreamingOutputCallResponse{Payload: &testpb.Payload{Body: make([]byte, p.GetSize())}}); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answered("list")
	return nil
}

func (d *desk) StreamingInputCall(s grpc.ClientStreamingServer[testpb.StreamingInputCallRequest, testpb.StreamingInputCallResponse]) error {
	size := 0
	for {
		r, err := s.Recv()
		if err != nil {
			break
		}
		size += len(r.GetPayload().GetBody())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answered("collect")
	return s.SendAndClose(&testpb.StreamingInputCallResponse{AggregatedPayloadSize: int32(size)}) //nolint:gosec // small
}

func (d *desk) FullDuplexCall(s grpc.BidiStreamingServer[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]) error {
	for {
		r, err := s.Recv()
		if err != nil {
			break
		}
		if err := s.Send(&testpb.StreamingOutputCallResponse{Payload: r.GetPayload()}); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answered("chat")
	return nil
}

func serveDesk(t *testing.T) (*desk, string) {
	t.Helper()
	d := &desk{logins: map[string]int{}, orders: map[string]int{}, calls: map[string]int{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	testpb.RegisterTestServiceServer(s, d)
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	reflection.Register(s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return d, l.Addr().String()
}

const deskScenario = `
    data: {users: users.csv}
    metadata: {x-all: all}
    steps:
      - name: login
        once: true
        method: grpc.testing.TestService/UnaryCall
        message: '{"fillUsername": true, "payload": {"body": "{{ base64(user) }}"}}'
        extract: {token: $.username, session: {metadata: X-Session}, cost: {trailer: x-cost}}
      - name: order
        method: grpc.testing.TestService/UnaryCall
        message: '{"payload": {"body": "{{ base64(counter()) }}"}}'
        metadata: {authorization: "Bearer {{ token }}", x-session: "{{ session }}", X-Cost: "{{ cost }}"}
        extract: {body: $.payload.body, none: {trailer: x-cost, default: "-"}}
      - name: list
        method: grpc.testing.TestService.StreamingOutputCall
        message: '{"responseParameters": [{"size": 3}, {"size": 5}]}'
        assert: [{json: "$[1].payload.body", equals: AAAAAAA=}, {matches: '^\[.*\]$'}, {metadata: content-type, contains: grpc}]
      - name: none
        method: grpc.testing.TestService/StreamingOutputCall
        assert: [{equals: "[]"}]
      - name: health
        method: grpc.health.v1.Health/Check
        assert: [{json: $.status, equals: SERVING}]
      - name: missing
        method: grpc.testing.TestService/UnaryCall
        message: '{"responseStatus": {"code": 5, "message": "no such item"}}'
        status: OK, NOT_FOUND
      - name: collect
        method: grpc.testing.TestService/StreamingInputCall
        message: '[{"payload": {"body": "AAAA"}}, {"payload": {"body": "AA=="}}]'
        assert: [{json: $.aggregatedPayloadSize, equals: "4"}]
      - name: chat
        method: grpc.testing.TestService/FullDuplexCall
        message: '[{"payload": {"body": "AAAA"}}, {"payload": {"body": "AA=="}}]'
        assert: [{json: "$[1].payload.body", equals: AA==}]
`

// Users log in by one call, and carry what it answers with into the metadata of the next; their steps
// use two services and all kinds of calls, on the same connections. The run folder's counts equal the
// server's, step by step.
func TestScenarioOfCalls(t *testing.T) {
	for _, load := range []string{"closed: {connections: 2}\n  http2: {streams: 3}\n  workers: 2", "open: {rate: 20/s, max_connections: 3}"} { // few enough that users reach their last step on a busy machine
		d, address := serveDesk(t)
		trial := measured(t, shopPlan(t, 20, fmt.Sprintf("name: desk\ntarget: {protocol: grpc, url: 'http://%s'}\ndesign: {rounds: 1}\nload:\n  %s\n  warmup: 0\n  requests: 401\n  scenario:", address, load)+deskScenario))
		d.mu.Lock()
		if trial.Counts.OK != 401 || len(d.wrong) > 0 {
			t.Errorf("%+v, %v; wrong: %.300q", trial.Counts, trial.Failures, d.wrong)
		}
		logins := 0
		for _, n := range d.logins {
			logins += n
		}
		for order, n := range d.orders {
			if n != 1 {
				t.Errorf("%s was sent %d times", order, n)
			}
		}
		var ok int64
		for _, s := range trial.Steps {
			want, known := map[string]int{
				"login": logins, "order": len(d.orders), "missing": d.calls["missing"], "collect": d.calls["collect"], "chat": d.calls["chat"],
			}[s.Name]
			if ok += s.OK; known && s.OK != int64(want) || s.OK == 0 || s.Failed() > 0 {
				t.Errorf("%+v, want %d good responses", s, want)
			}
			if h, err := trial.Latency(rundir.StepTag("response", s.Name)); err != nil || h.Count() != s.OK {
				t.Errorf("step %s: %d times, %v; want %d", s.Name, h.Count(), err, s.OK)
			}
		}
		if ok != 401 || len(trial.Steps) != 8 || int(trial.Users.Started) != logins {
			t.Errorf("%d good responses of %d steps; %d logins, users %+v", ok, len(trial.Steps), logins, trial.Users)
		}
		if m := trial.Users.Misses; len(m) != 1 || m[0].Step != "order" || m[0].Variable != "none" {
			t.Errorf("misses %+v", m)
		}
		d.mu.Unlock()
	}
}

// Failures are counted by kind, at their step: a status, what a step does not find, and a call that is
// not answered by its own deadline.
func TestScenarioOfCallsThatFail(t *testing.T) {
	d, address := serveDesk(t)
	trial := measured(t, shopPlan(t, 20, fmt.Sprintf(`name: desk
target: {protocol: grpc, url: 'http://%s'}
design: {rounds: 1}
load:
  closed: {connections: 1}
  http2: {streams: 4}
  warmup: 0
  requests: 200
  call: {metadata: {x-all: all}}
  scenario:
    data: {users: users.csv}
    steps:
      - name: login
        once: true
        method: grpc.testing.TestService/UnaryCall
        message: '{"fillUsername": true, "payload": {"body": "{{ base64(user) }}"}}'
        extract: {token: $.username, session: {metadata: x-session}, cost: {trailer: x-cost}}
      - name: status
        method: grpc.testing.TestService/UnaryCall
      - name: nothing
        method: grpc.health.v1.Health/Check
        extract: {missing: $.nothing.of.the.kind}
      - name: garbled
        method: grpc.testing.TestService/UnaryCall
        message: '{"payload": {"body": "{{ user }}"}}'
      - name: slow
        method: grpc.testing.TestService/UnaryCall
        metadata: {authorization: "Bearer {{ token }}", x-session: "{{ session }}", x-cost: "{{ cost }}"}
        message: '{"payload": {"body": "c2xvdw=="}}'
        deadline: 30ms
      - name: fine
        method: grpc.health.v1.Health/Check
`, address)))
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, kind := range []string{"", "status", "assertion", "generator", "timeout", ""} {
		s := trial.Steps[i]
		if kind == "" {
			if s.OK < 4 || s.Failed() != 0 {
				t.Errorf("%+v", s)
			}
			continue
		}
		others := int64(0)
		if kind == "timeout" { // the server knows of it, too
			others = s.ByKind["status"] + s.ByKind["reset"]
		}
		if s.OK != 0 || s.ByKind[kind] == 0 || s.ByKind[kind]+others != s.Failed() {
			t.Errorf("%+v, want all of kind %s", s, kind)
		}
	}
	if longest := trial.Times[rundir.StepTag(rundir.TagResponse, trial.Steps[4].Name)].Max; longest == nil || *longest < 0.03 || *longest > 2 {
		t.Errorf("a call of 30 ms took %v", longest)
	}
	all := strings.Join(slices.Sorted(maps.Keys(trial.Failures)), "\n")
	for _, want := range []string{"grpc UNAUTHENTICATED", "its value at $.nothing.of.the.kind is missing", "its message cannot be made", "grpc DEADLINE_EXCEEDED"} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing says %q:\n%s", want, all)
		}
	}
}

// Over gRPC-Web, with HTTP/1.1 and HTTP/2, users do the same. The methods have no messages streamed to
// the server.
func TestScenarioOfWebCalls(t *testing.T) {
	mux := http.NewServeMux()
	const unary, stream = "/grpc.testing.TestService/UnaryCall", "/grpc.testing.TestService/StreamingOutputCall"
	mux.Handle(unary, connect.NewUnaryHandler(unary, func(_ context.Context, r *connect.Request[testpb.SimpleRequest]) (*connect.Response[testpb.SimpleResponse], error) {
		user := string(r.Msg.GetPayload().GetBody())
		if !r.Msg.GetFillUsername() && (r.Header().Get("X-Session") != "S-"+user || r.Header().Get("X-Cost") != "3") {
			return nil, connect.NewError(connect.CodeUnauthenticated, nil)
		}
		answer := connect.NewResponse(&testpb.SimpleResponse{Username: user})
		answer.Header().Set("X-Session", "S-"+user)
		answer.Trailer().Set("X-Cost", "3")
		return answer, nil
	}))
	mux.Handle(stream, connect.NewServerStreamHandler(stream, func(_ context.Context, r *connect.Request[testpb.StreamingOutputCallRequest], s *connect.ServerStream[testpb.StreamingOutputCallResponse]) error {
		for _, p := range r.Msg.GetResponseParameters() {
			if err := s.Send(&testpb.StreamingOutputCallResponse{Payload: &testpb.Payload{Body: make([]byte, p.GetSize())}}); err != nil {
				return err
			}
		}
		return nil
	}))
	set := &descriptorpb.FileDescriptorSet{}
	for _, file := range []protoreflect.FileDescriptor{testpb.File_grpc_testing_empty_proto, testpb.File_grpc_testing_messages_proto, testpb.File_grpc_testing_test_proto} {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
	}
	b, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	protoset := filepath.Join(t.TempDir(), "test.protoset")
	if err := os.WriteFile(protoset, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		web, http2 string
		h2         bool
	}{{"binary", "auto", false}, {"binary", "always", true}} {
		trial := measured(t, shopPlan(t, 20, fmt.Sprintf(`name: web
target: {protocol: grpc, url: %q}
design: {rounds: 1}
load:
  closed: {connections: 3}
  http2: {use: %s}
  warmup: 0
  requests: 100
  call: {protoset: %q, web: %s}
  scenario:
    data: {users: {file: users.csv, per: user}}
    steps:
      - name: login
        once: true
        method: grpc.testing.TestService/UnaryCall
        message: '{"fillUsername": true, "payload": {"body": "{{ base64(user) }}"}}'
        extract: {name: $.username, session: {metadata: x-session}, cost: {trailer: x-cost}}
      - name: use
        method: grpc.testing.TestService/UnaryCall
        message: '{"payload": {"body": "{{ base64(name) }}"}}'
        metadata: {x-session: "{{ session }}", x-cost: "{{ cost }}"}
        assert: [{json: $.username, equals: "{{ name }}"}, {trailer: x-cost, exists: true}]
      - name: list
        method: grpc.testing.TestService/StreamingOutputCall
        message: '{"responseParameters": [{"size": 3}, {"size": 5}]}'
        assert: [{json: "$[1].payload.body", equals: AAAAAAA=}]
      - name: refused
        method: grpc.testing.TestService/UnaryCall
        status: UNAUTHENTICATED
`, serve(t, mux, c.h2), c.http2, protoset, c.web)))
		if trial.Counts.OK != 100 || len(trial.Steps) != 4 {
			t.Errorf("%s, %s: %+v, %v", c.web, c.http2, trial.Counts, trial.Failures)
		}
	}
}
