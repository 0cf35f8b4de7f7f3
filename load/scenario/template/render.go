package template

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"time"
	"unicode/utf8"

	"dyno/load/pace"
)

// A Worker is the shared state of the users of one worker of the engine. The fields are for its owner
// to set.
type Worker struct {
	Shard    pace.Shard
	Counters []uint64 // by their numbers

	scratch     []byte // what is to be encoded
	left, right []byte // what a condition compares
}

// A State is what a text is rendered with: a user's values and random numbers.
type State struct {
	Worker *Worker
	RNG    rand.PCG
	Now    int64    // Unix time in nanoseconds
	User   uint64   // its number, from 1
	Values [][]byte // of the variables that vary

	Iteration, IterationOfAll uint64 // its number among those of the user, and of all users, from 0
}

// Append appends the template's text for a user, with the values of the user's variables, and draws the
// random ones.
func (t *Template) Append(dst []byte, s *State) []byte {
	for i := range t.parts {
		p := &t.parts[i]
		switch p.op {
		case literal:
			dst = append(dst, p.text...)
		case variable:
			dst = append(dst, s.Values[p.index]...)
		case counter:
			n := &s.Worker.Counters[p.index]
			dst = strconv.AppendUint(dst, s.Worker.Shard.At(*n), 10)
			*n++
		case user:
			dst = strconv.AppendUint(dst, s.User, 10)
		case iteration:
			n := s.Iteration
			if p.ofAll {
				n = s.IterationOfAll
			}
			dst = strconv.AppendUint(dst, n, 10)
		case uuid4:
			dst = appendUUID(dst, 4, s.RNG.Uint64(), s.RNG.Uint64())
		case uuid7:
			ms := uint64(s.Now / int64(time.Millisecond))
			dst = appendUUID(dst, 7, ms<<16|s.RNG.Uint64()>>48, s.RNG.Uint64())
		case randomInt:
			dst = strconv.AppendInt(dst, p.low+int64(s.Below(p.width)), 10)
		case randomString:
			for range p.index {
				dst = append(dst, p.from[s.Below(uint64(len(p.from)))]...)
			}
		case randomChoice:
			dst = p.choice[s.Below(uint64(len(p.choice)))].Append(dst, s)
		case timestamp:
			dst = appendTime(dst, p.unit, s.Now+p.later)
		case token:
			dst = p.appendToken(dst, s)
		default:
			dst = p.encode(dst, s)
		}
	}
	return dst
}

// AppendPlaces appends what the template says at the places that vary, and to places the
// text at each of them.
func (t *Template) AppendPlaces(dst []byte, places [][]byte, s *State) ([]byte, [][]byte) {
	first, at := len(places), len(dst)
	for i := range t.parts {
		if t.parts[i].op == literal {
			continue
		}
		one, begin := Template{parts: t.parts[i : i+1]}, len(dst)
		dst = one.Append(dst, s)
		places = append(places, dst[begin:])
	}
	// The texts are cut out when dst has stopped growing.
	for i := first; i < len(places); i++ {
		end := at + len(places[i])
		places[i] = dst[at:end:end]
		at = end
	}
	return dst, places
}

// encode appends what the part's arguments say, encoded.
func (p *part) encode(dst []byte, s *State) []byte {
	start := len(dst)
	dst = p.choice[0].Append(dst, s)
	text := append(s.Worker.scratch[:0], dst[start:]...)
	s.Worker.scratch = text
	dst = dst[:start]
	switch p.op {
	case base64Std:
		return base64.StdEncoding.AppendEncode(dst, text)
	case base64URL:
		return base64.RawURLEncoding.AppendEncode(dst, text)
	case urlEncode:
		return appendURL(dst, text)
	case formEncode:
		return appendForm(dst, text)
	default:
		return appendJSON(dst, text)
	}
}

// algorithmNames are the names of the algorithms that sign tokens with a key of both sides (RFC 7518, section 3.2).
var algorithmNames = []string{"HS256", "HS384", "HS512"}

// hashes are the hashes of these algorithms.
var hashes = [...]func() hash.Hash{sha256.New, sha512.New384, sha512.New}

// appendToken appends a token with the claims that the part's arguments say (RFC 7519).
func (p *part) appendToken(dst []byte, s *State) []byte {
	start := len(dst)
	dst = p.choice[0].Append(dst, s)
	mac := hmac.New(hashes[p.index], dst[start:])
	header := `{"alg":"` + algorithmNames[p.index] + `","typ":"JWT"}`
	dst = base64.RawURLEncoding.AppendEncode(dst[:start], []byte(header))
	dst = append(dst, '.')
	claims := len(dst)
	dst = p.choice[1].Append(dst, s)
	s.Worker.scratch = append(s.Worker.scratch[:0], dst[claims:]...)
	dst = base64.RawURLEncoding.AppendEncode(dst[:claims], s.Worker.scratch)
	mac.Write(dst[start:]) // never fails
	s.Worker.scratch = mac.Sum(s.Worker.scratch[:0])
	return base64.RawURLEncoding.AppendEncode(append(dst, '.'), s.Worker.scratch)
}

// Below draws a number below n, 0 standing for 2⁶⁴. The chances of any two numbers
// differ by less than n/2⁶⁴.
func (s *State) Below(n uint64) uint64 {
	r := s.RNG.Uint64()
	if n == 0 {
		return r
	}
	hi, _ := bits.Mul64(r, n)
	return hi
}

// appendUUID appends a UUID of RFC 9562 with the bits of high and low, except the version and the
// variant.
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
	for _, b := range text {
		if unreserved(b) {
			dst = append(dst, b)
		} else {
			dst = appendPercent(dst, b)
		}
	}
	return dst
}

// appendForm appends text as forms encode it (URL Standard, section 5.2).
func appendForm(dst, text []byte) []byte {
	for _, b := range text {
		switch {
		case b == ' ':
			dst = append(dst, '+')
		case isNameByte(b) || b == '*':
			dst = append(dst, b)
		default:
			dst = appendPercent(dst, b)
		}
	}
	return dst
}

func appendPercent(dst []byte, b byte) []byte {
	const digits = "0123456789ABCDEF"
	return append(dst, '%', digits[b>>4], digits[b&15])
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
