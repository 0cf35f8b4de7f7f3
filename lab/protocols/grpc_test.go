package protocols

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"dyno/lab/plan"
	"dyno/load/scenario"
	"dyno/load/wire/grpc"
	"dyno/load/wire/http1"
)

// ofGRPC is a variant with a call of a method of testdata/echo.proto, which has one of each kind.
func ofGRPC(t *testing.T, method string, change func(*plan.Variant)) *plan.Variant {
	t.Helper()
	v := plan.DefaultVariant(plan.GRPC)
	v.Target.URL, v.Target.Address = "http://127.0.0.1:1", "127.0.0.1:1"
	v.Load.Call.Method, v.Load.Call.Protos = method, []string{"testdata/echo.proto"}
	if change != nil {
		change(&v)
	}
	return &v
}

// A call is encoded as the description of its service says, and sent as the plan says.
func TestCallCodecs(t *testing.T) {
	for _, c := range []struct {
		name     string
		variant  *plan.Variant
		want     []string // in what a connection begins with and the first call
		messages *Messages
	}{
		{"unary", ofGRPC(t, "t.Echo/Say", func(v *plan.Variant) { v.Load.Call.Message = `{"text": "hello"}` }), []string{"\x00\x00\x00\x00\x07\x0a\x05hello"}, nil},
		{"dots", ofGRPC(t, "t.Echo.Say", nil), []string{"\x00\x00\x00\x00\x00"}, nil},
		{"stream", ofGRPC(t, "t.Echo/Collect", func(v *plan.Variant) { v.Load.Call.Message = `[{"text": "a"}, {"text": "b"}]` }),
			[]string{"\x00\x00\x00\x00\x03\x0a\x01a", "\x00\x00\x00\x00\x03\x0a\x01b"}, &Messages{}},
		{"lockstep", ofGRPC(t, "t.Echo/Chat", func(v *plan.Variant) { v.Load.Call.Messages = 3 }), nil, &Messages{Answered: true}},
		{"pace", ofGRPC(t, "t.Echo/Chat", func(v *plan.Variant) { v.Load.Call.Interval, v.Load.Call.Answered = time.Second, false }), nil, &Messages{Interval: time.Second}},
		{"rows", ofGRPC(t, "t.Echo/Say", func(v *plan.Variant) {
			v.Load.Call.Message, v.Load.Call.Data = `{"text": "{{ email }}"}`, []scenario.Data{plan.DefaultData("users", "../planfile/testdata/data/users.csv")}
		}), []string{"\x00\x00\x00\x00\x11\x0a\x0fbob@example.com"}, nil}, // the second worker's first
		{"made up", ofGRPC(t, "t.Echo/Say", func(v *plan.Variant) { v.Load.Call.Message = `{"text": "{{ counter() }}"}` }), []string{"\x00\x00\x00\x00\x03\x0a\x011"}, nil},
		{"kind", ofGRPC(t, "x/Y", func(v *plan.Variant) {
			c := v.Load.Call
			c.Protos, c.Kind, c.BinaryFile = nil, plan.KindUnary, c.Protos[0]
		}), []string{"service Echo"}, nil},
	} {
		codecs, err := CodecsOf(t.Context(), c.variant, 1, 2)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if codecs.Clients != nil || codecs.Exchanges != 1 || codecs.TLS != nil {
			t.Errorf("%s: clients %t, %d exchanges", c.name, codecs.Clients != nil, codecs.Exchanges)
		}
		m := codecs.Muxes(1)()
		m.Reset()
		if err := m.Begin(0, 0, nil); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		out := m.Output()
		for _, want := range c.want {
			if !bytes.Contains(out, []byte(want)) {
				t.Errorf("%s: %q, want %q in it", c.name, out, want)
			}
		}
		if (codecs.Messages == nil) != (c.messages == nil) || c.messages != nil && *codecs.Messages != *c.messages {
			t.Errorf("%s: messages %+v, want %+v", c.name, codecs.Messages, c.messages)
		}
		if !strings.HasPrefix(codecs.TimedOut.Text, "grpc DEADLINE_EXCEEDED") {
			t.Errorf("%s: %v", c.name, codecs.TimedOut)
		}
	}
}

func TestStatusName(t *testing.T) {
	for _, c := range []struct {
		protocol string
		status   int
		want     string
	}{
		{plan.GRPC, 0, "OK"}, {plan.GRPC, 14, "UNAVAILABLE"}, {plan.GRPC, 99, "unknown code"}, {plan.GRPC, -1, "OK"}, {plan.HTTP, 404, "404"}, {plan.LLM, 200, "200"},
	} {
		if got := StatusName(c.protocol, c.status); got != c.want {
			t.Errorf("%s %d: %s, want %s", c.protocol, c.status, got, c.want)
		}
	}
}

