// Package cookie keeps the cookies of one user of one host, in little memory.
package cookie

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"
)

// Bounds of a jar. When it is full, the oldest cookie makes room for the new one. A
// cookie that is too large is not kept.
const (
	maxCookies     = 50
	maxCookieBytes = 4096 // of name, value and path together
)

// A Jar holds one user's cookies by RFC 6265, for a user who talks to one host: name, value, Path,
// Domain (of the host itself or a domain around it; lists of public suffixes are not consulted),
// Expires, Max-Age and Secure. HttpOnly and what came after that RFC, such as SameSite, change nothing.
// Cookies stand in the order in which they are sent: longer paths first, then older cookies.
type Jar struct {
	cookies []cookie
	created uint64 // cookies so far
}

// A cookie is a name, a value and a path, in this order in one text.
type cookie struct {
	text    []byte
	name    int    // bytes of the name
	path    int    // where the path begins
	domain  int    // how many of the host's last bytes are its domain; all of them without one
	expires int64  // Unix time in ns; math.MaxInt64: with the session
	created uint64 // its number
	secure  bool
}

// A Site is the host that requests go to.
type Site struct {
	Host    string // in lower case
	Address bool   // it is an IP address
	Secure  bool   // it is reached over TLS
}

// AppendHeader appends the Cookie field of a request to a path, without its query; nothing
// if no cookie belongs to it.
func (j *Jar) AppendHeader(dst, path []byte, s *Site, now int64) []byte {
	start := len(dst)
	for i := range j.cookies {
		c := &j.cookies[i]
		if c.expires <= now || c.secure && !s.Secure || !pathMatches(path, c.text[c.path:]) {
			continue
		}
		if len(dst) > start {
			dst = append(dst, "; "...)
		}
		dst = append(dst, c.text[:c.name]...)
		dst = append(dst, '=')
		dst = append(dst, c.text[c.name:c.path]...)
	}
	return dst
}

// blanks stand around names and values, and are no part of them.
const blanks = " \t"

// isControl tells whether no header field can hold a character.
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// pathMatches is RFC 6265, section 5.1.4.
func pathMatches(request, cookie []byte) bool {
	return bytes.HasPrefix(request, cookie) &&
		(len(request) == len(cookie) || cookie[len(cookie)-1] == '/' || request[len(cookie)] == '/')
}

// defaultPath is the path of a cookie without one (RFC 6265, section 5.1.4).
func defaultPath(request []byte) []byte {
	if i := bytes.LastIndexByte(request, '/'); i > 0 && request[0] == '/' {
		return request[:i]
	}
	return []byte("/")
}

// Set takes in a Set-Cookie field of a response. The path is the request's, without its query (RFC
// 6265, sections 5.2 and 5.3).
func (j *Jar) Set(field, path []byte, s *Site, now int64) {
	pair, rest, _ := bytes.Cut(field, []byte(";"))
	name, value, found := bytes.Cut(pair, []byte("="))
	name, value = bytes.Trim(name, blanks), bytes.Trim(value, blanks)
	if !found || len(name) == 0 || bytes.ContainsFunc(pair, isControl) {
		return
	}
	c := cookie{domain: len(s.Host), expires: math.MaxInt64}
	usual := defaultPath(path)
	path = usual
	aged := false // Max-Age counts more than Expires
	var domain []byte
	for len(rest) > 0 {
		var attribute, text []byte
		attribute, rest, _ = bytes.Cut(rest, []byte(";"))
		attribute, text, _ = bytes.Cut(attribute, []byte("="))
		attribute, text = bytes.Trim(attribute, blanks), bytes.Trim(text, blanks)
		switch {
		case isWord(attribute, "expires"):
			if at, ok := parseDate(text); ok && !aged {
				c.expires = at
			}
		case isWord(attribute, "max-age"):
			if age, ok := parseAge(text); ok {
				aged = true
				c.expires = deadline(now, age)
			}
		case isWord(attribute, "domain"):
			if text = bytes.TrimPrefix(text, []byte(".")); len(text) > 0 {
				domain = text
			}
		case isWord(attribute, "path"):
			if path = text; len(text) == 0 || text[0] != '/' {
				path = usual
			}
		case isWord(attribute, "secure"):
			c.secure = true
		}
	}
	if len(domain) > 0 {
		if !s.inDomain(domain) {
			return
		}
		c.domain = len(domain)
	}
	if len(name)+len(value)+len(path) <= maxCookieBytes {
		j.put(c, name, value, path, now)
	}
}

