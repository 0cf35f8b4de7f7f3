package http2

import "dyno/load/wire"

// Faults of a connection. Each is returned as it is, so that == and errors.Is both find it. Those of
// flow control, frames and states follow RFC 9113; those of header blocks follow RFC 7541.
var (
	ErrHTTP1   = protocol("the peer answers in HTTP/1: it does not speak HTTP/2 here")
	ErrPreface = protocol("the peer's first frame is not SETTINGS")

	ErrFrameTooLarge    = protocol("frame larger than SETTINGS_MAX_FRAME_SIZE")
	ErrFrameSize        = protocol("frame of a size that its type cannot have")
	ErrFrameStream      = protocol("frame on a stream that its type cannot be on")
	ErrPadding          = protocol("padding as long as the frame, or longer")
	ErrStreamIdle       = protocol("frame on a stream that was never begun")
	ErrStreamClosed     = protocol("frame on a stream that the peer has ended")
	ErrContinuation     = protocol("CONTINUATION without a header block before it")
	ErrBlockInterrupted = protocol("header block interrupted by another frame")
	ErrPush             = protocol("PUSH_PROMISE, which was switched off")
	ErrGoAwayRaised     = protocol("GOAWAY that raises the last stream's number")
	ErrSettingsAck      = protocol("SETTINGS acknowledged that were never sent")
	ErrEnablePush       = protocol("SETTINGS_ENABLE_PUSH other than 0 from a server")
	ErrInitialWindow    = protocol("SETTINGS_INITIAL_WINDOW_SIZE of 2^31 or more")
	ErrMaxFrameSize     = protocol("SETTINGS_MAX_FRAME_SIZE below 2^14 or above 2^24-1")
	ErrWindowUpdate     = protocol("WINDOW_UPDATE of 0")
	ErrWindowOverflow   = protocol("flow-control window of 2^31 or more")
	ErrWindowExceeded   = protocol("DATA beyond the flow-control window")

	ErrBlockTooLarge     = limit("header larger than the limit, which is 64 KiB unless --max-header raises it")
	ErrContinuationFlood = protocol("more CONTINUATION frames in a header block than the limit")
	ErrSettingsTooMany   = protocol("more settings in one frame than the limit")
	ErrReplyFlood        = protocol("the peer asks for more replies than the limit without reading them")
	ErrSettingsFlood     = protocol("flood of SETTINGS frames")
	ErrPingFlood         = protocol("flood of PING frames")
	ErrDataFlood         = protocol("flood of DATA frames without data")
	ErrHeadersFlood      = protocol("flood of HEADERS frames on streams that were given up")
	ErrResetFlood        = protocol("flood of RST_STREAM frames on streams that have ended")
	ErrWindowFlood       = protocol("flood of WINDOW_UPDATE frames")
	ErrPriorityFlood     = protocol("flood of PRIORITY frames")
	ErrGoAwayFlood       = protocol("flood of GOAWAY frames")
	ErrUnknownFlood      = protocol("flood of frames of unknown types")

	ErrIndexZero      = protocol("hpack: index 0")
	ErrIndex          = protocol("hpack: index beyond the tables")
	ErrInteger        = protocol("hpack: integer of 2^28 or more")
	ErrTruncated      = protocol("hpack: header block ends inside a field")
	ErrHuffmanPadding = protocol("hpack: Huffman padding longer than 7 bits or not of ones")
	ErrHuffmanEOS     = protocol("hpack: Huffman code of the end of string inside a string")
	ErrTableUpdate    = protocol("hpack: table size update after a field")
	ErrTableSize      = protocol("hpack: table size update beyond SETTINGS_HEADER_TABLE_SIZE")
)

// Faults of one response. The exchange fails and the connection goes on.
var (
	ErrHeaderListTooLarge = limit("header list larger than the limit, which is 64 KiB unless --max-header raises it")
	ErrInformational      = protocol("more informational (1xx) responses than the limit")
	ErrSwitching          = protocol("status 101 (switching protocols), which HTTP/2 does not have")
	ErrInformationalEnd   = protocol("informational (1xx) response that ends the stream")
	ErrStatus             = protocol("status that is not three digits from 100")
	ErrNoStatus           = protocol("response header without :status")
	ErrStatusTwice        = protocol(":status given twice")
	ErrPseudo             = protocol("pseudo-header field that a response cannot have")
	ErrPseudoOrder        = protocol("pseudo-header field after a regular one")
	ErrPseudoTrailer      = protocol("pseudo-header field in a trailer section")
	ErrTrailerEnd         = protocol("trailer section that does not end the stream")
	ErrFieldName          = protocol("header field name that is empty or has a byte that it cannot have")
	ErrFieldNameCase      = protocol("header field name with an upper-case letter")
	ErrFieldValue         = protocol("header field value with NUL, CR or LF, or with a space around it")
	ErrConnectionField    = protocol("connection-specific header field")
	ErrContentLength      = protocol("content-length that is not a number of bytes below 2^63")
	ErrContentLengths     = protocol("content-length given twice with different values")
	ErrBodyLength         = protocol("body of another length than content-length says")
	ErrBodyUnexpected     = protocol("body in a response that has none (HEAD, 204, 304)")
	ErrDataBeforeHeader   = protocol("DATA before the response's header")
	ErrStreamWindow       = protocol("WINDOW_UPDATE of 0 on a stream")
	ErrStreamOverflow     = protocol("flow-control window of a stream of 2^31 or more")
	ErrStreamExceeded     = protocol("DATA beyond the flow-control window of the stream")
	ErrPrioritySize       = protocol("PRIORITY frame that is not 5 bytes")
)

