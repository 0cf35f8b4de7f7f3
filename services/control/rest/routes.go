package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"dyno/services/control/audit"
	"dyno/services/control/catalog"
	"dyno/services/control/plane"
	"dyno/services/control/resource"
)

// A route is one operation. The API's description is made from it, too.
type route struct {
	method, path string
	id           string // unique
	about        string
	parameters   []string // names in the table of parameters; those of the path are added
	body         string   // name of a schema; "" is none
	answers      map[int]string
	stream       bool          // lasts as long as the client wants
	waits        resource.Kind // what is read: with since, the read waits for a change; "" is no such read
	handle       func(*request) error
	context      string              // a label of the metrics; table fills it in
	good         prometheus.Observer // of successful requests; New fills it in
}

// contextOf returns the area that a path belongs to, a label of requests' metrics.
func contextOf(path string) string {
	switch path {
	case "/v1/watch", "/v1/acks":
		return "push"
	case "/v1/heartbeats":
		return resource.Instances.Traits().Area
	}
	for _, k := range resource.Kinds() {
		if strings.HasPrefix(path, k.Traits().Folder) {
			return k.Traits().Area
		}
	}
	return "administration"
}

// Responses that are not JSON, by the name of their schema.
const (
	noBody     = ""
	anyBody    = "*/*" // the configuration's own content type
	streamBody = "text/event-stream"
	backupBody = "application/x-ndjson"
)

// changing and reading are the parameters of changes and of lists.
var (
	changing = []string{"namespace", "dry_run", "If-Match", "If-None-Match", "Idempotency-Key"}
	reading  = []string{"namespace", "stale"}
	paging   = []string{"namespace", "stale", "limit", "after", "prefix", "search"}
)

