package websocket

import (
	"encoding/binary"

	"dyno/load/wire"
)

// A reader finds the pieces of messages and the control frames in what a server sends, however that is
// cut. Its buffer is given back after each control frame.
type reader struct {
	head     [maxServerHead]byte // the beginning of a frame's head whose end has not arrived
	arrived  uint8               // how much of it
	op       opcode              // of the frame
	final    bool                // the frame ends its message
	inFrame  bool
	message  opcode // of the message under way; opContinuation is none
	deflated bool   // the message is compressed
	deflates bool   // messages may be
	text     textCheck
	left     int64  // bytes of the frame that have not arrived
	room     int64  // bytes that the message may still have
	control  []byte // the beginning of a control frame's payload
}

// A piece is a piece of a message, or a control frame.
type piece struct {
	op       opcode // of the message, or of the control frame
	data     []byte // valid until the next call of next
	final    bool   // nothing of it follows
	deflated bool
}

// next consumes bytes up to the end of one piece. Without one, all of p is consumed. A message has most
// bytes, compressed or not.
func (r *reader) next(p []byte, most int64, spare *wire.Buffers) (n int, got piece, found bool, err *wire.Error) {
	if !r.inFrame {
		if n, found, err = r.takeHead(p); !found {
			return n, piece{}, false, err
		}
		if err := r.begin(most); err != nil {
			return n, piece{}, false, err
		}
	}
	if r.op.control() {
		used, got, found, err := r.takeControl(p[n:], spare)
		return n + used, got, found, err
	}
	size := int(min(int64(len(p)-n), r.left))
	if size == 0 && r.left > 0 {
		return n, piece{}, false, nil
	}
	got = piece{op: r.message, data: p[n : n+size : n+size], deflated: r.deflated}
	n += size
	if r.left -= int64(size); r.left == 0 {
		r.inFrame = false
		got.final = r.final
	}
	if r.message == opText && !r.deflated && (!r.text.add(got.data) || got.final && !r.text.end()) {
		return n, piece{}, false, ErrUTF8
	}
	if got.final {
		r.message = opContinuation
	}
	return n, got, true, nil
}

// takeHead takes a frame's head, and tells whether it is whole. It is in r.head then.
func (r *reader) takeHead(p []byte) (n int, whole bool, err *wire.Error) {
	for {
		need := 2
		if r.arrived >= 2 {
			switch r.head[1] &^ bitMasked {
			case 126:
				need = 4
			case 127:
				need = 10
			}
		}
		used := copy(r.head[r.arrived:need], p[n:])
		n += used
		r.arrived += uint8(used) //nolint:gosec // ten at most
		if int(r.arrived) < need {
			return n, false, nil
		}
		if r.arrived == 2 && r.head[1]&bitMasked != 0 {
			return n, false, ErrMasked
		}
		if r.arrived > 2 || r.head[1] < 126 {
			return n, true, nil
		}
	}
}

// begin begins the frame whose head has arrived.
func (r *reader) begin(most int64) *wire.Error {
	first, size := r.head[0], int64(r.head[1])
	switch least := int64(0); size {
	case 126:
		size, least = int64(binary.BigEndian.Uint16(r.head[2:])), 126
		if size < least {
			return ErrMinimal
		}
	case 127:
		size, least = int64(binary.BigEndian.Uint64(r.head[2:])), 1<<16 //nolint:gosec // checked below
		if size < 0 {
			return ErrLength
		}
		if size < least {
			return ErrMinimal
		}
	}
	r.arrived = 0
	r.op, r.final, r.left = opcode(first&0x0F), first&bitFinal != 0, size
	reserved := first & bitsReserved
	switch {
	case r.op > opBinary && r.op < opClose || r.op > opPong:
		return ErrOpcode
	case reserved&^bitCompressed != 0, reserved != 0 && (!r.deflates || r.op != opText && r.op != opBinary):
		return ErrReserved
	case r.op.control() && size > maxControl:
		return ErrControlSize
	case r.op.control() && !r.final:
		return ErrControlParts
	case r.op.control():
		r.inFrame = true
		return nil
	case r.op == opContinuation && r.message == opContinuation:
		return ErrContinuation
	case r.op != opContinuation && r.message != opContinuation:
		return ErrInterleaved
	case r.op != opContinuation:
		r.message, r.deflated, r.room = r.op, reserved != 0, most
	}
	if size > r.room {
		return ErrTooLarge
	}
	r.room -= size
	r.inFrame = true
	return nil
}

// takeControl takes a control frame's payload, which is delivered in one piece.
func (r *reader) takeControl(p []byte, spare *wire.Buffers) (n int, got piece, found bool, err *wire.Error) {
	n = int(min(int64(len(p)), r.left))
	r.left -= int64(n)
	if r.left > 0 && r.control == nil && n > 0 {
		r.control = spare.Borrow()
	}
	data := p[:n:n]
	if r.control != nil {
		r.control = append(r.control, data...)
		data = r.control
	}
	if r.left > 0 {
		return n, piece{}, false, nil
	}
	r.inFrame = false
	return n, piece{op: r.op, data: data, final: true}, true, nil
}

// giveBack gives the buffer of a control frame back, whose payload is no longer needed.
func (r *reader) giveBack(spare *wire.Buffers) {
	if r.control != nil {
		spare.GiveBack(r.control)
		r.control = nil
	}
}

// reset forgets an earlier connection.
func (r *reader) reset(spare *wire.Buffers) {
	r.giveBack(spare)
	*r = reader{}
}
