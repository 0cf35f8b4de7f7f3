package openai

import (
	"encoding/json"
	"net/http"
	"strings"
)

// The kinds of objects that upstreams keep for a client. An item is of a response or a conversation.
const (
	Response     = "response"
	Conversation = "conversation"
	Item         = "item"
	File         = "file"
	Batch        = "batch"
	VectorStore  = "vector_store"
	Container    = "container"
)

// A Kind is a kind of objects that upstreams keep for a client.
type Kind struct {
	Name string
	Path string // below a base URL that ends in /v1; "" has no operations
	// Operations are each a name, a method and a path below Path. {id} is the object's; without it, POST makes one, and GET lists
	// them. {part} is something that the object has.
	Operations []string
	Open       bool // those of unknown owners are everybody's: the operator may have made them
	// Named are where requests name objects: what a request is about (its form), and the path of members. Lists are passed
	// through, and * is any member. An object at such a place has the ID as its member id.
	Named []string
	Shown []string // where answers have the IDs of objects that were made for the client
	Beta  string   // the header field OpenAI-Beta; "" is none
}

// Kinds are all kinds. Forms are kinds, chat and message; "any" is all of them. The table is of OpenAI's API reference and
// Anthropic's, 2026-11.
var Kinds = []*Kind{
	{
		Name: Response, Path: "/responses", Operations: []string{"response_get GET /{id}", "response_delete DELETE /{id}", "response_cancel POST /{id}/cancel", "response_items GET /{id}/input_items"},
		Named: []string{"response:previous_response_id", "response:prompt_cache_options.comparison_response_id"},
	},
	{
		Name: Conversation, Path: "/conversations", Operations: []string{
			"conversation POST", "conversation_get GET /{id}", "conversation_update POST /{id}", "conversation_delete DELETE /{id}", "conversation_items GET /{id}/items",
			"conversation_item_add POST /{id}/items", "conversation_item_get GET /{id}/items/{part}", "conversation_item_delete DELETE /{id}/items/{part}",
		},
		Named: []string{"response:conversation"},
	},
	{
		Name: File, Path: "/files", Operations: []string{"file POST", "files GET", "file_get GET /{id}", "file_delete DELETE /{id}", "file_content GET /{id}/content"}, Open: true,
		Named: []string{
			"any:messages.content.file_id", "any:messages.content.file.file_id", "any:messages.content.source.file_id", "any:messages.content.content.file_id", "any:messages.content.content.source.file_id",
			"any:input.content.file_id", "any:input.content.file.file_id", "any:input.content.source.file_id", "any:input.output.file_id", "any:items.content.file_id", "any:items.output.file_id",
			"any:tools.container.file_ids", "any:tools.environment.file_ids", "any:tools.input_image_mask.file_id", "any:input.tools.container.file_ids", "any:input.tools.environment.file_ids",
			"any:input.tools.input_image_mask.file_id", "response:prompt.variables.*.file_id", "vector_store:file_id", "vector_store:file_ids", "vector_store:files.file_id", "container:file_ids",
		},
		Shown: []string{"batch:output_file_id", "batch:error_file_id"},
	},
	{Name: Batch, Path: "/batches", Operations: []string{"batch POST", "batches GET", "batch_get GET /{id}", "batch_cancel POST /{id}/cancel"}},
	{
		Name: VectorStore, Path: "/vector_stores", Operations: []string{
			"vector_store POST", "vector_stores GET", "vector_store_get GET /{id}", "vector_store_update POST /{id}", "vector_store_delete DELETE /{id}", "vector_store_search POST /{id}/search",
			"vector_store_files GET /{id}/files", "vector_store_file_add POST /{id}/files", "vector_store_file_get GET /{id}/files/{part}", "vector_store_file_update POST /{id}/files/{part}",
			"vector_store_file_delete DELETE /{id}/files/{part}", "vector_store_file_content GET /{id}/files/{part}/content", "vector_store_batch_add POST /{id}/file_batches",
			"vector_store_batch_get GET /{id}/file_batches/{part}", "vector_store_batch_cancel POST /{id}/file_batches/{part}/cancel", "vector_store_batch_files GET /{id}/file_batches/{part}/files",
		}, Open: true, Beta: "assistants=v2",
		Named: []string{"any:tools.vector_store_ids", "any:input.tools.vector_store_ids"},
	},
	{
		Name: Container, Path: "/containers", Operations: []string{
			"container POST", "containers GET", "container_get GET /{id}", "container_delete DELETE /{id}", "container_files GET /{id}/files", "container_file_get GET /{id}/files/{part}",
			"container_file_delete DELETE /{id}/files/{part}", "container_file_content GET /{id}/files/{part}/content",
		},
		Named: []string{"any:tools.container", "any:tools.environment.container_id", "any:input.tools.container", "any:input.tools.environment.container_id", "any:input.environment.container_id", "message:container"},
		Shown: []string{"response:output.container_id", "response:response.output.container_id", "message:container", "message:message.container", "message:delta.container"},
	},
	{Name: Item, Shown: []string{"response:output", "response:response.output", "response:data", "conversation:data"}}, // refers finds where they are named
}

// Kept are the operations about objects.
var Kept = operations()

func operations() (list []*Operation) {
	for _, k := range Kinds {
		for _, text := range k.Operations {
			field := append(strings.Fields(text), "")
			list = append(list, &Operation{
				Name: field[0], Kind: k.Name, Beta: k.Beta, Method: field[1], Path: k.Path + field[2], Contents: strings.HasSuffix(field[2], "/content"),
				Upload: k.Name == File && field[1] == http.MethodPost,
			})
		}
	}
	return list
}

// Many reports whether an operation is about all of a client's objects: it makes one, or lists them.
func (o *Operation) Many() bool { return !strings.Contains(o.Path, "{id}") }

// Deletes reports whether an operation deletes an object.
func (o *Operation) Deletes() bool {
	return o.Method == http.MethodDelete && strings.HasSuffix(o.Path, "{id}")
}

// A State is what an upstream says of a response or a batch that it keeps.
type State struct {
	ID     string          `json:"id"`
	Status string          `json:"status"`
	Output string          `json:"output_file_id"` // of a batch, as are Errors
	Errors string          `json:"error_file_id"`
	Used   json.RawMessage `json:"usage"`
}

// Usage returns its usage; nil if the upstream does not say. Some servers that do not count say 0.
func (s State) Usage() *Usage {
	if u := usageOf(s.Used); u != nil && u.Total() > 0 {
		return u
	}
	return nil
}

// Complete reports whether it has ended with an answer.
func (s State) Complete() bool { return s.Status == "completed" || s.Status == "incomplete" }

// Ended reports whether it uses nothing more.
func (s State) Ended() bool {
	return s.Complete() || s.Status == "failed" || s.Status == "cancelled" || s.Status == "expired"
}

// IsKept reports whether the upstream keeps the answer.
func (r *Request) IsKept() bool {
	return r.Endpoint == Responses && string(r.fields["store"]) != "false"
}