// table returns all operations.
func (a *API) table() []route {
	remove := func(p *plane.Plane, ctx context.Context, by plane.Caller, r resource.Ref, session string, o plane.Options) (plane.Result, error) {
		o.Session = session
		return p.Remove(ctx, by, r, o)
	}
	routes := []route{
		{method: "GET", path: "/v1/namespaces", id: "listNamespaces", about: "The namespaces with resources that the caller may read.", parameters: []string{"stale", "limit"}, answers: map[int]string{200: "NamespaceList"}, handle: read(listNamespaces)},
		{method: "GET", path: "/v1/services", id: "listServices", about: "The services of a namespace.", parameters: paging, answers: map[int]string{200: "ServiceList"}, handle: read(listServices)},
		{method: "GET", path: "/v1/services/{name}/instances", id: "listInstances", about: "A service's instances.", parameters: append([]string{"zone", "status", "health", "label"}, paging...), answers: map[int]string{200: "InstanceList"}, waits: resource.Instances, handle: read(listInstances)},
		{method: "GET", path: "/v1/services/{name}/instances/{id}", id: "getInstance", about: "One instance.", parameters: append([]string{"If-None-Match"}, reading...), answers: map[int]string{200: "Instance", 304: noBody}, waits: resource.Instances, handle: readOne(resource.Instances, getItem)},
		{method: "PUT", path: "/v1/services/{name}/instances/{id}", id: "registerInstance", about: "Register an instance, or change it. Registering a known instance is a heartbeat.", parameters: changing, body: "InstanceInput", answers: map[int]string{200: "Instance", 201: "Instance"}, handle: put(resource.Instances, (*plane.Plane).Put)},
		{method: "DELETE", path: "/v1/services/{name}/instances/{id}", id: "removeInstance", about: "Take an instance off.", parameters: changing, answers: map[int]string{200: "Instance", 204: noBody}, handle: change(resource.Instances, session, remove)},
		{method: "GET", path: "/v1/services/{name}/rollout", id: "rolloutService", about: "Which clients of this replica that use xDS have which instances, and who has refused them, and why. Versions are revisions of the store.", parameters: []string{"namespace", "limit"}, answers: map[int]string{200: "Rollout"}, handle: readOne(resource.Instances, rollout)},
		{method: "POST", path: "/v1/services/{name}/instances/{id}/heartbeat", id: "heartbeat", about: "Say that an instance is alive. 404 asks to register again.", parameters: []string{"namespace"}, answers: map[int]string{204: noBody}, handle: act(resource.Instances, (*plane.Plane).Heartbeat)},
		{method: "PUT", path: "/v1/services/{name}/instances/{id}/maintenance", id: "beginMaintenance", about: "Keep requests away from an instance, until that is ended. It is still checked.", parameters: changing, body: "Maintenance", answers: map[int]string{200: "Instance"}, handle: change(resource.Instances, field[string]("reason"), (*plane.Plane).Maintain)},
		{method: "DELETE", path: "/v1/services/{name}/instances/{id}/maintenance", id: "endMaintenance", about: "End an instance's maintenance.", parameters: changing, answers: map[int]string{200: "Instance"}, handle: change(resource.Instances, always(""), (*plane.Plane).Maintain)},
		{method: "POST", path: "/v1/heartbeats", id: "heartbeats", about: "Send heartbeats of many instances. Refusals are listed by instance; if all are refused, the request is refused like the first.", body: "Heartbeats", answers: map[int]string{200: "HeartbeatsAnswer"}, handle: heartbeats},

		{method: "GET", path: "/v1/configs/{name}/content", id: "configContent", about: "The content for a client, by the gray release.", parameters: []string{"namespace", "stale", "client", "label", "If-None-Match"}, answers: map[int]string{200: anyBody, 304: noBody}, waits: resource.Configs, handle: readOne(resource.Configs, configContent)},
		{method: "PUT", path: "/v1/configs/{name}/content", id: "putContent", about: "Make the body the content, as it is, and its type the content's. All else of the configuration stays.", parameters: changing, body: anyBody, answers: map[int]string{200: "Config", 201: "Config"}, handle: change(resource.Configs, (*request).content, (*plane.Plane).PutContent)},

		{method: "POST", path: "/v1/sessions", id: "beginSession", about: "Begin a session. It ends ttl_seconds after its last renewal.", parameters: []string{"namespace"}, body: "SessionInput", answers: map[int]string{201: "Session"}, handle: beginSession},
		{method: "POST", path: "/v1/sessions/{name}/renew", id: "renewSession", about: "Begin the session's time again. 404 says that it has ended, and its locks with it.", parameters: []string{"namespace"}, answers: map[int]string{204: noBody}, handle: act(resource.Sessions, (*plane.Plane).Renew)},
		{method: "PUT", path: "/v1/locks/{name}", id: "acquireLock", about: "Acquire a lock for a session, once it is free. Repeating it changes nothing.", parameters: []string{"namespace"}, body: "LockInput", answers: map[int]string{200: "Lock", 201: "Lock"}, stream: true, handle: named(resource.Locks, acquireLock)},
		{method: "POST", path: "/v1/counters/{name}", id: "addToCounter", about: "Add to a counter, which begins with 0.", parameters: changing, body: "CounterAdd", answers: map[int]string{200: "Counter", 201: "Counter"}, handle: change(resource.Counters, field[int64]("add"), (*plane.Plane).Add)},

		{method: "GET", path: "/v1/principals/{name}/tokens", id: "listTokens", about: "A principal's tokens, by their hashes.", answers: map[int]string{200: "TokenList"}, handle: readOne(resource.Principals, listTokens)},
		{method: "POST", path: "/v1/principals/{name}/tokens", id: "createToken", about: "Make a token, which is shown only here.", parameters: []string{"Idempotency-Key"}, body: "TokenInput", answers: map[int]string{201: "TokenMade"}, handle: named(resource.Principals, createToken)},
		{method: "DELETE", path: "/v1/principals/{name}/tokens/{id}", id: "revokeToken", about: "Revoke a token.", parameters: []string{"Idempotency-Key"}, answers: map[int]string{204: noBody}, handle: named(resource.Principals, revokeToken)},

		{method: "GET", path: "/v1/watch", id: "watch", about: "Changes: server-sent events if they are accepted, otherwise a long poll.", parameters: []string{"namespace", "kind", "name", "prefix", "since", "Last-Event-ID", "wait", "client", "label", "follower"}, answers: map[int]string{200: streamBody + " WatchAnswer"}, stream: true, handle: watch},
		{method: "POST", path: "/v1/acks", id: "acknowledge", about: "Acknowledge versions that a client was sent. Acknowledgements of versions that were never published are refused and listed; if all are, the request is refused.", body: "Acks", answers: map[int]string{200: "AcksAnswer"}, handle: acknowledge},

		{method: "GET", path: "/v1/calls", id: "listCalls", about: "Who calls the services of a namespace, as data planes report that are connected to this replica by xDS (LRS).", parameters: []string{"namespace"}, answers: map[int]string{200: "CallList"}, handle: listCalls},

		{method: "GET", path: "/v1/audit", id: "audit", about: "Who changed what, oldest first.", parameters: []string{"limit", "after", "from"}, answers: map[int]string{200: "AuditList"}, handle: read(readAudit)},
		{method: "GET", path: "/v1/status", id: "status", about: "The state of the control plane.", answers: map[int]string{200: "Status"}, handle: func(q *request) error { return q.answer(a.plane.Status(q.Context())) }},
		{method: "GET", path: "/v1/backup", id: "backup", about: "Everything as of one revision; it is whole if its last line has a SHA-256.", answers: map[int]string{200: backupBody}, stream: true, handle: writeBackup},
		{method: "POST", path: "/v1/reclaim", id: "reclaim", about: "Compact and defragment the database, and end its alarm. Nothing is answered meanwhile, for about a second per gigabyte.", answers: map[int]string{204: noBody}, handle: reclaim},
		{method: "GET", path: "/v1/members", id: "listMembers", about: "The replicas whose etcds form one cluster.", answers: map[int]string{200: "MemberList"}, handle: listMembers},
		{method: "POST", path: "/v1/members", id: "addMember", about: "Permit a replica to join. It has a vote once it runs, and has received the database.", body: "MemberInput", answers: map[int]string{201: "Member"}, handle: addMember},
		{method: "DELETE", path: "/v1/members/{name}", id: "removeMember", about: "Remove one, by its name, address or ID. Its process ends.", answers: map[int]string{204: noBody}, handle: removeMember},
		{method: "GET", path: "/v1/openapi.json", id: "openapi", about: "This description.", answers: map[int]string{200: "Description"}, handle: func(q *request) error { return q.write(http.StatusOK, "application/json", a.document) }},
	}
	for _, k := range []struct {
		kind          resource.Kind
		name, removal string
	}{
		{resource.Policies, "Policy", "Remove one. Its history stays."}, {resource.Configs, "Config", "Remove one. Its history stays."},
		{resource.Sessions, "Session", "End a session, and release its locks."}, {resource.Locks, "Lock", "Release a lock, for the session that has it."},
		{resource.Counters, "Counter", "Remove one. The next addition begins with 0."},
		{resource.Principals, "Principal", "Remove one. Its history stays."}, {resource.Roles, "Role", "Remove one that no principal has. Its history stays."},
	} {
		traits := k.kind.Traits()
		folder, one := traits.Folder, traits.Folder+"/{name}"
		changing, reading, space, listing, waits := changing, reading, []string{"namespace"}, append([]string{"separator"}, paging...), k.kind
		if k.kind.OfAccess() {
			changing, reading, space, listing, waits = changing[1:], reading[1:], nil, paging[1:], ""
		}
		removing := changing
		if k.kind == resource.Locks {
			removing = append([]string{"session"}, changing...)
		}
		routes = append(routes,
			route{method: "GET", path: folder, id: "list" + k.name, about: "All of a namespace, by name.", parameters: listing, answers: map[int]string{200: k.name + "List"}, waits: waits, handle: listItems(k.kind)},
			route{method: "GET", path: one, id: "get" + k.name, about: "One, as it is.", parameters: append([]string{"If-None-Match"}, reading...), answers: map[int]string{200: k.name, 304: noBody}, waits: waits, handle: readOne(k.kind, getItem)},
			route{method: "DELETE", path: one, id: "remove" + k.name, about: k.removal, parameters: removing, answers: map[int]string{200: k.name, 204: noBody}, handle: change(k.kind, session, remove)},
		)
		if traits.Leased {
			continue
		}
		routes = append(routes, route{method: "PUT", path: one, id: "put" + k.name, about: "Make one, or replace it.", parameters: changing, body: k.name + "Input", answers: map[int]string{200: k.name, 201: k.name}, handle: put(k.kind, (*plane.Plane).Put)})
		if !traits.History {
			continue
		}
		routes = append(routes,
			route{method: "POST", path: folder, id: "create" + k.name, about: "Make one that must not exist.", parameters: changing, body: k.name + "New", answers: map[int]string{200: k.name, 201: k.name}, handle: put(k.kind, (*plane.Plane).Create)},
			route{method: "GET", path: one + "/history", id: "history" + k.name, about: "Its versions that are kept, oldest first.", parameters: space, answers: map[int]string{200: k.name + "List"}, handle: readOne(k.kind, history)},
			route{method: "GET", path: one + "/history/{version}", id: "version" + k.name, about: "One of its versions.", parameters: space, answers: map[int]string{200: k.name}, handle: named(k.kind, version)},
		)
		if k.kind.OfAccess() {
			continue
		}
		suffix, schema, begin := "", "Release", change(k.kind, body[resource.Release]("content", "content_base64"), (*plane.Plane).Release)
		if k.kind == resource.Policies {
			suffix, schema, begin = k.name, "PolicyRelease", change(k.kind, body[resource.PolicyRelease](), (*plane.Plane).ReleasePolicy)
		}
		routes = append(routes,
			route{method: "PUT", path: one + "/release", id: "release" + suffix, about: "Begin a gray release, or change it.", parameters: changing, body: schema, answers: map[int]string{200: k.name}, handle: begin},
			route{method: "DELETE", path: one + "/release", id: "withdraw" + suffix, about: "End a gray release, for all clients.", parameters: changing, answers: map[int]string{200: k.name}, handle: change(k.kind, always(false), (*plane.Plane).EndRelease)},
			route{method: "POST", path: one + "/promote", id: "promote" + suffix, about: "End a gray release: all clients have it.", parameters: changing, answers: map[int]string{200: k.name}, handle: change(k.kind, always(true), (*plane.Plane).EndRelease)},
			route{method: "POST", path: one + "/rollback", id: "rollback" + k.name, about: "Make an earlier version the next one.", parameters: changing, body: "Rollback", answers: map[int]string{200: k.name, 201: k.name}, handle: change(k.kind, field[int64]("version"), (*plane.Plane).Rollback)},
			route{method: "GET", path: one + "/rollout", id: "rollout" + k.name, about: "Which clients of this replica run which version, and who has refused the newest, and why.", parameters: []string{"namespace", "limit"}, answers: map[int]string{200: "Rollout"}, handle: readOne(k.kind, rollout)},
			route{method: "GET", path: one + "/rollout/watch", id: "watchRollout" + k.name, about: "The same as server-sent events: an event rollout at once and when it has changed, and removed at the end.", parameters: []string{"namespace", "limit", "Last-Event-ID"}, answers: map[int]string{200: streamBody}, stream: true, handle: readOne(k.kind, watchRollout)},
			route{method: "GET", path: strings.Replace(folder, "/v1/", "/v1/rollouts/", 1), id: "rollouts" + k.name, about: "The rollouts of a namespace's resources, by name, without their clients.", parameters: paging, answers: map[int]string{200: "RolloutList"}, handle: paged(k.kind, (*plane.Plane).Rollouts, itself)},
		)
	}
	for i := range routes {
		r := &routes[i]
		if r.context = contextOf(r.path); r.waits != "" {
			r.parameters, r.handle = append(slices.Clone(r.parameters), "since", "wait"), waiting(r.waits, r.handle)
		}
	}
	return routes
}

