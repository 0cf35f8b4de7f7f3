package http2

import (
	"encoding/binary"

	"dyno/load/wire"
)

// Output returns the bytes that are to be written now; see wire.Mux.
func (c *Client) Output() []byte {
	if c.queue.head != noStream {
		c.pump()
	}
	return c.out[c.sent:]
}

// Wrote tells that the first n bytes of Output were written.
func (c *Client) Wrote(n int) {
	c.sent += n
	c.written += uint64(n)
	if c.sent == len(c.out) {
		c.dropOutput()
	}
}

func (c *Client) dropOutput() {
	if c.out != nil {
		c.t.spare.GiveBack(c.out)
	}
	c.out, c.sent = nil, 0
}

// makeRoom sees to it that n bytes can be appended to the output without growing it.
func (c *Client) makeRoom(n int) {
	if c.out == nil {
		c.out = c.t.spare.Borrow()
	}
	if len(c.out)+n <= cap(c.out) {
		return
	}
	pending := c.out[c.sent:]
	if c.sent > 0 && 2*(len(pending)+n) <= cap(c.out) {
		c.out = append(c.out[:0], pending...)
	} else {
		// The smaller buffer is not given back, or there would be ever more of them.
		c.out = append(make([]byte, 0, 2*(len(pending)+n)), pending...)
	}
	c.sent = 0
}

// pump turns waiting content into DATA frames, in turns. It ends when the output is full enough or a
// window is used up.
func (c *Client) pump() {
	for c.queue.head != noStream && c.sendWindow > 0 && len(c.out)-c.sent < outputTarget {
		id := uint32(c.queue.head)
		s := &c.streams[id]
		c.dequeue(s)
		n := len(s.body)
		for _, most := range [...]int64{maxDataFrame, int64(c.peerMaxFrame), c.sendWindow, c.peerWindow + s.sendWindow} {
			n = int(min(int64(n), most))
		}
		all := n == len(s.body)
		c.appendData(s, s.body[:n], all && s.state&endsAfter != 0)
		s.body = s.body[n:]
		if all {
			if s.buffer != nil {
				c.t.spare.GiveBack(s.buffer)
			}
			s.body, s.buffer = nil, nil
		} else {
			c.enqueue(id, s)
		}
		if s.state&wantsRoom != 0 && len(s.body) <= c.t.sendBuffer/2 {
			s.state ^= wantsRoom | hasRoom
			c.notice()
		}
	}
}

// fits tells whether n bytes of content can go out at once, in one frame.
func (c *Client) fits(s *stream, n int) bool {
	return n == 0 || n <= maxDataFrame && int64(n) <= c.sendWindow && int64(n) <= c.peerWindow+s.sendWindow &&
		c.queue.head == noStream && len(c.out)-c.sent < outputTarget
}

// appendData appends a DATA frame. Its payload is within the windows.
func (c *Client) appendData(s *stream, payload []byte, end bool) {
	flags := uint8(0)
	if end {
		flags = flagEndStream
		s.state |= localEnd
	}
	c.makeRoom(frameHeader + len(payload))
	c.out = append(appendFrameHeader(c.out, len(payload), frameData, flags, s.number), payload...)
	s.sendWindow -= int64(len(payload))
	c.sendWindow -= int64(len(payload))
	c.useless = 0
}

// appendHeaders appends the header of a request, in as many frames as it takes.
func (c *Client) appendHeaders(s *stream, p *prepared, parts [][]byte, end bool) {
	flags := uint8(flagEndHeaders)
	if end {
		flags |= flagEndStream
	}
	c.makeRoom(frameHeader + p.bound(parts))
	start := len(c.out)
	b := c.encoder.append(append(c.out, make([]byte, frameHeader)...), p, parts)
	block := b[start+frameHeader:]
	if len(block) <= c.peerMaxFrame {
		appendFrameHeader(b[:start], len(block), frameHeaders, flags, s.number)
		c.out = b
		return
	}
	// After the first frame's payload the others have to be moved to let their
	// headers in: from the last one on.
	rest := (len(block) - 1) / c.peerMaxFrame
	b = append(b, make([]byte, rest*frameHeader)...)
	for i := rest; i > 0; i-- {
		from := start + frameHeader + i*c.peerMaxFrame
		to := from + i*frameHeader
		length := min(c.peerMaxFrame, len(block)-i*c.peerMaxFrame)
		copy(b[to:to+length], b[from:from+length])
		last := uint8(0)
		if i == rest {
			last = flagEndHeaders
		}
		appendFrameHeader(b[:to-frameHeader], length, frameContinuation, last, s.number)
	}
	appendFrameHeader(b[:start], c.peerMaxFrame, frameHeaders, flags&^flagEndHeaders, s.number)
	c.out = b
}

// appendWord appends a frame whose payload is one word.
func (c *Client) appendWord(kind uint8, number, word uint32) {
	c.makeRoom(frameHeader + 4)
	c.out = binary.BigEndian.AppendUint32(appendFrameHeader(c.out, 4, kind, 0, number), word)
}

func (c *Client) appendReset(number uint32, code ErrorCode) {
	c.appendWord(frameReset, number, uint32(code))
}

// restore lets the peer send more, once the used part of a window reaches the threshold.
func (c *Client) restore(number uint32, window *int64, full, threshold int64) {
	if used := full - *window; used >= threshold {
		c.appendWord(frameWindowUpdate, number, uint32(used))
		*window = full
	}
}

// acknowledge appends the reply to a frame: SETTINGS or PING.
func (c *Client) acknowledge(kind uint8, payload []byte) *wire.Error {
	c.makeRoom(frameHeader + len(payload))
	c.out = append(appendFrameHeader(c.out, len(payload), kind, flagAck, 0), payload...)
	return c.reply()
}

// fatal ends the connection: GOAWAY with the code is the last of its output.
func (c *Client) fatal(code ErrorCode, err *wire.Error) *wire.Error {
	c.makeRoom(frameHeader + 8)
	c.out = appendFrameHeader(c.out, 8, frameGoAway, 0, 0)
	c.out = binary.BigEndian.AppendUint64(c.out, uint64(code)) // no stream of the peer's was processed
	for c.queue.head != noStream {
		c.dequeue(&c.streams[c.queue.head])
	}
	c.err = err
	c.allow()
	return err
}
