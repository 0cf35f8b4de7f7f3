package draft

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
)

// clip shortens a text for a list, and keeps it on one line.
func clip(text string) string {
	const longest = 80
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest-1]) + "…"
	}
	return text
}

// The marks of varying parts of a text. Both are private characters, which no protocol has.
const (
	MarkBegin = "\ue000"
	MarkEnd   = "\ue001"
)

// Varies tells whether a text has a mark.
func Varies(text string) bool { return strings.Contains(text, MarkBegin) }

// Mark returns what stands in texts for an expression of a template.
func (d *Draft) Mark(expression string) string {
	i := slices.Index(d.Marks, expression)
	if i < 0 {
		if len(d.Marks) == maxMarks {
			return ""
		}
		i = len(d.Marks)
		d.Marks = append(d.Marks, expression)
	}
	return MarkBegin + strconv.Itoa(i) + MarkEnd
}

// VariableName makes a name of any text that a variable can have.
func VariableName(text string) string {
	const longest = 64
	name := notInWord().ReplaceAllString(text, "_")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name[:min(len(name), longest)]
}

var (
	notInWord = lazyregexp.New(`[^0-9A-Za-z_]`)
	notInName = lazyregexp.New(`[^0-9A-Za-z._+-]+`)
	// OneMark is a mark.
	OneMark = lazyregexp.New(MarkBegin + `(\d+)` + MarkEnd)
	// encodedMark is a mark that was percent-encoded, and quotedMark a string in JSON, which may have one.
	encodedMark = lazyregexp.New(`%EE%80%80(\d+)%EE%80%81`)
	quotedMark  = lazyregexp.New(`"([^"\\\n]*)"`)
	// isNumber matches expressions that no encoding changes.
	isNumber = lazyregexp.New(`^(?:user|iteration)\(`)
)

// Name makes a name of any text that a step, a flow or an experiment can have.
func Name(text string) string { return strings.Trim(notInName().ReplaceAllString(text, "-"), "-.") }

// Template returns the template that says a text with marks.
func (d *Draft) Template(text string) string { return d.Expand(plan.Quote(text), "") }

// Expand puts expressions in the place of marks, each in a function if one is named.
func (d *Draft) Expand(text, function string) string {
	return OneMark().ReplaceAllStringFunc(text, func(m string) string {
		switch expression, is := d.Expression(m); {
		case !is:
			return m
		case function != "" && !isNumber().MatchString(expression):
			return "{{ " + function + "(" + d.Use(expression) + ") }}"
		default:
			return "{{ " + d.Use(expression) + " }}"
		}
	})
}

// Expression returns that for which a mark, or the number in it, stands.
func (d *Draft) Expression(mark string) (expression string, is bool) {
	i, err := strconv.Atoi(strings.Trim(mark, MarkBegin+MarkEnd))
	if err != nil || i >= len(d.Marks) {
		return "", false
	}
	return d.Marks[i], true
}

// Use returns an expression, and notes that it stands in a text.
func (d *Draft) Use(expression string) string {
	d.Used[expression] = true
	return expression
}

// encoded puts expressions in the place of marks that were percent-encoded.
func (d *Draft) encoded(text string) string {
	return encodedMark().ReplaceAllStringFunc(text, func(m string) string {
		return d.Expand(decodeMark(m), cmp.Or(d.Form, "urlencode"))
	})
}

// decodeMark returns a mark that was percent-encoded.
func decodeMark(mark string) string {
	return MarkBegin + encodedMark().FindStringSubmatch(mark)[1] + MarkEnd
}

// ReplaceMarks puts a text in the place of each mark.
func ReplaceMarks(text, by string) string {
	return encodedMark().ReplaceAllLiteralString(OneMark().ReplaceAllLiteralString(text, by), by)
}

// InForm puts expressions that are encoded for a form in the place of marks that were encoded.
func (d *Draft) InForm(text string) string {
	return encodedMark().ReplaceAllStringFunc(text, func(m string) string {
		expression, is := d.Expression(decodeMark(m))
		switch {
		case !is:
			return m
		case isNumber().MatchString(expression):
			return decodeMark(m)
		}
		return d.Mark("formencode(" + d.Use(expression) + ")")
	})
}

// inURL returns the template of a path and a query.
func (d *Draft) inURL(text string) string { return d.Expand(d.encoded(plan.Quote(text)), "") }

