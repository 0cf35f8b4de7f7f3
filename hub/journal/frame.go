package journal

import (
	"bytes"
	"strconv"
	"time"
)

// entryBytes is about what an Entry takes in addition to its frame: the struct, its
// topics' headers, its place in the ring.
const entryBytes = 240

// size is approximately the memory that an entry takes.
func (e *Entry) size() int64 {
	n := entryBytes + len(e.Frame) + len(e.ID) + len(e.Type)
	if bytes.ContainsAny(e.Data, "\r\n") {
		n += len(e.Data)
	}
	for _, t := range e.Topics {
		n += len(t)
	}
	return int64(n)
}

// maxFieldBytes is the size of a frame without field values, with an ID from the journal and one data line.
const maxFieldBytes = 160

// bound is at least the size of the entry that u becomes, whatever its sequence number.
func (u *Update) bound() int64 {
	n := entryBytes + maxFieldBytes + 2*len(u.ID) + 2*len(u.Type) + len(u.Data)
	if lines := bytes.Count(u.Data, []byte("\n")) + bytes.Count(u.Data, []byte("\r")); lines > 0 {
		n += len(u.Data) + lines*len("\ndata: ")
	}
	for _, t := range u.Topics {
		n += len(t)
	}
	return int64(n)
}

// encode makes the frame. Where it can, it lets Data refer to the frame, so that the data
// is not kept twice.
func (e *Entry) encode() {
	size := len("id: \nevent: \nretry: 9223372036854\ndata: \n\n") + len(e.ID) + len(e.Type) + len(e.Data)
	frame := make([]byte, 0, size)
	e.Frame = AppendFrame(frame, &e.Update)
	if bytes.ContainsAny(e.Data, "\r\n") {
		e.Data = bytes.Clone(e.Data)
		return
	}
	end := len(e.Frame) - 2 // without the ends of the last line and of the event
	e.Data = e.Frame[end-len(e.Data) : end : end]
}

// AppendFrame appends u as an event (HTML standard, section 9.2), with its ID, and its type and retry, if any. The
// data is split into lines at CR, LF and CRLF; all of these arrive as LF. u must have passed Check.
func AppendFrame(dst []byte, u *Update) []byte {
	dst = append(dst, "id: "...)
	dst = append(dst, u.ID...)
	if u.Type != "" {
		dst = append(dst, "\nevent: "...)
		dst = append(dst, u.Type...)
	}
	if u.Retry > 0 {
		dst = append(dst, '\n')
		dst = appendRetryField(dst, u.Retry)
	}
	for rest, more := u.Data, true; more; {
		var line []byte
		line, rest, more = cutLine(rest)
		dst = append(dst, "\ndata: "...)
		dst = append(dst, line...)
	}
	return append(dst, "\n\n"...)
}

// cutLine returns the text before the first end of a line, and the text after it.
func cutLine(text []byte) (line, rest []byte, more bool) {
	i := bytes.IndexAny(text, "\r\n")
	if i < 0 {
		return text, nil, false
	}
	end := i + 1
	if text[i] == '\r' && end < len(text) && text[end] == '\n' {
		end++
	}
	return text[:i], text[end:], true
}

func appendRetryField(dst []byte, d time.Duration) []byte {
	return strconv.AppendInt(append(dst, "retry: "...), d.Milliseconds(), 10)
}

// AppendRetry appends a retry field by itself, which tells a client how long to wait
// before it reconnects. The field is no event and takes effect at the end of its line. No
// empty line follows, because some clients would report an event without data for it.
func AppendRetry(dst []byte, d time.Duration) []byte {
	return append(appendRetryField(dst, d), '\n')
}

// GapType is the type of an event that tells a subscriber that events are missing.
const GapType = "gap"

// A Gap describes the entries that a subscriber cannot get.
type Gap struct {
	// From and To are the sequence numbers of the first and last entry that the
	// subscriber was not given. Both are 0 if its last event is not known here.
	From, To uint64
	// Missed is how many of these were for this subscriber. It is below 0 if that is not
	// known, because they are gone.
	Missed int
}

// AppendGap appends g as an event of type "gap". Its data is a JSON object with the
// numbers "from", "to" and "missed", each null if not known. The event has no ID, so that
// a client that reconnects still names the last event it was given.
func AppendGap(dst []byte, g Gap) []byte {
	number := func(name string, n uint64, known bool) {
		dst = append(dst, name...)
		if known {
			dst = strconv.AppendUint(dst, n, 10)
		} else {
			dst = append(dst, "null"...)
		}
	}
	dst = append(dst, "event: "+GapType+"\ndata: {"...)
	number(`"from":`, g.From, g.From > 0)
	number(`,"to":`, g.To, g.To > 0)
	number(`,"missed":`, uint64(max(g.Missed, 0)), g.Missed >= 0)
	return append(dst, "}\n\n"...)
}

// Heartbeat is a comment line. Clients ignore it, and proxies see that the connection is
// alive. As after a retry field, no empty line follows.
const Heartbeat = ":\n"
