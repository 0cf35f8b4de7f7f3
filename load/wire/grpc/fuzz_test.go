package grpc

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A taken is what a reader of messages finds.
type taken struct {
	messages []string
	fault    string
	end      string
}

// takeAll reads content cut into pieces as cut says, over and over again.
func takeAll(web Web, limit int, offered bool, p, cut []byte) (all taken) {
	t := &Template{web: web, maxMessage: limit, interned: map[string]failure{}, calls: []prepared{{wants: true}}}
	k := &call{state: active}
	if offered {
		k.state |= encoded
	}
	var c content
	for i := 0; len(p) > 0; i++ {
		size := len(p)
		if len(cut) > 0 {
			size = min(size, int(cut[i%len(cut)])+1)
		}
		c.raw = slices.Clone(p[:size])
		p = p[size:]
		for {
			message, complete, f := c.message(t, k)
			if f.Error != nil {
				all.fault = f.Text
				return all
			}
			if !complete {
				break
			}
			all.messages = append(all.messages, string(message))
		}
	}
	if f := t.conclude(k); f.Error != nil {
		all.end = f.Text
	}
	return all
}

// FuzzMessages holds that content has one meaning, wherever it is cut. No message exceeds the limit.
func FuzzMessages(f *testing.F) {
	good := AppendMessage(AppendMessage(nil, []byte("a"), false), bytes.Repeat([]byte("b"), 300), false)
	web := append(bytes.Clone(good), trailersFrame("grpc-status: 0\r\ngrpc-message: x\r\n")...)
	f.Add(uint8(0), good, []byte{0})
	f.Add(uint8(1), web, []byte{3, 0})
	f.Add(uint8(2), text64(web), []byte{2, 6, 1})
	f.Add(uint8(2), append(text64(good), text64(trailersFrame("grpc-status: 5\r\n"))...), []byte{0})
	f.Add(uint8(0), AppendMessage(nil, compress([]byte("abc")), true), []byte{1})
	f.Add(uint8(0), []byte{0, 0xff, 0xff, 0xff, 0xff, 1}, []byte{0})
	f.Fuzz(func(t *testing.T, form uint8, p, cut []byte) {
		const limit = 400
		web := Web(form % 3)
		whole, pieces := takeAll(web, limit, form&4 == 0, p, nil), takeAll(web, limit, form&4 == 0, p, cut)
		if !slices.Equal(whole.messages, pieces.messages) || whole.fault != pieces.fault || whole.end != pieces.end {
			t.Fatalf("whole: %+v; in pieces: %+v", whole, pieces)
		}
		for _, m := range whole.messages {
			if len(m) > limit {
				t.Errorf("message of %d bytes", len(m))
			}
		}
	})
}

// TestMessages holds that any messages come out as they went in.
func TestMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		web := rapid.SampledFrom([]Web{Native, Binary, Text}).Draw(t, "web")
		var (
			want    []string
			content []byte
		)
		for range rapid.IntRange(0, 5).Draw(t, "messages") {
			m := rapid.SliceOfN(rapid.Byte(), 0, 5000).Draw(t, "message")
			want = append(want, string(m))
			var framed []byte
			if zip := rapid.Bool().Draw(t, "compressed"); zip {
				framed = AppendMessage(nil, compress(m), true)
			} else {
				framed = AppendMessage(nil, m, false)
			}
			if web == Text {
				framed = text64(framed)
			}
			content = append(content, framed...)
		}
		if web != Native {
			end := trailersFrame("grpc-status: 0\r\n")
			if web == Text {
				end = text64(end)
			}
			content = append(content, end...)
		}
		cut := rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "cut")
		if got := takeAll(web, 1<<20, true, content, cut); !slices.Equal(got.messages, want) || got.fault != "" {
			t.Fatalf("got %+v, want %q", got, want)
		}
	})
}

// TestAnnounced holds that a message that is announced takes no memory before it comes.
func TestAnnounced(t *testing.T) {
	template := &Template{maxMessage: 1 << 30, calls: []prepared{{wants: true}}}
	k := &call{state: active}
	c := content{raw: []byte{0, 0x30, 0, 0, 0, 1, 2, 3}}
	if _, complete, f := c.message(template, k); complete || f.Error != nil {
		t.Fatal(complete, f)
	}
	if cap(k.part) > 4096 {
		t.Errorf("%d bytes were taken for 3", cap(k.part))
	}
}