// named makes the handler of an operation on the resource that the path names.
func named(k resource.Kind, do func(*request, resource.Ref) error) func(*request) error {
	return func(q *request) error {
		r, err := q.ref(k)
		if err != nil {
			return err
		}
		return do(q, r)
	}
}

// change makes the handler of an operation that changes the resource that the path names, with an argument that read
// finds in the request.
func change[T any](k resource.Kind, read func(*request) (T, error), do func(*plane.Plane, context.Context, plane.Caller, resource.Ref, T, plane.Options) (plane.Result, error)) func(*request) error {
	return named(k, func(q *request, r resource.Ref) error {
		o, err := q.options()
		if err != nil {
			return err
		}
		argument, err := read(q)
		if err != nil {
			return err
		}
		result, err := do(q.api.plane, q.Context(), q.caller, r, argument, o)
		if p, ok := any(argument).(resource.PolicyRelease); ok && err == nil {
			q.limitations(p.Rules)
		}
		return q.result(result, err)
	})
}

// always is the argument of operations that need none of the request.
func always[T any](value T) func(*request) (T, error) {
	return func(*request) (T, error) { return value, nil }
}

// body reads a document, which must have one of some members.
func body[T any](needs ...string) func(*request) (T, error) {
	return func(q *request) (into T, err error) {
		err = q.body(&into, needs...)
		return into, err
	}
}

