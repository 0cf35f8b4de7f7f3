package scenario

import (
	"encoding/base64"
	"encoding/hex"
	"math/bits"
	"strconv"
	"time"
	"unicode/utf8"
)

// append appends what the template says for a user, with the values that the user's
// variables have, and draws what is random.
func (t *template) append(dst []byte, u *User) []byte {
	for i := range t.parts {
		p := &t.parts[i]
		switch p.op {
		case literal:
			dst = append(dst, p.text...)
		case variable:
			dst = append(dst, u.values[p.index]...)
		case counter:
			n := &u.w.counters[p.index]
			dst = strconv.AppendUint(dst, u.w.shard.At(*n), 10)
			*n++
		case uuid4:
			dst = appendUUID(dst, 4, u.rng.Uint64(), u.rng.Uint64())
		case uuid7:
			ms := uint64(u.now / int64(time.Millisecond))
			dst = appendUUID(dst, 7, ms<<16|u.rng.Uint64()>>48, u.rng.Uint64())
		case randomInt:
			dst = strconv.AppendInt(dst, p.low+int64(u.below(p.width)), 10)
		case randomString:
			for range p.index {
				dst = append(dst, p.from[u.below(uint64(len(p.from)))]...)
			}
		case randomChoice:
			dst = p.choice[u.below(uint64(len(p.choice)))].append(dst, u)
		case pathEntropy:
			dst = u.appendHex(dst, p.index)
		case timestamp:
			dst = appendTime(dst, p.unit, u.now)
		default:
			dst = p.encode(dst, u)
		}
	}
	return dst
}

// encode appends what the part's arguments say, encoded.
func (p *part) encode(dst []byte, u *User) []byte {
	start := len(dst)
	dst = p.choice[0].append(dst, u)
	text := append(u.w.scratch[:0], dst[start:]...)
	u.w.scratch = text
	dst = dst[:start]
	switch p.op {
	case base64Std:
		return base64.StdEncoding.AppendEncode(dst, text)
	case base64URL:
		return base64.RawURLEncoding.AppendEncode(dst, text)
	case urlEncode:
		return appendURL(dst, text)
	default:
		return appendJSON(dst, text)
	}
}

// below draws a number below n, 0 standing for 2⁶⁴. The chances of any two numbers
// differ by less than n/2⁶⁴.
func (u *User) below(n uint64) uint64 {
	r := u.rng.Uint64()
	if n == 0 {
		return r
	}
	hi, _ := bits.Mul64(r, n)
	return hi
}

func (u *User) appendHex(dst []byte, n int) []byte {
	const digits = "0123456789abcdef"
	for n > 0 {
		r := u.rng.Uint64()
		for range min(n, 8) {
			dst = append(dst, digits[r>>60], digits[r>>56&15])
			r <<= 8
		}
		n -= 8
	}
	return dst
}

// appendUUID appends a UUID of RFC 9562 whose bits are those of high and low but for the
// version and the variant.
func appendUUID(dst []byte, version byte, high, low uint64) []byte {
	var b [16]byte
	for i := range 8 {
		b[i], b[8+i] = byte(high>>(56-8*i)), byte(low>>(56-8*i))
	}
	b[6] = b[6]&0x0f | version<<4
	b[8] = b[8]&0x3f | 0x80
	dst = hex.AppendEncode(dst, b[:4])
	for begin := 4; begin < 10; begin += 2 {
		dst = append(dst, '-')
		dst = hex.AppendEncode(dst, b[begin:begin+2])
	}
	dst = append(dst, '-')
	return hex.AppendEncode(dst, b[10:])
}

func appendTime(dst []byte, unit timeUnit, now int64) []byte {
	if unit == rfc3339 {
		return time.Unix(0, now).UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z07:00")
	}
	return strconv.AppendInt(dst, now/nanosecondsPer[unit], 10)
}

// unreserved are the characters that need no percent-encoding anywhere (RFC 3986,
// section 2.3).
func unreserved(b byte) bool {
	return isNameByte(b) || b == '~'
}

func appendURL(dst, text []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, b := range text {
		if unreserved(b) {
			dst = append(dst, b)
		} else {
			dst = append(dst, '%', digits[b>>4], digits[b&15])
		}
	}
	return dst
}

// appendJSON appends text as it stands between the quotes of a JSON string (RFC 8259,
// section 7). Bytes that are not UTF-8 become U+FFFD.
func appendJSON(dst, text []byte) []byte {
	const digits = "0123456789abcdef"
	for i := 0; i < len(text); {
		b := text[i]
		switch {
		case b >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(text[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
			continue
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b >= ' ':
			dst = append(dst, b)
		case b == '\n':
			dst = append(dst, `\n`...)
		case b == '\r':
			dst = append(dst, `\r`...)
		case b == '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', digits[b>>4], digits[b&15])
		}
		i++
	}
	return dst
}

// Which bytes can stand in a path, by HTTP/1.1's rule, which is also the other versions',
// and in the value of a header field.
// The third are those of metadata.
var pathByte, valueByte, metadataByte = func() (path, value, metadata [256]bool) {
	for b := range 256 {
		path[b] = b > ' ' && b < 0x7f && b != '#'
		value[b] = b >= ' ' && b != 0x7f || b == '\t'
		metadata[b] = b >= ' ' && b < 0x7f
	}
	return path, value, metadata
}()

// checkPath tells whether the path can stand in a request.
func checkPath(path []byte) bool {
	return len(path) > 0 && path[0] == '/' && consistsOf(path, &pathByte)
}

// checkValue tells whether a header field can have the value (RFC 9113, section 8.2.1: it
// neither begins nor ends with a blank).
func checkValue(value []byte, allowed *[256]bool) bool {
	n := len(value)
	return n == 0 || !isBlank(value[0]) && !isBlank(value[n-1]) && consistsOf(value, allowed)
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' }

func consistsOf(s []byte, allowed *[256]bool) bool {
	for _, b := range s {
		if !allowed[b] {
			return false
		}
	}
	return true
}
