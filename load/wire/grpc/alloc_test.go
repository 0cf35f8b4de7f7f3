package grpc

import (
	"strconv"
	"testing"

	"dyno/load/wire"
	"dyno/load/wire/wiretest"
)

// Once warm, nothing of a call allocates: whole and in pieces, with and without a look into
// messages, compressed, in streams, and if it fails.
func TestNoAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	stream := streaming(3, "a", "b")
	stream.ServerStream, stream.Lockstep = true, true
	checked := config(unary("question"))
	checked.Check = func(int, []byte) error { return nil }
	translated := quoting(unary("question"))
	varies := Call{Scheme: "http", Authority: "h", Path: "/p.S/M", Varies: true}
	zipped := AppendMessage(nil, compress([]byte("answer, answer, answer")), true)
	message := AppendMessage(nil, []byte("answer"), false)
	for _, tt := range []struct {
		name   string
		config Config
		parts  [][]byte
		answer func(f *frames, stream uint32)
	}{
		{"unary", config(unary("question")), nil, func(f *frames, id uint32) { f.answer(id, "answer") }},
		{"checked", checked, nil, func(f *frames, id uint32) { f.answer(id, "answer") }},
		{"translated", config(translated), nil, func(f *frames, id uint32) { f.answer(id, "answer") }},
		{"varies", config(varies), [][]byte{[]byte("row")}, func(f *frames, id uint32) { f.answer(id, "answer") }},
		{"in turn", config(func() Call { c := unary("a"); c.Messages = append(c.Messages, []byte("b")); return c }()), nil,
			func(f *frames, id uint32) { f.answer(id, "answer") }},
		{"compressed", checked, nil, func(f *frames, id uint32) {
			f.header(id, false, ":status", "200", "content-type", "application/grpc", "grpc-encoding", "gzip")
			f.data(id, false, zipped).header(id, true, "grpc-status", "0")
		}},
		{"status", config(unary("question")), nil, func(f *frames, id uint32) {
			f.header(id, true, ":status", "200", "content-type", "application/grpc", "grpc-status", "8", "grpc-message", "too many")
		}},
		{"reset", config(unary("question")), nil, func(f *frames, id uint32) { f.reset(id, 2) }},
		{"in lockstep", config(stream), nil, func(f *frames, id uint32) {
			f.header(id, false, goodHead...)
			for range 3 {
				f.data(id, false, message)
			}
			f.header(id, true, "grpc-status", "0")
		}},
	} {
		for _, piece := range []int{1 << 20, 9} {
			client := newClient(t, tt.config)
			in := new(frames).settings().b
			feed(t, client, in, 1000)
			wiretest.Take(client)
			// The numbers of streams differ from call to call, and so do the frames.
			number := uint32(1)
			const runs, warm = 100, 100
			var answers [][]byte
			for range runs + warm + 1 {
				f := new(frames)
				tt.answer(f, number)
				answers = append(answers, f.b)
				number += 2
			}
			next, e := 0, wire.MuxEvent{}
			cycle := func() {
				if err := client.Begin(0, 0, tt.parts); err != nil {
					t.Fatal(err)
				}
				client.Wrote(len(client.Output()))
				for p := answers[next]; len(p) > 0; {
					part := p[:min(piece, len(p))]
					p = p[len(part):]
					for {
						n, err := client.Input(part, &e)
						if err != nil {
							t.Fatal(err)
						}
						if part = part[n:]; e.Kind == wire.MuxNothing {
							break
						}
					}
					client.Wrote(len(client.Output()))
				}
				next++
			}
			for range warm {
				cycle()
			}
			if n := testing.AllocsPerRun(runs, cycle); n > 0 {
				t.Errorf("%s, in pieces of %d: %v allocations a call", tt.name, piece, n)
			}
			if free := client.Free(); free != 4 {
				t.Errorf("%s, in pieces of %d: calls did not end", tt.name, piece)
			}
		}
	}
}

// TestWebNoAllocations holds that calls over HTTP/1.1 do not allocate once warm.
func TestWebNoAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	content := append(AppendMessage(nil, []byte("answer"), false), trailersFrame("grpc-status: 0\r\n")...)
	for web, body := range map[Web][]byte{Binary: content, Text: text64(content)} {
		c := config(unary("question"))
		c.Web = web
		template, err := NewWebTemplate(c)
		if err != nil {
			t.Fatal(err)
		}
		answer := append([]byte("HTTP/1.1 200 OK\r\ncontent-type: "+contentTypes[web]+"\r\ncontent-length: "+strconv.Itoa(len(body))+"\r\n\r\n"), body...)
		for _, piece := range []int{1000, 7} {
			client := template.WebClient()
			cycle := func() {
				client.Request()
				for p := answer; len(p) > 0; {
					n, _, err := client.Response(p[:min(piece, len(p))])
					if err != nil {
						t.Fatal(err)
					}
					p = p[n:]
				}
			}
			for range 10 {
				cycle()
			}
			if n := testing.AllocsPerRun(100, cycle); n > 0 {
				t.Errorf("form %d, in pieces of %d: %v allocations a call", web, piece, n)
			}
		}
	}
}
