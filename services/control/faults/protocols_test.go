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

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"dyno/services/control/rpc/controlpb"
)

// secret is the token of all clients.
const secret = "faults"

// An answer is what a replica said to a read or a write, or that it said nothing.
type answer struct {
	outcome  outcome
	told     state
	tag      string
	revision int64
	odd      string // what it should never say
}

// A demand is a write: of a value, and on which conditions.
type demand struct {
	key, value  string
	tag         string // that the resource must have; "" is no condition
	mustBeNew   bool
	idempotency string
}

// A protocol is how clients ask one replica. Keys are KIND/NAME.
type protocol interface {
	get(ctx context.Context, key string) answer
	put(ctx context.Context, d demand) answer
	// watch calls take with what it is told, until it is cut off or ctx ends. Each sight
	// comes with the whole token that came with it.
	watch(ctx context.Context, token string, take func(s sight, token string)) error
	close()
}

// revisionOf is what a token says of where its owner is; 0 of none.
func revisionOf(token string) int64 {
	n, _ := strconv.ParseInt(token[strings.LastIndexByte(token, '-')+1:], 10, 64) // "" is 0
	return n
}

// Over HTTP.

type overHTTP struct {
	base   string
	client *http.Client
	stream *http.Client // without a time of its own
}

func newOverHTTP(address string) *overHTTP {
	dial := (&net.Dialer{Timeout: attemptTime}).DialContext
	t := &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 64, IdleConnTimeout: 10 * time.Second}
	return &overHTTP{base: "http://" + address, client: &http.Client{Transport: t, Timeout: attemptTime}, stream: &http.Client{Transport: t}}
}

func (h *overHTTP) close() { h.client.CloseIdleConnections() }

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

func (h *overHTTP) request(ctx context.Context, method, path string, body string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, h.base+path, strings.NewReader(body))
	if err == nil {
		r.Header.Set("Authorization", "Bearer "+secret)
		r.Header.Set("Content-Type", "application/json")
	}
	return r, err
}

// ask sends a request. sent tells whether it may have arrived.
func (h *overHTTP) ask(r *http.Request) (status int, header http.Header, text []byte, sent bool) {
	got, err := h.client.Do(r)
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

func (h *overHTTP) get(ctx context.Context, key string) answer {
	r, err := h.request(ctx, http.MethodGet, path(key), "")
	if err != nil {
		return answer{odd: err.Error()}
	}
	return answerOf(h.ask(r))
}

func (h *overHTTP) put(ctx context.Context, d demand) answer {
	body := fmt.Sprintf(`{"content":%q}`, d.value)
	if strings.HasPrefix(d.key, "policy/") {
		body = fmt.Sprintf(`{"labels":{"value":%q},"rules":[]}`, d.value)
	}
	r, err := h.request(ctx, http.MethodPut, path(d.key), body)
	if err != nil {
		return answer{odd: err.Error()}
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
	// net/http would send a request with such a key again by itself where a connection is
	// lost, and tell of the last try alone: that nobody listens any more.
	r.GetBody = nil
	return answerOf(h.ask(r))
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
			return answer{odd: fmt.Sprintf("%v: %s", err, text)}
		}
		revision, _ := strconv.ParseInt(header.Get("Dyno-Revision"), 10, 64) // 0 is not told
		return answer{outcome: done, told: state{d.Version, d.value()}, tag: header.Get("Etag"), revision: revision}
	case http.StatusNotFound:
		return answer{outcome: done}
	case http.StatusPreconditionFailed:
		return answer{outcome: refused}
	case http.StatusServiceUnavailable, http.StatusInsufficientStorage, http.StatusConflict:
		return answer{outcome: undone}
	}
	return answer{odd: fmt.Sprintf("%d %s", code, text)}
}

// history is all versions of a resource.
func (h *overHTTP) history(ctx context.Context, key string) (versions []version, err error) {
	r, err := h.request(ctx, http.MethodGet, path(key)+"/history", "")
	if err != nil {
		return nil, err
	}
	code, _, text, _ := h.ask(r)
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

func (h *overHTTP) watch(ctx context.Context, token string, take func(sight, string)) error {
	r, err := h.request(ctx, http.MethodGet, "/v1/watch?kind=config&kind=policy", "")
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "text/event-stream")
	if token != "" {
		r.Header.Set("Last-Event-ID", token)
	}
	got, err := h.stream.Do(r)
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
		return sight{kind: told, key: d.Kind + "/" + d.Name, version: d.Version, revision: d.Revision, value: d.Resource.value()}, nil
	}
	return s, fmt.Errorf("event %q: nobody asked for that", kind)
}

