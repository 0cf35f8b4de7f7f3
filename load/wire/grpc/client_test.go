package grpc

import (
	"bytes"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"dyno/load/wire"
	"dyno/load/wire/wiretest"
)

// TestResponses holds what each response means, however its bytes are cut.
func TestResponses(t *testing.T) {
	message := func(s string) []byte { return AppendMessage(nil, []byte(s), false) }
	zipped := func(s string) []byte { return AppendMessage(nil, compress([]byte(s)), true) }
	ended := func(status Code, err string) outcome {
		return outcome{kind: wire.MuxEnded, status: int16(status), err: err}
	}
	failed := func(status Code, err string) outcome {
		return outcome{kind: wire.MuxFailed, status: int16(status), err: err}
	}
	withEncoding := append(slices.Clone(goodHead), "grpc-encoding", "gzip")
	for _, tt := range []struct {
		name   string
		change func(*Config)
		frames *frames
		want   outcome
	}{
		{"good", nil, new(frames).answer(1, "answer"), ended(OK, "")},
		{"empty message", nil, new(frames).answer(1, ""), ended(OK, "")},
		{"message in two frames", nil, new(frames).header(1, false, goodHead...).data(1, false, message("answer")[:7]).
			data(1, false, message("answer")[7:]).header(1, true, "grpc-status", "0"), ended(OK, "")},
		{"status", nil, new(frames).header(1, false, goodHead...).header(1, true, "grpc-status", "14"),
			ended(Unavailable, "status: grpc UNAVAILABLE")},
		{"trailers only", nil, new(frames).header(1, true, append(slices.Clone(goodHead), "grpc-status", "5", "grpc-message", "no%20such%E2%80%A6")...),
			ended(NotFound, "status: grpc NOT_FOUND: no such…")},
		{"status in the header, content after it", nil, new(frames).header(1, false, append(slices.Clone(goodHead), "grpc-status", "5")...).
			data(1, true, nil), ended(NotFound, "status: grpc NOT_FOUND")},
		{"status in the header, a message after it", nil, new(frames).header(1, false, append(slices.Clone(goodHead), "grpc-status", "5")...).
			data(1, true, message("answer")), failed(Unknown, "protocol: grpc UNKNOWN: response without grpc-status")},
		{"status in the header, trailers without one", nil, new(frames).header(1, false, append(slices.Clone(goodHead), "grpc-status", "0")...).
			header(1, true, "x", "y"), failed(Unknown, "protocol: grpc UNKNOWN: response without grpc-status")},
		{"status in the header and in the trailers", nil, new(frames).header(1, false, append(slices.Clone(goodHead), "grpc-status", "5")...).
			data(1, false, message("answer")).header(1, true, "grpc-status", "0"), ended(OK, "")},
		{"details", nil, new(frames).header(1, false, goodHead...).header(1, true, "grpc-status", "3", "grpc-message", "no", "grpc-status-details-bin",
			base64.RawStdEncoding.EncodeToString([]byte("\x08\x03\x12\x02no\x1a\x06\x0a\x04/a.B"))), ended(InvalidArgument, "status: grpc INVALID_ARGUMENT: no (a.B)")},
		{"code that gRPC does not have", nil, new(frames).header(1, true, append(slices.Clone(goodHead), "grpc-status", "99", "grpc-message", "x")...),
			ended(Unknown, "status: grpc UNKNOWN: code 99: x")},
		{"judged by somebody else", func(c *Config) { c.Judged = true }, new(frames).header(1, true, append(slices.Clone(goodHead), "grpc-status", "7")...),
			ended(PermissionDenied, "")},
		{"HTTP status", nil, new(frames).header(1, false, ":status", "503", "content-type", "text/html").data(1, true, []byte("<html>")),
			ended(Unavailable, "status: grpc UNAVAILABLE: HTTP status 503 without grpc-status")},
		{"HTTP status together with a status", nil, new(frames).header(1, true, ":status", "500", "content-type", "application/grpc", "grpc-status", "8"),
			ended(ResourceExhausted, "status: grpc RESOURCE_EXHAUSTED")},

		{"status that is not a number", nil, new(frames).header(1, true, append(slices.Clone(goodHead), "grpc-status", "two")...),
			failed(Unknown, "protocol: grpc UNKNOWN: grpc-status that is not a number")},
		{"content of another type", nil, new(frames).header(1, false, ":status", "200", "content-type", "text/html").data(1, true, []byte("<html>")),
			failed(Unknown, "protocol: grpc UNKNOWN: response whose content-type is not gRPC's")},
		{"no trailers", nil, new(frames).header(1, false, goodHead...).data(1, true, message("answer")),
			failed(Unknown, "protocol: grpc UNKNOWN: response without grpc-status")},
		{"no message", nil, new(frames).answer(1), failed(Unimplemented, "protocol: grpc UNIMPLEMENTED: no message in a response that has one")},
		{"two messages", nil, new(frames).answer(1, "a", "b"), failed(Unimplemented, "protocol: grpc UNIMPLEMENTED: more than one message in a response that has one")},
		{"cut short", nil, new(frames).header(1, false, goodHead...).data(1, false, message("answer")[:8]).header(1, true, "grpc-status", "0"),
			failed(Internal, "protocol: grpc INTERNAL: response that ends inside a message")},
		{"cut short, with a status", nil, new(frames).header(1, false, goodHead...).data(1, false, message("answer")[:8]).header(1, true, "grpc-status", "13"),
			ended(Internal, "status: grpc INTERNAL")},
		{"too large", func(c *Config) { c.MaxMessage = 5 }, new(frames).answer(1, "answer"),
			failed(ResourceExhausted, "limit: grpc RESOURCE_EXHAUSTED: message of 6 bytes is larger than the limit, which is 5 bytes: --max-message raises it")},
		{"64 MiB announced", nil, new(frames).header(1, false, goodHead...).data(1, false, []byte{0, 4, 0, 0, 0}),
			failed(ResourceExhausted, "limit: grpc RESOURCE_EXHAUSTED: message of 64 MiB is larger than the limit, which is 4 MiB: --max-message raises it")},
		{"unknown flag", nil, new(frames).header(1, false, goodHead...).data(1, false, []byte{2, 0, 0, 0, 0}),
			failed(Internal, "protocol: grpc INTERNAL: message with a flag that gRPC does not have")},
		{"trailers in the content", nil, new(frames).header(1, false, goodHead...).data(1, false, trailersFrame("grpc-status: 0\r\n")),
			failed(Internal, "protocol: grpc INTERNAL: message with a flag that gRPC does not have")},

		{"compressed", nil, new(frames).header(1, false, withEncoding...).data(1, false, zipped("answer")).header(1, true, "grpc-status", "0"), ended(OK, "")},
		{"compressed, without saying so", nil, new(frames).header(1, false, goodHead...).data(1, false, zipped("answer")),
			failed(Internal, "protocol: grpc INTERNAL: compressed message without grpc-encoding")},
		{"compressed in another way", nil, new(frames).header(1, false, append(slices.Clone(goodHead), "grpc-encoding", "zstd")...).data(1, false, zipped("answer")),
			failed(Internal, "protocol: grpc INTERNAL: message compressed in a way that was not offered")},
		{"compressed though nothing was offered", func(c *Config) { c.Plain = true }, new(frames).header(1, false, withEncoding...).data(1, false, zipped("answer")),
			failed(Internal, "protocol: grpc INTERNAL: message compressed in a way that was not offered")},
		{"damaged compression", nil, new(frames).header(1, false, withEncoding...).data(1, false, AppendMessage(nil, []byte("no gzip"), true)),
			failed(Internal, "protocol: grpc INTERNAL: message whose compression is damaged")},
		{"compressed too large", func(c *Config) { c.MaxMessage = 1000 }, new(frames).header(1, false, withEncoding...).data(1, false, zipped(strings.Repeat("a", 1001))),
			failed(ResourceExhausted, "limit: grpc RESOURCE_EXHAUSTED: message larger than the limit, which is 1000 bytes: --max-message raises it")},
		{"compressed, as large as may be", func(c *Config) { c.MaxMessage = 1000 },
			new(frames).header(1, false, withEncoding...).data(1, false, zipped(strings.Repeat("a", 1000))).header(1, true, "grpc-status", "0"), ended(OK, "")},

		{"refused by a check", func(c *Config) { c.Check = func(int, []byte) error { return errors.New("no such field") } }, new(frames).answer(1, "answer"),
			failed(Internal, "assertion: grpc INTERNAL: message refused: no such field")},
		{"passed by a check", func(c *Config) {
			c.Check = func(call int, m []byte) error {
				if call != 0 || string(m) != "answer" {
					return errors.New("not the answer")
				}
				return nil
			}
		}, new(frames).header(1, false, withEncoding...).data(1, false, zipped("answer")).header(1, true, "grpc-status", "0"), ended(OK, "")},

		{"header larger than the limit", func(c *Config) { c.MaxHeader = 1000 }, new(frames).header(1, true, append(slices.Clone(goodHead), "x", strings.Repeat("x", 2000))...),
			outcome{err: "limit: grpc RESOURCE_EXHAUSTED: header larger than the limit, which is 64 KiB unless --max-header raises it"}},
		{"header fields larger than the limit", func(c *Config) { c.MaxHeader = 200 }, new(frames).header(1, true, append(slices.Clone(goodHead), "x", strings.Repeat("x", 140))...),
			failed(ResourceExhausted, "limit: grpc RESOURCE_EXHAUSTED: header list larger than the limit, which is 64 KiB unless --max-header raises it")},
		{"error of the connection", nil, new(frames).frame(6, 0, 1, make([]byte, 8)),
			outcome{err: "protocol: grpc INTERNAL: frame on a stream that its type cannot be on"}},
		{"reset", nil, new(frames).reset(1, 8), failed(Cancelled, "reset: grpc CANCELLED: stream reset by the peer: CANCEL")},
		{"refused", nil, new(frames).reset(1, 7),
			outcome{kind: wire.MuxRefused, status: int16(Unavailable), err: "refused: grpc UNAVAILABLE: stream refused by the peer (REFUSED_STREAM)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, piece := range []int{1 << 20, 1000, 13, 1} {
				c := config(unary("question"))
				if tt.change != nil {
					tt.change(&c)
				}
				client := newClient(t, c)
				begin(t, client, 0, 0)
				wiretest.Take(client)
				in := append(new(frames).settings().b, tt.frames.b...)
				got := feed(t, client, in, piece)
				if len(got) != 1 || got[0] != tt.want {
					t.Errorf("in pieces of %d: got %v, want %v", piece, got, tt.want)
				}
			}
		})
	}
}