// field reads a document with one member, which must be given, and not as an empty text.
func field[T any](name string) func(*request) (T, error) {
	return func(q *request) (T, error) {
		members, err := body[map[string]T](name)(q)
		value := members[name]
		switch {
		case err != nil:
		case len(members) > 1:
			err = resource.Invalid{{Pointer: "#", Detail: "may have " + name + " only"}}
		case any(value) == "":
			err = resource.Invalid{{Pointer: "#/" + name, Detail: "must be given"}}
		}
		return value, err
	}
}

// session reads the session that releases a lock.
func session(q *request) (string, error) { return q.parameter("session"), nil }

// put makes the handler of an operation that makes or replaces a resource. The names in the address and in the document
// must not contradict each other.
func put(k resource.Kind, do func(*plane.Plane, context.Context, plane.Caller, resource.Document, plane.Options) (plane.Result, error)) func(*request) error {
	return func(q *request) error {
		o, err := q.options()
		if err != nil {
			return err
		}
		doc := k.New()
		if err := q.body(doc, k.Traits().Needs...); err != nil {
			return err
		}
		namespace, name, id := resource.NamesOf(doc)
		pointer := "#/name"
		if k == resource.Instances {
			pointer = "#/service"
		}
		for _, one := range []struct {
			at             *string
			pointer, asked string
		}{{namespace, "#/namespace", q.parameter("namespace")}, {name, pointer, q.PathValue("name")}, {id, "#/id", q.PathValue("id")}} {
			switch {
			case one.at == nil || one.asked == "":
			case *one.at != "" && *one.at != one.asked:
				return resource.Invalid{{Pointer: one.pointer, Detail: fmt.Sprintf("is %.80q, and the address says %.80q", *one.at, one.asked)}}
			default:
				*one.at = one.asked
			}
		}
		if namespace != nil && *namespace == "" {
			*namespace = resource.DefaultNamespace
		}
		result, err := do(q.api.plane, q.Context(), q.caller, doc, o)
		if p, ok := doc.(*resource.Policy); ok && err == nil {
			q.limitations(p.Rules)
		}
		return q.result(result, err)
	}
}

