package conformance

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"dyno/load/wire"
	"dyno/load/wire/grpc"
	"dyno/load/wire/tlslayer"
)

// TestDriver has the suite's servers, on connect-go and on grpc-go, answer calls of the load's
// codecs. All cases pass, so that there is no list of those that are known to fail.
func TestDriver(t *testing.T) {
	s := newSuite(t)
	const common = `
  codecs: [CODEC_PROTO]
  compressions: [COMPRESSION_IDENTITY, COMPRESSION_GZIP]
  supportsTls: true
  supportsTlsClientCerts: true
  supportsMessageReceiveLimit: true
`
	for name, of := range map[string]scope{
		"gRPC": {cases: 646, features: `features:
  versions: [HTTP_VERSION_2]
  protocols: [PROTOCOL_GRPC]` + common},
		// It has no streams of the client's.
		"gRPC-Web over HTTP 1.1": {cases: 458, features: `features:
  versions: [HTTP_VERSION_1]
  supportsH2c: false
  protocols: [PROTOCOL_GRPC_WEB]
  streamTypes: [STREAM_TYPE_UNARY, STREAM_TYPE_SERVER_STREAM]` + common},
		"gRPC-Web over HTTP 2": {cases: 458, features: `features:
  versions: [HTTP_VERSION_2]
  protocols: [PROTOCOL_GRPC_WEB]
  streamTypes: [STREAM_TYPE_UNARY, STREAM_TYPE_SERVER_STREAM]` + common},
	} {
		t.Run(name, func(t *testing.T) { s.run(t, of) })
	}
}

// atOnce is how many calls of the suite are made at once: most cases wait for something.
const atOnce = 16

// drive is the suite's client under test: it makes the calls that it is asked for.
func drive(s *schema, in io.Reader, out io.Writer) error {
	var (
		calls  sync.WaitGroup
		places = make(chan struct{}, atOnce)
		mu     sync.Mutex // guards what follows
		failed error
	)
	defer calls.Wait()
	for {
		asked, err := s.read(in, namespace+"ClientCompatRequest")
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		places <- struct{}{}
		calls.Go(func() {
			defer func() { <-places }()
			answer, err := s.answer(asked)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				err = write(out, answer)
			}
			failed = errors.Join(failed, err)
		})
	}
	calls.Wait()
	return failed
}

// answer makes a call and says how it went.
func (s *schema) answer(asked message) (message, error) {
	answer, err := s.make(namespace + "ClientCompatResponse")
	if err != nil {
		return answer, err
	}
	answer.set("test_name", asked.text("test_name"))
	a, err := s.attempt(asked)
	if err == nil {
		err = a.run()
	}
	if err != nil {
		answer.make("error").set("message", err.Error())
		return answer, nil
	}
	return answer, a.report(answer.make("response"))
}

// An attempt is a call that the suite asks for.
type attempt struct {
	asked    message
	method   protoreflect.MethodDescriptor
	messages int // that are to be sent
	names    []string
	config   grpc.Config
	holds    bool // the client's side is never ended
	answered bool // each message is sent when the one before is answered

	deadline, cancel time.Time // of this call; zero without

	payloads        []message
	header, trailer fields
	code            grpc.Code
}

// The fields that say how a call has ended, in addition to its status.
const (
	statusMessage = "grpc-message"
	statusDetails = "grpc-status-details-bin"
)

// The suite's numbers.
const (
	overHTTP2  = 2 // HTTP_VERSION_2
	protoGRPC  = 2 // PROTOCOL_GRPC
	inGzip     = 2 // COMPRESSION_GZIP
	fullDuplex = 5 // STREAM_TYPE_FULL_DUPLEX_BIDI_STREAM
)