// Faults of a response that the peer cut short by closing the connection.
var (
	// ErrClosedEarly is the usual fate of a request that crossed with the server's
	// closing of an idle connection without GOAWAY.
	ErrClosedEarly  = closed("connection closed before the first byte of the response")
	ErrClosedHeader = closed("connection closed before the header of the response was complete")
	ErrClosedBody   = closed("connection closed inside the response body")
)

// How the peer refused an exchange that it has not processed.
var (
	ErrRefused     = refused("stream refused by the peer (REFUSED_STREAM)")
	ErrRefusedLast = refused("stream above the last one that GOAWAY accepts")
)

// Faults of the caller. Nothing was sent.
var (
	ErrNotFree     = ours("no exchange can begin now: Free is 0")
	ErrNumber      = ours("exchange number taken, or not below the number of streams")
	ErrRequest     = ours("request number that was not prepared")
	ErrParts       = ours("other number of parts than the request has")
	ErrPath        = ours("path that does not start with / or has bytes that belong percent-encoded")
	ErrValue       = ours("field value with a control byte, or with a space around it")
	ErrNoExchange  = ours("no exchange of that number is under way")
	ErrSendUnasked = ours("the request was not prepared to be sent bit by bit")
	ErrSendEnded   = ours("the request has been sent whole")
)

func protocol(text string) *wire.Error { return &wire.Error{Kind: wire.Protocol, Text: text} }
func limit(text string) *wire.Error    { return &wire.Error{Kind: wire.Limit, Text: text} }
func closed(text string) *wire.Error   { return &wire.Error{Kind: wire.Reset, Text: text} }
func refused(text string) *wire.Error  { return &wire.Error{Kind: wire.Refused, Text: text} }
func ours(text string) *wire.Error     { return &wire.Error{Kind: wire.Generator, Text: text} }

// An ErrorCode says in RST_STREAM and GOAWAY why (RFC 9113, section 7).
type ErrorCode uint32

// The codes.
const (
	NoError ErrorCode = iota
	ProtocolError
	InternalError
	FlowControlError
	SettingsTimeout
	StreamClosed
	FrameSizeError
	RefusedStream
	Cancel
	CompressionError
	ConnectError
	EnhanceYourCalm
	InadequateSecurity
	HTTP11Required
	errorCodes // the number of codes
)

var codeNames = [errorCodes]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
	"FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM",
	"INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

// String returns the code's name in the RFC.
func (c ErrorCode) String() string {
	if c < errorCodes {
		return codeNames[c]
	}
	return "unknown error code"
}

// resetErrors and goAwayErrors have one more entry each, for unknown codes.
var (
	resetErrors  = codeErrors("stream reset by the peer: ")
	goAwayErrors = codeErrors("connection ended by the peer (GOAWAY): ")
)

func codeErrors(text string) (errs [errorCodes + 1]wire.Error) {
	for c := range errs {
		errs[c] = wire.Error{Kind: wire.Reset, Text: text + ErrorCode(c).String()}
	}
	return errs
}

// ResetError returns the error of a stream that the peer reset: the same pointer for
// the same code, and one for all codes that RFC 9113 does not have.
func ResetError(code ErrorCode) *wire.Error { return &resetErrors[min(code, errorCodes)] }

// ErrNoConnect is the error of a peer that speaks no other protocol on a stream (RFC 8441).
var ErrNoConnect = &wire.Error{Kind: wire.Connect, Text: "the server does not offer other protocols over HTTP/2 (SETTINGS_ENABLE_CONNECT_PROTOCOL)"}

// ErrTooManyPings is the error of a connection that the peer ended by GOAWAY because it was
// pinged too often: servers of gRPC say so (gRPC's proposal A8).
var ErrTooManyPings = &wire.Error{Kind: wire.Reset, Text: goAwayErrors[EnhanceYourCalm].Text + ", " + tooManyPings}

const tooManyPings = "too_many_pings"

// GoAwayError returns the error of a connection that the peer ended by GOAWAY: the same
// pointer for the same code.
func GoAwayError(code ErrorCode) *wire.Error { return &goAwayErrors[min(code, errorCodes)] }
