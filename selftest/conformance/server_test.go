package conformance

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"dyno/experiments/subjects/grpcloop/calls"
	"dyno/experiments/subjects/grpcloop/http2"
	"dyno/experiments/subjects/grpcloop/reactor"
	"dyno/services/echo/rpc/go/program"
)

// TestLoop has the suite's clients, on connect-go and on grpc-go, call its service on the event
// loops of the echo.
func TestLoop(t *testing.T) {
	newSuite(t).run(t, "server", "loop", scope{features: `features:
  versions: [HTTP_VERSION_2]
  protocols: [PROTOCOL_GRPC]
  codecs: [CODEC_PROTO]
  compressions: [COMPRESSION_IDENTITY, COMPRESSION_GZIP]
  supportsH2c: true
  supportsTls: false
  supportsMessageReceiveLimit: true
`, cases: 374})
}

// maxMessage is what a server accepts where the suite says nothing.
const maxMessage = 4 << 20

// serve is the suite's server under test: it serves until it is asked to end.
func serve(s *schema, in io.Reader, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	asked, err := s.read(in, namespace+"ServerCompatRequest")
	if err != nil {
		return err
	}
	service, err := newService(s)
	if err != nil {
		return err
	}
	options := program.Options{Listeners: 1, MaxMessage: maxMessage}
	if limit := asked.number("message_receive_limit"); limit > 0 {
		options.MaxMessage = limit
	}
	server, err := reactor.New(reactor.Config{Loops: 2, Options: options, Service: service})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve([]net.Listener{l}) }()
	answer, err := s.make(namespace + "ServerCompatResponse")
	if err != nil {
		return err
	}
	at := l.Addr().(*net.TCPAddr)
	answer.set("host", at.IP.String())
	answer.set("port", uint32(at.Port)) //nolint:gosec // 16 bits
	if err := write(out, answer); err != nil {
		return err
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	server.Drain(drain)
	return <-ended
}

// A service is the suite's, as its .proto file describes it.
type service struct {
	schema  *schema
	methods []protoreflect.MethodDescriptor
	paths   []string
}

var _ calls.Service = (*service)(nil)

// newService has all methods but the one that must not be there.
func newService(s *schema) (*service, error) {
	v := &service{schema: s}
	for _, name := range []string{"Unary", "IdempotentUnary", "ServerStream", "ClientStream", "BidiStream"} {
		const path = namespace + "ConformanceService"
		m, err := s.method(path, name)
		if err != nil {
			return nil, err
		}
		v.methods, v.paths = append(v.methods, m), append(v.paths, "/"+path+"/"+name)
	}
	return v, nil
}

func (v *service) Methods() []string       { return v.paths }
func (v *service) Streams(method int) bool { return v.methods[method].IsStreamingClient() }

// A conversation is what the service knows of a call.
type conversation struct {
	calls.Call
	method     protoreflect.MethodDescriptor
	definition message   // of the answers, in the first request
	requests   []message // each a google.protobuf.Any, those that no answer has reported yet
	answers    int
	reported   bool // an answer has reported the call's metadata
}

// Statuses of gRPC.
const (
	ok       = 0
	internal = 13
)

// conversation returns what is known of a call. Each has it in a place of its own.
func (v *service) conversation(c calls.Call) *conversation {
	k, known := (*c.State()).(*conversation)
	if !known {
		k = &conversation{method: v.methods[c.Method()]}
		*c.State() = k
	}
	k.Call = c
	return k
}

// Message takes a request.
func (v *service) Message(c calls.Call, b []byte) {
	k := v.conversation(c)
	m := message{dynamicpb.NewMessage(k.method.Input())}
	packed, err := v.pack(k.method, b)
	if err == nil {
		err = proto.Unmarshal(b, m.Interface())
	}
	if err != nil {
		c.End(0, internal, err.Error())
		return
	}
	if k.definition.Message == nil {
		k.definition = m.message("response_definition")
		k.Add(headers(k.definition, "response_headers"), headers(k.definition, "response_trailers"))
		if k.method.IsStreamingServer() {
			c.Respond()
		}
		// Whether messages follow one request each is said by the first one.
		if full := m.Descriptor().Fields().ByName("full_duplex"); full != nil && m.Get(full).Bool() {
			k.answers = 0
		} else {
			k.answers = later
		}
	}
	k.requests = append(k.requests, packed)
	switch {
	case !k.method.IsStreamingClient():
		v.finish(k)
	case k.answers == later || !k.method.IsStreamingServer():
	case k.answers < k.definition.value("response_data").List().Len():
		v.stream(k, k.answers+1)
	default:
		v.end(k)
	}
}

// later is the number of answers of a call that is answered when its client has ended.
const later = -1

// Ended finishes calls of clients that may send any number of messages.
func (v *service) Ended(c calls.Call) { v.finish(v.conversation(c)) }

