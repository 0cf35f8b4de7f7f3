package grpc

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	"dyno/load/wire"
	"dyno/load/wire/http2"
)

// A Code is a status of gRPC.
type Code uint8

// The codes.
const (
	OK Code = iota
	Cancelled
	Unknown
	InvalidArgument
	DeadlineExceeded
	NotFound
	AlreadyExists
	PermissionDenied
	ResourceExhausted
	FailedPrecondition
	Aborted
	OutOfRange
	Unimplemented
	Internal
	Unavailable
	DataLoss
	Unauthenticated
	Codes // the number of codes
)

var codeNames = [Codes]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
	"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// String returns the code's name in gRPC's documents.
func (c Code) String() string {
	if c < Codes {
		return codeNames[c]
	}
	return "unknown code"
}

// CodeNames returns the names of all codes, by their numbers.
func CodeNames() []string { return slices.Clone(codeNames[:]) }

// CodeNamed returns the code of a name.
func CodeNamed(name string) (Code, bool) {
	for c, n := range codeNames {
		if n == name {
			return Code(c), true
		}
	}
	return Unknown, false
}

// OfHTTP returns the code that stands for an HTTP status without grpc-status (Mapping).
func OfHTTP(status int) Code {
	switch status {
	case 400:
		return Internal
	case 401:
		return Unauthenticated
	case 403:
		return PermissionDenied
	case 404:
		return Unimplemented
	case 429, 502, 503, 504:
		return Unavailable
	}
	return Unknown
}

// OfReset returns the code that stands for the code of a RST_STREAM (HTTP2, "Errors"). For
// those that the document does not name it is INTERNAL if RFC 9113 has them, else UNKNOWN.
func OfReset(code http2.ErrorCode) Code {
	switch {
	case code == http2.RefusedStream:
		return Unavailable
	case code == http2.Cancel:
		return Cancelled
	case code == http2.EnhanceYourCalm:
		return ResourceExhausted
	case code == http2.InadequateSecurity:
		return PermissionDenied
	case code > http2.HTTP11Required:
		return Unknown
	}
	return Internal
}

// Prefix begins the text of each error that has a status.
const Prefix = "grpc "

// A failure is an error with the status that it stands for. Failures are made once, so
// that failing is as cheap as succeeding.
type failure struct {
	*wire.Error
	code Code
}

func newFailure(kind wire.Kind, code Code, text string) failure {
	if text != "" {
		text = ": " + text
	}
	return failure{&wire.Error{Kind: kind, Text: Prefix + code.String() + text}, code}
}

// StatusError returns the error of a call that ended with a status other than OK, without a
// message: the same pointer for the same code.
func StatusError(code Code) *wire.Error { return statuses[min(code, Codes-1)].Error }

var statuses = func() (all [Codes]failure) {
	for c := range all {
		all[c] = newFailure(wire.Status, Code(c), "")
	}
	return all
}()

// Faults of a response, apart from its status.
var (
	errNoStatus    = newFailure(wire.Protocol, Unknown, "response without grpc-status")
	errContentType = newFailure(wire.Protocol, Unknown, "response whose content-type is not gRPC's")
	errBadStatus   = newFailure(wire.Protocol, Unknown, "grpc-status that is not a number")
	errFrameFlags  = newFailure(wire.Protocol, Internal, "message with a flag that gRPC does not have")
	errCutShort    = newFailure(wire.Protocol, Internal, "response that ends inside a message")
	errNoMessage   = newFailure(wire.Protocol, Unimplemented, "no message in a response that has one")
	errMessages    = newFailure(wire.Protocol, Unimplemented, "more than one message in a response that has one")
	errEncoding    = newFailure(wire.Protocol, Internal, "message compressed in a way that was not offered")
	errUncoded     = newFailure(wire.Protocol, Internal, "compressed message without grpc-encoding")
	errCompressed  = newFailure(wire.Protocol, Internal, "message whose compression is damaged")
	errBehindEnd   = newFailure(wire.Protocol, Internal, "content after the trailers")
	// errTrailersTooLarge concerns trailers of gRPC-Web, within the content.
	errTrailersTooLarge = newFailure(wire.Limit, ResourceExhausted, "trailers larger than 64 KiB")
	errTrailers         = newFailure(wire.Protocol, Internal, "malformed trailers in the content")
	errBase64           = newFailure(wire.Protocol, Internal, "content that is not base64")
)

