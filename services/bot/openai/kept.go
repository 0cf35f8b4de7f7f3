package openai

import (
	"bytes"
	"net/http"
	"strings"
)

// The kinds of objects that OpenAI's API keeps for a client.
const (
	Response = "response"
	File     = "file"
	Batch    = "batch"
)

// Kept are the operations about objects. {id} in a path is the object's; without it, a POST makes one, and a GET lists
// them.
var Kept = []*Operation{
	{Name: "response_get", Kind: Response, Method: http.MethodGet, Path: "/responses/{id}"},
	{Name: "response_delete", Kind: Response, Method: http.MethodDelete, Path: "/responses/{id}"},
	{Name: "response_cancel", Kind: Response, Path: "/responses/{id}/cancel"},
	{Name: "response_items", Kind: Response, Method: http.MethodGet, Path: "/responses/{id}/input_items"},
	{Name: "file", Kind: File, Path: "/files", Upload: true},
	{Name: "files", Kind: File, Method: http.MethodGet, Path: "/files"},
	{Name: "file_get", Kind: File, Method: http.MethodGet, Path: "/files/{id}"},
	{Name: "file_delete", Kind: File, Method: http.MethodDelete, Path: "/files/{id}"},
	{Name: "file_content", Kind: File, Method: http.MethodGet, Path: "/files/{id}/content", Contents: true},
	{Name: "batch", Kind: Batch, Path: "/batches"},
	{Name: "batches", Kind: Batch, Method: http.MethodGet, Path: "/batches"},
	{Name: "batch_get", Kind: Batch, Method: http.MethodGet, Path: "/batches/{id}"},
	{Name: "batch_cancel", Kind: Batch, Path: "/batches/{id}/cancel"},
}

// Many reports whether an operation is about all of a client's objects: it makes one, or lists them.
func (o *Operation) Many() bool { return !strings.Contains(o.Path, "{id}") }

// Files returns the IDs of the files that a request names. "" is in place of those that are nested too deeply.
func (r *Request) Files() (list []string) {
	said := r.fields[inputField(r.Endpoint)]
	if !bytes.Contains(said, []byte("file_id")) && !bytes.Contains(said, []byte(`\u00`)) { // names may be escaped
		return nil
	}
	anyElement(said, func(w *walker) (so, ok bool) {
		if so, ok = w.refers(); !ok {
			w.files = append(w.files, "")
		}
		list, w.files = append(list, w.files...), nil
		return so, ok
	})
	return list
}

// IsKept reports whether the upstream keeps the answer.
func (r *Request) IsKept() bool {
	return r.Endpoint == Responses && string(r.fields["store"]) != "false"
}
