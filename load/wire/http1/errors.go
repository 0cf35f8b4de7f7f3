package http1

import "dyno/load/wire"

// Faults of a response's bytes. Each is returned as it is, so that == and errors.Is both find it.
var (
	ErrNotHTTP          = protocol("the answer does not start with HTTP/")
	ErrVersion          = protocol("the answer's version is neither HTTP/1.0 nor HTTP/1.1")
	ErrStatusLine       = protocol("malformed status line: want HTTP/1.1, a space, three digits, a space, a reason")
	ErrSwitching        = protocol("status 101 (switching protocols), which was not asked for")
	ErrInformational    = protocol("more informational (1xx) responses than the limit")
	ErrHeaderTooLarge   = limit("header larger than the limit, which is 64 KiB unless --max-header raises it")
	ErrBareCR           = protocol("CR without LF inside a line")
	ErrControl          = protocol("control byte inside a line")
	ErrFolding          = protocol("whitespace before the first header field")
	ErrFieldLine        = protocol("header line without a colon")
	ErrFieldName        = protocol("header field name that is not a token")
	ErrFieldNameEmpty   = protocol("empty header field name")
	ErrFieldNameSpace   = protocol("whitespace in or after a header field name")
	ErrContentLength    = protocol("content-length that is not a number of bytes below 2^63")
	ErrContentLengths   = protocol("content-length given twice with different values")
	ErrTransferEncoding = protocol("transfer-encoding whose last coding is not chunked, or not the only chunked")
	ErrTransferVersion  = protocol("transfer-encoding in an HTTP/1.0 response")
	ErrBothLengths      = protocol("both transfer-encoding and content-length (response smuggling)")
	ErrChunkSize        = protocol("malformed chunk size")
	ErrChunkOverflow    = protocol("chunk size of 2^63 bytes or more")
	ErrChunkLine        = protocol("chunk size and extensions longer than 4096 bytes")
	ErrChunkEnd         = protocol("chunk data not followed by CR LF")
	ErrTrailerTooLarge  = limit("trailers larger than the limit, which is 64 KiB unless --max-header raises it")
	ErrUnsolicited      = protocol("bytes that belong to no request")
)

// Faults of a response that the peer cut short by closing the connection.
var (
	// ErrClosedEarly is the usual fate of a request that crossed with the server's
	// closing of an idle connection.
	ErrClosedEarly   = closed("connection closed before the first byte of the response")
	ErrClosedHeader  = closed("connection closed inside the response header")
	ErrClosedBody    = closed("connection closed inside the response body")
	ErrClosedTrailer = closed("connection closed inside the trailer section")
)

func protocol(text string) *wire.Error { return &wire.Error{Kind: wire.Protocol, Text: text} }
func limit(text string) *wire.Error    { return &wire.Error{Kind: wire.Limit, Text: text} }
func closed(text string) *wire.Error   { return &wire.Error{Kind: wire.Reset, Text: text} }