// inBody returns the template of a body. In JSON, what varies within a string is escaped.
func (d *Draft) inBody(text string) string {
	text = d.encoded(plan.Quote(text))
	if body := strings.TrimSpace(text); !d.Verbatim && (strings.HasPrefix(body, "{") || strings.HasPrefix(body, "[")) {
		text = quotedMark().ReplaceAllStringFunc(text, func(s string) string { return d.Expand(s, "json_escape") })
	}
	return d.Expand(text, "")
}

// Token returns the mark of a token that is signed with a key by an algorithm. The claims are JSON.
func (d *Draft) Token(algorithm, key, claims string) string {
	claims = quotedMark().ReplaceAllStringFunc(claims, func(s string) string {
		return OneMark().ReplaceAllStringFunc(s, func(m string) string {
			expression, _ := d.Expression(m)
			return d.Mark("json_escape(" + d.Use(expression) + ")")
		})
	})
	arguments := slices.Concat(d.Arguments(algorithm), d.Arguments(key)[:1], d.Arguments(claims))
	return d.Mark("jwt(" + strings.Join(arguments, ", ") + ")")
}

// Arguments returns a text with marks as arguments of a function of templates.
func (d *Draft) Arguments(text string) (all []string) {
	literal := func(text string) {
		if text != "" {
			all = append(all, `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text)+`"`)
		}
	}
	for {
		at := OneMark().FindStringIndex(text)
		if at == nil {
			literal(text)
			return all
		}
		literal(text[:at[0]])
		expression := d.Expand(text[at[0]:at[1]], "")
		all = append(all, strings.TrimSuffix(strings.TrimPrefix(expression, "{{ "), " }}"))
		text = text[at[1]:]
	}
}

// WithQuery returns a URL with one more part of its query.
func WithQuery(url, query string) string {
	switch {
	case query == "":
		return url
	case strings.Contains(url, "?"):
		return url + "&" + query
	}
	return url + "?" + query
}

// A Field is a name with a value, as in a form.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// EncodeForm returns fields as a form is sent, in their order.
func EncodeForm(fields []Field) string {
	var pairs []string
	for _, f := range fields {
		pairs = append(pairs, url.QueryEscape(f.Name)+"="+url.QueryEscape(f.Value))
	}
	return strings.Join(pairs, "&")
}

func withoutFragment(path string) string {
	path, _, _ = strings.Cut(path, "#")
	return path
}

// CleanPath encodes what cannot stand in a path and a query, as clients do. Marks stay.
func CleanPath(path string) string {
	return EncodePath(path, "%%%02X", func(c byte) bool { return c <= ' ' || c >= 0x7f || c == '"' || c == '<' || c == '>' })
}

// ExactPath is CleanPath for clients such as curl, which send a path as it stands, but for letters that are not ASCII.
func ExactPath(path string) string {
	return EncodePath(path, "%%%02x", func(c byte) bool { return c <= ' ' || c >= 0x7f })
}

// EncodePath writes the characters of a path that are to be encoded in a form such as %%%02X. Marks stay.
func EncodePath(path, form string, isEncoded func(c byte) bool) string {
	var b strings.Builder
	for i := 0; i < len(path); {
		if strings.HasPrefix(path[i:], MarkBegin) { // only there, since long paths would take long otherwise
			if m := OneMark().FindStringIndex(path[i:]); m != nil && m[0] == 0 {
				b.WriteString(path[i : i+m[1]])
				i += m[1]
				continue
			}
		}
		if isEncoded(path[i]) {
			fmt.Fprintf(&b, form, path[i])
		} else {
			b.WriteByte(path[i])
		}
		i++
	}
	return b.String()
}

// IsHex tells whether two hexadecimal digits stand there.
func IsHex(text string, at int) bool {
	const digits = "0123456789abcdefABCDEF"
	return at+1 < len(text) && strings.IndexByte(digits, text[at]) >= 0 && strings.IndexByte(digits, text[at+1]) >= 0
}

// FormEncode encodes a text as forms do (URL Standard, 5.2). Marks stay, as encoded ones.
func FormEncode(text string) string {
	return strings.NewReplacer("%2A", "*", "~", "%7E").Replace(url.QueryEscape(text))
}

// IsWord matches names that are words.
var IsWord = lazyregexp.New(`^[A-Za-z_]\w*$`)