// httpFailures are by HTTP status.
var httpFailures = sync.OnceValue(func() *[1000]failure {
	var all [1000]failure
	for status := range all {
		all[status] = newFailure(wire.Status, OfHTTP(status), "HTTP status "+strconv.Itoa(status)+" without grpc-status")
	}
	all[200] = errNoStatus
	return &all
})

// resets are the failures of calls that the peer reset, by the errors of package http2.
var resets = func() map[*wire.Error]failure {
	all := map[*wire.Error]failure{}
	for code := http2.NoError; code <= http2.HTTP11Required+1; code++ {
		err := http2.ResetError(code)
		all[err] = newFailure(err.Kind, OfReset(code), err.Text)
	}
	return all
}()

// codeOf returns the status that stands for an error of the protocol below.
func codeOf(err *wire.Error) Code {
	switch {
	case err == http2.ErrBlockTooLarge || err == http2.ErrHeaderListTooLarge:
		return ResourceExhausted
	case err.Kind == wire.Reset || err.Kind == wire.Refused:
		return Unavailable
	}
	return Internal
}

// below returns the failure of a call for an error of the protocol below. There are few such
// errors, and each is made into a failure once.
func (t *Template) below(err *wire.Error) failure {
	if f, found := resets[err]; found {
		return f
	}
	f, found := t.failures[err]
	if !found {
		f = newFailure(err.Kind, codeOf(err), err.Text)
		if len(t.failures) < maxTranslated {
			t.failures[err] = f
		}
	}
	return f
}

// tooLarge returns the failure of a message of a size beyond the limit. After a number of different
// sizes it returns one failure for unknown sizes, with size 0.
func (t *Template) tooLarge(size int64) failure {
	if _, found := t.oversize[size]; !found && len(t.oversize) >= maxInterned {
		size = 0
	}
	f, found := t.oversize[size]
	if !found {
		text := fmt.Sprintf("message larger than the limit, which is %s: --max-message raises it", bytesText(int64(t.maxMessage)))
		if size > 0 {
			text = fmt.Sprintf("message of %s is larger than the limit, which is %s: --max-message raises it", bytesText(size), bytesText(int64(t.maxMessage)))
		}
		f = newFailure(wire.Limit, ResourceExhausted, text)
		if t.oversize == nil {
			t.oversize = map[int64]failure{}
		}
		t.oversize[size] = f
	}
	return f
}

// bytesText writes a number of bytes exactly.
func bytesText(n int64) string {
	if n > 0 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}

// translate names an error of the connection below by its status.
func (t *Template) translate(err error) error {
	if e, ok := err.(*wire.Error); ok { //nolint:errorlint // codecs return these
		return t.below(e).Error
	}
	return err
}

// maxTranslated bounds the errors of the protocol below that are kept: it has fewer.
const maxTranslated = 256

// A callStatus is the outcome of a call, by the fields of its response.
type callStatus struct {
	code             []byte // grpc-status; nil without
	message, details []byte // as they are on the wire
}

// ending returns the failure that a response's status stands for, and whether it is OK.
func (t *Template) ending(s callStatus) (f failure, ok bool) {
	number := 0
	for _, b := range s.code {
		if b-'0' > 9 || number > 1e6 {
			return errBadStatus, false
		}
		number = number*10 + int(b-'0')
	}
	switch {
	case len(s.code) == 0:
		return errBadStatus, false
	case number == 0:
		return failure{}, true
	case number < int(Codes) && len(s.message) == 0 && len(s.details) == 0:
		return statuses[number], false
	}
	return t.intern(number, s), false
}

const (
	maxInterned = 8    // failures with a message that a worker tells apart
	maxRead     = 8192 // bytes of message and details that are looked into
)

// intern returns the one failure there is for a status with a message. After a number of different
// messages it returns the failure of the status alone: messages may name what differs from call to
// call.
func (t *Template) intern(number int, s callStatus) failure {
	code := Code(min(number, int(Codes)))
	if code == Codes {
		code = Unknown // as a code that gRPC does not have is to be taken
	}
	if len(s.message)+len(s.details) > maxRead {
		return statuses[code]
	}
	t.key = append(append(append(t.key[:0], byte(number), byte(number>>8)), s.message...), 0)
	t.key = append(t.key, s.details...)
	if f, found := t.interned[string(t.key)]; found {
		return f
	}
	if len(t.interned) == maxInterned {
		return statuses[code]
	}
	f := newFailure(wire.Status, code, describe(number, s))
	t.interned[string(t.key)] = f
	return f
}
