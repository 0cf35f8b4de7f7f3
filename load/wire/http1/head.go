package http1

import (
	"bytes"
	"math"

	"dyno/load/wire"
)

// A head is the meaning of one header block: all that the bytes after it, and
// the connection, depend on. It depends on nothing but the block's bytes and the
// template, which is why it can be remembered.
type head struct {
	length  int64       // of the body, when framing is byLength
	failure *wire.Error // of the status, when it is not accepted
	status  int16
	codings wire.Codings // of the content
	framing framing
	seen    seen
	departs wire.Deviations // including deviations after the header
}

// A framing says where the body ends.
type framing uint8

const (
	noBody   framing = iota
	byLength         // after head.length bytes
	byChunks         // after the last chunk and the trailer section
	byClose          // when the peer closes the connection
)

// seen collects, line by line, what a header block said.
type seen uint8

const (
	version10  seen = 1 << iota // the status line said HTTP/1.0
	sawLength                   // a Content-Length
	sawCoding                   // a Transfer-Encoding
	sawChunked                  // whose last coding so far is chunked
	sawClose                    // Connection: close
	sawKeep                     // Connection: keep-alive
	sawEvents                   // Content-Type: text/event-stream
	sawFault                    // a fault, so that it is not complete
)

const versionPrefix = "HTTP/1."

// matchStatusPrefix returns the number of bytes of p that continue a valid status line. The line's
// first arrived bytes have matched before. The error says what is wrong with the next byte.
func matchStatusPrefix(p []byte, arrived int) (int, *wire.Error) {
	for i := 0; i < len(p) && arrived+i < len(versionPrefix); i++ {
		if p[i] != versionPrefix[arrived+i] {
			if arrived+i < len("HTTP/") {
				return i, ErrNotHTTP
			}
			return i, ErrVersion
		}
	}
	return 0, nil
}

// statusLine reads a line that starts with versionPrefix. Some servers leave out
// the last space together with the reason; every client lets them.
func (h *head) statusLine(line []byte) *wire.Error {
	const minor, code = len(versionPrefix), len(versionPrefix) + 2
	if len(line) < code+3 || line[minor+1] != ' ' {
		return ErrStatusLine
	}
	switch line[minor] {
	case '0':
		h.seen |= version10
	case '1':
	default:
		return ErrVersion
	}
	hundreds, tens, ones := line[code]-'0', line[code+1]-'0', line[code+2]-'0'
	if hundreds-1 > 8 || tens > 9 || ones > 9 {
		return ErrStatusLine
	}
	reason := line[code+3:]
	if len(reason) > 0 && reason[0] != ' ' {
		return ErrStatusLine
	}
	if err := checkText(reason); err != nil {
		return err
	}
	h.status = int16(hundreds)*100 + int16(tens)*10 + int16(ones)
	return nil
}

// fields reads the field lines that stand whole and sound at the start of p. It returns their length.
// It leaves everything else to field: an empty line, half a line, a folded one, a malformed one. One
// pass over all lines saves most of the time that reading takes; this is the same in one pass, and it
// is where most time is spent.
func (h *head) fields(p []byte) (used int, err *wire.Error) {
	for {
		colon := used + tokenLen(p[used:])
		if colon == used || colon == len(p) || p[colon] != ':' {
			return used, nil
		}
		end := colon + 1 + textLen(p[colon+1:])
		if end+2 >= len(p) || p[end] != '\r' || p[end+1] != '\n' || isSpace(p[end+2]) {
			return used, nil
		}
		name := p[used:colon]
		used = end + 2
		if err := h.meaning(name, p[colon+1:end]); err != nil {
			return used, err
		}
	}
}

// field reads one field line.
func (h *head) field(line []byte) *wire.Error {
	name, value, err := splitField(line)
	if err != nil {
		return err
	}
	return h.meaning(name, value)
}

// meaning notes the three fields that frame, the content's coding, and the media type of event streams.
func (h *head) meaning(name, value []byte) *wire.Error {
	switch len(name) {
	case len("connection"):
		if equalFold(name, "Connection") {
			h.seen |= connection(value)
		}
	case len("content-type"):
		if equalFold(name, "Content-Type") && isEventStream(value) {
			h.seen |= sawEvents
		}
	case len("content-length"):
		if equalFold(name, "Content-Length") {
			return h.contentLength(value)
		}
	case len("content-encoding"):
		if equalFold(name, "Content-Encoding") {
			h.codings = h.codings.Add(value)
		}
	case len("transfer-encoding"):
		if equalFold(name, "Transfer-Encoding") {
			return h.transferEncoding(value)
		}
	}
	return nil
}