// act makes the handler of an operation on the resource that the path names, with nothing to answer.
func act(k resource.Kind, do func(*plane.Plane, context.Context, plane.Caller, resource.Ref) error) func(*request) error {
	return named(k, func(q *request, r resource.Ref) error { return q.noContent(do(q.api.plane, q.Context(), q.caller, r)) })
}

// read makes the handler of an operation with the parameters of reads.
func read(do func(*request, plane.Page) error) func(*request) error {
	return func(q *request) error {
		page, err := q.page()
		if err != nil {
			return err
		}
		return do(q, page)
	}
}

// readOne makes the handler of an operation that reads the resource that the path names.
func readOne(k resource.Kind, do func(*request, resource.Ref, plane.Page) error) func(*request) error {
	return named(k, func(q *request, r resource.Ref) error {
		page, err := q.page()
		if err != nil {
			return err
		}
		return do(q, r, page)
	})
}

// paged makes the handler of an operation that reads a list of a kind, and shows each item by show.
func paged[I, T any](k resource.Kind, list func(*plane.Plane, context.Context, plane.Caller, resource.Kind, string, plane.Page) (plane.List[I], error), show func(I) T) func(*request) error {
	return read(func(q *request, page plane.Page) error {
		l, err := list(q.api.plane, q.Context(), q.caller, k, q.namespaceOf(k), page)
		return q.answer(listOf(q, page.Stale, l, show), err)
	})
}

func bodyOf(i *catalog.Item) json.RawMessage { return i.Body }

func itself[T any](one T) T { return one }