func TestRequests(t *testing.T) {
	call := unary("question")
	call.Timeout = 1500 * time.Millisecond
	call.Metadata = []Metadata{{Name: "x-a", Value: "b"}, {Name: "x-bin", Value: "\x00\xff"}}
	zipped := unary(strings.Repeat("q", 1000))
	zipped.Gzip, zipped.UserAgent = true, "other"
	zipped.Subtype = "flatbuffers"
	varies := Call{Scheme: "https", Authority: "h", Path: "/p.S/M", Varies: true, Metadata: []Metadata{{Name: "x-row", Varies: true}}}

	client := newClient(t, config(call, zipped, varies))
	wiretest.Take(client)
	begin(t, client, 0, 0)
	begin(t, client, 1, 1)
	begin(t, client, 2, 2, []byte("7"), []byte("row"))
	all := parse(t, wiretest.Take(client))
	if len(all) != 6 {
		t.Fatalf("%d frames, want a header and a message of each of 3 calls", len(all))
	}
	for name, want := range map[string]string{
		":method": "POST", ":scheme": "http", ":authority": "h", ":path": "/p.S/M", "te": "trailers", "content-type": "application/grpc",
		"grpc-timeout": "1500000u", "grpc-accept-encoding": "gzip", "grpc-encoding": "(none)", "user-agent": "grpc-dyno", "x-a": "b", "x-bin": "AP8",
		"content-length": "(none)",
	} {
		if got := all[0].field(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if want := AppendMessage(nil, []byte("question"), false); !bytes.Equal(all[1].payload, want) || all[1].flags != endStream {
		t.Errorf("got %q, flags %d", all[1].payload, all[1].flags)
	}
	if got := all[2].field("content-type"); got != "application/grpc+flatbuffers" {
		t.Errorf("content-type: got %q, want that of the messages", got)
	}
	if all[2].field("grpc-encoding") != "gzip" || all[2].field("user-agent") != "other" || all[3].payload[0] != flagCompressed || len(all[3].payload) > 100 {
		t.Errorf("not compressed: %v, %d bytes", all[2].fields, len(all[3].payload))
	}
	if all[4].field("x-row") != "7" || string(all[5].payload) != "\x00\x00\x00\x00\x03row" {
		t.Errorf("got %v, %q", all[4].fields, all[5].payload)
	}
}

func TestDeadline(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want string
	}{
		{1, "1n"}, {time.Second / 100, "10000000n"}, {99_999_999, "99999999n"}, {100_000_000, "100000u"}, {100_000_001, "100001u"},
		{time.Second, "1000000u"}, {100 * time.Second, "100000m"}, {48 * time.Hour, "172800S"}, {30_000 * time.Hour, "1800000M"},
		{2_500_000 * time.Hour, "2500000H"},
	} {
		if got := Deadline(tt.d); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.d, got, tt.want)
		}
		if got := Deadline(tt.d); len(got) > 9 {
			t.Errorf("%v: %s has more than eight digits", tt.d, got)
		}
	}
}