// finish sends all answers that are left, and the end.
func (v *service) finish(k *conversation) {
	if k.definition.Message == nil { // there was no request
		if !k.method.IsStreamingServer() {
			k.Answer(0, v.payload(k, nil))
		}
		k.End(0, ok, "")
		return
	}
	if k.method.IsStreamingServer() {
		k.answers = max(k.answers, 0)
		v.stream(k, k.definition.value("response_data").List().Len())
		v.end(k)
		return
	}
	delay := time.Duration(k.definition.number("response_delay_ms")) * time.Millisecond
	if k.definition.has("error") {
		v.fail(k, delay)
		return
	}
	k.Answer(delay, v.payload(k, k.definition.bytes("response_data")))
	k.End(0, ok, "")
}

// stream sends the messages of a stream up to a number.
func (v *service) stream(k *conversation, to int) {
	delay := time.Duration(k.definition.number("response_delay_ms")) * time.Millisecond
	for data := k.definition.value("response_data").List(); k.answers < to; k.answers++ {
		k.Answer(delay, v.payload(k, data.Get(k.answers).Bytes()))
	}
}

// end ends a stream as it was asked to.
func (v *service) end(k *conversation) {
	if k.definition.has("error") {
		v.fail(k, 0)
		return
	}
	k.End(0, ok, "")
}

// fail ends a call with the error that it asked for. If there was no answer, what is known of the
// call goes with it.
func (v *service) fail(k *conversation, delay time.Duration) {
	failure := k.definition.message("error")
	var status []byte                                                                                                   // a google.rpc.Status
	status = protowire.AppendVarint(protowire.AppendTag(status, 1, protowire.VarintType), uint64(failure.enum("code"))) //nolint:gosec // a small number
	status = protowire.AppendString(protowire.AppendTag(status, 2, protowire.BytesType), failure.text("message"))
	details := failure.all("details")
	if !k.reported {
		p := message{dynamicpb.NewMessage(v.payloadOf(k))}
		v.tell(k, p.make("request_info"))
		info := p.message("request_info")
		content, err := proto.Marshal(info.Interface())
		if err == nil {
			var packed message
			if packed, err = v.schema.make("google.protobuf.Any"); err == nil {
				packed.set("type_url", typePrefix+string(info.Descriptor().FullName()))
				packed.set("value", content)
				details = append(details, packed)
			}
		}
		if err != nil {
			k.End(0, internal, err.Error())
			return
		}
	}
	for _, d := range details {
		content, err := proto.Marshal(d.Interface())
		if err != nil {
			k.End(0, internal, err.Error())
			return
		}
		status = protowire.AppendBytes(protowire.AppendTag(status, 3, protowire.BytesType), content)
	}
	k.Add(nil, []http2.Field{{Name: statusDetails, Value: base64.RawStdEncoding.EncodeToString(status)}})
	k.End(delay, uint32(failure.enum("code")), failure.text("message")) //nolint:gosec // a small number
}

func (v *service) payloadOf(k *conversation) protoreflect.MessageDescriptor {
	return k.method.Output().Fields().ByName("payload").Message()
}

// payload returns an answer with some data, and what must be reported of the call.
func (v *service) payload(k *conversation, data []byte) []byte {
	m := message{dynamicpb.NewMessage(k.method.Output())}
	p := m.make("payload")
	if len(data) > 0 {
		p.set("data", data)
	}
	if !k.reported || len(k.requests) > 0 {
		v.tell(k, p.make("request_info"))
	}
	b, err := proto.Marshal(m.Interface())
	if err != nil {
		panic(fmt.Sprintf("a message of this program's: %v", err))
	}
	return b
}

// tell says what is known of a call and was not reported yet.
func (v *service) tell(k *conversation, info message) {
	if !k.reported {
		k.reported = true
		var all fields
		for _, f := range k.Fields() {
			all.add(f.Name, f.Value)
		}
		info.setFields("request_headers", all)
		if d := k.Timeout(); d > 0 {
			info.set("timeout_ms", d.Milliseconds())
		}
	}
	for _, m := range k.requests {
		info.add("requests").copy(m)
	}
	k.requests = nil
}

const typePrefix = "type.googleapis.com/"

// pack returns a request as a google.protobuf.Any.
func (v *service) pack(m protoreflect.MethodDescriptor, b []byte) (message, error) {
	packed, err := v.schema.make("google.protobuf.Any")
	if err != nil {
		return packed, err
	}
	packed.set("type_url", typePrefix+string(m.Input().FullName()))
	packed.set("value", slices.Clone(b))
	return packed, nil
}

// headers returns the fields that a message asks for.
func headers(m message, name string) (all []http2.Field) {
	for _, f := range m.fields(name) {
		for _, v := range f.values {
			all = append(all, http2.Field{Name: strings.ToLower(f.name), Value: v})
		}
	}
	return all
}
