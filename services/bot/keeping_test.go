package bot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// A keeping server keeps responses, conversations, files, batches, vector stores and containers as OpenAI's reference of its
// API documents them (platform.openai.com/docs/api-reference, "Responses", "Conversations", "Files", "Batch", "Vector stores"
// and "Containers", November 2026). A response in the background ends when it is asked for, and a batch when it is asked for
// the second time. Its own names begin with name.
type keeping struct {
	t    testing.TB
	name string

	mu      sync.Mutex // guards what follows
	next    int
	objects map[string]map[string]any
	content map[string][]byte
	asked   []string // method and URL
	beta    string   // OpenAI-Beta of the last request
}

func newKeeping(t testing.TB, name string) *keeping {
	return &keeping{t: t, name: name, objects: map[string]map[string]any{}, content: map[string][]byte{}}
}

// add keeps an object with a new ID.
func (k *keeping) add(kind string, o map[string]any) map[string]any {
	k.next++
	id := fmt.Sprintf("%s_%s%020d", kind, k.name, k.next)
	o["id"], o["created_at"] = id, 1711471533
	k.objects[id] = o
	return o
}

func (k *keeping) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = append(k.asked, r.Method+" "+r.URL.String())
	k.beta = r.Header.Get("OpenAI-Beta")
	say := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	fault := func(status int, text string) {
		say(status, map[string]any{"error": map[string]any{"message": text, "type": "invalid_request_error"}})
	}
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		k.upload(r, say, fault)
		return
	}
	body, _ := io.ReadAll(r.Body)
	var q map[string]any
	if len(body) > 0 && json.Unmarshal(body, &q) != nil {
		fault(400, "not JSON")
		return
	}
	if len(path) == 1 {
		k.create(w, r.Method+" "+path[0], q, say, fault)
		return
	}
	o := k.objects[path[1]]
	if o == nil {
		fault(404, "No such object: "+path[1])
		return
	}
	switch request := strings.Join(append([]string{r.Method, path[0]}, path[2:]...), " "); request {
	case "GET responses":
		if o["status"] == "in_progress" {
			o["status"], o["usage"] = "completed", usageOfKeeping
		}
		if r.URL.Query().Get("stream") == "true" {
			w.Header().Set("Content-Type", "text/event-stream")
			text, _ := json.Marshal(map[string]any{"type": "response.completed", "sequence_number": 9, "response": o})
			fmt.Fprintf(w, "event: response.completed\ndata: %s\n\n", text)
			return
		}
		say(200, o)
	case "GET batches":
		if n, _ := o["polls"].(int); n > 0 && o["status"] == "in_progress" {
			out := k.add("file", map[string]any{"object": "file", "bytes": 9, "filename": "out.jsonl", "purpose": "batch_output"})
			k.content[out["id"].(string)] = []byte(`{"custom_id":"1","response":{"status_code":200}}` + "\n")
			o["status"], o["output_file_id"], o["usage"] = "completed", out["id"], usageOfKeeping
		}
		n, _ := o["polls"].(int)
		o["polls"] = n + 1
		say(200, o)
	case "GET files", "GET conversations", "GET vector_stores", "GET containers":
		say(200, o)
	case "POST conversations", "POST vector_stores":
		o["metadata"] = q["metadata"]
		say(200, o)
	case "POST conversations items", "GET conversations items":
		list, _ := q["items"].([]any)
		for _, item := range list {
			o["items"] = append(o["items"].([]any), k.item(item.(map[string]any)))
		}
		say(200, map[string]any{"object": "list", "data": o["items"], "has_more": false, "first_id": "", "last_id": ""})
	case "DELETE responses", "DELETE files", "DELETE conversations", "DELETE vector_stores", "DELETE containers":
		delete(k.objects, path[1])
		say(200, map[string]any{"id": path[1], "object": o["object"], "deleted": true})
	case "POST responses cancel":
		if o["background"] != true {
			fault(400, "Cannot cancel a synchronous response.")
			return
		}
		o["status"] = "cancelled"
		say(200, o)
	case "POST batches cancel":
		if o["status"] == "completed" {
			fault(409, "Cannot cancel a batch with status 'completed'.")
			return
		}
		o["status"] = "cancelling"
		say(200, o)
	case "GET responses input_items":
		say(200, map[string]any{"object": "list", "first_id": "msg_1", "last_id": "msg_1", "has_more": false, "data": []any{map[string]any{
			"id": "msg_1", "type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": o["asked"]}}}}})
	case "GET files content":
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(k.content[path[1]])
	default:
		if part := k.objects[path[min(3, len(path)-1)]]; len(path) > 3 && part != nil {
			say(200, part)
			return
		}
		if len(path) == 3 && (path[0] == "vector_stores" || path[0] == "containers") {
			say(200, map[string]any{"object": "list", "data": []any{q}, "has_more": false})
			return
		}
		fault(404, "Invalid URL: "+request)
	}
}

// count is how many requests it has had.
func (k *keeping) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.asked)
}

