package http2

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dyno/load/wire"
	"dyno/load/wire/wiretest"
)

// A case is what a server may send to a client with three exchanges under way: 0, a GET,
// on stream 1; 1, a HEAD, on stream 3; 2, a POST that is open for more, on stream 5.
// Its SETTINGS have arrived.
type testCase struct {
	name  string // with the section of RFC 9113, or of RFC 7541 for header blocks
	input []byte
	want  []string // what the client makes of it
	says  []string // what it answers
}

// broken is the outcome of an error of the connection.
func broken(name string, code ErrorCode, err *wire.Error, input ...[]byte) testCase {
	return testCase{name, join(input...), []string{"error " + err.Error()}, []string{"GOAWAY 0 " + code.String()}}
}

// malformed is the outcome of an error of stream 1.
func malformed(name string, code ErrorCode, err *wire.Error, input ...[]byte) testCase {
	return testCase{name, join(input...), []string{"failed 0 " + err.Error()}, []string{"RST_STREAM 1 " + code.String()}}
}

// malformedBody is the same after its header has come.
func malformedBody(name string, code ErrorCode, err *wire.Error, input ...[]byte) testCase {
	c := malformed(name, code, err, input...)
	c.want = append([]string{"head 0 200"}, c.want...)
	return c
}

// fine is the outcome of a response without a fault.
func fine(name string, body string, input ...[]byte) testCase {
	return testCase{name, join(input...), []string{"head 0 200", `end 0 200 "` + body + `"`}, nil}
}

// ignored expects no outcome.
func ignored(name string, input ...[]byte) testCase {
	return testCase{name: name, input: join(input...)}
}

var (
	ok200 = headers(1, endStream, ":status", "200")
	open  = headers(1, 0, ":status", "200")
)