// TestServerStream holds that each message is an event, and the end one of its own.
func TestServerStream(t *testing.T) {
	call := unary("question")
	call.ServerStream = true
	for _, content := range []bool{false, true} {
		for _, piece := range []int{1 << 20, 10, 1} {
			c := config(call)
			c.Content = content
			client := newClient(t, c)
			begin(t, client, 3, 0)
			got := feed(t, client, new(frames).settings().answer(1, "a", "", "ccc").b, piece)
			want := []outcome{{kind: wire.MuxMessage, id: 3, data: "a"}, {kind: wire.MuxMessage, id: 3}, {kind: wire.MuxMessage, id: 3, data: "ccc"}, {kind: wire.MuxEnded, id: 3}}
			if !content {
				want[0].data, want[2].data = "", ""
			}
			if !slices.Equal(got, want) {
				t.Errorf("content %v, in pieces of %d: got %v, want %v", content, piece, got, want)
			}
		}
	}
	client := newClient(t, config(call))
	begin(t, client, 0, 0)
	if got := feed(t, client, new(frames).settings().answer(1).b, 1<<20); len(got) != 1 || got[0].err != "" {
		t.Errorf("no message: got %v, want a good end", got)
	}
}

func streaming(count int, messages ...string) Call {
	call := Call{Scheme: "http", Authority: "h", Path: "/p.S/M", ClientStream: true, Count: count}
	for _, m := range messages {
		call.Messages = append(call.Messages, []byte(m))
	}
	return call
}

