package faults

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// secret is the token of all clients.
const secret = "faults"

// An answer is what a replica said to a read or a write, or that it said nothing.
type answer struct {
	outcome  outcome
	seen     state
	tag      string
	revision int64
	invalid  string // what it should never say
}

// A demand is a write: of a value, and on which conditions.
type demand struct {
	key, value  string
	tag         string // that the resource must have; "" is no condition
	mustBeNew   bool
	idempotency string
}

// revisionOf is what a token says of where its owner is; 0 of none.
func revisionOf(token string) int64 {
	n, _ := strconv.ParseInt(token[strings.LastIndexByte(token, '-')+1:], 10, 64) // "" is 0
	return n
}

// A caller asks one replica. Keys are KIND/NAME.
type caller struct {
	base   string
	client *http.Client
	stream *http.Client // without a time of its own
}

func newCaller(address string) *caller {
	dial := (&net.Dialer{Timeout: attemptTime}).DialContext
	t := &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 64, IdleConnTimeout: 10 * time.Second}
	return &caller{base: "http://" + address, client: &http.Client{Transport: t, Timeout: attemptTime}, stream: &http.Client{Transport: t}}
}

func (c *caller) close() { c.client.CloseIdleConnections() }

// path is where a resource is.
func path(key string) string {
	kind, name, _ := strings.Cut(key, "/")
	return map[string]string{"config": "/v1/configs/", "policy": "/v1/policies/"}[kind] + name
}

// A document is what clients need to know of one.
type document struct {
	Version int64             `json:"version"`
	Content string            `json:"content"`
	Labels  map[string]string `json:"labels"`
}

// value is what was put in it.
func (d document) value() string { return d.Content + d.Labels["value"] }

func (c *caller) request(ctx context.Context, method, path string, body string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	if err == nil {
		r.Header.Set("Authorization", "Bearer "+secret)
		r.Header.Set("Content-Type", "application/json")
	}
	return r, err
}

// ask sends a request. sent tells whether it may have arrived.
func (c *caller) ask(r *http.Request) (status int, header http.Header, text []byte, sent bool) {
	got, err := c.client.Do(r)
	if err != nil {
		var failed *net.OpError
		return 0, nil, nil, !errors.As(err, &failed) || failed.Op != "dial"
	}
	defer got.Body.Close()
	text, err = io.ReadAll(got.Body)
	if err != nil {
		return 0, nil, nil, true
	}
	return got.StatusCode, got.Header, text, true
}

func (c *caller) get(ctx context.Context, key string) answer {
	r, err := c.request(ctx, http.MethodGet, path(key), "")
	if err != nil {
		return answer{invalid: err.Error()}
	}
	return answerOf(c.ask(r))
}

func (c *caller) put(ctx context.Context, d demand) answer {
	body := fmt.Sprintf(`{"content":%q}`, d.value)
	if strings.HasPrefix(d.key, "policy/") {
		body = fmt.Sprintf(`{"labels":{"value":%q},"rules":[]}`, d.value)
	}
	r, err := c.request(ctx, http.MethodPut, path(d.key), body)
	if err != nil {
		return answer{invalid: err.Error()}
	}
	if d.tag != "" {
		r.Header.Set("If-Match", d.tag)
	}
	if d.mustBeNew {
		r.Header.Set("If-None-Match", "*")
	}
	if d.idempotency != "" {
		r.Header.Set("Idempotency-Key", d.idempotency)
	}
	// net/http would itself repeat a request with such a key after a lost connection. Its error would describe only
	// the last attempt: connection refused.
	r.GetBody = nil
	return answerOf(c.ask(r))
}

// answerOf reads the answer to a read or a write.
func answerOf(code int, header http.Header, text []byte, sent bool) answer {
	if !sent {
		return answer{outcome: undone}
	}
	switch code {
	case 0, http.StatusGatewayTimeout:
		return answer{outcome: unknown}
	case http.StatusOK, http.StatusCreated:
		var d document
		if err := json.Unmarshal(text, &d); err != nil {
			return answer{invalid: fmt.Sprintf("%v: %s", err, text)}
		}
		revision, _ := strconv.ParseInt(header.Get("Dyno-Revision"), 10, 64) // 0 is not told
		return answer{outcome: done, seen: state{d.Version, d.value()}, tag: header.Get("Etag"), revision: revision}
	case http.StatusNotFound:
		return answer{outcome: done}
	case http.StatusPreconditionFailed:
		return answer{outcome: refused}
	case http.StatusServiceUnavailable, http.StatusInsufficientStorage, http.StatusConflict:
		return answer{outcome: undone}
	}
	return answer{invalid: fmt.Sprintf("%d %s", code, text)}
}

// history is all versions of a resource.
func (c *caller) history(ctx context.Context, key string) (versions []version, err error) {
	r, err := c.request(ctx, http.MethodGet, path(key)+"/history", "")
	if err != nil {
		return nil, err
	}
	code, _, text, _ := c.ask(r)
	if code == http.StatusNotFound {
		return nil, nil
	}
	var list struct {
		Items []document `json:"items"`
	}
	if code != http.StatusOK {
		return nil, fmt.Errorf("%d %s", code, text)
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	for i, d := range list.Items {
		if d.Version != int64(i+1) {
			return nil, fmt.Errorf("place %d of the history of %s has version %d", i+1, key, d.Version)
		}
		versions = append(versions, version{value: d.value()})
	}
	return versions, nil
}

// watch calls take with what it is told, until it is cut off or ctx ends. Each sight comes
// with the whole token that came with it.
func (c *caller) watch(ctx context.Context, token string, take func(sight, string)) error {
	r, err := c.request(ctx, http.MethodGet, "/v1/watch?kind=config&kind=policy&prefix=k", "")
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "text/event-stream")
	if token != "" {
		r.Header.Set("Last-Event-ID", token)
	}
	got, err := c.stream.Do(r)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusOK {
		return fmt.Errorf("watch: %s", got.Status)
	}
	in := bufio.NewReader(got.Body)
	var kind, id string
	var data []byte
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\n")
		name, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch {
		case len(line) == 0 && kind != "":
			s, err := sightOf(kind, data)
			if err != nil {
				return err
			}
			take(s, id)
			kind, id, data = "", "", nil
		case string(name) == "event":
			kind = string(value)
		case string(name) == "data":
			data = append(data, value...)
		case string(name) == "id":
			id = string(value)
		}
	}
}

// sightOf reads an event of a stream.
func sightOf(kind string, data []byte) (s sight, err error) {
	var d struct {
		Kind     string   `json:"kind"`
		Name     string   `json:"name"`
		Version  int64    `json:"version"`
		Revision int64    `json:"revision"`
		Resource document `json:"resource"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return s, err
	}
	switch kind {
	case "resync":
		return sight{kind: resync}, nil
	case "synced":
		return sight{kind: synced, revision: d.Revision}, nil
	case "put":
		return sight{kind: changed, key: d.Kind + "/" + d.Name, version: d.Version, revision: d.Revision, value: d.Resource.value()}, nil
	}
	return s, fmt.Errorf("event %q: nobody asked for that", kind)
}