func getItem(q *request, r resource.Ref, page plane.Page) error {
	i, age, err := q.api.plane.Get(q.Context(), q.caller, r, page.Stale)
	if err != nil {
		return err
	}
	q.age(page.Stale, age)
	return q.item(http.StatusOK, i)
}

// A list is the response with a page of items.
type list[T any] struct {
	Items    []T     `json:"items"`
	Next     string  `json:"next,omitempty"`
	Revision int64   `json:"revision"`
	Watch    string  `json:"watch"`
	Age      float64 `json:"age_seconds"`
}

func listOf[I, T any](q *request, stale bool, l plane.List[I], show func(I) T) list[T] {
	items := make([]T, len(l.Items))
	for n, i := range l.Items {
		items[n] = show(i)
	}
	return list[T]{Items: items, Next: l.Next, Revision: l.Revision, Watch: q.api.plane.Token(l.Revision).String(), Age: q.age(stale, l.Age)}
}

func listItems(k resource.Kind) func(*request) error {
	documents := paged(k, (*plane.Plane).List, bodyOf)
	if k.OfAccess() {
		return documents
	}
	names := read(func(q *request, page plane.Page) error {
		l, err := q.api.plane.Names(q.Context(), q.caller, k, q.namespace(), q.parameter("separator"), page)
		return q.answer(listOf(q, page.Stale, l, itself), err)
	})
	return func(q *request) error {
		if _, given := q.given("separator"); given {
			return names(q)
		}
		return documents(q)
	}
}

func listNamespaces(q *request, page plane.Page) error {
	names, more, age, err := q.api.plane.Namespaces(q.Context(), q.caller, page.Limit, page.Stale)
	q.age(page.Stale, age)
	return q.answer(map[string]any{"items": append([]string{}, names...), "more": more}, err)
}

func listServices(q *request, page plane.Page) error {
	l, err := q.api.plane.Services(q.Context(), q.caller, q.namespace(), page)
	return q.answer(listOf(q, page.Stale, l, itself), err)
}

func listInstances(q *request, page plane.Page) error {
	labeled, err := q.client()
	if err != nil {
		return err
	}
	filter := plane.InstanceFilter{Metadata: labeled.Labels, Zone: q.parameter("zone"), Status: resource.Status(q.parameter("status")), Health: resource.Health(q.parameter("health"))}
	l, err := q.api.plane.Instances(q.Context(), q.caller, q.namespace(), q.PathValue("name"), filter, page)
	if err != nil {
		return err
	}
	view := func(i plane.Instance) resource.InstanceView {
		return resource.InstanceView{Instance: *i.Resource.(*resource.Instance), Overdue: i.Overdue, Heard: i.Heard}
	}
	return q.json(http.StatusOK, struct {
		list[resource.InstanceView]
		Protected bool `json:"protected"`
	}{listOf(q, page.Stale, l, view), q.api.plane.Pulse().Protected})
}

func history(q *request, r resource.Ref, _ plane.Page) error {
	l, err := q.api.plane.History(q.Context(), q.caller, r)
	return q.answer(listOf(q, false, l, bodyOf), err)
}

func version(q *request, r resource.Ref) error {
	n, err := strconv.ParseInt(q.PathValue("version"), 10, 64)
	if err != nil || n < 1 {
		return plane.BadParameterf("version: %.40q: must be a number from 1", q.PathValue("version"))
	}
	i, err := q.api.plane.Version(q.Context(), q.caller, r, n)
	if err != nil {
		return err
	}
	return q.item(http.StatusOK, i)
}

// placeOf returns the address of a resource.
func placeOf(r resource.Ref) string {
	if r.Kind.OfAccess() {
		return r.Address()
	}
	return r.Address() + "?namespace=" + url.QueryEscape(r.Namespace)
}

func beginSession(q *request) error {
	s := &resource.Session{Namespace: q.namespace(), SessionInput: resource.SessionInput{TTL: resource.DefaultSessionTTL}}
	if err := q.body(&s.SessionInput); err != nil {
		return err
	}
	return q.result(q.api.plane.Begin(q.Context(), q.caller, s))
}

