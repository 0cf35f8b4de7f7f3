package openai

import (
	"encoding/json"
	"slices"
	"strings"
)

// HasHiddenContext reports whether the model reads something outside of the request: data that an upstream keeps, or
// results of its own tools. It scans the request without a library, which would take more stack than all other work.
func (r *Request) HasHiddenContext() bool {
	return r.Continues() || r.Endpoint == Responses && r.says("prompt") || r.Endpoint == Messages && r.says("mcp_servers") || r.Endpoint == Chat && r.says("web_search_options") ||
		r.Endpoint.HasModel() && (hidden.Match(r.fields["tools"]) || hidden.Match(r.fields["contents"])) ||
		anyElement(r.fields["tools"], (*walker).searches) || anyElement(r.fields[inputField(r.Endpoint)], (*walker).refers)
}

// anyElement reports whether is holds for an element of a list. Other values, such as a text, have no elements. A
// value that is nested too deeply counts as true.
func anyElement(list json.RawMessage, is func(*walker) (so, ok bool)) bool {
	w := walker{scanner: scanner{b: list}}
	if w.sees() != '[' {
		return false
	}
	found := false
	ok := w.elements(func(int) bool {
		if w.sees() != '{' {
			return w.skip()
		}
		so, ok := is(&w)
		found = found || so
		return ok
	})
	return found || !ok
}

// searching are prefixes of tools' types. The upstream calls these tools itself, and the model reads their results.
var searching = []string{"file_search", "web_search", "web_fetch", "code_interpreter", "code_execution", "mcp"}

// searches reads a tool, and reports whether it is one of those.
func (w *walker) searches() (so, ok bool) {
	kind := ""
	ok = w.fields(func(name []byte) bool {
		if string(name) != "type" {
			return w.skip()
		}
		var ok bool
		kind, ok = w.stringValue()
		return ok
	})
	return slices.ContainsFunc(searching, func(begin string) bool { return strings.HasPrefix(kind, begin) }), ok
}

// refers reads an item. It reports whether the item names one that the upstream keeps, or has a part that names a
// file. An item with only an ID is a name.
func (w *walker) refers() (so, ok bool) {
	var id, kind, role string
	filed := false
	ok = w.fields(func(name []byte) (ok bool) {
		switch string(name) {
		case "id":
			id, ok = w.stringValue()
		case "type":
			kind, ok = w.stringValue()
		case "role":
			role, ok = w.stringValue()
		case "content", "output":
			var names bool
			names, _, ok = w.file()
			filed = filed || names
		default:
			return w.skip()
		}
		return ok
	})
	return filed || kind == "item_reference" || kind == "" && role == "" && id != "", ok
}

// file reads a part, a list of parts, or another value. It reports whether it names a file, or links a document. An image
// at a URL does not count: it has an estimate.
func (w *walker) file() (named bool, kind string, ok bool) {
	switch w.sees() {
	case '[':
		ok = w.elements(func(int) bool {
			within, _, ok := w.file()
			named = named || within
			return ok
		})
		return named, "", ok
	case '{':
	default:
		return false, "", w.skip()
	}
	source := ""
	ok = w.fields(func(name []byte) (ok bool) {
		within, said := false, ""
		switch string(name) {
		case "type":
			kind, ok = w.stringValue()
		case "file_id", "file_url":
			said, ok = w.stringValue()
			if within = said != ""; within && string(name) == "file_id" {
				w.files = append(w.files, said)
			}
		case "source":
			within, source, ok = w.file()
		case "file", "content":
			within, _, ok = w.file()
		default:
			return w.skip()
		}
		named = named || within
		return ok
	})
	return named || kind == "document" && source == "url", kind, ok
}
