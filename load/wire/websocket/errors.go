package websocket

import "dyno/load/wire"

// Faults of what a server sends. Each is returned as it is. Numbers are sections of RFC 6455, if nothing
// else is said.
var (
	// The handshake (4.1).
	ErrUnasked     = protocol("the server sent something before the handshake")
	ErrNotUpgraded = protocol("status 101 without the field Upgrade: websocket")
	ErrNotSwitched = protocol("status 101 without the field Connection: Upgrade")
	ErrAccept      = protocol("Sec-WebSocket-Accept is missing, or is not the answer to this key")
	ErrExtension   = protocol("the server uses an extension that was not offered")
	ErrParameter   = protocol("the server uses a parameter of permessage-deflate that was not offered") // RFC 7692, 7.1
	ErrSubprotocol = protocol("the server chose a subprotocol that was not offered")

	// Frames (5.2, 5.4, 5.5).
	ErrReserved     = protocol("a frame with a reserved bit")
	ErrOpcode       = protocol("a frame with a reserved opcode")
	ErrMasked       = protocol("a masked frame from the server")
	ErrLength       = protocol("a frame's length of more than 63 bits")
	ErrMinimal      = protocol("a frame's length in more bytes than it needs")
	ErrControlSize  = protocol("a control frame of more than 125 bytes")
	ErrControlParts = protocol("a control frame in fragments")
	ErrContinuation = protocol("a continuation frame without a message")
	ErrInterleaved  = protocol("a new message within another")

	// What they hold (5.5.1, 7.4, 8.1).
	ErrUTF8        = protocol("a text that is not UTF-8")
	ErrCloseSize   = protocol("a close frame of one byte")
	ErrCloseCode   = protocol("a close frame with a code that must not be sent")
	ErrCloseReason = protocol("a close frame whose reason is not UTF-8")
	ErrDeflate     = protocol("a compressed message that does not decompress") // RFC 7692, 7.2.2

	ErrTooLarge = &wire.Error{Kind: wire.Limit, Text: "a message longer than the limit"}
	ErrFlood    = &wire.Error{Kind: wire.Limit, Text: "more pings than the server reads the answers to"}
	ErrEcho     = &wire.Error{Kind: wire.Assertion, Text: "the answer differs from the message"}
	ErrCut      = &wire.Error{Kind: wire.Reset, Text: "the server closed the connection without a close frame"}
	ErrClosed   = &wire.Error{Kind: wire.Reset, Text: "the connection was closed before the answer"}
)

func protocol(text string) *wire.Error { return &wire.Error{Kind: wire.Protocol, Text: text} }
