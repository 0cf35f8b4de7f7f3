package foreign

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// A FormField is a field of a form as curl is given it: by --form or, if it is Literal, by --form-string.
type FormField struct {
	Text    string
	Literal bool
}

// A formPart is a part of a form.
type formPart struct {
	name, content string
	filename      *string
	kind          string   // its Content-Type
	headers       []string // more of its header
}

// EncodeForm encodes the fields of a form as curl does (multipart/form-data), and returns its content type. Unknown is
// what curl skips in the fields.
func EncodeForm(fields []FormField, boundary string, read func(string) (string, error)) (body, kind string, unknown []string, err error) {
	var b strings.Builder
	for _, f := range fields {
		part, skipped, err := f.part(read)
		if err != nil {
			return "", "", nil, err
		}
		unknown = append(unknown, skipped...)
		fmt.Fprintf(&b, "--%s\r\nContent-Disposition: form-data", boundary)
		if part.name != "" {
			fmt.Fprintf(&b, "; name=\"%s\"", escapeName.Replace(part.name))
		}
		if part.filename != nil {
			fmt.Fprintf(&b, "; filename=\"%s\"", escapeName.Replace(*part.filename))
		}
		if part.kind != "" {
			b.WriteString("\r\nContent-Type: " + part.kind)
		}
		for _, h := range part.headers {
			b.WriteString("\r\n" + h)
		}
		b.WriteString("\r\n\r\n" + part.content + "\r\n")
	}
	return b.String() + "--" + boundary + "--\r\n", "multipart/form-data; boundary=" + boundary, unknown, nil
}

// escapeName escapes names as browsers do, and curl since 7.81.
var escapeName = strings.NewReplacer(`"`, "%22", "\r", "%0D", "\n", "%0A")

// part takes a field apart.
func (f FormField) part(read func(string) (string, error)) (part formPart, unknown []string, err error) {
	name, value, found := strings.Cut(f.Text, "=")
	if !found {
		return part, nil, errors.New("a field without =; want name=value or name=@FILE")
	}
	part.name = name
	switch {
	case f.Literal:
		part.content = value
		return part, nil, nil
	case strings.HasPrefix(value, "(") || value == ")" && name == "":
		return part, nil, fmt.Errorf("%s: forms within forms are not supported", f.Text)
	}
	isFile, isContent := strings.HasPrefix(value, "@"), strings.HasPrefix(value, "<")
	w := &formWords{text: strings.TrimLeft(value, blanks)}
	if isFile || isContent {
		w.text = strings.TrimLeft(value[1:], blanks)
	}
	if isFile {
		w.end = ","
	}
	word := w.next()
	if unknown, err = w.options(&part); err != nil {
		return part, nil, fmt.Errorf("%s: %w", name, err)
	}
	switch {
	case w.text != "":
		return part, nil, fmt.Errorf("%s: several files in one field are not supported", name)
	case (isFile || isContent) && word == "":
		return part, nil, fmt.Errorf("%s: no file is named; want %s=@FILE", name, name)
	case isFile:
		if part.content, err = read(word); part.filename == nil {
			part.filename = new(filepath.Base(word))
		}
		part.kind = cmp.Or(part.kind, kindOf(*part.filename), kindOf(word), "application/octet-stream")
	case isContent:
		part.content, err = read(word)
		part.kind = cmp.Or(part.kind, named(kindOf(word), part.filename))
	default:
		part.content = word
		if part.filename != nil {
			part.kind = cmp.Or(part.kind, kindOf(*part.filename))
		}
	}
	if err != nil {
		return part, nil, fmt.Errorf("%s: %w", name, err)
	}
	return part, unknown, nil
}

// named returns the content type of a part that may have no file's name: plain text needs none.
func named(kind string, filename *string) string {
	if kind == "text/plain" && filename == nil {
		return ""
	}
	return kind
}

const blanks = " \t\n\v\f\r"

// formWords are what is left of a field's value. Words end before a semicolon, or before what else ends them.
type formWords struct{ text, end string }

// next returns the next word, which may be quoted.
func (w *formWords) next() string {
	if word, rest, ok := cutQuoted(w.text); ok {
		w.text = w.after(rest)
		return word
	}
	rest := w.after(w.text)
	word := w.text[:len(w.text)-len(rest)]
	w.text = rest
	return strings.TrimRight(word, blanks)
}

// after returns what follows a word.
func (w *formWords) after(text string) string {
	if at := strings.IndexAny(text, ";"+w.end); at >= 0 {
		return text[at:]
	}
	return ""
}

// cutQuoted cuts a word in double quotes off.
func cutQuoted(text string) (word, rest string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		return "", "", false
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '"':
			return b.String(), text[i+1:], true
		case text[i] == '\\' && i+1 < len(text) && (text[i+1] == '"' || text[i+1] == '\\'):
			i++
		}
		b.WriteByte(text[i])
	}
	return "", "", false // without a second one, the quote is text
}

// options takes over what follows a field's value, and returns what is unknown.
func (w *formWords) options(part *formPart) (unknown []string, err error) {
	for strings.HasPrefix(w.text, ";") {
		w.text = strings.TrimLeft(w.text[1:], blanks)
		name, value, _ := strings.Cut(w.text, "=")
		switch name {
		case "type":
			if w.text = strings.TrimLeft(value, blanks); part.kind != "" {
				return nil, errors.New("there are two types")
			}
			if part.kind = w.contentType(); !strings.Contains(part.kind, "/") || strings.ContainsAny(part.kind, "\r\n") {
				return nil, fmt.Errorf("%q is no content type; want such as ;type=text/plain", part.kind)
			}
		case "filename":
			w.text = strings.TrimLeft(value, blanks)
			part.filename = new(w.next())
		case "headers":
			if strings.HasPrefix(value, "@") || strings.HasPrefix(value, "<") {
				return nil, errors.New("files of header fields are not supported")
			}
			w.text = value
			part.headers = append(part.headers, w.next())
		case "encoder":
			return nil, errors.New("encoders are not supported; write the encoded content")
		default:
			if word := w.next(); word != "" {
				unknown = append(unknown, word)
			}
		}
	}
	return unknown, nil
}

// contentType returns a content type with its parameters: what follows belongs to it, up to another option.
func (w *formWords) contentType() string {
	rest := w.after(w.text)
	for strings.HasPrefix(rest, ";") {
		next := strings.TrimLeft(rest[1:], blanks)
		if name, _, _ := strings.Cut(next, "="); name == "filename" || name == "headers" || name == "encoder" {
			break
		}
		rest = w.after(next)
	}
	kind := w.text[:len(w.text)-len(rest)]
	w.text = rest
	return strings.TrimRight(kind, blanks)
}

// kindOf returns the content type that curl takes a file to have by its name; empty: it knows none.
func kindOf(name string) string {
	name = strings.ToLower(name)
	for _, of := range []struct{ ending, kind string }{
		{".gif", "image/gif"}, {".jpg", "image/jpeg"}, {".jpeg", "image/jpeg"}, {".png", "image/png"}, {".svg", "image/svg+xml"},
		{".txt", "text/plain"}, {".htm", "text/html"}, {".html", "text/html"}, {".pdf", "application/pdf"}, {".xml", "application/xml"},
	} {
		if strings.HasSuffix(name, of.ending) {
			return of.kind
		}
	}
	return ""
}
