package scenario

import (
	"html"
	"net/url"
	"strings"

	"dyno/internal/lazyregexp"
)

var (
	inputTag  = lazyregexp.New(`(?i)<input\b[^>]*>`)
	attribute = lazyregexp.New(`(?i)\s(name|type|value)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))`)
)

// hiddenFields returns the hidden fields of a form in HTML, encoded as a form is sent.
func hiddenFields(form []byte) (encoded []byte) {
	for _, tag := range inputTag().FindAll(form, -1) {
		of := map[string]string{}
		for _, m := range attribute().FindAllStringSubmatch(string(tag), -1) {
			of[strings.ToLower(m[1])] = html.UnescapeString(m[2] + m[3] + m[4])
		}
		if !strings.EqualFold(of["type"], "hidden") || of["name"] == "" {
			continue
		}
		if len(encoded) > 0 {
			encoded = append(encoded, '&')
		}
		encoded = append(encoded, url.QueryEscape(of["name"])+"="+url.QueryEscape(of["value"])...)
	}
	return encoded
}