// messagesIn returns the messages among the frames that a client sent, and whether the last
// one ends the stream.
func messagesIn(b []byte) (all []string, end bool) {
	var content []byte
	for _, f := range split(b) {
		if f.kind == 0 {
			content = append(content, f.payload...)
			end = f.flags&endStream != 0
		}
	}
	for len(content) > 0 {
		n := int(content[3])<<8 | int(content[4])
		all = append(all, string(content[5:5+n]))
		content = content[5+n:]
	}
	return all, end
}

func TestClientStream(t *testing.T) {
	client := newClient(t, config(streaming(5, "a", "b"), streaming(0), streaming(0, "x", "y", "z")))
	wiretest.Take(client)
	for i, want := range [][]string{{"a", "b", "a", "b", "a"}, nil, {"x", "y", "z"}} {
		begin(t, client, uint32(i), i)
		if got, end := messagesIn(wiretest.Take(client)); !slices.Equal(got, want) || !end {
			t.Errorf("call %d: got %q, ended %v, want %q", i, got, end, want)
		}
	}
}

// TestInTurn holds that calls send messages in turn, and templates share them out.
func TestInTurn(t *testing.T) {
	call := unary("a")
	call.Messages = append(call.Messages, []byte("b"), []byte("c"))
	for first, want := range []string{"a c b a", "b a c b"} {
		c := config(call)
		c.First, c.Step = first, 2
		client := newClient(t, c)
		wiretest.Take(client)
		var got []string
		for id := range uint32(4) {
			begin(t, client, id, 0)
			messages, end := messagesIn(wiretest.Take(client))
			if got = append(got, messages...); !end {
				t.Error("the call goes on")
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("from %d on: got %s, want %s", first, got, want)
		}
		c.Web = Binary
		template, err := NewWebTemplate(c)
		if err != nil {
			t.Fatal(err)
		}
		web := template.WebClient()
		for _, m := range strings.Fields(want) {
			if got := web.Request(); !bytes.HasSuffix(got, []byte("content-length: 6\r\n\r\n\x00\x00\x00\x00\x01"+m)) && !bytes.HasSuffix(got, []byte("Content-Length: 6\r\n\r\n\x00\x00\x00\x00\x01"+m)) {
				t.Errorf("got %q, want %s", got, m)
			}
		}
	}
}

// TestClientStreamWaits holds that messages wait for the server's window, and none is lost.
func TestClientStreamWaits(t *testing.T) {
	message := strings.Repeat("m", 10_000)
	client := newClient(t, config(streaming(100, message)))
	begin(t, client, 0, 0)
	var content int
	count := func(b []byte) (end bool) {
		for _, f := range split(b) {
			if f.kind == 0 {
				content += len(f.payload)
				end = end || f.flags&endStream != 0
			}
		}
		return end
	}
	end := count(wiretest.Take(client))
	feed(t, client, new(frames).settings().b, 100)
	for i := 0; !end; i++ {
		if i > 100 {
			t.Fatalf("%d bytes were sent and no end", content)
		}
		update := new(frames).frame(8, 0, 0, []byte{0, 0, 0x80, 0}).frame(8, 0, 1, []byte{0, 0, 0x80, 0})
		if got := feed(t, client, update.b, 100); len(got) > 0 {
			t.Fatalf("got %v", got)
		}
		end = count(wiretest.Take(client))
		feed(t, client, nil, 1)
		var e wire.MuxEvent
		if _, err := client.Input(nil, &e); e.Kind != wire.MuxNothing || err != nil {
			t.Fatal(e, err)
		}
	}
	if want := 100 * 10_005; content != want {
		t.Errorf("%d bytes were sent, want %d", content, want)
	}
}

func TestLockstep(t *testing.T) {
	call := streaming(3, "a", "b")
	call.ServerStream, call.Lockstep = true, true
	client := newClient(t, config(call))
	begin(t, client, 0, 0)
	expect := func(want string, wantEnd bool) {
		t.Helper()
		if got, end := messagesIn(wiretest.Take(client)); strings.Join(got, ",") != want || end != wantEnd {
			t.Errorf("got %q, ended %v, want %q", got, end, want)
		}
	}
	expect("a", false)
	feed(t, client, new(frames).settings().header(1, false, goodHead...).b, 5)
	wiretest.Take(client)
	answer := new(frames).data(1, false, AppendMessage(nil, []byte("x"), false)).b
	feed(t, client, answer, 5)
	expect("b", false)
	feed(t, client, answer, 500)
	expect("a", true)
	if got := feed(t, client, append(slices.Clone(answer), new(frames).header(1, true, "grpc-status", "0").b...), 3); len(got) != 2 || got[1].err != "" {
		t.Errorf("got %v", got)
	}
	expect("", false)
}

func TestPaced(t *testing.T) {
	call := streaming(3, "a", "b")
	call.Paced = true
	client := newClient(t, config(call))
	begin(t, client, 0, 0)
	for i, want := range []struct {
		message   string
		more, end bool
	}{{"a", true, false}, {"b", true, false}, {"a", false, true}} {
		more := true
		if i > 0 {
			more = client.Next(0)
		}
		if got, end := messagesIn(wiretest.Take(client)); len(got) != 1 || got[0] != want.message || more != want.more || end != want.end {
			t.Errorf("message %d: got %q, more %v, ended %v", i, got, more, end)
		}
	}
	if client.Next(0) || client.Next(1) || client.Next(100) {
		t.Error("there is more of what has ended, or has not begun")
	}
}

// TestManyCalls holds that calls on one connection do not disturb each other, and that places
// can be used again.
func TestManyCalls(t *testing.T) {
	client := newClient(t, config(unary("question")))
	in := new(frames).settings()
	var want []outcome
	for i := range 4 {
		begin(t, client, uint32(i), 0)
		in.header(uint32(2*i+1), false, goodHead...)
	}
	if client.Free() != 0 || client.Begin(0, 0, nil) == nil {
		t.Error("a fifth call can begin")
	}
	message := AppendMessage(nil, []byte("answer"), false)
	for n := range message {
		for i := range 4 {
			in.data(uint32(2*i+1), false, message[n:n+1])
		}
	}
	for i := range 4 {
		if i == 2 {
			in.reset(5, 11)
			want = append(want, outcome{kind: wire.MuxFailed, id: 2, status: int16(ResourceExhausted), err: "reset: grpc RESOURCE_EXHAUSTED: stream reset by the peer: ENHANCE_YOUR_CALM"})
			continue
		}
		in.header(uint32(2*i+1), true, "grpc-status", "0")
		want = append(want, outcome{kind: wire.MuxEnded, id: uint32(i)})
	}
	if got := feed(t, client, in.b, 11); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	begin(t, client, 2, 0)
	client.Cancel(2)
	begin(t, client, 2, 0)
	if got := feed(t, client, new(frames).answer(11, "answer").b, 1000); len(got) != 1 || got[0] != (outcome{kind: wire.MuxEnded, id: 2}) {
		t.Errorf("got %v", got)
	}
}

// TestCancelWithin cancels a call between two events of one piece of content.
func TestCancelWithin(t *testing.T) {
	call := unary("question")
	call.ServerStream = true
	for _, end := range []bool{false, true} {
		client := newClient(t, config(call))
		begin(t, client, 0, 0)
		feed(t, client, new(frames).settings().header(1, false, goodHead...).b, 1000)
		two := AppendMessage(AppendMessage(nil, []byte("a"), false), []byte("b"), false)
		p := new(frames).data(1, end, two).b
		var e wire.MuxEvent
		n, err := client.Input(p, &e)
		if e.Kind != wire.MuxMessage || err != nil {
			t.Fatal(e, err)
		}
		client.Cancel(0)
		if free := client.Free(); free != 4 {
			t.Errorf("%d calls can begin, want 4", free)
		}
		rest := p[n:]
		if n, err := client.Input(rest, &e); e.Kind != wire.MuxNothing || err != nil || n != len(rest) {
			t.Errorf("got %v, %v after Cancel", e, err)
		}
	}
}

func TestEnd(t *testing.T) {
	client := newClient(t, config(unary("question")))
	begin(t, client, 0, 0)
	begin(t, client, 1, 0)
	feed(t, client, new(frames).settings().frame(7, 0, 0, []byte{0, 0, 0, 1, 0, 0, 0, 0}).b, 1000)
	got := map[uint32]string{}
	for e := client.End(); e.Kind != wire.MuxNothing; e = client.End() {
		got[e.ID] = e.Err.Error()
	}
	if len(got) != 1 || got[0] != "reset: grpc UNAVAILABLE: connection closed before the first byte of the response" {
		t.Errorf("got %v", got)
	}
}

// TestMessagesOfStatuses holds that failures with a message are few, and then those without.
func TestMessagesOfStatuses(t *testing.T) {
	client := newClient(t, config(unary("question")))
	feed(t, client, new(frames).settings().b, 100)
	texts := map[*wire.Error]int{}
	for i := range 50 {
		begin(t, client, 0, 0)
		p := new(frames).header(uint32(2*i+1), true, append(slices.Clone(goodHead), "grpc-status", "8", "grpc-message", strings.Repeat("x", i))...).b
		for {
			var e wire.MuxEvent
			n, err := client.Input(p, &e)
			if err != nil {
				t.Fatal(err)
			}
			p = p[n:]
			if e.Kind == wire.MuxEnded {
				texts[e.Err]++
				break
			}
		}
	}
	if len(texts) != maxInterned+1 || texts[StatusError(ResourceExhausted)] != 50-maxInterned {
		t.Errorf("%d failures, of them %d without a message", len(texts), texts[StatusError(ResourceExhausted)])
	}
}

func TestValidate(t *testing.T) {
	call := func(change func(*Call)) Config {
		c := Call{Scheme: "http", Authority: "h", Path: "/p.S/M", Messages: [][]byte{nil}}
		change(&c)
		return config(c)
	}
	named := func(m Metadata) Config { return call(func(c *Call) { c.Metadata = []Metadata{m} }) }
	web := call(func(c *Call) { c.ClientStream = true })
	web.Web = Binary
	for _, tt := range []struct {
		config Config
		want   string
	}{
		{Config{}, "no call"},
		{call(func(c *Call) { c.Path = "p.S/M" }), `path "p.S/M": want /pkg.Service/Method`},
		{call(func(c *Call) { c.Messages = nil }), "no message: want one"},
		{call(func(c *Call) { c.Subtype = "A" }), `content subtype "A"`},
		{named(Metadata{Name: "A"}), "lower-case"},
		{named(Metadata{Name: "grpc-timeout"}), "the protocol sets this one itself"},
		{named(Metadata{Name: "a", Value: "ä"}), "a name that ends in -bin"},
		{web, "gRPC-Web has none"},
	} {
		if _, err := NewTemplate(tt.config); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
	if _, err := NewWebTemplate(config(unary(""))); err == nil {
		t.Error("gRPC over HTTP/1.1 is accepted")
	}
}