func acquireLock(q *request, r resource.Ref) error {
	var ask resource.LockInput
	if err := q.body(&ask); err != nil {
		return err
	}
	q.ContentLength = 0 // of what is left to read
	var result plane.Result
	err := q.live(func(ctx context.Context) (err error) {
		result, err = q.api.plane.Acquire(ctx, q.caller, r, ask)
		return err
	})
	if q.Context().Err() != nil {
		return nil //nolint:nilerr // the client has gone: it needs no answer
	}
	return q.result(result, err)
}

func listTokens(q *request, r resource.Ref, _ plane.Page) error {
	i, _, err := q.api.plane.Get(q.Context(), q.caller, r, false)
	if err != nil {
		return err
	}
	return q.json(http.StatusOK, map[string]any{"items": append([]resource.Token{}, i.Resource.(*resource.Principal).Tokens...)})
}

func createToken(q *request, r resource.Ref) error {
	var t resource.Token
	if err := q.body(&t); err != nil {
		return err
	}
	made, token, err := q.api.plane.CreateToken(q.Context(), q.caller, r.Name, t, plane.Options{Key: q.Header.Get("Idempotency-Key")})
	if err != nil {
		return err
	}
	q.set("Cache-Control", "no-store")
	return q.json(http.StatusCreated, struct {
		resource.Token
		Text string `json:"token"`
	}{made, token})
}

func revokeToken(q *request, r resource.Ref) error {
	return q.noContent(q.api.plane.RevokeToken(q.Context(), q.caller, r.Name, q.PathValue("id"), plane.Options{Key: q.Header.Get("Idempotency-Key")}))
}

func listCalls(q *request) error {
	list, err := q.api.plane.Calls(q.Context(), q.caller, q.namespace())
	return q.answer(map[string]any{"items": list}, err)
}

func rollout(q *request, r resource.Ref, page plane.Page) error {
	return q.answer(q.api.plane.Rollout(q.Context(), q.caller, r, page.Limit))
}

// maxFaults bounds the faults that are listed for one request.
const maxFaults = 32

func heartbeats(q *request) error {
	type member struct {
		Namespace string `json:"namespace"`
		Service   string `json:"service"`
		ID        string `json:"id"`
	}
	var body struct {
		Instances []member `json:"instances"`
	}
	if err := q.body(&body, "instances"); err != nil {
		return err
	}
	if len(body.Instances) > plane.MaxTogether {
		return resource.Invalid{{Pointer: "#/instances", Detail: fmt.Sprintf("has %d entries: must have %d at most", len(body.Instances), plane.MaxTogether)}}
	}
	refs := make([]resource.Ref, len(body.Instances))
	for i := range body.Instances {
		m := &body.Instances[i]
		if m.Namespace == "" {
			m.Namespace = resource.DefaultNamespace
		}
		refs[i] = resource.Ref{Kind: resource.Instances, Namespace: m.Namespace, Name: m.Service, ID: m.ID}
		if refs[i].Check() != nil {
			return resource.Invalid{{Pointer: fmt.Sprintf("#/instances/%d", i), Detail: "names no instance"}}
		}
	}
	type failure struct {
		member
		Type   string `json:"type"`
		Detail string `json:"detail"`
	}
	missing, refused, err := q.api.plane.Heartbeats(q.Context(), q.caller, refs)
	if err != nil {
		return err
	}
	unknown, failed := []member{}, []failure{}
	for _, i := range missing {
		unknown = append(unknown, body.Instances[i])
	}
	for _, u := range refused {
		p := asProblem(u.Problem)
		failed = append(failed, failure{body.Instances[u.Index], p.Type, p.Detail})
	}
	return q.json(http.StatusOK, map[string]any{"unknown": unknown, "failed": failed})
}

// client parses the name and labels that a reader of configuration gives.
func (q *request) client() (resource.Client, error) {
	query := q.query()
	c := resource.Client{ID: query.Get("client")}
	for _, text := range query["label"] {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return c, plane.BadParameterf("label: %.80q: want NAME=VALUE", text)
		}
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		c.Labels[name] = value
	}
	return c, nil
}

// releasedField says whether the content is that of a gray release.
const releasedField = "Dyno-Released"