var cases = []testCase{
	// Frames in general.
	fine("4.1 frame of an unknown type", "", raw(0x16, 0xff, 0, "what"), raw(0xfe, 0, 1, ""), raw(0x16, 0, 99, "idle"), ok200),
	fine("4.1 flags without a meaning", "", raw(frameHeaders, endStream|endHeaders|0xd2, 1, string(fields(":status", "200")))),
	fine("4.1 reserved bit", "", raw(frameHeaders, endStream|endHeaders, 1<<31|1, string(fields(":status", "200")))),
	fine("4.2 frame of the largest size", strings.Repeat("x", 1<<14), open, data(1, endStream, strings.Repeat("x", 1<<14))),
	broken("4.2 DATA too large", FrameSizeError, ErrFrameTooLarge, appendFrameHeader(nil, 1<<14+1, frameData, 0, 1)),
	broken("4.2 unknown frame too large", FrameSizeError, ErrFrameTooLarge, appendFrameHeader(nil, 1<<14+1, 0x20, 0, 1)),

	// Header blocks and CONTINUATION.
	fine("4.3 block in two frames", "", raw(frameHeaders, endStream, 1, "\x88"), raw(frameContinuation, endHeaders, 1, "")),
	fine("4.3 block in many frames", "", raw(frameHeaders, endStream, 1, ""), raw(frameContinuation, 0, 1, "\x48"), raw(frameContinuation, 0, 1, ""),
		raw(frameContinuation, 0, 1, "\x032"), raw(frameContinuation, endHeaders, 1, "00")),
	broken("4.3 interrupted by DATA", ProtocolError, ErrBlockInterrupted, raw(frameHeaders, 0, 1, "\x88"), data(1, 0, "x")),
	broken("4.3 interrupted by an unknown frame", ProtocolError, ErrBlockInterrupted, raw(frameHeaders, 0, 1, "\x88"), raw(0x16, 0, 0, "")),
	broken("4.3 interrupted by another stream's HEADERS", ProtocolError, ErrBlockInterrupted, raw(frameHeaders, 0, 1, "\x88"), headers(3, 0, ":status", "200")),
	broken("4.3 interrupted by HEADERS", ProtocolError, ErrBlockInterrupted, raw(frameHeaders, 0, 1, "\x88"), ok200),
	broken("6.10 CONTINUATION of another stream", ProtocolError, ErrBlockInterrupted, raw(frameHeaders, 0, 1, "\x88"), raw(frameContinuation, endHeaders, 3, "")),
	broken("6.10 CONTINUATION without HEADERS", ProtocolError, ErrContinuation, raw(frameContinuation, endHeaders, 1, "\x88")),
	{"6.10 CONTINUATION after END_HEADERS", join(open, raw(frameContinuation, endHeaders, 1, "\x88")),
		[]string{"head 0 200", "error " + ErrContinuation.Error()}, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
	{"6.10 CONTINUATION after DATA", join(open, data(1, 0, "x"), raw(frameContinuation, endHeaders, 1, "\x88")),
		[]string{"head 0 200", "error " + ErrContinuation.Error()}, []string{"GOAWAY 0 PROTOCOL_ERROR"}},

	// The states of streams.
	broken("5.1 idle: DATA", ProtocolError, ErrStreamIdle, data(7, 0, "x")),
	broken("5.1 idle: HEADERS", ProtocolError, ErrStreamIdle, headers(7, 0, ":status", "200")),
	broken("5.1 idle: WINDOW_UPDATE", ProtocolError, ErrStreamIdle, windowUpdate(7, 1)),
	broken("5.1 idle: CONTINUATION", ProtocolError, ErrContinuation, raw(frameContinuation, endHeaders, 7, "\x88")),
	ignored("5.1 idle: PRIORITY", raw(framePriority, 0, 7, "\x00\x00\x00\x00\x00")),
	broken("5.1.1 even number: HEADERS", ProtocolError, ErrStreamIdle, headers(2, 0, ":status", "200")),
	broken("5.1.1 largest number", ProtocolError, ErrStreamIdle, headers(1<<31-1, 0, ":status", "200")),
	{"5.1 closed: DATA", join(ok200, data(1, 0, "x")),
		[]string{"head 0 200", `end 0 200 ""`, "error " + ErrStreamClosed.Error()}, []string{"GOAWAY 0 STREAM_CLOSED"}},
	{"5.1 closed: HEADERS", join(ok200, ok200),
		[]string{"head 0 200", `end 0 200 ""`, "error " + ErrStreamClosed.Error()}, []string{"GOAWAY 0 STREAM_CLOSED"}},
	{"5.1 closed by RST_STREAM: DATA", join(resetStream(1, Cancel), data(1, 0, "x")),
		[]string{"failed 0 " + ResetError(Cancel).Error(), "error " + ErrStreamClosed.Error()}, []string{"GOAWAY 0 STREAM_CLOSED"}},
	{"5.1 closed by RST_STREAM: HEADERS", join(resetStream(1, Cancel), ok200),
		[]string{"failed 0 " + ResetError(Cancel).Error(), "error " + ErrStreamClosed.Error()}, []string{"GOAWAY 0 STREAM_CLOSED"}},
	fine("5.1 closed: PRIORITY, WINDOW_UPDATE, RST_STREAM", "", ok200, raw(framePriority, 0, 1, "\x00\x00\x00\x00\x00"), windowUpdate(1, 5), resetStream(1, NoError)),
	malformedBody("5.1 closed by this side: everything is passed over", ProtocolError, ErrTrailerEnd, open, headers(1, 0, "a", "b"),
		data(1, 0, "x"), headers(1, 0, "a", "b"), windowUpdate(1, 1), data(1, endStream, ""), resetStream(1, Cancel)),

	// DATA.
	fine("6.1 one frame", "hello", open, data(1, endStream, "hello")),
	fine("6.1 several frames, the last empty", "hello", open, data(1, 0, "he"), data(1, 0, ""), data(1, 0, "llo"), data(1, endStream, "")),
	fine("6.1 padding", "hello", open, data(1, flagPadded, "\x02he\x00\x00"), data(1, flagPadded, "\x00l"), data(1, flagPadded|endStream, "\x01lo\x00")),
	fine("6.1 padding alone", "", open, data(1, flagPadded, "\x03\x00\x00\x00"), data(1, flagPadded|endStream, "\x00")),
	broken("6.1 on stream 0", ProtocolError, ErrFrameStream, data(0, 0, "x")),
	{"6.1 padding as long as the frame", join(open, data(1, flagPadded, "\x03he")),
		[]string{"head 0 200", "error " + ErrPadding.Error()}, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
	{"6.1 padding longer than the frame", join(open, data(1, flagPadded|endStream, "\xffhe")),
		[]string{"head 0 200", "error " + ErrPadding.Error()}, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
	broken("6.1 padded without a padding length", FrameSizeError, ErrFrameSize, data(1, flagPadded, "")),

	// HEADERS.
	fine("6.2 padding and priority", "", raw(frameHeaders, endStream|endHeaders|flagPadded|flagPriority, 1, "\x02\x80\x00\x00\x03\x10\x88\x00\x00")),
	fine("5.3.1 depends on itself, which is obsolete", "", raw(frameHeaders, endStream|endHeaders|flagPriority, 1, "\x00\x00\x00\x01\x10\x88")),
	broken("6.2 on stream 0", ProtocolError, ErrFrameStream, headers(0, 0, ":status", "200")),
	broken("6.2 padding longer than the frame", ProtocolError, ErrPadding, raw(frameHeaders, endHeaders|flagPadded, 1, "\x02\x88")),
	broken("6.2 too short for padding", FrameSizeError, ErrFrameSize, raw(frameHeaders, endHeaders|flagPadded, 1, "")),
	broken("6.2 too short for both", FrameSizeError, ErrFrameSize, raw(frameHeaders, endHeaders|flagPriority|flagPadded, 1, "\x00\x00\x00\x00\x01")),

	// PRIORITY.
	broken("6.3 on stream 0", ProtocolError, ErrFrameStream, raw(framePriority, 0, 0, "\x00\x00\x00\x00\x00")),
	ignored("6.3 on a stream", raw(framePriority, 0, 1, "\x00\x00\x00\x03\x00")),
	malformed("6.3 too short", FrameSizeError, ErrPrioritySize, raw(framePriority, 0, 1, "\x00\x00\x00\x00")),
	malformed("6.3 too long", FrameSizeError, ErrPrioritySize, raw(framePriority, 0, 1, "\x00\x00\x00\x00\x00\x00")),

	// RST_STREAM.
	{"6.4 code", resetStream(1, InternalError), []string{"failed 0 reset: stream reset by the peer: INTERNAL_ERROR"}, nil},
	{"6.4 unknown code", resetStream(1, 0xbeef), []string{"failed 0 reset: stream reset by the peer: unknown error code"}, nil},
	{"6.4 after the header", join(open, data(1, 0, "x"), resetStream(1, EnhanceYourCalm)),
		[]string{"head 0 200", "failed 0 reset: stream reset by the peer: ENHANCE_YOUR_CALM"}, nil},
	{"8.7 refused", resetStream(1, RefusedStream), []string{"refused 0 " + ErrRefused.Error()}, nil},
	{"8.7 refused after the header", join(open, resetStream(1, RefusedStream)), []string{"head 0 200", "failed 0 " + ErrRefused.Error()}, nil},
	broken("6.4 on stream 0", ProtocolError, ErrFrameStream, resetStream(0, Cancel)),
	broken("6.4 too short", FrameSizeError, ErrFrameSize, raw(frameReset, 0, 1, "\x00\x00\x00")),

	// SETTINGS.
	{"6.5 none", settings(), nil, []string{"SETTINGS ACK"}},
	{"6.5 all", settings(1, 0, 2, 0, 3, 7, 4, 1<<31-1, 5, 1<<24-1, 6, 9, 8, 1, 9, 1), nil, []string{"SETTINGS ACK"}},
	{"6.5 unknown", settings(0, 1, 0xffff, 0xffffffff), nil, []string{"SETTINGS ACK"}},
	ignored("6.5 acknowledgement", raw(frameSettings, flagAck, 0, "")),
	broken("6.5 acknowledged twice", ProtocolError, ErrSettingsAck, raw(frameSettings, flagAck, 0, ""), raw(frameSettings, flagAck, 0, "")),
	broken("6.5 acknowledgement with a payload", FrameSizeError, ErrFrameSize, raw(frameSettings, flagAck, 0, "\x00\x03\x00\x00\x00\x01")),
	broken("6.5 on a stream", ProtocolError, ErrFrameStream, raw(frameSettings, 0, 1, "")),
	broken("6.5 half a setting", FrameSizeError, ErrFrameSize, raw(frameSettings, 0, 0, "\x00\x03\x00")),
	broken("6.5.2 ENABLE_PUSH 1", ProtocolError, ErrEnablePush, settings(2, 1)),
	broken("6.5.2 INITIAL_WINDOW_SIZE 2^31", FlowControlError, ErrInitialWindow, settings(4, 1<<31)),
	broken("6.5.2 MAX_FRAME_SIZE 2^14-1", ProtocolError, ErrMaxFrameSize, settings(5, 1<<14-1)),
	broken("6.5.2 MAX_FRAME_SIZE 2^24", ProtocolError, ErrMaxFrameSize, settings(5, 1<<24)),
	{"6.5.3 each is acknowledged", join(settings(3, 1), settings(3, 2)), nil, []string{"SETTINGS ACK", "SETTINGS ACK"}},

	// PUSH_PROMISE.
	broken("6.6 switched off", ProtocolError, ErrPush, raw(framePush, endHeaders, 1, word(2)+"\x82")),
	broken("6.6 on stream 0", ProtocolError, ErrPush, raw(framePush, endHeaders, 0, word(2)+"\x82")),

	// PING.
	{"6.7 answered with its payload", raw(framePing, 0, 0, "abcdefgh"), nil, []string{"PING ACK abcdefgh"}},
	ignored("6.7 answer to nothing", raw(framePing, flagAck, 0, "abcdefgh")),
	broken("6.7 on a stream", ProtocolError, ErrFrameStream, raw(framePing, 0, 1, "abcdefgh")),
	broken("6.7 too short", FrameSizeError, ErrFrameSize, raw(framePing, 0, 0, "abcdef")),

	// GOAWAY.
	{"6.8 graceful", goAway(1<<31-1, NoError), []string{"goaway"}, nil},
	{"6.8 with debug data", raw(frameGoAway, 0, 0, word(5)+word(0)+"good bye"), []string{"goaway"}, nil},
	{"6.8 code", goAway(5, EnhanceYourCalm), []string{"goaway " + GoAwayError(EnhanceYourCalm).Error()}, nil},
	{"6.8 those above the last are refused, the others go on", join(goAway(1, NoError), ok200),
		[]string{"goaway", "refused 1 " + ErrRefusedLast.Error(), "refused 2 " + ErrRefusedLast.Error(), "head 0 200", `end 0 200 ""`}, nil},
	{"6.8 lowered", join(goAway(1<<31-1, NoError), goAway(3, NoError)), []string{"goaway", "goaway", "refused 2 " + ErrRefusedLast.Error()}, nil},
	{"6.8 what is under way of the refused is passed over", join(goAway(3, NoError), headers(5, endStream, ":status", "200")),
		[]string{"goaway", "refused 2 " + ErrRefusedLast.Error()}, nil},
	{"6.8 what has been answered is not refused", join(headers(5, 0, ":status", "200"), goAway(3, NoError)),
		[]string{"head 2 200", "goaway", "failed 2 " + ErrRefusedLast.Error()}, nil},
	{"6.8 raised", join(goAway(5, NoError), goAway(7, NoError)), []string{"goaway", "error " + ErrGoAwayRaised.Error()}, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
	broken("6.8 on a stream", ProtocolError, ErrFrameStream, raw(frameGoAway, 0, 1, word(0)+word(0))),
	broken("6.8 too short", FrameSizeError, ErrFrameSize, raw(frameGoAway, 0, 0, word(0)+"abc")),

	// WINDOW_UPDATE.
	ignored("6.9 on both", windowUpdate(0, 1), windowUpdate(1, 1)),
	broken("6.9 of 0 on the connection", ProtocolError, ErrWindowUpdate, windowUpdate(0, 0)),
	broken("6.9 of 0 but for the reserved bit", ProtocolError, ErrWindowUpdate, windowUpdate(0, 1<<31)),
	malformed("6.9 of 0 on a stream", ProtocolError, ErrStreamWindow, windowUpdate(1, 0)),
	broken("6.9 too short", FrameSizeError, ErrFrameSize, raw(frameWindowUpdate, 0, 1, "\x00\x00\x01")),
	broken("6.9 too long", FrameSizeError, ErrFrameSize, raw(frameWindowUpdate, 0, 0, "\x00\x00\x00\x00\x01")),
	ignored("6.9.1 largest window of the connection", windowUpdate(0, 1<<31-1-65535)),
	broken("6.9.1 window of the connection beyond 2^31-1", FlowControlError, ErrWindowOverflow, windowUpdate(0, 1<<31-65535)),
	broken("6.9.1 in two steps", FlowControlError, ErrWindowOverflow, windowUpdate(0, 1<<31-1-65535), windowUpdate(0, 1)),
	ignored("6.9.1 largest window of a stream", windowUpdate(1, 1<<31-1-65535)),
	malformed("6.9.1 window of a stream beyond 2^31-1", FlowControlError, ErrStreamOverflow, windowUpdate(1, 1<<31-65535)),
	broken("6.9.2 beyond 2^31-1 by SETTINGS", FlowControlError, ErrWindowOverflow, windowUpdate(1, 1<<31-1-65535), settings(4, 65536)),

	// Responses (section 8).
	{"8.1 informational", join(headers(1, 0, ":status", "100"), headers(1, 0, ":status", "103", "a", "hint"), headers(1, endStream, ":status", "200", "a", "x")),
		[]string{"head 0 200 a=x", `end 0 200 ""`}, nil},
	malformed("8.1 informational that ends the stream", ProtocolError, ErrInformationalEnd, headers(1, endStream, ":status", "100")),
	malformed("8.6 status 101", ProtocolError, ErrSwitching, headers(1, 0, ":status", "101")),
	malformed("8.1 too many informational", EnhanceYourCalm, ErrInformational, slices.Repeat(headers(1, 0, ":status", "102"), wire.MaxInformational+1)),
	malformed("8.1 DATA before the header", ProtocolError, ErrDataBeforeHeader, data(1, 0, "x")),
	malformed("8.1 DATA after an informational header", ProtocolError, ErrDataBeforeHeader, headers(1, 0, ":status", "100"), data(1, endStream, "x")),
	malformed("8.1 empty DATA that ends the stream before the header", ProtocolError, ErrDataBeforeHeader, data(1, endStream, "")),
	{"8.1 trailers", join(open, data(1, 0, "x"), headers(1, endStream, "a", "1", "b", "2")), []string{"head 0 200", `end 0 200 "x" trailers a=1 b=2`}, nil},
	{"8.1 trailers without fields", join(open, headerBlock(1, endStream, "")), []string{"head 0 200", `end 0 200 "" trailers`}, nil},
	malformedBody("8.1 second header", ProtocolError, ErrTrailerEnd, open, headers(1, 0, "a", "b")),
	malformedBody("8.1 second header, with a status", ProtocolError, ErrPseudoTrailer, open, open),
	malformedBody("8.1 trailers with a status", ProtocolError, ErrPseudoTrailer, open, ok200),
	malformed("8.2.1 upper case in a name", ProtocolError, ErrFieldNameCase, headers(1, endStream, ":status", "200", "X-Test", "a")),
	malformed("8.2.1 colon in a name", ProtocolError, ErrFieldName, headers(1, endStream, ":status", "200", "x:test", "a")),
	malformed("8.2.1 DEL in a name", ProtocolError, ErrFieldName, headers(1, endStream, ":status", "200", "x\x7f", "a")),
	malformed("8.2.1 empty name", ProtocolError, ErrFieldName, headers(1, endStream, ":status", "200", "", "a")),
	malformed("8.2.1 LF in a long value", ProtocolError, ErrFieldValue, headers(1, endStream, ":status", "200", "a", "long enough\n for words")),
	malformed("8.2.1 NUL in a value", ProtocolError, ErrFieldValue, headers(1, endStream, ":status", "200", "a", "\x00")),
	malformed("8.2.1 space before a value", ProtocolError, ErrFieldValue, headers(1, endStream, ":status", "200", "a", " x")),
	{"8.2.1 other bytes in a value", headers(1, endStream, ":status", "200", "a", "\x01\x7f\x80\xff x\ty", "b", ""),
		[]string{"head 0 200 a=\x01\x7f\x80\xff x\ty b=", `end 0 200 ""`}, nil},
	malformed("8.2.2 connection", ProtocolError, ErrConnectionField, headers(1, endStream, ":status", "200", "connection", "close")),
	malformed("8.2.2 transfer-encoding", ProtocolError, ErrConnectionField, headers(1, endStream, ":status", "200", "transfer-encoding", "chunked")),
	malformed("8.2.2 te", ProtocolError, ErrConnectionField, headers(1, endStream, ":status", "200", "te", "gzip")),
	malformed("8.3 pseudo-header field of requests", ProtocolError, ErrPseudo, headers(1, endStream, ":status", "200", ":path", "/")),
	malformed("8.3 pseudo-header field of requests, indexed", ProtocolError, ErrPseudo, headerBlock(1, endStream, "\x82\x88")),
	malformed("8.3 unknown pseudo-header field", ProtocolError, ErrPseudo, headers(1, endStream, ":status", "200", ":test", "a")),
	malformed("8.3 pseudo-header field after a regular one", ProtocolError, ErrPseudoOrder, headers(1, endStream, "a", "b", ":status", "200")),
	malformed("8.3 the same, indexed", ProtocolError, ErrPseudoOrder, headerBlock(1, endStream, "\x00\x01a\x01b\x88")),
	malformedBody("8.3 pseudo-header field in trailers", ProtocolError, ErrPseudoTrailer, open, headers(1, endStream, ":status", "200", "a", "b")),
	malformed("8.3.2 no status", ProtocolError, ErrNoStatus, headers(1, endStream, "a", "b")),
	malformed("8.3.2 no field at all", ProtocolError, ErrNoStatus, headerBlock(1, endStream, "")),
	malformed("8.3.2 status twice", ProtocolError, ErrStatusTwice, headers(1, endStream, ":status", "200", ":status", "200")),
	malformed("8.3.2 status twice, indexed", ProtocolError, ErrStatusTwice, headerBlock(1, endStream, "\x88\x89")),
	malformed("8.3.2 status of two digits", ProtocolError, ErrStatus, headers(1, endStream, ":status", "99")),
	malformed("8.3.2 status below 100", ProtocolError, ErrStatus, headers(1, endStream, ":status", "099")),
	fine("8.1.1 content-length", "hello", headers(1, 0, ":status", "200", "content-length", "5"), data(1, 0, "hel"), data(1, endStream, "lo")),
	fine("8.1.1 content-length 0", "", headers(1, endStream, ":status", "200", "content-length", "0")),
	fine("8.1.1 content-length twice", "x", headers(1, 0, ":status", "200", "content-length", "1", "content-length", "01"), data(1, endStream, "x")),
	{"8.1.1 content-length and trailers", join(headers(1, 0, ":status", "200", "content-length", "1"), data(1, 0, "x"), headers(1, endStream, "a", "b")),
		[]string{"head 0 200", `end 0 200 "x" trailers a=b`}, nil},
	malformedBody("8.1.1 less than content-length", ProtocolError, ErrBodyLength, headers(1, 0, ":status", "200", "content-length", "5"), data(1, endStream, "hell")),
	malformedBody("8.1.1 more than content-length", ProtocolError, ErrBodyLength, headers(1, 0, ":status", "200", "content-length", "5"), data(1, endStream, "hello!")),
	malformedBody("8.1.1 more than content-length, in two frames", ProtocolError, ErrBodyLength, headers(1, 0, ":status", "200", "content-length", "5"), data(1, 0, "hello"), data(1, 0, "!")),
	malformedBody("8.1.1 less than content-length before trailers", ProtocolError, ErrBodyLength, headers(1, 0, ":status", "200", "content-length", "5"), headers(1, endStream, "a", "b")),
	malformedBody("8.1.1 content-length without a body", ProtocolError, ErrBodyLength, headers(1, endStream, ":status", "200", "content-length", "5")),
	malformed("8.1.1 two content-lengths", ProtocolError, ErrContentLengths, headers(1, 0, ":status", "200", "content-length", "5", "content-length", "6")),
	malformed("8.1.1 content-length that is no number", ProtocolError, ErrContentLength, headers(1, 0, ":status", "200", "content-length", "-1")),
	malformed("8.1.1 content-length of 2^63", ProtocolError, ErrContentLength, headers(1, 0, ":status", "200", "content-length", "9223372036854775808")),
	{"8.1.1 HEAD with content-length", headers(3, endStream, ":status", "200", "content-length", "5"), []string{"head 1 200", `end 1 200 ""`}, nil},
	{"8.1.1 HEAD with a body", join(headers(3, 0, ":status", "200"), data(3, 0, "x")), []string{"head 1 200", "failed 1 " + ErrBodyUnexpected.Error()}, []string{"RST_STREAM 3 PROTOCOL_ERROR"}},
	{"8.1.1 HEAD with empty DATA", join(headers(3, 0, ":status", "200"), data(3, endStream, "")), []string{"head 1 200", `end 1 200 ""`}, nil},
	{"8.1.1 304 with content-length", headers(1, endStream, ":status", "304", "content-length", "5"), []string{"head 0 304", `end 0 304 ""`}, nil},
	{"8.1.1 204 with a body", join(headers(1, 0, ":status", "204"), data(1, endStream, "x")), []string{"head 0 204", "failed 0 " + ErrBodyUnexpected.Error()}, []string{"RST_STREAM 1 PROTOCOL_ERROR"}},
	{"status that says failure", join(headers(1, 0, ":status", "503"), data(1, endStream, "no")), []string{"head 0 503", `end 0 503 "no" status: status 503: no`}, nil},
	{"status beyond the registered ones", headers(1, endStream, ":status", "999"), []string{"head 0 999", `end 0 999 "" status: status 999`}, nil},
	{"8.1 response before the request is sent whole", headers(5, endStream, ":status", "200"), []string{"head 2 200", `end 2 200 ""`}, []string{"RST_STREAM 5 NO_ERROR"}},
	{"8.1 and NO_ERROR after it", join(headers(5, endStream, ":status", "413"), resetStream(5, NoError)),
		[]string{"head 2 413", `end 2 413 "" status: status 413`}, []string{"RST_STREAM 5 NO_ERROR"}},
	{"8.1 and NO_ERROR in place of the end", join(headers(5, 0, ":status", "413", "content-length", "2"), data(5, 0, "no"), resetStream(5, NoError)),
		[]string{"head 2 413", `end 2 413 "no" status: status 413: no`}, nil},
	{"8.1 and NO_ERROR before the content is whole", join(headers(5, 0, ":status", "413", "content-length", "2"), data(5, 0, "n"), resetStream(5, NoError)),
		[]string{"head 2 413", "failed 2 " + ResetError(NoError).Error()}, nil},
	{"8.1 and NO_ERROR where nothing says how long the content is", join(headers(5, 0, ":status", "413"), data(5, 0, "no"), resetStream(5, NoError)),
		[]string{"head 2 413", "failed 2 " + ResetError(NoError).Error()}, nil},
	malformed("field list beyond the limit", ProtocolError, ErrHeaderListTooLarge,
		headerBlock(1, endStream, "\x88\x40\x01a\x7f\xff\x03"+strings.Repeat("x", 127+511)+strings.Repeat("\xbe", 120))),

	// Header blocks (RFC 7541).
	fine("6.1 indexed", "", headerBlock(1, endStream, "\x88")),
	fine("6.2 literals", "", headerBlock(1, endStream, "\x08\x03200\x5e\x01x\x1f\x0a\x01y")),
	{"2.3.2 dynamic table", headerBlock(1, endStream, "\x88\x40\x01a\x01b\x40\x01b\x01c\xbe\xbf\x7e\x01d\xbe"),
		[]string{"head 0 200 a=b b=c b=c a=b b=d b=d", `end 0 200 ""`}, nil},
	{"4.1 entry that is too large empties the table", headerBlock(1, endStream, "\x88\x40\x01a\x01b\x40\x01b\x7f\xff\x1f"+strings.Repeat("x", 127+127+31<<7)+"\xbe"),
		[]string{"error " + ErrIndex.Error()}, []string{"GOAWAY 0 COMPRESSION_ERROR"}},
	broken("2.3.3 index 0", CompressionError, ErrIndexZero, headerBlock(1, endStream, "\x88\x80")),
	broken("2.3.3 index beyond the tables", CompressionError, ErrIndex, headerBlock(1, endStream, "\x88\xbe")),
	broken("2.3.3 name beyond the tables", CompressionError, ErrIndex, headerBlock(1, endStream, "\x88\x7e\x01x")),
	broken("5.1 integer that overflows", CompressionError, ErrInteger, headerBlock(1, endStream, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f")),
	broken("5.1 integer cut short", CompressionError, ErrTruncated, headerBlock(1, endStream, "\x88\xff\x80")),
	broken("5.2 string longer than the block", CompressionError, ErrTruncated, headerBlock(1, endStream, "\x88\x00\x05ab")),
	broken("5.2 padding of zeros", CompressionError, ErrHuffmanPadding, headerBlock(1, endStream, "\x88\x00\x81\x18\x01x")),
	broken("5.2 padding of a byte", CompressionError, ErrHuffmanPadding, headerBlock(1, endStream, "\x88\x00\x82\x1f\xff\x01x")),
	broken("5.2 end of string", CompressionError, ErrHuffmanEOS, headerBlock(1, endStream, "\x88\x00\x01a\x85\xff\xff\xff\xff\xff")),
	fine("4.2 table size update", "", headerBlock(1, endStream, "\x20\x3f\xe1\x1f\x88")),
	broken("4.2 table size update after a field", CompressionError, ErrTableUpdate, headerBlock(1, endStream, "\x88\x20")),
	broken("6.3 table size update beyond the setting", CompressionError, ErrTableSize, headerBlock(1, endStream, "\x3f\xe2\x1f\x88")),
	broken("4.2 lowering the size throws out", CompressionError, ErrIndex, headerBlock(1, 0, "\x88\x40\x01a\x01b"), headerBlock(1, endStream, "\x20\xbe")).
		with("head 0 200 a=b"),
	broken("4.4 nothing enters a table of no size", CompressionError, ErrIndex, headerBlock(1, 0, "\x20\x88\x40\x01a\x01b"), headerBlock(1, endStream, "\xbe")).
		with("head 0 200 a=b"),
	// A malformed response does not hurt the table: the next one refers to its fields.
	{"malformed response keeps the table in step", join(headerBlock(1, endStream, "\x88\x40\x01A\x01x\x40\x01a\x01y"), headerBlock(3, endStream, "\x88\xbe")),
		[]string{"failed 0 " + ErrFieldNameCase.Error(), "head 1 200 a=y", `end 1 200 ""`}, []string{"RST_STREAM 1 PROTOCOL_ERROR"}},
	{"fault of an entry shows again", join(headerBlock(1, endStream, "\x88\x40\x01A\x01x"), headerBlock(3, endStream, "\x88\xbe")),
		[]string{"failed 0 " + ErrFieldNameCase.Error(), "failed 1 " + ErrFieldNameCase.Error()}, []string{"RST_STREAM 1 PROTOCOL_ERROR", "RST_STREAM 3 PROTOCOL_ERROR"}},
	{"fault of a value is not one of its name", join(headerBlock(1, endStream, "\x88\x40\x01a\x01\x00"), headerBlock(3, endStream, "\x88\x7e\x01y")),
		[]string{"failed 0 " + ErrFieldValue.Error(), "head 1 200 a=y", `end 1 200 ""`}, []string{"RST_STREAM 1 PROTOCOL_ERROR"}},
}

// with puts what happens before.
func (c testCase) with(before ...string) testCase {
	c.want = append(before, c.want...)
	return c
}

// ready returns a client as testCase describes it.
func ready(tb wiretest.TB, config Config) *Client {
	tb.Helper()
	c := newClient(tb, config)
	listen(tb, c).hear(settings())
	for id, request := range []int{get, head, bits} {
		begin(tb, c, uint32(id), request)
	}
	wiretest.Take(c)
	return c
}

func TestConformance(t *testing.T) {
	seen := map[string]bool{}
	for _, tt := range cases {
		if seen[tt.name] {
			t.Errorf("two cases %q", tt.name)
		}
		seen[tt.name] = true
		t.Run(tt.name, func(t *testing.T) {
			every := make([]int, len(tt.input))
			for i := range every {
				every[i] = i
			}
			for _, cuts := range [][]int{nil, every} {
				c := ready(t, testConfig())
				l := listen(t, c)
				l.hear(tt.input, cuts...)
				if diff := cmp.Diff(tt.want, l.lines); diff != "" {
					t.Errorf("%d cuts: want -, got +\n%s", len(cuts), diff)
				}
				if diff := cmp.Diff(tt.says, describeFrames(t, wiretest.Take(c))); diff != "" {
					t.Errorf("%d cuts: says: want -, got +\n%s", len(cuts), diff)
				}
				l.end()
				l.endedOnce(3)
			}
		})
	}
}

// Before SETTINGS, nothing else is accepted.
func TestPreface(t *testing.T) {
	for _, tt := range []struct {
		name  string
		input []byte
		want  *wire.Error
	}{
		{"HTTP/1.1", []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), ErrHTTP1},
		{"HTTP/1.0, cut", []byte("HTTP/1."), ErrHTTP1},
		{"headers", headers(1, endStream, ":status", "200"), ErrPreface},
		{"acknowledgement", raw(frameSettings, flagAck, 0, ""), ErrPreface},
		{"ping", raw(framePing, 0, 0, "12345678"), ErrPreface},
		{"goaway", goAway(0, NoError), ErrPreface},
		{"unknown", raw(0x16, 0, 0, ""), ErrPreface},
		{"text", []byte("SSH-2.0-OpenSSH"), ErrPreface},
		{"on a stream", raw(frameSettings, 0, 1, ""), ErrFrameStream},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for cut := range len(tt.input) {
				config := testConfig()
				config.Optimistic = true
				c := newClient(t, config)
				begin(t, c, 0, get)
				wiretest.Take(c)
				l := listen(t, c)
				l.hear(tt.input, cut)
				if l.err != tt.want { //nolint:errorlint // the very same error
					t.Fatalf("cut at %d: %v, want %v", cut, l.err, tt.want)
				}
			}
		})
	}
}
