package calls

import (
	"fmt"
	"testing"
	"time"

	x "golang.org/x/net/http2"

	"dyno/experiments/subjects/grpcloop/http2"
)

// letters is a service: One answers with the letters of a message, one each millisecond, and
// Many with each message at once, and at the end with how many there were.
type letters struct{}

const (
	one  = "/t.Letters/One"
	many = "/t.Letters/Many"
)

func (letters) Methods() []string       { return []string{one, many} }
func (letters) Streams(method int) bool { return method == 1 }

func (letters) Message(c Call, b []byte) {
	if c.Method() == 1 {
		count, _ := (*c.State()).(int)
		*c.State() = count + 1
		c.Answer(0, append([]byte(nil), b...))
		return
	}
	var header []http2.Field
	for _, f := range c.Fields() {
		if f.Name == "x-there" {
			header = append(header, http2.Field{Name: "x-back", Value: f.Value})
		}
	}
	c.Add(header, []http2.Field{{Name: "x-timeout", Value: c.Timeout().String()}})
	if len(b) > 0 {
		c.Respond()
	}
	for i := range b {
		c.Answer(time.Millisecond, []byte{b[i]})
	}
	c.End(time.Millisecond, 9, "spelled")
}

func (letters) Ended(c Call) {
	count, _ := (*c.State()).(int)
	c.Answer(0, fmt.Append(nil, count))
	c.End(0, ok, "")
}

const millisecond = int64(time.Millisecond)

func TestService(t *testing.T) {
	for _, step := range []int{0, 1} {
		p := newPeerOf(t, letters{})
		p.step = step
		p.open(1, one, "x-there", "1", "x-there", "2", "grpc-timeout", "1S")
		p.send(1, true, message([]byte("ab")))
		p.feed()
		p.expect("1 " + head + " x-back=1 x-back=2")
		p.advance(millisecond)
		p.expect(`1 data "\x00\x00\x00\x00\x01a"`)
		p.advance(millisecond)
		p.expect(`1 data "\x00\x00\x00\x00\x01b"`)
		p.advance(millisecond)
		p.expect("1 headers grpc-status=9 grpc-message=spelled x-timeout=1s end")
		// What one call had sent is not sent by the next, whose memory is the same.
		p.open(3, one)
		p.send(3, true, message(nil))
		p.feed()
		p.advance(millisecond)
		p.expect("3 " + head + " grpc-status=9 grpc-message=spelled x-timeout=0s end")

		p.open(5, many)
		p.send(5, false, message([]byte("ab")))
		p.feed()
		p.expect("5 "+head, `5 data "\x00\x00\x00\x00\x02ab"`)
		p.send(5, true, append(message([]byte("c")), message(nil)...))
		p.feed()
		p.expect(`5 data "\x00\x00\x00\x00\x01c"`, `5 data "\x00\x00\x00\x00\x00"`, `5 data "\x00\x00\x00\x00\x013"`, "5 "+good)
		p.open(7, many)
		p.send(7, true, nil)
		p.feed()
		p.expect("7 "+head, `7 data "\x00\x00\x00\x00\x010"`, "7 "+good)

		for _, c := range []struct {
			id   uint32
			body []byte
			want string
		}{
			{9, nil, "grpc-status=12 grpc-message=there is no message end"},
			{11, append(message(nil), message(nil)...), "grpc-status=12 grpc-message=more than one message end"},
		} {
			p.open(c.id, one)
			p.send(c.id, true, c.body)
			p.feed()
			p.expect(fmt.Sprint(c.id, " ", head, " ", c.want))
		}
		// The deadline ends what was still to be sent.
		p.open(13, one, "grpc-timeout", "1500u")
		p.send(13, true, message([]byte("ab")))
		p.feed()
		p.advance(millisecond)
		p.advance(millisecond)
		p.expect("13 "+head, `13 data "\x00\x00\x00\x00\x01a"`, "13 headers grpc-status=4 grpc-message=the deadline has passed x-timeout=1.5ms end")
		if _, some := p.loop.Next(); some || p.conn.Open() > 0 || p.loop.held != 0 {
			t.Errorf("a timer is left, or %d streams, or %d bytes", p.conn.Open(), p.loop.held)
		}
	}
}

// Without room for an answer, what is behind it waits, and so do the client's next messages.
func TestServiceWaitsForRoom(t *testing.T) {
	p := newPeerOf(t, letters{}, x.Setting{ID: x.SettingInitialWindowSize, Val: 8})
	p.open(1, many)
	p.send(1, true, append(message([]byte("ab")), message([]byte("cd"))...))
	p.feed()
	p.expect("1 "+head, `1 data "\x00\x00\x00\x00\x02ab"`, `1 data "\x00"`)
	for _, want := range [][]string{
		{`1 data "\x00\x00\x00\x02cd"`, `1 data "\x00\x00"`},
		{`1 data "\x00\x00\x012"`, "1 " + good},
	} {
		p.must(p.frames.WriteWindowUpdate(1, 8))
		p.feed()
		p.expect(want...)
	}
}
