// Package http2 is the server's side of HTTP/2 (RFC 9113) as gRPC needs it, without I/O: a
// Conn takes the bytes that a client sent, and makes those that it is to be sent. Requests go
// to a Handler, which answers through the Conn, at once or later.
//
// What measures shares no code with what is measured, so this is not the codec of the
// load's client.
//
// No client makes a connection grow beyond its limits. Frames, header blocks and concurrent streams are bounded.
// Output that the client does not read stops the input. A client that keeps the server busy without completing
// calls gets ENHANCE_YOUR_CALM.
package http2

import "fmt"

// Preface is what a client's connection begins with (section 3.4).
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Types of frames (section 6).
const (
	frameData         = 0
	frameHeaders      = 1
	framePriority     = 2
	frameReset        = 3
	frameSettings     = 4
	framePush         = 5
	framePing         = 6
	frameGoAway       = 7
	frameWindow       = 8
	frameContinuation = 9
)

// Flags of frames.
const (
	flagEndStream  = 0x01
	flagAck        = 0x01
	flagEndHeaders = 0x04
	flagPadded     = 0x08
	flagPriority   = 0x20
)

// Settings (section 6.5.2).
const (
	settingTableSize     = 1
	settingPush          = 2
	settingStreams       = 3
	settingWindow        = 4
	settingFrame         = 5
	settingHeaderListMax = 6
)

// Bounds of a connection.
const (
	// frameHead is the length of what each frame begins with.
	frameHead = 9
	// MaxFrame is the longest payload of a frame, in both directions: the default.
	MaxFrame = 16384
	// firstWindow is the window that streams and connections begin with (section 6.9.2).
	firstWindow = 65535
	// maxWindow is the largest window that there may be.
	maxWindow = 1<<31 - 1
	// maxBlock bounds a header block, compressed, with all its frames.
	maxBlock = 32 << 10
	// maxHeaderList bounds a header list as section 6.5.2 counts. Calls with more are refused.
	maxHeaderList = 16 << 10
	// maxOutput is how much may wait to be written before no more is read or answered.
	maxOutput = 256 << 10
	// credit is how many frames of a client may be in vain: pings, settings, resets, frames
	// without content. A call that ends well gives one back, and so does time.
	credit = 2000
	// refill is how many of them a second gives back.
	refill = 500
)

// A Code says why a stream or a connection ended (section 7).
type Code uint32

// The codes that a server uses.
const (
	NoError         Code = 0x0
	ProtocolError   Code = 0x1
	InternalError   Code = 0x2
	FlowControl     Code = 0x3
	StreamClosed    Code = 0x5
	FrameSize       Code = 0x6
	RefusedStream   Code = 0x7
	Cancel          Code = 0x8
	Compression     Code = 0x9
	EnhanceYourCalm Code = 0xb
)

// An Error ends a connection. Its GOAWAY is in the output.
type Error struct {
	Code   Code
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("http2: error %#x: %s", uint32(e.Code), e.Reason) }