func configContent(q *request, r resource.Ref, page plane.Page) error {
	who, err := q.client()
	if err != nil {
		return err
	}
	c, err := q.api.plane.Content(q.Context(), q.caller, r, who, page.Stale)
	if err != nil {
		return err
	}
	q.age(page.Stale, c.Age)
	h := q.w.Header()
	h.Set(releasedField, strconv.FormatBool(c.Released))
	// It is served unchanged; a browser must not take it for a page of this server.
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox")
	kind := c.Type
	switch {
	case kind != "":
	case utf8.ValidString(c.Data):
		kind = "text/plain; charset=utf-8"
	default:
		kind = "application/octet-stream"
	}
	return q.tagged(http.StatusOK, c.Tag, kind, []byte(c.Data))
}

// content reads the content of a configuration.
func (q *request) content() (plane.NewContent, error) {
	data, err := q.bytes()
	return plane.NewContent{Data: string(data), Type: q.Header.Get("Content-Type")}, err
}

func acknowledge(q *request) error {
	var body struct {
		Client string         `json:"client"`
		Acks   []resource.Ack `json:"acks"`
	}
	if err := q.body(&body, "acks"); err != nil {
		return err
	}
	for i := range body.Acks {
		if a := &body.Acks[i]; a.Namespace == "" {
			a.Namespace = resource.DefaultNamespace
		}
	}
	news, never, err := q.api.plane.Ack(q.Context(), q.caller, body.Client, body.Acks)
	if err != nil {
		return err
	}
	// A refusal must not affect the others: a client acknowledges many versions at once.
	type refused struct {
		resource.Ref
		Version int64  `json:"version"`
		Detail  string `json:"detail"`
	}
	list := []refused{}
	var faults resource.Invalid
	for i, err := range never {
		if err == nil {
			continue
		}
		list = append(list, refused{err.Ref, err.Version, err.Error()})
		faults = append(faults, resource.Fault{Pointer: fmt.Sprintf("#/acks/%d/version", i), Detail: err.Error()})
	}
	if len(list) > 0 && len(list) == len(never) {
		return faults[:min(len(faults), maxFaults)]
	}
	return q.json(http.StatusOK, map[string]any{"news": news, "refused": list})
}

func readAudit(q *request, page plane.Page) error {
	from, err := parsed(q, "from", time.Time{}, func(text string) (time.Time, error) { return time.Parse(time.RFC3339, text) }, "a time such as 2026-01-02T03:04:05Z")
	if err != nil {
		return err
	}
	l, err := q.api.plane.Audit(q.Context(), q.caller, audit.Query{After: page.After, From: from, Limit: page.Limit})
	out := map[string]any{"items": l.Items}
	if l.Next != "" {
		out["next"] = l.Next
	}
	return q.answer(out, err)
}

func writeBackup(q *request) error {
	if err := q.clearDeadlines(); err != nil {
		return err
	}
	err := q.api.plane.Backup(q.Context(), q.caller, flushing{q})
	if err != nil && q.headerWritten {
		// The header is written already: the reader notices that the backup has no trailer.
		q.api.log.Warn("backup is cut off", "error", err)
		panic(http.ErrAbortHandler)
	}
	return err
}

// flushing writes a backup. A client that reads slowly gets an error.
type flushing struct{ q *request }

func (f flushing) Write(p []byte) (int, error) {
	if !f.q.headerWritten {
		f.q.w.Header().Set("Content-Type", backupBody)
		f.q.headerWritten = true
	}
	if err := f.q.deadline(); err != nil {
		return 0, err
	}
	return f.q.w.Write(p)
}

func reclaim(q *request) error {
	if err := q.clearDeadlines(); err != nil {
		return err
	}
	return q.noContent(q.api.plane.Reclaim(q.Context(), q.caller))
}

func listMembers(q *request) error {
	peers, err := q.api.plane.Members(q.Context(), q.caller)
	return q.answer(map[string]any{"items": peers}, err)
}

func addMember(q *request) error {
	var input struct {
		Address string `json:"address"`
	}
	if err := q.body(&input); err != nil {
		return err
	}
	peer, err := q.api.plane.AddMember(q.Context(), q.caller, input.Address)
	if err != nil {
		return err
	}
	return q.json(http.StatusCreated, peer)
}

func removeMember(q *request) error {
	return q.noContent(q.api.plane.RemoveMember(q.Context(), q.caller, q.PathValue("name")))
}