// last is the last request.
func (k *keeping) last() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked[len(k.asked)-1]
}

// item keeps an item of a conversation.
func (k *keeping) item(item map[string]any) map[string]any { return k.add("msg", item) }

// missing returns an ID in a request that this server does not have; "" is none.
func (k *keeping) missing(q map[string]any) string {
	ids := []any{q["previous_response_id"], q["conversation"]}
	if c, is := q["conversation"].(map[string]any); is {
		ids[1] = c["id"]
	}
	items, _ := q["input"].([]any)
	for _, i := range items {
		if item, _ := i.(map[string]any); item["type"] == "item_reference" {
			ids = append(ids, item["id"])
		}
	}
	tools, _ := q["tools"].([]any)
	for _, t := range tools {
		tool, _ := t.(map[string]any)
		stores, _ := tool["vector_store_ids"].([]any)
		ids = append(append(ids, stores...), tool["container"])
	}
	for _, v := range ids {
		if id, _ := v.(string); id != "" && k.objects[id] == nil {
			return id
		}
	}
	return ""
}

var usageOfKeeping = map[string]any{"input_tokens": 11, "input_tokens_details": map[string]any{"cached_tokens": 0}, "output_tokens": 13, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": 24}

// create makes a response or a batch.
func (k *keeping) create(w http.ResponseWriter, request string, q map[string]any, say func(int, any), fault func(int, string)) {
	switch request {
	case "POST responses":
		if id := k.missing(q); id != "" {
			say(map[bool]int{true: 400, false: 404}[strings.HasPrefix(id, "resp")], map[string]any{"error": map[string]any{"message": "not found: " + id, "code": "previous_response_not_found"}})
			return
		}
		output := []any{k.item(map[string]any{"type": "message", "role": "assistant", "status": "completed", "content": []any{map[string]any{"type": "output_text", "text": "hello", "annotations": []any{}}}})}
		if tools, _ := json.Marshal(q["tools"]); strings.Contains(string(tools), `"auto"`) {
			output = append(output, k.add("ci", map[string]any{"type": "code_interpreter_call", "status": "completed", "container_id": k.add("cntr", map[string]any{"object": "container"})["id"], "code": "1", "outputs": nil}))
		}
		o := map[string]any{"object": "response", "model": q["model"], "asked": q["input"], "background": q["background"] == true, "error": nil, "status": "completed", "usage": usageOfKeeping, "parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{}, "output": output}
		if q["background"] == true {
			o["status"], o["usage"] = "in_progress", nil
		}
		o = k.add("resp", o)
		if q["stream"] == true {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, kind := range []string{"response.created", "response.completed"} {
				o["output"] = map[bool][]any{true: {}, false: output}[kind == "response.created"]
				text, _ := json.Marshal(map[string]any{"type": kind, "response": o})
				fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, text)
			}
			return
		}
		say(200, o)
	case "POST batches":
		id, _ := q["input_file_id"].(string)
		if k.objects[id] == nil || q["endpoint"] == nil || q["completion_window"] != "24h" {
			fault(400, "invalid batch")
			return
		}
		say(200, k.add("batch", map[string]any{"object": "batch", "endpoint": q["endpoint"], "input_file_id": id, "completion_window": "24h", "status": "in_progress", "request_counts": map[string]any{"total": 1, "completed": 0, "failed": 0}}))
	case "POST conversations":
		o := k.add("conv", map[string]any{"object": "conversation", "metadata": q["metadata"], "items": []any{}})
		list, _ := q["items"].([]any)
		for _, item := range list {
			o["items"] = append(o["items"].([]any), k.item(item.(map[string]any)))
		}
		say(200, o)
	case "POST vector_stores":
		say(200, k.add("vs", map[string]any{"object": "vector_store", "name": q["name"], "status": "completed", "file_counts": map[string]any{"total": 0}}))
	case "POST containers":
		say(200, k.add("cntr", map[string]any{"object": "container", "name": q["name"], "status": "running"}))
	default:
		fault(404, "Invalid URL: "+request)
	}
}

// upload keeps a file. Those of batches have own-1 as the model.
func (k *keeping) upload(r *http.Request, say func(int, any), fault func(int, string)) {
	from, head, err := r.FormFile("file")
	if err != nil || len(r.MultipartForm.Value) != 1 {
		fault(400, fmt.Sprint("want a file and its purpose: ", err))
		return
	}
	text, _ := io.ReadAll(from)
	purpose := r.FormValue("purpose")
	for line := range bytes.Lines(text) {
		var v struct {
			Body struct{ Model string }
		}
		if purpose == "batch" && (json.Unmarshal(line, &v) != nil || v.Body.Model != "own-1") {
			fault(400, "a line of another model: "+string(line))
			return
		}
	}
	o := k.add("file", map[string]any{"object": "file", "bytes": len(text), "filename": head.Filename, "purpose": purpose, "status": "processed"})
	k.content[o["id"].(string)] = text
	say(200, o)
}
