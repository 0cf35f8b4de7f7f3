package bot

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"dyno/services/bot/openai"
	"dyno/services/bot/upstream"
)

// atOwners runs a gateway before two keeping servers. It has two keys of a team, and one of another.
func atOwners(t *testing.T, change func(*Config)) (b *bed, second *keeping, secrets map[string]string) {
	b, _, second = atKeeping(t, func(c *Config) {
		change(c)
		c.ManageKeys, c.Admin = true, "127.0.0.1:0"
	})
	b.manage("POST", "/api/v1/teams", `{"id":"t"}`, http.StatusCreated)
	b.manage("POST", "/api/v1/teams", `{"id":"u"}`, http.StatusCreated)
	secrets = map[string]string{}
	for name, team := range map[string]string{"one": "t", "mate": "t", "stranger": "u"} {
		secrets[name] = b.newKey(fmt.Sprintf(`{"id":%q,"team":%q}`, name, team))
	}
	return b, second, secrets
}

// outputs are the IDs of a response's items, and of the containers of their tools.
func outputs(t *testing.T, text string) (items, containers []string) {
	t.Helper()
	var v struct {
		Output []struct {
			ID        string
			Container string `json:"container_id"`
		}
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	for _, o := range v.Output {
		items = append(items, o.ID)
		if o.Container != "" {
			containers = append(containers, o.Container)
		}
	}
	return items, containers
}

// from asks for a response until the second server has made it.
func (b *bed) from(second, who, body string) (text string) {
	b.t.Helper()
	for range 9 {
		status, text, _ := b.ask("/v1/responses", who, body)
		if status != http.StatusOK {
			b.t.Fatalf("%d %s", status, text)
		}
		if strings.Contains(text, "resp_"+second) {
			return text
		}
	}
	b.t.Fatal("the second server is never asked")
	return text
}

// TestSideDoors: wherever a request names an object, it must be the key's or its team's, and the request goes to the deployment
// that has it.
func TestSideDoors(t *testing.T) {
	eachStore(t, func(t *testing.T, set func(*Config)) {
		b, second, secrets := atOwners(t, set)
		key := secrets["one"]
		const auto = `{"model":"dyno-1","input":"hi","tools":[{"type":"code_interpreter","container":{"type":"auto"}}]`
		items, containers := outputs(t, b.from("b", key, auto+"}"))
		var last struct{ Response json.RawMessage }
		list := frames(t, strings.NewReader(b.from("b", key, auto+`,"stream":true}`)))
		if err := json.Unmarshal([]byte(list[len(list)-1].data), &last); err != nil {
			t.Fatal(err)
		}
		streamedItems, streamedContainers := outputs(t, string(last.Response))
		file := b.idIn(b.put(key, "user_data", "hello"))
		conversation := b.idOf("/v1/conversations", key, `{"metadata":{"a":"b"}}`)
		if status, text, _ := b.ask("/v1/conversations/"+conversation+"/items", key, `{"items":[{"type":"message","role":"user","content":"more"}]}`); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		added := b.listed("/v1/conversations/"+conversation+"/items", key)[0]
		store := b.idOf("/v1/vector_stores", key, fmt.Sprintf(`{"name":"n","file_ids":[%q]}`, file))
		container := b.idOf("/v1/containers", key, fmt.Sprintf(`{"name":"n","file_ids":[%q]}`, file))

		const responses, chat = "/v1/responses", "/v1/chat/completions"
		for _, c := range []struct {
			path, id, body string // with an ID
			open           bool   // unknown ones are everybody's
		}{
			{responses, conversation, `"input":"hi","conversation":%q`, false},
			{responses, conversation, `"input":"hi","conversation":{"id":%q}`, false},
			{responses, items[0], `"input":[{"type":"item_reference","id":%q}]`, false},
			{responses, items[0], `"input":[{"id":%q}]`, false},
			{responses, streamedItems[0], `"input":[{"type":"item_reference","id":%q}]`, false},
			{responses, added, `"input":[{"type":"item_reference","id":%q}]`, false},
			{responses, items[1], `"input":[{"type":"code_interpreter_call","id":%q,"container_id":"c"}]`, true},
			{responses, store, `"input":"hi","tools":[{"type":"file_search","vector_store_ids":[%q]}]`, true},
			{responses, container, `"input":"hi","tools":[{"type":"code_interpreter","container":%q}]`, false},
			{responses, containers[0], `"input":"hi","tools":[{"type":"code_interpreter","container":%q}]`, false},
			{responses, streamedContainers[0], `"input":"hi","tools":[{"type":"shell","environment":{"type":"container_reference","container_id":%q}}]`, false},
			{responses, file, `"input":"hi","tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":[%q]}}]`, true},
			{responses, file, `"input":[{"role":"user","content":[{"type":"input_image","file_id":%q}]}]`, true},
			{chat, file, `"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":%q}}]}]`, true},
			{"/v1/conversations", items[0], `"items":[{"type":"item_reference","id":%q}]`, false},
			{"/v1/vector_stores", file, `"file_ids":[%q]`, true},
			{"/v1/vector_stores/" + store + "/files", file, `"file_id":%q`, true},
			{"/v1/vector_stores/" + store + "/file_batches", file, `"files":[{"file_id":%q}]`, true},
		} {
			ask := func(who, id string) (int, string) {
				body := fmt.Sprintf("{"+c.body+"}", id)
				if c.path == responses || c.path == chat {
					body = `{"model":"dyno-1",` + body[1:]
				}
				status, text, _ := b.ask(c.path, secrets[who], body)
				return status, text
			}
			for _, who := range []string{"one", "mate", "one", "mate"} {
				if status, text := ask(who, c.id); status != http.StatusOK && c.path != chat || strings.Contains(text, "not known here") { // nobody serves chats
					t.Errorf("%s of %s: %d %s", c.body, who, status, text)
				}
			}
			before := second.count()
			if status, text := ask("stranger", c.id); status != http.StatusNotFound || !strings.Contains(text, "_not_found") {
				t.Errorf("another's, %s: %d %s", c.body, status, text)
			}
			if status, text := ask("one", "unknown"); strings.Contains(text, "not known here") == c.open {
				t.Errorf("unknown, %s: %d %s", c.body, status, text)
			}
			if !c.open && second.count() > before {
				t.Errorf("%s: the upstream is asked for another's", c.body)
			}
		}
		for _, s := range b.live.Load().pool.States() {
			if s.Failures > 0 || !s.Ready {
				t.Errorf("clients' IDs are taken for failures: %+v", s)
			}
		}
	})
}

// TestObjectsOfOthers: all operations about an object are for who it belongs to. Others' do not reach the upstream.
func TestObjectsOfOthers(t *testing.T) {
	b, second, secrets := atOwners(t, func(*Config) {})
	for _, k := range openai.Kinds {
		kinds := map[string]string{openai.Conversation: `{}`, openai.VectorStore: `{"name":"n"}`, openai.Container: `{"name":"n"}`}
		if kinds[k.Name] == "" {
			continue // other tests have it
		}
		id := b.idOf("/v1"+k.Path, secrets["one"], kinds[k.Name])
		for _, o := range openai.Kept {
			if o.Kind != k.Name || o.Many() || o.Deletes() {
				continue
			}
			path := strings.NewReplacer("{id}", id, "{part}", "part_1").Replace(o.Path)
			for _, who := range []string{"stranger", "one", "mate"} {
				before := second.count()
				status, text := b.request(o.Method, path+"?limit=3", secrets[who]) // without /v1
				if owner := who != "stranger"; !owner && (status != http.StatusNotFound || !strings.Contains(text, k.Name+"_not_found")) || owner == strings.Contains(text, "_not_found") || owner != (second.count() > before) {
					t.Errorf("%s's %s: %d %s", who, o.Name, status, text)
				}
				if last, want := second.last(), o.Method+" /v1"+path+"?limit=3"; who == "mate" && last != want {
					t.Errorf("asked %s, want %s", last, want)
				}
				if beta, want := second.beta, map[bool]string{true: "assistants=v2"}[k.Name == openai.VectorStore]; who == "mate" && beta != want {
					t.Errorf("%s: OpenAI-Beta is %q", o.Name, beta)
				}
			}
		}
		for _, bad := range []string{"%2e%2e", "a%2fb", "a%3fb", strings.Repeat("a", 200)} {
			before := second.count()
			if status, text := b.get("/v1"+k.Path+"/"+id+"/files/"+bad, secrets["one"]); status != http.StatusNotFound || second.count() > before {
				t.Errorf("%s: %d %s", bad, status, text)
			}
		}
		if k.Name != openai.Conversation { // there is no list of them
			for who, want := range map[string]int{"one": 1, "mate": 1, "stranger": 0} {
				if got := b.listed(k.Path, secrets[who]); len(got) != want+1 {
					t.Errorf("%s has %v", who, got)
				}
			}
		}
		for who, want := range map[string]int{"stranger": http.StatusNotFound, "mate": http.StatusOK} {
			if status, text := b.request(http.MethodDelete, "/v1"+k.Path+"/"+id, secrets[who]); status != want && who == "stranger" {
				t.Errorf("%s deletes: %d %s", who, status, text)
			}
		}
	}
	if status, text := b.get("/v1/vector_stores?before=x", secrets["one"]); status != http.StatusBadRequest {
		t.Errorf("%d %s", status, text)
	}
}

// TestConversations: a conversation goes on where it is, and is gone once it is deleted, but not with an item.
func TestConversations(t *testing.T) {
	b, second, secrets := atOwners(t, func(*Config) {})
	key := secrets["one"]
	id := b.idOf("/conversations", key, `{"items":[{"type":"message","role":"user","content":"hi"}]}`)
	for range 4 {
		if made := b.idOf("/v1/responses", key, fmt.Sprintf(`{"model":"dyno-1","input":"hi","conversation":%q}`, id)); !strings.HasPrefix(made, "resp_b") {
			t.Error(made)
		}
	}
	item := b.listed("/v1/conversations/"+id+"/items", key)[0]
	if status, text := b.request(http.MethodDelete, "/v1/conversations/"+id+"/items/"+item, key); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	if status, text, _ := b.ask("/v1/conversations/"+id, key, `{"metadata":{"a":"c"}}`); status != http.StatusOK || !strings.Contains(text, `"a":"c"`) {
		t.Errorf("%d %s", status, text)
	}
	for _, body := range []string{`{"items":[],"items":[]}`, `{"Items":[]}`, `[]`, `{"items":`} {
		before := second.count()
		if status, text, _ := b.ask("/v1/conversations", key, body); status != http.StatusBadRequest || second.count() > before {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if status, text := b.request(http.MethodDelete, "/v1/conversations/"+id, key); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	if status, text, _ := b.ask("/v1/responses", key, fmt.Sprintf(`{"model":"dyno-1","input":"hi","conversation":%q}`, id)); status != http.StatusNotFound || !strings.Contains(text, `"param":"conversation"`) {
		t.Errorf("%d %s", status, text)
	}
}

// TestElsewhere: what is at one upstream is not asked of another, which does not serve the model.
func TestElsewhere(t *testing.T) {
	b, first, second := atKeeping(t, func(c *Config) { delete(c.Upstream.Upstreams[1].Models, "dyno-2") })
	key := secretOf("key")
	id := b.idOf("/v1/conversations", key, `{}`)
	asked := first.count() + second.count()
	if status, text, _ := b.ask("/v1/responses", key, fmt.Sprintf(`{"model":"dyno-2","input":"hi","conversation":%q}`, id)); status != http.StatusNotFound || !strings.Contains(text, "does not serve the model") || first.count()+second.count() > asked {
		t.Errorf("%d %s", status, text)
	}
	// Items that may have all that the model reads go anywhere.
	items, _ := outputs(t, b.from("b", key, `{"model":"dyno-1","input":"hi"}`))
	if status, text, _ := b.ask("/v1/responses", key, fmt.Sprintf(`{"model":"dyno-2","input":[{"type":"reasoning","id":%q}]}`, items[0])); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
}

// TestBatchesOfOthers: the lines of a batch name no objects of others.
func TestBatchesOfOthers(t *testing.T) {
	b, _, second := atKeeping(t, nil)
	id := b.idOf("/v1/responses", secretOf("key"), `{"model":"dyno-1","input":"hi"}`)
	line := fmt.Sprintf(`{"custom_id":"1","method":"POST","url":"/v1/responses","body":{"model":"dyno-1","input":"hi","previous_response_id":%q}}`+"\n", id)
	if status, text := b.put("key", "batch", line+line); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	before := second.count()
	if status, text := b.put("other", "batch", aLine+line); status != http.StatusBadRequest || !strings.Contains(text, "line 2: response") || second.count() > before {
		t.Errorf("%d %s", status, text)
	}
}

// TestContainersOfMessages: a container that an answer of /v1/messages names belongs to who asked.
func TestContainersOfMessages(t *testing.T) {
	n := 0
	b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		if body, _ := io.ReadAll(r.Body); !strings.Contains(string(body), `"stream":true`) {
			fmt.Fprintf(w, `{"id":"msg_1","type":"message","role":"assistant","content":[],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1},"container":{"id":"container_%d","expires_at":"x"}}`, n)
			return
		}
		fmt.Fprintf(w, "%sevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"container\":{\"id\":\"container_%d\"}},\"usage\":{\"output_tokens\":1}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", aBegin, n)
	}, func(c *Config) {
		c.Keys = []Key{keyOf("key"), keyOf("other")}
		c.Upstream.Upstreams[0].Dialect = upstream.Anthropic
	})
	for i, stream := range []string{"", `,"stream":true`} {
		ask := func(who, more string) (int, string) {
			status, text, _ := b.ask("/v1/messages", secretOf(who), `{"model":"dyno-1","max_tokens":9,"messages":[{"role":"user","content":"hi"}]`+stream+more+`}`)
			return status, text
		}
		if status, text := ask("key", ""); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		made := fmt.Sprintf("container_%d", 2*i+1)
		for who, want := range map[string]int{"key": http.StatusOK, "other": http.StatusNotFound} {
			if status, text := ask(who, fmt.Sprintf(`,"container":%q`, made)); status != want {
				t.Errorf("%s of %s: %d %s", made, who, status, text)
			}
		}
	}
}