// attempt prepares a call.
func (s *schema) attempt(asked message) (*attempt, error) {
	service := strings.TrimSuffix(namespace, ".") + ".ConformanceService"
	if asked.has("service") {
		service = asked.text("service")
	}
	m, err := s.method(service, asked.text("method"))
	if err != nil {
		return nil, err
	}
	a := &attempt{asked: asked, method: m, answered: asked.enum("stream_type") == fullDuplex}
	call := grpc.Call{
		Scheme: "http", Authority: a.address(), Path: "/" + service + "/" + string(m.Name()),
		ClientStream: m.IsStreamingClient(), ServerStream: m.IsStreamingServer(), Gzip: asked.enum("compression") == inGzip,
		Timeout: time.Duration(asked.value("timeout_ms").Uint()) * time.Millisecond, //nolint:gosec // milliseconds in 32 bits
	}
	if a.secure() {
		call.Scheme = "https"
	}
	names := map[string]bool{}
	for _, packed := range asked.all("request_messages") {
		call.Messages = append(call.Messages, packed.bytes("value"))
		unpacked, err := s.unpack(packed)
		if err != nil {
			return nil, err
		}
		unpacked.named(names)
	}
	for name := range names {
		a.names = append(a.names, name)
	}
	a.messages = len(call.Messages)
	for _, f := range asked.fields("request_headers") {
		for _, v := range f.values {
			if strings.HasSuffix(f.name, "-bin") {
				decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(v, "="))
				if err != nil {
					return nil, err
				}
				v = string(decoded)
			}
			call.Metadata = append(call.Metadata, grpc.Metadata{Name: f.name, Value: v})
		}
	}
	if asked.number("request_delay_ms") > 0 && call.ClientStream {
		return nil, errors.New("a delay before messages: no case for clients has one")
	}
	if call.ClientStream {
		a.pace(&call)
	}
	web := grpc.Binary
	if asked.enum("protocol") == protoGRPC {
		web = grpc.Native
	}
	a.config = grpc.Config{
		Calls: []grpc.Call{call}, Web: web, Optimistic: true, MaxMessage: asked.number("message_receive_limit"),
		Check: a.take, Fields: a.names, Trailers: append(slices.Clone(a.names), statusMessage, statusDetails),
	}
	return a, nil
}

// pace says when the messages of a stream are sent. A stream ends with its last message. So a stream that is
// cancelled before its end has one message more than it sends.
func (a *attempt) pace(call *grpc.Call) {
	if a.holds = a.asked.has("cancel") && a.asked.message("cancel").has("before_close_send"); a.holds {
		call.Messages = append(call.Messages, nil)
		call.Paced = true
		return
	}
	call.Lockstep = a.answered
}

// named adds the names of all header fields that a message asks a server for. The codecs deliver
// fields that they are asked for.
func (m message) named(names map[string]bool) {
	if m.Descriptor().FullName() == namespace+"Header" {
		names[strings.ToLower(m.text("name"))] = true
		return
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Name() == "text": // trailers of gRPC-Web, as they stand in the content
			for line := range strings.Lines(v.String()) {
				if name, _, found := strings.Cut(line, ":"); found && !strings.ContainsAny(name, `"{ `) {
					names[strings.ToLower(name)] = true
				}
			}
		case f.Message() == nil || f.IsMap():
		case f.IsList():
			for i := range v.List().Len() {
				message{v.List().Get(i).Message()}.named(names)
			}
		default:
			message{v.Message()}.named(names)
		}
		return true
	})
	for own := range names {
		if strings.HasPrefix(own, "grpc-") || own == "content-type" {
			delete(names, own) // of the protocol, not metadata
		}
	}
}

func (a *attempt) secure() bool { return len(a.asked.bytes("server_tls_cert")) > 0 }

func (a *attempt) address() string {
	return net.JoinHostPort(a.asked.text("host"), strconv.Itoa(a.asked.number("port")))
}

// take takes a message of the response. One that is none of the method's is refused, as by dyno
// grpc --check.
func (a *attempt) take(_ int, content []byte) error {
	m := message{dynamicpb.NewMessage(a.method.Output())}
	if err := proto.Unmarshal(content, m.Interface()); err != nil {
		return errors.New("it is not what the method answers with")
	}
	a.payloads = append(a.payloads, m)
	return nil
}

// callTimeout bounds a call that has no deadline. No case takes so long.
const callTimeout = time.Minute

// run makes the call.
func (a *attempt) run() error {
	p, err := a.connect()
	if err != nil {
		return err
	}
	defer p.close()
	now := time.Now()
	if d := a.config.Calls[0].Timeout; d > 0 {
		a.deadline = now.Add(d)
	}
	p.until = now.Add(callTimeout)
	if a.asked.enum("http_version") == overHTTP2 {
		return a.two(p)
	}
	return a.one(p)
}