// gRPC-Web is spoken in the version of HTTP that the plan says.
func TestWebCodecs(t *testing.T) {
	for _, c := range []struct {
		url, use string
		one, two bool
	}{
		{"http://127.0.0.1:1", plan.HTTP2Auto, true, false},
		{"http://127.0.0.1:1", plan.HTTP2Always, false, true},
		{"https://127.0.0.1:1", plan.HTTP2Auto, true, true},
		{"https://127.0.0.1:1", plan.HTTP2Never, true, false},
	} {
		codecs, err := CodecsOf(t.Context(), ofGRPC(t, "t.Echo/Expand", func(v *plan.Variant) {
			v.Target.URL, v.Load.HTTP2.Use, v.Load.Call.Web = c.url, c.use, plan.WebText
			v.Load.Call.Check = true
			v.Target.TLS = &plan.TLS{Insecure: true}
		}), 1, 1)
		if err != nil {
			t.Errorf("%s, %s: %v", c.url, c.use, err)
			continue
		}
		if one, two := codecs.Clients != nil, codecs.Muxes != nil; one != c.one || two != c.two || (codecs.TLS != nil) != strings.HasPrefix(c.url, "https") {
			t.Errorf("%s, %s: HTTP/1.1 %t, HTTP/2 %t, TLS %t", c.url, c.use, one, two, codecs.TLS != nil)
		}
		if codecs.Clients != nil {
			client := codecs.Clients(0)()
			client.Reset()
			if got := client.Request(); !bytes.HasPrefix(got, []byte("POST /t.Echo/Expand HTTP/1.1\r\n")) || !bytes.HasSuffix(got, []byte("AAAAAAA=")) {
				t.Errorf("%s, %s: %q", c.url, c.use, got)
			}
		}
	}
}

// A server that never says what it offers is asked until the context ends.
func TestAskingEndsWithItsContext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	for name, steps := range map[string][]scenario.Step{"a call": nil, "a scenario": {{Name: "say", Method: "t.Echo/Say"}}} {
		v := ofGRPC(t, "t.Echo/Say", func(v *plan.Variant) {
			v.Target.URL, v.Target.Address = "http://"+listener.Addr().String(), listener.Addr().String()
			v.Load.Call.Protos = nil
			if steps != nil {
				v.Load.Scenario = &scenario.Spec{Steps: steps}
			}
		})
		ctx, interrupt := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := CodecsOf(ctx, v, 1, 1)
			failed <- err
		}()
		silent, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		interrupt()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", name, err, context.Canceled)
		}
		_ = silent.Close()
	}
}

// Faults that a call's description reveals are reported with the field.
func TestCallFaults(t *testing.T) {
	for _, c := range []struct {
		method string
		change func(c *plan.Call)
		want   string
	}{
		{"t.Echo/Sey", nil, `did you mean "Say"?`},
		{"t.Echo/Say", func(c *plan.Call) { c.Message = `{"txet": "a"}` }, "load.call.message: "},
		{"t.Echo/Say", func(c *plan.Call) { c.Message = `{"text": "{{ nobody }}"}` }, "load.call.message: "},
		{"t.Echo/Say", func(c *plan.Call) {
			c.Message, c.Data = `{"text": {{ email }}}`, []scenario.Data{plan.DefaultData("users", "../planfile/testdata/data/users.csv")}
		}, "load.call.message: row 1: "},
		{"t.Echo/Say", func(c *plan.Call) { c.Data = []scenario.Data{plan.DefaultData("users", "testdata/none")} }, "load.call.data.users.file: "},
		{"t.Echo/Say", func(c *plan.Call) { c.Messages = 2 }, "load.call.messages: 2 messages: the method takes one"},
		{"t.Echo/Say", func(c *plan.Call) { c.Interval = time.Second }, "load.call.interval: "},
		{"t.Echo/Chat", func(c *plan.Call) { c.Web = plan.WebBinary }, "gRPC-Web has none"},
		{"t.Echo/Say", func(c *plan.Call) { c.Metadata = []scenario.Header{{Name: "grpc-timeout", Value: "1S"}} }, "the protocol sets this one itself"},
		{"t.Echo/Say", func(c *plan.Call) { c.MessageFile = "testdata/none" }, "load.call.message_file: "},
		{"t.Echo/Say", func(c *plan.Call) { c.Protos = []string{"testdata/none.proto"} }, "load.call: "},
	} {
		v := ofGRPC(t, c.method, func(v *plan.Variant) {
			if c.change != nil {
				c.change(v.Load.Call)
			}
		})
		if _, err := CodecsOf(t.Context(), v, 1, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.method, err, c.want)
		}
	}
}

// A check refuses responses that the method does not have.
func TestCallCheck(t *testing.T) {
	v := ofGRPC(t, "t.Echo/Say", func(v *plan.Variant) { v.Load.Call.Check = true })
	end := endOf(t, v)
	p, err := call{v.Load.Call}.prepare(t.Context(), v, end, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.check(0, []byte("\x0a\x02ok")); err != nil {
		t.Error(err)
	}
	if err := p.check(0, []byte("\x0a\x05ok")); err == nil {
		t.Error("a message that is cut short passes")
	}
	if p.call.Path != "/t.Echo/Say" || p.call.Validate(grpc.Native) != nil {
		t.Errorf("%+v", p.call)
	}
}

func endOf(t *testing.T, v *plan.Variant) http1.Endpoint {
	t.Helper()
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		t.Fatal(err)
	}
	return end
}
