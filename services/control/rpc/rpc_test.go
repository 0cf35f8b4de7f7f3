package rpc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"dyno/internal/leak"
	"dyno/services/control/access"
	"dyno/services/control/plane"
	"dyno/services/control/plane/planetest"
	"dyno/services/control/resource"
	"dyno/services/control/rpc/controlpb"
	"dyno/services/control/store"
)

func TestMain(m *testing.M) { leak.Main(m) }

// hangGuard bounds every wait of these tests. It is no expectation of speed.
const hangGuard = time.Minute

// A bed is an API on a store of its own, and a client.
type bed struct {
	t     *testing.T
	plane *plane.Plane
	store *store.Store
	api   *API
	calls controlpb.ControlClient
	ctx   context.Context
	at    string // where it listens
}

func newBed(t *testing.T, change func(*Config, *plane.Config), options ...grpc.DialOption) *bed {
	t.Helper()
	c, pc := Defaults(), plane.Defaults()
	if change != nil {
		change(&c, &pc)
	}
	p, s := planetest.Open(t, pc)
	c.Plane = p
	api := New(c)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- api.Serve(l) }()
	connection, err := grpc.NewClient(l.Addr().String(), append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), hangGuard)
	t.Cleanup(func() {
		cancel()
		if err := connection.Close(); err != nil {
			t.Error(err)
		}
		ending, cancel := context.WithTimeout(context.Background(), hangGuard)
		defer cancel()
		if cut := api.Close(ending); cut > 0 {
			t.Errorf("connections were cut")
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return &bed{t, p, s, api, controlpb.NewControlClient(connection), ctx, l.Addr().String()}
}

func policy(name string) *controlpb.Ref {
	return &controlpb.Ref{Kind: controlpb.Kind_KIND_POLICY, Name: name}
}

func config(name string) *controlpb.Ref {
	return &controlpb.Ref{Kind: controlpb.Kind_KIND_CONFIG, Name: name}
}

func instance(service, id string) *controlpb.Ref {
	return &controlpb.Ref{Kind: controlpb.Kind_KIND_INSTANCE, Name: service, Id: id}
}

// A rawCodec sends messages as they are, which a client of another language may have made.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (rawCodec) Unmarshal([]byte, any) error   { return nil }
func (rawCodec) Name() string                  { return "proto" }

// TestOtherText: text that is not UTF-8 is refused before it can be kept as something else.
func TestOtherText(t *testing.T) {
	b := newBed(t, nil)
	connection, err := grpc.NewClient(b.at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	for method, m := range map[string]proto.Message{
		"Put":      &controlpb.PutRequest{Ref: config("a"), Document: &controlpb.PutRequest_Config{Config: &controlpb.Config{ContentType: "a~"}}},
		"Register": &controlpb.RegisterRequest{Ref: instance("s", "1"), Instance: &controlpb.Instance{Address: "10.0.0.1", Port: 80, Metadata: map[string]string{"a": "~"}}},
		"Remove":   &controlpb.RemoveRequest{Ref: config("a"), Conditions: &controlpb.Conditions{IdempotencyKey: "~"}},
	} {
		text, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.Replace(text, []byte("~"), []byte("\xff"), 1)
		var out []byte
		if err := connection.Invoke(b.ctx, "/dyno.control.v1.Control/"+method, text, &out, grpc.ForceCodec(rawCodec{})); err == nil || !strings.Contains(err.Error(), "invalid UTF-8") {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// putConfig makes or changes a configuration.
func (b *bed) putConfig(name, content string) *controlpb.ChangeResponse {
	b.t.Helper()
	got, err := b.calls.Put(b.ctx, &controlpb.PutRequest{Ref: config(name), Document: &controlpb.PutRequest_Config{Config: &controlpb.Config{Content: []byte(content)}}})
	if err != nil {
		b.t.Fatal(err)
	}
	// A read has the replica know what was acknowledged. A watch begins with what it knows.
	if _, err := b.calls.Get(b.ctx, &controlpb.GetRequest{Ref: config(name)}); err != nil {
		b.t.Fatal(err)
	}
	return got
}

// reason is the kind of problem that an error says, with its code.
func reason(t *testing.T, err error) string {
	t.Helper()
	s := status.Convert(err)
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == domain {
			return s.Code().String() + " " + info.GetReason()
		}
	}
	return s.Code().String()
}

// A policy with every field comes back as it was put; over HTTP it has the same document.
func TestPolicies(t *testing.T) {
	b := newBed(t, nil)
	put := &controlpb.Policy{
		Labels: map[string]string{"team": "shop"},
		Rules: []*controlpb.Rule{
			{Match: &controlpb.Match{Services: []string{"a"}, Sources: map[string]string{"zone": "z"}, Methods: []string{"GET"}, PathPrefix: "/x", Headers: map[string]string{"h": "v"}}, Action: "deny"},
			{Action: "limit", Limit: &controlpb.RateLimit{RequestsPerSecond: 2.5, Burst: 7}},
			{Action: "route", Route: []*controlpb.Backend{{Service: "a", Weight: 1}, {Service: "b"}}},
			{Action: "retry", Retry: &controlpb.Retries{Attempts: 3, BackoffSeconds: 0.5}},
			{Action: "timeout", TimeoutSeconds: 1.5},
		},
	}
	made, err := b.calls.Put(b.ctx, &controlpb.PutRequest{Ref: policy("p"), Document: &controlpb.PutRequest_Policy{Policy: put}})
	if err != nil {
		t.Fatal(err)
	}
	if !made.GetCreated() || made.GetResource().GetVersion() != 1 || made.GetResource().GetRef().GetNamespace() != "default" || made.GetResource().GetChangedBy() != "anonymous" {
		t.Errorf("made %v", made)
	}
	got, err := b.calls.Get(b.ctx, &controlpb.GetRequest{Ref: policy("p")})
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(made.GetResource(), got.GetResource()) || !proto.Equal(got.GetResource().GetPolicy(), put) {
		t.Errorf("made %v\ngot  %v\nput  %v", made.GetResource(), got.GetResource(), put)
	}
	item, _, err := b.plane.Get(b.ctx, planetest.Anybody, resource.Ref{Kind: resource.Policies, Namespace: "default", Name: "p"}, false)
	if err != nil {
		t.Fatal(err)
	}
	const same = `{"namespace":"default","name":"p","labels":{"team":"shop"},"rules":[` +
		`{"match":{"services":["a"],"sources":{"zone":"z"},"methods":["GET"],"path_prefix":"/x","headers":{"h":"v"}},"action":"deny"},` +
		`{"action":"limit","limit":{"requests_per_second":2.5,"burst":7}},` +
		`{"action":"route","route":[{"service":"a","weight":1},{"service":"b","weight":0}]},` +
		`{"action":"retry","retry":{"attempts":3,"backoff_seconds":0.5}},{"action":"timeout","timeout_seconds":1.5}]`
	if !strings.HasPrefix(string(item.Body), same) {
		t.Errorf("kept %s\nwant %s", item.Body, same)
	}

	// An empty list of rules is one.
	if _, err := b.calls.Put(b.ctx, &controlpb.PutRequest{Ref: policy("empty"), Document: &controlpb.PutRequest_Policy{Policy: &controlpb.Policy{}}}); err != nil {
		t.Error(err)
	}
}

// TestOperations goes through what a program does with resources.
func TestOperations(t *testing.T) {
	b := newBed(t, nil)
	one := b.putConfig("c", "one").GetResource()
	condition := &controlpb.Conditions{IfMatch: one.GetTag()}
	change := &controlpb.PutRequest{Ref: config("c"), Conditions: condition, Document: &controlpb.PutRequest_Config{Config: &controlpb.Config{Content: []byte("two")}}}
	two, err := b.calls.Put(b.ctx, change)
	if err != nil || two.GetResource().GetVersion() != 2 || two.GetCreated() {
		t.Errorf("%v, %v", two, err)
	}
	if _, err := b.calls.Put(b.ctx, change); reason(t, err) != "FailedPrecondition precondition" {
		t.Errorf("the old tag again: %v", err)
	}
	change.Conditions = &controlpb.Conditions{DryRun: true}
	if dry, err := b.calls.Put(b.ctx, change); err != nil || dry.GetResource().GetVersion() != 3 {
		t.Errorf("dry run: %v, %v", dry, err)
	}
	change.Conditions = &controlpb.Conditions{IdempotencyKey: "k"}
	for i, repeated := range []bool{false, true} {
		if got, err := b.calls.Put(b.ctx, change); err != nil || got.GetRepeatedKey() != repeated || got.GetResource().GetVersion() != 3 {
			t.Errorf("%d: %v, %v", i, got, err)
		}
	}

	// An instance's life.
	ref := instance("shop", "1")
	registered, err := b.calls.Register(b.ctx, &controlpb.RegisterRequest{Ref: ref, Instance: &controlpb.Instance{Address: "127.0.0.1", Port: 80, Weight: proto.Int32(0)}})
	if err != nil {
		t.Fatal(err)
	}
	if i := registered.GetResource().GetInstance(); i.Weight == nil || i.GetWeight() != 0 || i.GetStatus() != "up" || i.GetTtlSeconds() != resource.DefaultTTL || i.GetHolder() != "control" {
		t.Errorf("registered %v", i)
	}
	beats, err := b.calls.Heartbeat(b.ctx, &controlpb.HeartbeatRequest{Instances: []*controlpb.Ref{ref, instance("shop", "2"), {Name: "shop", Id: "1"}}})
	if err != nil || len(beats.GetUnknown()) != 1 || beats.GetUnknown()[0].GetId() != "2" {
		t.Errorf("%v, %v", beats, err)
	}
	list, err := b.calls.List(b.ctx, &controlpb.ListRequest{Kind: controlpb.Kind_KIND_INSTANCE, Service: "shop", Stale: true})
	if err != nil || len(list.GetResources()) > 1 { // a stale answer may have none yet
		t.Errorf("%v, %v", list, err)
	}
	removed, err := b.calls.Remove(b.ctx, &controlpb.RemoveRequest{Ref: ref})
	if err != nil || !removed.GetRemoved() || removed.GetResource().GetInstance().GetPort() != 80 {
		t.Errorf("%v, %v", removed, err)
	}
	if _, err := b.calls.Get(b.ctx, &controlpb.GetRequest{Ref: ref}); reason(t, err) != "NotFound missing" {
		t.Errorf("removed: %v", err)
	}
}

// TestRefusals: every fault has its code and its kind, and a document's faults their places.
func TestRefusals(t *testing.T) {
	b := newBed(t, func(_ *Config, p *plane.Config) { p.Limits.PerService, p.Limits.PolicyBytes = 1, 400 })
	if _, err := b.calls.Register(b.ctx, &controlpb.RegisterRequest{Ref: instance("s", "1"), Instance: &controlpb.Instance{Address: "::1", Port: 1}}); err != nil {
		t.Fatal(err)
	}
	put := func(r *controlpb.Ref, p *controlpb.Policy) error {
		_, err := b.calls.Put(b.ctx, &controlpb.PutRequest{Ref: r, Document: &controlpb.PutRequest_Policy{Policy: p}})
		return err
	}
	get := func(r *controlpb.Ref) error {
		_, err := b.calls.Get(b.ctx, &controlpb.GetRequest{Ref: r})
		return err
	}
	list := func(q *controlpb.ListRequest) error {
		_, err := b.calls.List(b.ctx, q)
		return err
	}
	register := func(r *controlpb.Ref, i *controlpb.Instance) error {
		_, err := b.calls.Register(b.ctx, &controlpb.RegisterRequest{Ref: r, Instance: i})
		return err
	}
	_, noDocument := b.calls.Put(b.ctx, &controlpb.PutRequest{Ref: policy("p")})
	_, noInstances := b.calls.Heartbeat(b.ctx, &controlpb.HeartbeatRequest{})
	_, rolloutOfInstance := b.calls.Rollout(b.ctx, &controlpb.RolloutRequest{Ref: instance("s", "1")})
	_, longKey := b.calls.Remove(b.ctx, &controlpb.RemoveRequest{Ref: policy("p"), Conditions: &controlpb.Conditions{IdempotencyKey: strings.Repeat("k", 129)}})
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no reference":         {get(nil), "InvalidArgument parameter"},
		"no kind":              {get(&controlpb.Ref{Name: "a"}), "InvalidArgument parameter"},
		"a bad name":           {get(policy("a/b")), "InvalidArgument parameter"},
		"an ID of a policy":    {get(&controlpb.Ref{Kind: controlpb.Kind_KIND_POLICY, Name: "a", Id: "1"}), "InvalidArgument parameter"},
		"missing":              {get(policy("p")), "NotFound missing"},
		"another kind":         {put(config("c"), &controlpb.Policy{}), "InvalidArgument parameter"},
		"no document":          {noDocument, "InvalidArgument parameter"},
		"no number":            {put(policy("p"), &controlpb.Policy{Rules: []*controlpb.Rule{{Action: "timeout", TimeoutSeconds: math.NaN()}}}), "InvalidArgument invalid"},
		"too large":            {put(policy("p"), &controlpb.Policy{Labels: map[string]string{"a": strings.Repeat("x", 500)}}), "InvalidArgument invalid"},
		"too long a page":      {list(&controlpb.ListRequest{Kind: controlpb.Kind_KIND_POLICY, Limit: 1001}), "InvalidArgument parameter"},
		"policies' service":    {list(&controlpb.ListRequest{Kind: controlpb.Kind_KIND_POLICY, Service: "s"}), "InvalidArgument parameter"},
		"no service":           {list(&controlpb.ListRequest{Kind: controlpb.Kind_KIND_INSTANCE}), "InvalidArgument parameter"},
		"one too many":         {register(instance("s", "2"), &controlpb.Instance{Address: "::1", Port: 1}), "ResourceExhausted limit"},
		"no instance":          {register(instance("s", "1"), nil), "InvalidArgument invalid"},
		"a policy's heartbeat": {register(policy("p"), &controlpb.Instance{}), "InvalidArgument parameter"},
		"no heartbeats":        {noInstances, "InvalidArgument parameter"},
		"rollout":              {rolloutOfInstance, "InvalidArgument parameter"},
		"a long key":           {longKey, "InvalidArgument parameter"},
	} {
		if got := reason(t, c.err); got != c.want {
			t.Errorf("%s: %s (%v), want %s", name, got, c.err, c.want)
		}
	}
	err := put(policy("p"), &controlpb.Policy{Rules: []*controlpb.Rule{{Action: "route"}, {Action: "jump"}}})
	var places []string
	for _, d := range status.Convert(err).Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			for _, f := range bad.GetFieldViolations() {
				places = append(places, f.GetField())
			}
		}
	}
	if want := []string{"#/rules/0/route", "#/rules/1/action"}; !slices.Equal(places, want) {
		t.Errorf("faults at %q, want %q: %v", places, want, err)
	}
	if got := status.Code(refuse(fmt.Errorf("x: %w", store.ErrUncertain))); got != codes.Unknown {
		t.Errorf("uncertain: %v: a client may repeat it by itself", got)
	}
	if got := reason(t, refuse(fmt.Errorf("x: %w", store.ErrDiskFull))); got != "ResourceExhausted disk" {
		t.Errorf("a full disk: %s", got)
	}
	if got := refuse(errors.New("secret")); status.Code(got) != codes.Internal || strings.Contains(got.Error(), "secret") {
		t.Errorf("internal: %+v", got)
	}
	retry := false
	for _, d := range status.Convert(refuse(store.ErrBusy)).Details() {
		info, ok := d.(*errdetails.RetryInfo)
		retry = retry || ok && info.GetRetryDelay().AsDuration() == time.Second
	}
	if !retry {
		t.Error("busy does not say when to come back")
	}
}

// TestRoles: each call is made for who shows the token. Who may not is refused, and learns no secret.
func TestRoles(t *testing.T) {
	b, as := withBook(t, nil)
	secret := in("n", config("secret"))
	made, err := b.calls.Put(as("editor"), &controlpb.PutRequest{Ref: secret, Document: &controlpb.PutRequest_Config{Config: &controlpb.Config{Content: []byte("password"), Secret: true}}})
	if err != nil || string(made.GetResource().GetConfig().GetContent()) != "password" {
		t.Fatal(made, err)
	}
	for who, want := range map[string]string{"reader": "", "registrar": "password", "other": "PermissionDenied role", "nobody": "Unauthenticated token"} {
		got, err := b.calls.Get(as(who), &controlpb.GetRequest{Ref: secret})
		text := string(got.GetResource().GetConfig().GetContent())
		if err != nil {
			text = reason(t, err)
		} else if masked := text == ""; masked == (got.GetResource().GetTag() == made.GetResource().GetTag()) {
			t.Errorf("masked: %v, with tag %s", masked, got.GetResource().GetTag())
		}
		if text != want {
			t.Errorf("%s reads %q (%v), want %q", who, text, err, want)
		}
	}
	list, err := b.calls.List(as("editor"), &controlpb.ListRequest{Kind: controlpb.Kind_KIND_CONFIG, Namespace: "n"})
	if err != nil || len(list.GetResources()[0].GetConfig().GetContent()) > 0 {
		t.Errorf("a list: %v, %v", list, err)
	}
	watch := func(who, namespace string) *stream {
		s, err := b.calls.Watch(as(who))
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Send(&controlpb.WatchRequest{Message: &controlpb.WatchRequest_Query{Query: &controlpb.Query{Namespace: namespace}}}) // Recv says why it has ended
		return &stream{t: t, BidiStreamingClient: s}
	}
	if m := watch("editor", "n").want("RESYNC", "PUT secret1"); len(m.GetResource().GetConfig().GetContent()) > 0 {
		t.Errorf("a watch: %v", m)
	}
	for who, want := range map[string]string{"reader": "PermissionDenied role", "nobody": "Unauthenticated token"} {
		if _, err := watch(who, "*").Recv(); reason(t, err) != want {
			t.Errorf("a watch of all namespaces by %s: %v", who, err)
		}
	}
	for _, ctx := range []context.Context{b.ctx, metadata.AppendToOutgoingContext(b.ctx, "authorization", "Basic x")} {
		if _, err := b.calls.Get(ctx, &controlpb.GetRequest{Ref: secret}); reason(t, err) != "Unauthenticated token" {
			t.Errorf("without a token of ours: %v", err)
		}
	}
}

// TestUnauthenticatedMessages: what nobody known sends is refused by its head. No message is waited for, or held.
func TestUnauthenticatedMessages(t *testing.T) {
	book, err := access.ParseBook([]byte("principals: [{name: a, token_sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08, grants: [{namespace: shop, role: editor}]}]"))
	if err != nil {
		t.Fatal(err)
	}
	b := newBed(t, func(c *Config, _ *plane.Config) { c.Gate = plane.NewGate(book, 0, 0) })
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	for _, call := range []string{"Get", "Watch", "Invented"} {
		message, rest := io.Pipe()
		r, err := http.NewRequestWithContext(b.ctx, "POST", "http://"+b.at+"/dyno.control.v1.Control/"+call, message)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/grpc")
		r.Header.Set("TE", "trailers")
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body) // its status is what counts
		answer.Body.Close()
		if code := cmp.Or(answer.Header.Get("Grpc-Status"), answer.Trailer.Get("Grpc-Status")); code != strconv.Itoa(int(codes.Unauthenticated)) {
			t.Errorf("%s: status %q", call, code)
		}
		rest.Close()
	}
}

// TestMemo: a revision of another history is another change.
func TestMemo(t *testing.T) {
	m := newMemo()
	r := resource.Ref{Kind: resource.Policies, Namespace: "default", Name: "p"}
	for version := range int64(2) {
		for range 2 {
			got, err := m.write(itemOf(r, 120, version, fmt.Appendf(nil, `{"namespace":"default","name":"p","labels":{"v":"%d"},"rules":[]}`, version), nil))
			if err != nil || got.GetVersion() != version || got.GetPolicy().GetLabels()["v"] != strconv.FormatInt(version, 10) {
				t.Errorf("%v, %v", got, err)
			}
		}
	}
}

// TestMemoIsBounded: what is remembered is bounded by the size of documents, too.
func TestMemoIsBounded(t *testing.T) {
	m := newMemo()
	body := make([]byte, maxMemo/2)
	for revision := range int64(5) {
		if _, err := m.write(itemOf(resource.Ref{Kind: resource.Configs, Namespace: "n", Name: "c"}, revision, 1, body, &resource.Config{})); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.messages) != 2 || m.bytes != 2*len(body) {
		t.Errorf("%d messages of %d bytes", len(m.messages), m.bytes)
	}
}

// A stream is a watch under test.
type stream struct {
	t *testing.T
	grpc.BidiStreamingClient[controlpb.WatchRequest, controlpb.WatchResponse]
	cancel context.CancelFunc
}

func (b *bed) watch(q *controlpb.Query) *stream {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	b.t.Cleanup(cancel)
	s, err := b.calls.Watch(ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := s.Send(&controlpb.WatchRequest{Message: &controlpb.WatchRequest_Query{Query: q}}); err != nil {
		b.t.Fatal(err)
	}
	return &stream{b.t, s, cancel}
}

// next is the next message: its type, and name and version of its resource.
func (s *stream) next() (*controlpb.WatchResponse, string) {
	s.t.Helper()
	m, err := s.Recv()
	if err != nil {
		s.t.Fatal(err)
	}
	text := strings.TrimPrefix(m.GetType().String(), "TYPE_")
	if r := m.GetResource(); r != nil {
		text += fmt.Sprintf(" %s%d", r.GetRef().GetName(), r.GetVersion())
	}
	return m, text
}

func (s *stream) want(texts ...string) (last *controlpb.WatchResponse) {
	s.t.Helper()
	for _, want := range texts {
		m, got := s.next()
		if got != want {
			s.t.Errorf("told %s, want %s", got, want)
		}
		last = m
	}
	return last
}

// TestWatch: everything first, then each change once, and after a break what came
// meanwhile; with another store's token everything is sent again.
func TestWatch(t *testing.T) {
	b := newBed(t, nil)
	b.putConfig("a", "1")
	query := &controlpb.Query{Kinds: []controlpb.Kind{controlpb.Kind_KIND_CONFIG}}
	s := b.watch(query)
	first := s.want("RESYNC", "PUT a1", "SYNCED")
	b.putConfig("b", "1")
	s.want("PUT b1")
	if _, err := b.calls.Remove(b.ctx, &controlpb.RemoveRequest{Ref: config("a")}); err != nil {
		t.Fatal(err)
	}
	last := s.want("REMOVE a1")
	if last.GetToken() == "" || last.GetToken() == first.GetToken() || last.GetResource().GetDocument() != nil {
		t.Errorf("%v", last)
	}
	s.cancel()
	if _, err := s.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("canceled: %v", err)
	}

	query.Token = last.GetToken()
	s = b.watch(query)
	s.want("SYNCED") // nothing has changed
	s.cancel()
	b.putConfig("b", "2")
	query.Token = first.GetToken()
	b.watch(query).want("REMOVE a1", "PUT b2") // the newest of each
	query.Token = "another-7"
	b.watch(query).want("RESYNC", "PUT b2", "SYNCED")
	b.putConfig("app/db/ü", "1")
	b.putConfig("app/x", "1")
	query.Token, query.Prefix = "", "app/d"
	b.watch(query).want("RESYNC", "PUT app/db/ü1", "SYNCED")
	for _, version := range []string{"1", "2"} {
		one := &controlpb.Instance{Address: "10.0.0.1", Port: 80, Metadata: map[string]string{"version": version, "a": "b"}}
		if _, err := b.calls.Register(b.ctx, &controlpb.RegisterRequest{Ref: instance("läden", "i"+version), Instance: one}); err != nil {
			t.Fatal(err)
		}
	}
	l, err := b.calls.List(b.ctx, &controlpb.ListRequest{Kind: controlpb.Kind_KIND_INSTANCE, Service: "läden", Metadata: map[string]string{"version": "2", "a": "b"}})
	if err != nil || len(l.GetResources()) != 1 || l.GetResources()[0].GetRef().GetId() != "i2" {
		t.Errorf("by metadata: %v, %v", l, err)
	}
	separator := "/"
	for want, q := range map[string]*controlpb.ListRequest{
		`[] ["app/db/" "app/x"]`: {Kind: controlpb.Kind_KIND_CONFIG, Prefix: "app/", Separator: &separator},
		`["app/x"] []`:           {Kind: controlpb.Kind_KIND_CONFIG, Prefix: "app/x"},
	} {
		l, err := b.calls.List(b.ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		names := []string{}
		for _, r := range l.GetResources() {
			names = append(names, r.GetRef().GetName())
		}
		if got := fmt.Sprintf("%q %q", names, l.GetNames()); got != want {
			t.Errorf("%v: %s, want %s", q, got, want)
		}
	}
}

// TestWatchersAreNotified: acknowledgements are in the rollout; who is chosen for a gray release
// is told its content.
func TestWatchersAreNotified(t *testing.T) {
	b := newBed(t, nil)
	b.putConfig("c", "old")
	ref := resource.Ref{Kind: resource.Configs, Namespace: "default", Name: "c"}
	if _, err := b.plane.Release(b.ctx, planetest.Anybody, ref, resource.Release{Content: "new", Choice: resource.Choice{Labels: map[string][]string{"zone": {"z"}}}}, plane.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.calls.Get(b.ctx, &controlpb.GetRequest{Ref: config("c")}); err != nil { // the replica knows of it
		t.Fatal(err)
	}
	kinds := []controlpb.Kind{controlpb.Kind_KIND_CONFIG}
	for client, labels := range map[string]map[string]string{"one": {"zone": "z"}, "two": {"zone": "y"}} {
		s := b.watch(&controlpb.Query{Kinds: kinds, Names: []string{"c"}, Client: client, Labels: labels})
		m := s.want("RESYNC", "PUT c2")
		s.want("SYNCED")
		c := m.GetResource().GetConfig()
		if chosen := client == "one"; c.GetReleased() != chosen || (string(c.GetContent()) == "new") != chosen {
			t.Errorf("%s has %v", client, c)
		}
		ack := &controlpb.Ack{Ref: m.GetResource().GetRef(), Version: 2, Refused: client == "two", Reason: "why"}
		if err := s.Send(&controlpb.WatchRequest{Message: &controlpb.WatchRequest_Ack{Ack: ack}}); err != nil {
			t.Fatal(err)
		}
		if err := s.CloseSend(); err != nil { // a client that has ended its side still gets changes
			t.Fatal(err)
		}
		defer func() {
			s.want("PUT c3")
		}()
	}
	for { // until both are heard; hangGuard ends it
		got, err := b.calls.Rollout(b.ctx, &controlpb.RolloutRequest{Ref: config("c")})
		if err != nil {
			t.Fatal(err)
		}
		if got.GetApplied()+got.GetRefused() < 2 {
			continue
		}
		first := got.GetHoldings()[0]
		if got.GetClients() != 2 || got.GetVersion() != 2 || got.GetVersions()[2] != 1 || first.GetClient() != "two" || first.GetReason() != "why" || first.GetState() != "refused" || !first.GetConnected() {
			t.Errorf("rollout %v", got)
		}
		break
	}
	b.putConfig("c", "newer")
}

// Faults of watches end them with a reason.
func TestWatchRefusals(t *testing.T) {
	b := newBed(t, func(c *Config, _ *plane.Config) { c.MaxWatchers = 1 })
	query := func(q *controlpb.Query) *controlpb.WatchRequest {
		return &controlpb.WatchRequest{Message: &controlpb.WatchRequest_Query{Query: q}}
	}
	ack := &controlpb.WatchRequest{Message: &controlpb.WatchRequest_Ack{Ack: &controlpb.Ack{Ref: policy("p"), Version: 1}}}
	b.putConfig("known", "x")
	noVersion := &controlpb.WatchRequest{Message: &controlpb.WatchRequest_Ack{Ack: &controlpb.Ack{Ref: policy("p")}}}
	for name, c := range map[string]struct {
		say  []*controlpb.WatchRequest
		want string
	}{
		"an ack first":      {[]*controlpb.WatchRequest{ack}, "InvalidArgument parameter"},
		"an unknown kind":   {[]*controlpb.WatchRequest{query(&controlpb.Query{Kinds: []controlpb.Kind{7}})}, "InvalidArgument parameter"},
		"a bad name":        {[]*controlpb.WatchRequest{query(&controlpb.Query{Names: []string{"a/b"}})}, "InvalidArgument parameter"},
		"a name in all":     {[]*controlpb.WatchRequest{query(&controlpb.Query{Namespace: "*", Names: []string{"a"}})}, "InvalidArgument parameter"},
		"a long client":     {[]*controlpb.WatchRequest{query(&controlpb.Query{Client: strings.Repeat("x", 254)})}, "InvalidArgument parameter"},
		"an ack of nobody":  {[]*controlpb.WatchRequest{query(&controlpb.Query{}), ack}, "InvalidArgument parameter"},
		"a second query":    {[]*controlpb.WatchRequest{query(&controlpb.Query{Client: "c"}), query(&controlpb.Query{})}, "InvalidArgument parameter"},
		"a version to come": {[]*controlpb.WatchRequest{query(&controlpb.Query{Client: "c"}), {Message: &controlpb.WatchRequest_Ack{Ack: &controlpb.Ack{Ref: config("known"), Version: 9_000_000_000_000_000_000}}}}, "OutOfRange invalid"},
		"no version":        {[]*controlpb.WatchRequest{query(&controlpb.Query{Client: "c"}), noVersion}, "InvalidArgument parameter"},
	} {
		s, err := b.calls.Watch(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range c.say {
			if err := s.Send(m); err != nil && !errors.Is(err, io.EOF) { // Recv says why
				t.Fatal(err)
			}
		}
		for err == nil {
			_, err = s.Recv()
		}
		if got := reason(t, err); got != c.want {
			t.Errorf("%s: %s (%v), want %s", name, got, err, c.want)
		}
	}
	b.watch(&controlpb.Query{}).want("RESYNC", "PUT known1", "SYNCED")
	s := b.watch(&controlpb.Query{})
	if _, err := s.Recv(); reason(t, err) != "ResourceExhausted watchers" {
		t.Errorf("one too many: %v", err)
	}
}

// TestSlowWatcher: one that takes nothing is ended, and holds up nobody.
func TestSlowWatcher(t *testing.T) {
	b := newBed(t, func(c *Config, p *plane.Config) {
		c.WriteTimeout = 3 * time.Second // long enough for a quick one on a busy machine
		p.QueueChanges = 8
	}, grpc.WithStaticStreamWindowSize(64<<10))
	query := &controlpb.Query{Kinds: []controlpb.Kind{controlpb.Kind_KIND_CONFIG}}
	slow, quick := b.watch(query), b.watch(query)
	slow.want("RESYNC", "SYNCED")
	quick.want("RESYNC", "SYNCED")
	content := strings.Repeat("x", 100<<10)
	for i := 0; b.api.watchers.Load() == 2; i++ { // until the slow one is ended; hangGuard ends it
		b.putConfig(fmt.Sprintf("c%d", i%10), content)
		quick.want(fmt.Sprintf("PUT c%d%d", i%10, 1+i/10))
	}
	var err error
	received := 0
	for ; err == nil; received++ {
		_, err = slow.Recv()
	}
	if got := reason(t, err); got != "ResourceExhausted slow" || received > 12 {
		t.Errorf("%s after %d messages: %v", got, received, err)
	}
}

// TestEnd: watches are told that the server ends, and come back elsewhere.
func TestEnd(t *testing.T) {
	b := newBed(t, nil)
	s := b.watch(&controlpb.Query{})
	s.want("RESYNC", "SYNCED")
	ctx, cancel := context.WithTimeout(context.Background(), hangGuard)
	defer cancel()
	if cut := b.api.Close(ctx); cut != 0 {
		t.Error("a watch held the end up")
	}
	if _, err := s.Recv(); reason(t, err) != "Unavailable closed" {
		t.Errorf("%v", err)
	}
}

// TestPanic: a call and a stream that panic have failed. The process goes on, and calls are counted.
func TestPanic(t *testing.T) {
	b := newBed(t, nil)
	_, err := b.api.unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/control/Fail"}, func(context.Context, any) (any, error) { panic("on purpose") })
	if status.Code(err) != codes.Internal {
		t.Errorf("a call: %v", err)
	}
	var m dto.Metric
	if err := b.api.requests.WithLabelValues("administration", "Fail", "internal").(prometheus.Metric).Write(&m); err != nil || m.GetHistogram().GetSampleCount() != 1 {
		t.Errorf("%v, %v", &m, err)
	}
	err = b.api.stream(nil, stillStream{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: "/control/Fail"}, func(any, grpc.ServerStream) error { panic("on purpose") })
	if status.Code(err) != codes.Internal {
		t.Errorf("a stream: %v", err)
	}
}

// A stillStream is a stream on which nothing comes.
type stillStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s stillStream) Context() context.Context { return s.ctx }

// TestFlood: a client that sends nothing but settings loses its connection.
func TestFlood(t *testing.T) {
	b := newBed(t, nil)
	c, err := net.Dial("tcp", b.at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() { _, _ = io.Copy(io.Discard, c) }()
	settings := []byte{0, 0, 0, 4, 0, 0, 0, 0, 0} // RFC 9113, section 6.5
	_, err = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	for n := 0; err == nil; n++ {
		if n == 5_000_000 {
			t.Fatal("the connection is open")
		}
		_, err = c.Write(settings)
	}
}