// over tells whether the call is to be given up now, and notes why.
func (a *attempt) over() bool {
	now := time.Now()
	switch cancel := a.asked.message("cancel"); {
	case !a.deadline.IsZero() && !now.Before(a.deadline):
		a.code = grpc.DeadlineExceeded
	case !a.asked.has("cancel"):
		return false
	case cancel.has("after_num_responses"):
		if len(a.payloads) < cancel.number("after_num_responses") {
			return false
		}
		a.code = grpc.Cancelled
	case a.answered && len(a.payloads) < a.messages:
		return false // not all are sent
	case a.holds:
		a.code = grpc.Cancelled
	default:
		if a.cancel.IsZero() {
			a.cancel = now.Add(time.Duration(cancel.number("after_close_send_ms")) * time.Millisecond)
		}
		if now.Before(a.cancel) {
			return false
		}
		a.code = grpc.Cancelled
	}
	return true
}

// next is until when may be waited.
func (a *attempt) next(until time.Time) time.Time {
	for _, t := range []time.Time{a.deadline, a.cancel} {
		if !t.IsZero() && t.Before(until) {
			until = t
		}
	}
	return until
}

// two makes the call over HTTP/2.
func (a *attempt) two(p *peer) error {
	template, err := grpc.NewTemplate(a.config)
	if err != nil {
		return err
	}
	client := template.Client()
	client.Reset()
	if err := client.Begin(0, 0, nil); err != nil {
		return err
	}
	if a.holds && !a.answered {
		for range a.messages - 1 {
			client.Next(0)
		}
	}
	// take takes an event, and tells whether the call is over.
	take := func(e wire.MuxEvent) bool {
		a.note(client.Fields())
		switch e.Kind {
		case wire.MuxEnded, wire.MuxFailed, wire.MuxRefused:
			a.code = grpc.Code(e.Status) //nolint:gosec // codes are small
			if e.Err != nil && e.Err.Kind == wire.Reset && !a.deadline.IsZero() && !time.Now().Before(a.deadline) {
				a.code = grpc.DeadlineExceeded // as the engine has it: the server has only noticed first
			}
			return true
		case wire.MuxMessage:
			if a.over() {
				client.Cancel(0)
				return true
			}
			if a.holds && a.answered {
				client.Next(0)
			}
		}
		return false
	}
	for {
		for out := client.Output(); len(out) > 0; out = client.Output() {
			if err := p.write(out); err != nil {
				break // reading says why
			}
			client.Wrote(len(out))
		}
		if a.over() {
			client.Cancel(0)
			return p.write(client.Output())
		}
		data, err := p.read(a.next(p.until))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if time.Now().After(p.until) {
				return errors.New("no end of the call")
			}
			err = nil
		}
		for {
			var e wire.MuxEvent
			n, broken := client.Input(data, &e)
			if take(e) {
				return p.write(client.Output())
			}
			data = data[n:]
			if broken != nil {
				err = broken
			}
			if e.Kind == wire.MuxNothing {
				break
			}
		}
		if err == nil {
			continue
		}
		for e := client.End(); e.Kind != wire.MuxNothing; e = client.End() {
			if take(e) {
				return nil
			}
		}
		return fmt.Errorf("the connection ends without a word of the call: %w", err)
	}
}

// one makes the call over HTTP/1.1.
func (a *attempt) one(p *peer) error {
	template, err := grpc.NewWebTemplate(a.config)
	if err != nil {
		return err
	}
	client := template.WebClient()
	client.Reset()
	if err := p.write(client.Request()); err != nil {
		return err
	}
	for !a.over() {
		data, err := p.read(a.next(p.until))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if time.Now().After(p.until) {
				return errors.New("no end of the call")
			}
			continue
		}
		_, done, broken := client.Response(data)
		ended := done || broken != nil
		if !ended && a.over() {
			break
		}
		if !ended && err != nil {
			_ = client.End() // what it says is in the status
			ended = true
		}
		if ended {
			a.note(client.Fields())
			a.code = grpc.Code(client.Status()) //nolint:gosec // codes are small
			return nil
		}
	}
	return nil
}

// note takes fields of a response.
func (a *attempt) note(all []wire.MuxField) {
	for _, f := range all {
		if f.Name < len(a.config.Fields) {
			a.header.add(a.config.Fields[f.Name], string(f.Value))
		} else {
			a.trailer.add(a.config.Trailers[f.Name-len(a.config.Fields)], string(f.Value))
		}
	}
}

