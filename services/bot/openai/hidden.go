package openai

import (
	"bytes"
	"slices"
	"strings"
)

// HasHiddenContext reports whether the model reads something outside of the request: data that an upstream keeps, or
// results of its own tools. It scans the request without a library, which would take more stack than all other work.
func (r *Request) HasHiddenContext() bool {
	searches, ok := (&walker{scanner: scanner{b: r.fields["tools"]}}).anyElement((*walker).searches)
	input := []byte(r.fields[inputField(r.Endpoint)])
	if bytes.Contains(input, []byte(`\u00`)) { // names may be escaped
		var v any
		_ = r.codec.JSON.Unmarshal(input, &v) // it is JSON
		input, _ = r.codec.JSON.Append(nil, v)
	}
	// In JSON no text has a name in quotes. Documents may have URLs; an image at a URL has an estimate.
	has := func(name string) bool { return bytes.Contains(input, []byte(name)) }
	return r.Continues() || r.Endpoint == Responses && r.says("prompt") || r.Endpoint == Messages && r.says("mcp_servers") || r.Endpoint == Chat && r.says("web_search_options") ||
		r.Endpoint.HasModel() && (hidden.Match(r.fields["tools"]) || hidden.Match(r.fields["contents"])) || searches || !ok ||
		r.Names() || has(`"file_url"`) || has(`"document"`) && has(`"url"`)
}

// anyElement reports whether is holds for an element of a list. Other values, such as a text, have no elements. ok is false for
// a value that is nested too deeply.
func (w *walker) anyElement(is func(*walker) (so, ok bool)) (found, ok bool) {
	if w.sees() != '[' {
		return false, true
	}
	ok = w.elements(func(int) bool {
		if w.sees() != '{' {
			return w.skip()
		}
		so, ok := is(w)
		found = found || so
		return ok
	})
	return found, ok
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

// complete are prefixes of types of items that have all that the model reads of them.
var complete = []string{"message", "function_call", "custom_tool_call"}

// refers reads an item, and reports whether it only names another one by its ID. It notes that ID, and those of items that
// servers may look up, such as reasoning and calls of their own tools, for what the items left out.
func (w *walker) refers() (so, ok bool) {
	var id, kind, role string
	ok = w.fields(func(name []byte) (ok bool) {
		switch string(name) {
		case "id":
			id, ok = w.stringValue()
		case "type":
			kind, ok = w.stringValue()
		case "role":
			role, ok = w.stringValue()
		default:
			return w.skip()
		}
		return ok
	})
	so = kind == "item_reference" || kind == "" && role == ""
	whole := kind == "" && !so || slices.ContainsFunc(complete, func(begin string) bool { return strings.HasPrefix(kind, begin) })
	if id != "" && !whole {
		w.note(Reference{Path: "input.id", Kind: Item, Open: !so}, id)
	}
	return so, ok
}
