package http2

import (
	"slices"
	"strings"
	"testing"

	"dyno/load/wire"
	"dyno/load/wire/wiretest"
)

// Each flood ends the connection with the error that names it, exactly at the limit. It does so
// although the peer reads every reply.
func TestFloods(t *testing.T) {
	for _, tt := range []struct {
		name  string
		frame []byte
		want  *wire.Error
	}{
		{"SETTINGS", settings(), ErrSettingsFlood},
		{"PING", raw(framePing, 0, 0, "12345678"), ErrPingFlood},
		{"PING ACK", raw(framePing, flagAck, 0, "12345678"), ErrPingFlood},
		{"PRIORITY", raw(framePriority, 0, 1, "\x00\x00\x00\x03\x00"), ErrPriorityFlood},
		{"unknown", raw(0x16, 0, 1, "x"), ErrUnknownFlood},
		{"WINDOW_UPDATE", windowUpdate(3, 1), ErrWindowFlood},
		{"WINDOW_UPDATE of the connection", windowUpdate(0, 1), ErrWindowFlood},
		{"WINDOW_UPDATE of a stream that has ended", windowUpdate(5, 1), ErrWindowFlood},
		{"RST_STREAM", resetStream(5, Cancel), ErrResetFlood},
		{"empty DATA", data(1, 0, ""), ErrDataFlood},
		{"DATA of padding", data(1, flagPadded, "\x02\x00\x00"), ErrDataFlood},
		{"empty DATA on a stream that was given up", data(5, endStream, ""), ErrDataFlood},
		{"HEADERS on a stream that was given up", headers(5, 0, ":status", "200"), ErrHeadersFlood},
		{"GOAWAY", goAway(1<<31-1, NoError), ErrGoAwayFlood},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := ready(t, testConfig())
			l := listen(t, c)
			l.hear(open)
			c.Cancel(2)
			wiretest.Take(c)
			frames := 0
			for l.err == nil && frames < 2*maxUseless {
				l.hear(tt.frame)
				frames++
				if len(c.out) > 1000 {
					t.Fatalf("an output of %d bytes", len(c.out))
				}
				if l.err == nil {
					wiretest.Take(c)
				}
			}
			if l.err != tt.want || frames != maxUseless+1 { //nolint:errorlint // the very same error
				t.Errorf("%v after %d frames", l.err, frames)
			}
			l.end()
			if l.ended[0] != 1 || l.ended[1] != 1 {
				t.Errorf("exchanges have ended %v times", l.ended)
			}
			lines := describeFrames(t, wiretest.Take(c))
			if lines[len(lines)-1] != "GOAWAY 0 ENHANCE_YOUR_CALM" {
				t.Errorf("says %q", lines)
			}
		})
	}
}

// A useful frame resets the count.
func TestUsefulFramesAreNoFlood(t *testing.T) {
	config := testConfig()
	config.Content = false
	for name, useful := range map[string]func(c *Client, l *listener){
		"content": func(_ *Client, l *listener) { l.hear(data(1, 0, "x")) },
		"header": func(c *Client, l *listener) {
			begin(t, c, 3, get)
			l.hear(headers(c.next-2, endStream, ":status", "200"))
		},
		"body sent": func(c *Client, _ *listener) {
			if n, err := c.Send(2, []byte("x"), false); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		},
	} {
		c := ready(t, config)
		l := listen(t, c)
		l.hear(open)
		ping := slices.Repeat(raw(framePing, 0, 0, "12345678"), 1000)
		for range 5 * maxUseless / 1000 {
			l.hear(ping)
			wiretest.Take(c)
			useful(c, l)
		}
		if l.err != nil {
			t.Errorf("%s: %v", name, l.err)
		}
	}
}