// report says how the call went.
func (a *attempt) report(to message) error {
	to.setFields("response_headers", a.header)
	var metadata fields
	for _, f := range a.trailer {
		if f.name != statusMessage && f.name != statusDetails {
			metadata = append(metadata, f)
		}
	}
	to.setFields("response_trailers", metadata)
	if a.code == grpc.OK || a.method.IsStreamingServer() {
		for _, m := range a.payloads {
			if m.Descriptor().Fields().ByName("payload") != nil {
				to.add("payloads").copy(m.message("payload"))
			}
		}
	}
	if a.code == grpc.OK {
		return nil
	}
	failure := to.make("error")
	failure.set("code", protoreflect.EnumNumber(a.code))
	text := a.trailer.get(statusMessage)
	if unescaped, err := url.PathUnescape(text); err == nil {
		text = unescaped
	}
	failure.set("message", text)
	details, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(a.trailer.get(statusDetails), "="))
	if err != nil {
		return err
	}
	for len(details) > 0 { // a google.rpc.Status, whose third field holds them
		number, kind, n := protowire.ConsumeTag(details)
		if n < 0 {
			return protowire.ParseError(n)
		}
		size := protowire.ConsumeFieldValue(number, kind, details[n:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		if number == 3 {
			detail, _ := protowire.ConsumeBytes(details[n:])
			if err := proto.Unmarshal(detail, failure.add("details").Interface()); err != nil {
				return err
			}
		}
		details = details[n+size:]
	}
	return nil
}

// A peer is the suite's server, at the other end of a connection.
type peer struct {
	conn    net.Conn
	layer   *tlslayer.Conn // nil without TLS
	in, out []byte
	early   []byte // data that came with the end of the handshake
	until   time.Time
}

// connect opens a connection, and carries out the handshake of TLS if there is to be one.
func (a *attempt) connect() (*peer, error) {
	conn, err := net.DialTimeout("tcp", a.address(), callTimeout)
	if err != nil {
		return nil, err
	}
	p := &peer{conn: conn, in: make([]byte, 64<<10)}
	if a.secure() {
		if err := p.shake(a.asked); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

func (p *peer) shake(asked message) error {
	config := tlslayer.Config{
		ServerName: asked.text("host"), ALPN: []string{"http/1.1"},
		CA: tlslayer.File{Name: "server.pem", Data: asked.bytes("server_tls_cert")},
	}
	if asked.enum("http_version") == overHTTP2 {
		config.ALPN = []string{"h2"}
	}
	if asked.has("client_tls_creds") {
		own := asked.message("client_tls_creds")
		config.Certificate = tlslayer.File{Name: "client.pem", Data: own.bytes("cert")}
		config.Key = tlslayer.File{Name: "client.key", Data: own.bytes("key")}
	}
	context, err := tlslayer.NewContext(config)
	if err != nil {
		return err
	}
	p.layer = context.Conn()
	if p.out, err = p.layer.Start(nil); err != nil {
		return err
	}
	for p.layer.State() != tlslayer.Established {
		if _, err := p.conn.Write(p.out); err != nil {
			return err
		}
		if p.early, err = p.read(time.Now().Add(callTimeout)); err != nil {
			return err
		}
	}
	p.early = slices.Clone(p.early)
	return nil
}

func (p *peer) close() {
	if p.layer != nil {
		p.layer.Reset()
	}
	p.conn.Close()
}

// write writes what is to be sent, and what TLS has to say before it.
func (p *peer) write(data []byte) (err error) {
	if p.layer == nil {
		_, err = p.conn.Write(data)
		return err
	}
	if p.out, err = p.layer.Seal(p.out, data); err != nil {
		return err
	}
	_, err = p.conn.Write(p.out)
	p.out = p.out[:0]
	return err
}

// read returns what has come, waiting for it until some time.
func (p *peer) read(until time.Time) (data []byte, err error) {
	if len(p.early) > 0 {
		data, p.early = p.early, nil
		return data, nil
	}
	if err := p.conn.SetReadDeadline(until); err != nil {
		return nil, err
	}
	n, err := p.conn.Read(p.in)
	if p.layer == nil || n == 0 {
		return p.in[:n], err
	}
	data, broken := p.layer.Open(p.in[:n])
	p.out = p.layer.Flush(p.out[:0])
	if broken != nil {
		err = broken
	}
	return data, err
}
