package correlate

import (
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"dyno/internal/lazyregexp"
	"dyno/load/scenario"
)

// A candidate is a place in a response that has a value.
type candidate struct {
	exchange int
	rank     rank
	name     string // what is called so there; in the path of a link, what stands before it
	inPath   bool   // it is in the path of a link
	from     scenario.Extraction
	before   string   // of a body without names: what stands before it
	patterns []string // expressions of which one may find it; none: that of from
}

// A rank says how reliable a place is. The lowest comes first.
type rank uint8

const (
	jsonValue rank = iota
	hiddenField
	headerField
	partOfJSON
	anywhere
)

// maxBefore is how many bytes before a text without a name are looked at.
const maxBefore = 80

// received considers the places of an exchange's response at which there is a value that requests have sent.
func received(r *Response, sent map[string]*value, exchange int) {
	found := func(text string, c candidate) {
		if v := sent[text]; v != nil {
			c.exchange = exchange
			v.consider(c, r)
		}
	}
	for _, h := range r.Header {
		from := scenario.Extraction{Header: h.Name}
		switch strings.ToLower(h.Name) {
		case "set-cookie":
			cookie(h.Value, found)
		case "location", "content-location":
			link(h.Value, candidate{rank: headerField, from: from}, found)
		default:
			found(h.Value, candidate{rank: headerField, name: h.Name, from: from})
			if scheme, credentials, is := strings.Cut(h.Value, " "); is { // as in Authorization: Bearer X
				from.Pattern = "^" + regexp.QuoteMeta(scheme) + " (.+)"
				found(credentials, candidate{rank: headerField, name: h.Name, from: from})
			}
		}
	}
	if isJSON := eachLeaf(r.Body, func(l leaf) {
		if sent[l.value] != nil {
			found(l.value, candidate{rank: jsonValue, name: l.name, from: scenario.Extraction{JSON: l.path}})
		} else if strings.HasPrefix(l.value, "/") || strings.HasPrefix(l.value, "http") {
			link(l.value, candidate{rank: partOfJSON, from: scenario.Extraction{JSON: l.path}}, found)
		}
	}); !isJSON {
		fields(r.Body, found)
	}
	for _, others := range []string{"_-.~+/=%", "_-.", "_-"} { // in base64, in tokens (JWT), and in IDs
		for start, end := 0, 0; start < len(r.Body); start = end + 1 {
			for end = start; end < len(r.Body) && (isAlphanumeric(r.Body[end]) || strings.IndexByte(others, r.Body[end]) >= 0); end++ {
			}
			if v := sent[r.Body[start:end]]; v != nil && v.best == nil && v.tried < maxTried {
				found(r.Body[start:end], candidate{rank: anywhere, before: r.Body[max(0, start-maxBefore):start], patterns: patternsAt(r.Body, start)})
			}
		}
	}
}

func isAlphanumeric(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' }

// cookie shows the value of a Set-Cookie field, as it stands there and decoded: scripts send either.
func cookie(field string, found func(text string, c candidate)) {
	pair, _, _ := strings.Cut(field, ";")
	name, text, _ := strings.Cut(pair, "=")
	c := candidate{rank: headerField, name: name, from: scenario.Extraction{Header: "Set-Cookie", Pattern: "^" + regexp.QuoteMeta(name) + "=([^;]*)"}}
	found(text, c)
	if plain, err := url.PathUnescape(text); err == nil && plain != text {
		c.from.Decode = "url"
		found(plain, c)
	}
}

// link shows the segments of a URL's path, and its parameters.
func link(text string, c candidate, found func(text string, c candidate)) {
	var r reader
	whole, fragment, _ := strings.Cut(text, "#")
	r.url(whole)
	r.pairs(fragment, 0, "&", "parameter", "urlencode")
	for _, a := range r.all {
		c := c
		c.name, c.inPath = a.name, a.where == inPath
		switch name := regexp.QuoteMeta(a.name); {
		case !c.inPath:
			c.from.Pattern, c.from.Decode = `[?&#]`+name+`=([^&#]+)`, "url"
		case name == "":
			c.from.Pattern = `^(?:\w+://[^/]*)?/([^/?#]+)`
		default:
			c.patterns = []string{name + `/([^/?#]+)`, name + `/([\w~-]+)`}
		}
		found(a.value, c)
	}
}

// Fields of HTML's forms, and what a page says of itself: with the name first, or the value.
var (
	named  = lazyregexp.New(`(?i)<(?:input|meta)\b[^>]*?\s(name\s*=\s*["']([^"'<>]*)["'])[^>]*?\s(value|content)\s*=\s*["']([^"'<>]*)["']`)
	valued = lazyregexp.New(`(?i)<(?:input|meta)\b[^>]*?\s(value|content)\s*=\s*["']([^"'<>]*)["'][^>]*?\s(name\s*=\s*["']([^"'<>]*)["'])`)
)

// fields shows such fields.
func fields(body string, found func(text string, c candidate)) {
	show := func(name, text, pattern string) {
		found(html.UnescapeString(text), candidate{rank: hiddenField, name: html.UnescapeString(name), from: scenario.Extraction{Pattern: pattern, Decode: "html"}})
	}
	for _, m := range named().FindAllStringSubmatch(body, -1) {
		show(m[2], m[4], regexp.QuoteMeta(m[1])+`[^>]*\s`+m[3]+`\s*=\s*["']([^"']*)`)
	}
	for _, m := range valued().FindAllStringSubmatch(body, -1) {
		show(m[4], m[2], `<[^>]*\s`+m[1]+`\s*=\s*["']([^"']*)["'][^>]*\s`+regexp.QuoteMeta(m[3]))
	}
}

var wordBefore = lazyregexp.New(`\b[A-Za-z]{3}`)

// patternsAt returns expressions that may find what starts there: by the words before it, of which there are few at first.
func patternsAt(body string, start int) (all []string) {
	const most = 8
	before := body[max(0, start-maxBefore):start]
	for _, at := range slices.Backward(wordBefore().FindAllStringIndex(before, -1)) {
		if slices.ContainsFunc(inText().FindAllString(before[at[0]:], -1), func(word string) bool { return strengthOf(word) == token }) {
			break // that varies, too, or is a credential
		}
		context := `\b` + regexp.QuoteMeta(before[at[0]:])
		all = append(all, context+`([\w-]+)`, context+`([^"'<>&\s\\;,]+)`)
	}
	if all = all[:min(len(all), most)]; strings.TrimSpace(body[:start]) == "" { // it begins the content
		all = append(all, `^\s*([^"'<>&\s\\;,]+)`)
	}
	return all
}