// splitField cuts a field line into name and value (RFC 9112, section 5). The
// value may have whitespace around it.
func splitField(line []byte) (name, value []byte, err *wire.Error) {
	i := tokenLen(line)
	switch {
	case i == len(line):
		return nil, nil, ErrFieldLine
	case line[i] == ':' && i > 0:
		return line[:i], line[i+1:], checkText(line[i+1:])
	case line[i] == ':':
		return nil, nil, ErrFieldNameEmpty
	case isSpace(line[i]) && i == 0:
		return nil, nil, ErrFolding
	case isSpace(line[i]):
		return nil, nil, ErrFieldNameSpace
	case line[i] == '\r':
		return nil, nil, ErrBareCR
	default:
		return nil, nil, ErrFieldName
	}
}

// connection reads the options of a Connection field.
func connection(list []byte) (s seen) {
	switch string(list) { // as nearly every server spells them
	case " keep-alive":
		return sawKeep
	case " close":
		return sawClose
	}
	for len(list) > 0 {
		var option []byte
		option, list = item(list)
		switch {
		case equalFold(option, "close"):
			s |= sawClose
		case equalFold(option, "keep-alive"):
			s |= sawKeep
		}
	}
	return s
}

// isEventStream tells whether a Content-Type names the media type of event streams, with any parameters
// (RFC 9110, section 8.3.1).
func isEventStream(value []byte) bool {
	essence, _, _ := bytes.Cut(value, []byte(";"))
	return equalFold(trimSpace(essence), "text/event-stream")
}

// contentLength accepts the same number several times, as RFC 9110, section 8.6
// allows, on one line or on several. list is not nil.
func (h *head) contentLength(list []byte) *wire.Error {
	for list != nil {
		var digits []byte
		digits, list = item(list)
		length, err := decimal(digits)
		if err != nil {
			return err
		}
		if h.seen&sawLength != 0 && length != h.length {
			return ErrContentLengths
		}
		h.length = length
		h.seen |= sawLength
	}
	return nil
}

func decimal(digits []byte) (n int64, err *wire.Error) {
	if len(digits) == 0 {
		return 0, ErrContentLength
	}
	for _, b := range digits {
		d := int64(b) - '0'
		if d < 0 || d > 9 || n > (math.MaxInt64-d)/10 {
			return 0, ErrContentLength
		}
		n = n*10 + d
	}
	return n, nil
}

// transferEncoding accepts any codings, chunked being the last and only the last. Other codings of the
// body do not matter here: it is not decoded.
func (h *head) transferEncoding(list []byte) *wire.Error {
	h.seen |= sawCoding
	for len(list) > 0 {
		var coding []byte
		coding, list = item(list)
		switch {
		case len(coding) == 0:
			continue
		case h.seen&sawChunked != 0 || !isToken(coding):
			return ErrTransferEncoding
		case equalFold(coding, "chunked"):
			h.seen |= sawChunked
		}
	}
	return nil
}

// complete concludes from all lines where the body ends (RFC 9112, section 6.3),
// and which statuses fail. Where the RFC lets a client choose between repairing
// and refusing, it refuses: a server that frames badly is a finding.
func (h *head) complete(t *Template, headOnly bool) *wire.Error {
	if h.seen&sawCoding != 0 {
		switch {
		case h.seen&version10 != 0:
			return ErrTransferVersion
		case h.seen&sawLength != 0:
			return ErrBothLengths
		case h.seen&sawChunked == 0:
			return ErrTransferEncoding
		}
	}
	switch {
	case h.status < 200:
		return nil
	case headOnly || h.status == 204 || h.status == 304:
		h.framing = noBody
	case h.seen&sawChunked != 0:
		h.framing = byChunks
	case h.seen&sawLength != 0:
		h.framing = byLength
	default:
		h.framing = byClose
	}
	if !t.accepts(int(h.status)) {
		h.failure = wire.StatusError(int(h.status))
	}
	return nil
}

// persistent tells whether the connection outlives a response that does not need
// its end (RFC 9112, section 9.3).
func (h *head) persistent() bool {
	switch {
	case h.seen&sawClose != 0:
		return false
	case h.seen&version10 != 0:
		return h.seen&sawKeep != 0
	default:
		return true
	}
}