// put replaces the cookie with the same name, domain and path. It removes that cookie if the new one
// has expired already.
func (j *Jar) put(c cookie, name, value, path []byte, now int64) {
	c.created = j.created
	if i := j.find(name, path, c.domain); i >= 0 {
		c.created = j.cookies[i].created
		j.remove(i)
	}
	if c.expires <= now {
		return
	}
	if len(j.cookies) == maxCookies {
		j.evict(now)
	}
	if c.created == j.created {
		j.created++
	}
	n := len(j.cookies)
	j.cookies = slices.Grow(j.cookies, 1)[:n+1]
	c.text = append(append(append(j.cookies[n].text[:0], name...), value...), path...)
	c.name, c.path = len(name), len(name)+len(value)
	// Those after it move up by one.
	at := n
	for ; at > 0 && c.before(&j.cookies[at-1]); at-- {
		j.cookies[at] = j.cookies[at-1]
	}
	j.cookies[at] = c
}

// before tells whether c is sent before d.
func (c *cookie) before(d *cookie) bool {
	if m, n := len(c.text)-c.path, len(d.text)-d.path; m != n {
		return m > n
	}
	return c.created < d.created
}

func (j *Jar) find(name, path []byte, domain int) int {
	for i := range j.cookies {
		c := &j.cookies[i]
		if c.domain == domain && bytes.Equal(c.text[:c.name], name) && bytes.Equal(c.text[c.path:], path) {
			return i
		}
	}
	return -1
}

// remove takes a cookie out. Its memory stays after the last cookie.
func (j *Jar) remove(i int) {
	text := j.cookies[i].text
	last := len(j.cookies) - 1
	copy(j.cookies[i:], j.cookies[i+1:])
	j.cookies[last].text = text
	j.cookies = j.cookies[:last]
}

// evict makes room: it takes out those that have expired, else the oldest.
func (j *Jar) evict(now int64) {
	oldest := 0
	for i := len(j.cookies) - 1; i >= 0; i-- {
		if j.cookies[i].expires <= now {
			j.remove(i)
		}
	}
	if len(j.cookies) < maxCookies {
		return
	}
	for i := range j.cookies {
		if j.cookies[i].created < j.cookies[oldest].created {
			oldest = i
		}
	}
	j.remove(oldest)
}

// Clear takes out all cookies.
func (j *Jar) Clear() { j.cookies, j.created = j.cookies[:0], 0 }

// inDomain is RFC 6265, section 5.1.3: the host is the domain or, unless it is an
// address, lies in it.
func (s *Site) inDomain(domain []byte) bool {
	at := len(s.Host) - len(domain)
	if at < 0 || !isWord(domain, s.Host[at:]) {
		return false
	}
	return at == 0 || s.Host[at-1] == '.' && !s.Address
}

// deadline returns the Unix time in ns that is age seconds after now.
func deadline(now, age int64) int64 {
	switch {
	case age <= 0:
		return math.MinInt64
	case age >= (math.MaxInt64-now)/int64(time.Second):
		return math.MaxInt64
	}
	return now + age*int64(time.Second)
}

// parseAge reads Max-Age. Beyond 64 bits it returns the nearest number.
func parseAge(text []byte) (age int64, ok bool) {
	age, err := strconv.ParseInt(string(text), 10, 64)
	return age, err == nil || errors.Is(err, strconv.ErrRange)
}

// isWord compares ASCII without regard to case; the word is in lower case.
func isWord(s []byte, word string) bool {
	if len(s) != len(word) {
		return false
	}
	for i, b := range s {
		if lower(b) != word[i] {
			return false
		}
	}
	return true
}

func lower(b byte) byte {
	if b-'A' < 26 {
		b += 'a' - 'A'
	}
	return b
}

// dateLayouts are the forms of a cookie's date that servers write: today's of HTTP, Netscape's,
// with years of four and two digits, and the older ones of RFC 9110, section 5.6.7.
var dateLayouts = [...]string{
	"Mon, 02 Jan 2006 15:04:05 GMT",
	"Mon, 02-Jan-2006 15:04:05 GMT",
	"Mon, 02-Jan-06 15:04:05 GMT",
	"Monday, 02-Jan-06 15:04:05 GMT",
	time.ANSIC,
}

// parseDate reads a date, and returns Unix time in ns.
func parseDate(text []byte) (at int64, ok bool) {
	for _, layout := range dateLayouts {
		t, err := time.Parse(layout, string(text))
		if err != nil {
			continue
		}
		switch unix := t.Unix(); {
		case unix > math.MaxInt64/int64(time.Second):
			return math.MaxInt64, true
		case unix < math.MinInt64/int64(time.Second):
			return math.MinInt64, true
		default:
			return unix * int64(time.Second), true
		}
	}
	return 0, false
}