// A peer that asks for replies and does not read them is cut off before they take much.
func TestUnreadRepliesAreBounded(t *testing.T) {
	for _, frame := range [][]byte{raw(framePing, 0, 0, "12345678"), settings()} {
		c := ready(t, testConfig())
		l := listen(t, c)
		frames := 0
		for ; l.err == nil && frames < 2*maxReplies; frames++ {
			l.hear(frame)
		}
		if l.err != ErrReplyFlood || frames != maxReplies+1 { //nolint:errorlint // the very same error
			t.Errorf("%v after %d frames", l.err, frames)
		}
		if len(c.Output()) > 17*maxReplies+100 {
			t.Errorf("an output of %d bytes", len(c.Output()))
		}
	}
	// One that reads slowly is not.
	c := ready(t, testConfig())
	l := listen(t, c)
	for range 3 * maxReplies {
		c.useless = 0
		l.hear(raw(framePing, 0, 0, "12345678"))
		if len(c.Output()) > 17*1000 {
			c.Wrote(17)
		}
	}
	if l.err != nil {
		t.Errorf("a slow reader: %v", l.err)
	}
}

// A header block cannot grow without bound, whether in large, small or empty pieces.
func TestHeaderBlocksAreBounded(t *testing.T) {
	for _, tt := range []struct {
		name   string
		first  []byte
		more   []byte
		frames int // of more, before the error
		want   *wire.Error
	}{
		{"large pieces", raw(frameHeaders, 0, 1, strings.Repeat("x", 1<<14)), raw(frameContinuation, 0, 1, strings.Repeat("x", 1<<14)), 3, ErrBlockTooLarge},
		{"small pieces", raw(frameHeaders, 0, 1, "x"), raw(frameContinuation, 0, 1, "x"), maxContinuations, ErrContinuationFlood},
		{"no pieces", raw(frameHeaders, 0, 1, ""), raw(frameContinuation, 0, 1, ""), maxContinuations, ErrContinuationFlood},
	} {
		c := ready(t, testConfig())
		l := listen(t, c)
		l.hear(tt.first)
		for i := 0; l.err == nil && i < 1000; i++ {
			l.hear(tt.more)
			if l.err != nil && i != tt.frames {
				t.Errorf("%s: after %d frames", tt.name, i)
			}
		}
		if l.err != tt.want { //nolint:errorlint // the very same error
			t.Errorf("%s: %v", tt.name, l.err)
		}
		if cap(c.block.bytes) > 1<<18 {
			t.Errorf("%s: %d bytes are held", tt.name, cap(c.block.bytes))
		}
	}
	// A limit below the frame size holds for a single frame, before it has arrived.
	config := testConfig()
	config.MaxHeader = 100
	for _, frame := range [][]byte{
		raw(frameHeaders, endHeaders, 1, strings.Repeat("\x88", 101)),
		appendFrameHeader(nil, 100+maxHeadersExtra+1, frameHeaders, endHeaders|flagPadded, 1),
		join(raw(frameHeaders, 0, 1, "x"), appendFrameHeader(nil, 100, frameContinuation, 0, 1)),
	} {
		c := ready(t, config)
		l := listen(t, c)
		l.hear(frame)
		if l.err != ErrBlockTooLarge { //nolint:errorlint // the very same error
			t.Errorf("%v", l.err)
		}
	}
}

func TestSettingsAreBounded(t *testing.T) {
	c := ready(t, testConfig())
	l := listen(t, c)
	l.hear(appendFrame(nil, frameSettings, 0, 0, make([]byte, 6*maxSettings)))
	if l.err != nil {
		t.Error(l.err)
	}
	l.hear(appendFrameHeader(nil, 6*maxSettings+6, frameSettings, 0, 0))
	if l.err != ErrSettingsTooMany { //nolint:errorlint // the very same error
		t.Error(l.err)
	}
}

// Unneeded frames are passed over without being held.
func TestNothingIsHeldOfWhatIsSkipped(t *testing.T) {
	config := testConfig()
	config.Content = false
	c := ready(t, config)
	l := listen(t, c)
	l.hear(open)
	piece := make([]byte, 1<<10)
	for _, h := range [][]byte{
		appendFrameHeader(nil, 1<<14, 0x16, 0, 0),
		appendFrameHeader(nil, 1<<14, framePriority, 0, 7),
		appendFrameHeader(nil, 1<<14, frameData, 0, 1),
	} {
		l.hear(h)
		for range 1 << 14 / len(piece) {
			l.hear(piece)
			if c.part != nil {
				t.Fatalf("%d bytes are held", cap(c.part))
			}
		}
	}
	l.hear(data(1, endStream, ""))
	expect(t, l.lines, "head 0 200", `end 0 200 ""`)
}