// Over gRPC.

type overGRPC struct {
	connection *grpc.ClientConn
	client     controlpb.ControlClient
}

func newOverGRPC(address string) (*overGRPC, error) {
	soon := backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 500 * time.Millisecond}
	connection, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: soon, MinConnectTimeout: attemptTime}), grpc.WithDisableServiceConfig())
	if err != nil {
		return nil, err
	}
	return &overGRPC{connection, controlpb.NewControlClient(connection)}, nil
}

func (g *overGRPC) close() { _ = g.connection.Close() }

func refOf(key string) *controlpb.Ref {
	kind, name, _ := strings.Cut(key, "/")
	return &controlpb.Ref{Kind: map[string]controlpb.Kind{"config": controlpb.Kind_KIND_CONFIG, "policy": controlpb.Kind_KIND_POLICY}[kind], Name: name}
}

func authorized(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+secret)
}

func (g *overGRPC) get(ctx context.Context, key string) answer {
	ctx, cancel := context.WithTimeout(authorized(ctx), attemptTime)
	defer cancel()
	got, err := g.client.Get(ctx, &controlpb.GetRequest{Ref: refOf(key)})
	return answered(got.GetResource(), err)
}

func (g *overGRPC) put(ctx context.Context, d demand) answer {
	ctx, cancel := context.WithTimeout(authorized(ctx), attemptTime)
	defer cancel()
	q := &controlpb.PutRequest{Ref: refOf(d.key), Conditions: &controlpb.Conditions{IfMatch: d.tag, IdempotencyKey: d.idempotency}}
	if d.mustBeNew {
		q.Conditions.IfNoneMatch = "*"
	}
	if q.GetRef().GetKind() == controlpb.Kind_KIND_POLICY {
		q.Document = &controlpb.PutRequest_Policy{Policy: &controlpb.Policy{Labels: map[string]string{"value": d.value}}}
	} else {
		q.Document = &controlpb.PutRequest_Config{Config: &controlpb.Config{Content: d.value}}
	}
	got, err := g.client.Put(ctx, q)
	return answered(got.GetResource(), err)
}

func valueOf(r *controlpb.Resource) string {
	return r.GetConfig().GetContent() + r.GetPolicy().GetLabels()["value"]
}

// answered reads the answer to a call. Without the control plane's own word for it, nobody
// knows what became of it.
func answered(r *controlpb.Resource, err error) answer {
	if err == nil {
		return answer{outcome: done, told: state{r.GetVersion(), valueOf(r)}, tag: r.GetTag(), revision: r.GetRevision()}
	}
	s, reason := status.Convert(err), ""
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			reason = info.GetReason()
		}
	}
	switch reason {
	case "missing":
		return answer{outcome: done}
	case "precondition":
		return answer{outcome: refused}
	case "unavailable", "busy", "closed", "space", "disk", "contended":
		return answer{outcome: undone}
	case "uncertain", "deadline", "canceled":
		return answer{outcome: unknown}
	case "":
		switch s.Code() {
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
			return answer{outcome: unknown}
		}
	}
	return answer{odd: fmt.Sprintf("%v %s", err, reason)}
}

func (g *overGRPC) watch(ctx context.Context, token string, take func(sight, string)) error {
	stream, err := g.client.Watch(authorized(ctx))
	if err != nil {
		return err
	}
	query := &controlpb.Query{Kinds: []controlpb.Kind{controlpb.Kind_KIND_CONFIG, controlpb.Kind_KIND_POLICY}, Token: token}
	if err := stream.Send(&controlpb.WatchRequest{Message: &controlpb.WatchRequest_Query{Query: query}}); err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		r := m.GetResource()
		switch m.GetType() {
		case controlpb.WatchResponse_TYPE_RESYNC:
			take(sight{kind: resync}, "")
		case controlpb.WatchResponse_TYPE_SYNCED:
			if m.GetToken() != "" { // without one, it says that nothing has happened
				take(sight{kind: synced, revision: revisionOf(m.GetToken())}, m.GetToken())
			}
		case controlpb.WatchResponse_TYPE_PUT:
			kind := map[controlpb.Kind]string{controlpb.Kind_KIND_CONFIG: "config/", controlpb.Kind_KIND_POLICY: "policy/"}[r.GetRef().GetKind()]
			take(sight{kind: told, key: kind + r.GetRef().GetName(), version: r.GetVersion(), revision: r.GetRevision(), value: valueOf(r)}, m.GetToken())
		default:
			return fmt.Errorf("%v: nobody asked for that", m.GetType())
		}
	}
}
