package oracle

import (
	"bytes"
	"errors"
	"strconv"
)

// A head is what a server must know of an HTTP request's head.
type head struct {
	size  int   // bytes, with the empty line
	body  int64 // bytes that follow
	noAns bool  // HEAD: the answer has no body
	close bool  // the client wants the connection closed after the answer

	lastEvent int // Last-Event-ID, if it is a number
}

var (
	errLine    = errors.New("request line is not METHOD TARGET HTTP/1.x")
	errField   = errors.New("header field is not NAME: VALUE")
	errLength  = errors.New("content-length is not one number within bounds")
	errCoding  = errors.New("transfer-encoding is not supported")
	errTooLong = errors.New("head is too long")
)

// parseHead reads a request's head from the start of p (RFC 9112). Without an
// error, ok tells whether p holds all of it.
func parseHead(p []byte) (h head, ok bool, err error) {
	end := bytes.Index(p[:min(len(p), maxHead)], []byte("\r\n\r\n"))
	if end < 0 {
		if len(p) >= maxHead {
			return head{}, false, errTooLong
		}
		return head{}, false, nil
	}
	h.size = end + 4
	line, fields, _ := bytes.Cut(p[:end+2], []byte("\r\n"))
	method, rest, found := bytes.Cut(line, []byte(" "))
	target, version, found2 := bytes.Cut(rest, []byte(" "))
	if !found || !found2 || len(method) == 0 || len(target) == 0 {
		return head{}, false, errLine
	}
	switch string(version) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		h.close = true
	default:
		return head{}, false, errLine
	}
	h.noAns = string(method) == "HEAD"
	for seen := false; len(fields) > 0; {
		var field []byte
		field, fields, _ = bytes.Cut(fields, []byte("\r\n"))
		name, value, found := bytes.Cut(field, []byte(":"))
		if !found || len(name) == 0 || bytes.ContainsAny(name, " \t\r\n") || bytes.ContainsAny(value, "\r\n") {
			return head{}, false, errField
		}
		value = bytes.Trim(value, " \t")
		switch {
		case asciiFold(name, "content-length"):
			n, ok := parseLength(value)
			if !ok || seen {
				return head{}, false, errLength
			}
			h.body, seen = n, true
		case asciiFold(name, "transfer-encoding"):
			return head{}, false, errCoding
		case asciiFold(name, "last-event-id"):
			if n, err := strconv.Atoi(string(value)); err == nil && n < maxLastEvent {
				h.lastEvent = n
			}
		case asciiFold(name, "connection"):
			for token := range bytes.SplitSeq(value, []byte(",")) {
				h.close = h.close || asciiFold(bytes.Trim(token, " \t"), "close")
			}
		}
	}
	return h, true, nil
}

// asciiFold tells whether p is the lower-case string s but for ASCII case.
func asciiFold(p []byte, s string) bool {
	if len(p) != len(s) {
		return false
	}
	for i, b := range p {
		if 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		if b != s[i] {
			return false
		}
	}
	return true
}

// parseLength reads a Content-Length: digits only, within bounds.
func parseLength(p []byte) (n int64, ok bool) {
	for _, b := range p {
		if b < '0' || b > '9' {
			return 0, false
		}
		if n = n*10 + int64(b-'0'); n > maxRequestBody {
			return 0, false
		}
	}
	return n, len(p) > 0
}

// maxLastEvent bounds the numbers of events: a larger one was never sent.
const maxLastEvent = 1 << 40

// Answers that are the same in every server.
const (
	okLine      = "HTTP/1.1 200 OK\r\n"
	closeField  = "Connection: close\r\n"
	badRequest  = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n" + closeField + "\r\n"
	unavailable = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
)

// appendOK appends an answer's head, with a body of the given size to follow;
// fields are whole lines.
func appendOK(dst []byte, size int, closing bool, fields ...string) []byte {
	dst = append(dst, okLine+"Content-Length: "...)
	dst = strconv.AppendInt(dst, int64(size), 10)
	dst = append(dst, "\r\n"...)
	for _, f := range fields {
		dst = append(dst, f...)
	}
	if closing {
		dst = append(dst, closeField...)
	}
	return append(dst, "\r\n"...)
}
