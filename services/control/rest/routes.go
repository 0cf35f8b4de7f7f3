package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"dyno/services/control/access"
	"dyno/services/control/audit"
	"dyno/services/control/backup"
	"dyno/services/control/catalog"
	"dyno/services/control/plane"
	"dyno/services/control/push"
	"dyno/services/control/resource"
)

// A route is one operation. The description of the API is made from it, too.
type route struct {
	method, path string
	id           string // unique
	about        string
	parameters   []string // names in the table of parameters, beside those of the path
	body         string   // name of a schema; "" is none
	answers      map[int]string
	stream       bool // as long as the client wants
	handle       func(*request) error
	context      string              // of business, that the metrics have; table fills it in
	good         prometheus.Observer // of those that were answered as asked; New fills it in
}

// contextOf is the business that a path is of: what the metrics of requests are told apart
// by. Whoever discovers services suffers from other things than whoever changes policies.
func contextOf(path string) string {
	for _, c := range []struct{ folder, context string }{
		{"/v1/services", "discovery"}, {"/v1/heartbeats", "discovery"}, {"/v1/configs", "configuration"}, {"/v1/policies", "policy"},
		{"/v1/watch", "push"}, {"/v1/acks", "push"},
	} {
		if strings.HasPrefix(path, c.folder) {
			return c.context
		}
	}
	return "administration"
}

// Answers beside JSON by a schema's name.
const (
	noBody     = ""
	anyBody    = "*/*" // the content type that a configuration has
	streamBody = "text/event-stream"
	backupBody = "application/x-ndjson"
)

// changing and reading are the parameters that changes and lists have.
var (
	changing = []string{"namespace", "dry_run", "If-Match", "If-None-Match", "Idempotency-Key"}
	reading  = []string{"namespace", "stale"}
	paging   = []string{"namespace", "stale", "limit", "after", "search"}
)

// table is all operations.
func (a *API) table() []route {
	routes := []route{
		{method: "GET", path: "/v1/namespaces", id: "listNamespaces", about: "The namespaces that have something and that may be read.", parameters: []string{"stale", "limit"}, answers: map[int]string{200: "NamespaceList"}, handle: listNamespaces},
		{method: "GET", path: "/v1/services", id: "listServices", about: "The services of a namespace.", parameters: paging, answers: map[int]string{200: "ServiceList"}, handle: listServices},
		{method: "GET", path: "/v1/services/{name}/instances", id: "listInstances", about: "A service's instances.", parameters: append([]string{"zone", "status"}, paging...), answers: map[int]string{200: "InstanceList"}, handle: listInstances},
		{method: "GET", path: "/v1/services/{name}/instances/{id}", id: "getInstance", about: "One instance.", parameters: append([]string{"If-None-Match"}, reading...), answers: map[int]string{200: "Instance", 304: noBody}, handle: getItem(resource.Instances)},
		{method: "PUT", path: "/v1/services/{name}/instances/{id}", id: "registerInstance", about: "Register an instance, or change it. Registering what is known already is a heartbeat.", parameters: changing, body: "InstanceInput", answers: map[int]string{200: "Instance", 201: "Instance"}, handle: register},
		{method: "DELETE", path: "/v1/services/{name}/instances/{id}", id: "removeInstance", about: "Take an instance off.", parameters: changing, answers: map[int]string{200: "Instance", 204: noBody}, handle: removeItem(resource.Instances, access.Register)},
		{method: "GET", path: "/v1/services/{name}/rollout", id: "rolloutService", about: "Which clients of this replica that use xDS have which instances, and who has refused them, and why. Versions are revisions of the store.", parameters: []string{"namespace", "limit"}, answers: map[int]string{200: "Rollout"}, handle: serviceRollout},
		{method: "POST", path: "/v1/services/{name}/instances/{id}/heartbeat", id: "heartbeat", about: "Say that an instance is alive. 404 asks to register again.", parameters: []string{"namespace"}, answers: map[int]string{204: noBody}, handle: heartbeat},
		{method: "POST", path: "/v1/heartbeats", id: "heartbeats", about: "Say that many instances are alive. What is refused is told by instance; where that is every one, the request is refused as the first of them.", body: "Heartbeats", answers: map[int]string{200: "HeartbeatsAnswer"}, handle: heartbeats},

		{method: "GET", path: "/v1/configs/{name}/content", id: "configContent", about: "The content that a client is to have, by the gray release.", parameters: []string{"namespace", "stale", "client", "label", "If-None-Match"}, answers: map[int]string{200: anyBody, 304: noBody}, handle: configContent},
		{method: "PUT", path: "/v1/configs/{name}/release", id: "release", about: "Begin a gray release, or change it.", parameters: changing, body: "Release", answers: map[int]string{200: "Config"}, handle: release},
		{method: "DELETE", path: "/v1/configs/{name}/release", id: "withdraw", about: "End a gray release: nobody has it any more.", parameters: changing, answers: map[int]string{200: "Config"}, handle: endRelease(false)},
		{method: "POST", path: "/v1/configs/{name}/promote", id: "promote", about: "End a gray release: everybody has it.", parameters: changing, answers: map[int]string{200: "Config"}, handle: endRelease(true)},

		{method: "GET", path: "/v1/watch", id: "watch", about: "What changes: server-sent events if they are accepted, else a long poll.", parameters: []string{"namespace", "kind", "name", "since", "Last-Event-ID", "wait", "client", "label"}, answers: map[int]string{200: streamBody + " WatchAnswer"}, stream: true, handle: watch},
		{method: "POST", path: "/v1/acks", id: "acknowledge", about: "Say what a client has made of what it was sent. Answers to versions that were never published are refused, and told; where that is every one, the request is.", body: "Acks", answers: map[int]string{200: "AcksAnswer"}, handle: acknowledge},

		{method: "GET", path: "/v1/audit", id: "audit", about: "Who changed what, oldest first.", parameters: []string{"limit", "after", "from"}, answers: map[int]string{200: "AuditList"}, handle: readAudit},
		{method: "GET", path: "/v1/status", id: "status", about: "How the control plane is.", answers: map[int]string{200: "Status"}, handle: status},
		{method: "GET", path: "/v1/backup", id: "backup", about: "Everything as of one revision; it is whole if its last line has a SHA-256.", answers: map[int]string{200: backupBody}, stream: true, handle: writeBackup},
		{method: "POST", path: "/v1/reclaim", id: "reclaim", about: "Compact and defragment the database, and end its alarm. Nothing is answered meanwhile, for about a second per gigabyte.", answers: map[int]string{204: noBody}, handle: reclaim},
		{method: "GET", path: "/v1/openapi.json", id: "openapi", about: "This description.", answers: map[int]string{200: "object"}, handle: func(q *request) error { return q.write(http.StatusOK, "application/json", a.document) }},
	}
	for _, k := range []struct {
		kind         resource.Kind
		folder, name string
		rollouts     string
	}{{resource.Policies, "/v1/policies", "Policy", "/v1/rollouts/policies"}, {resource.Configs, "/v1/configs", "Config", "/v1/rollouts/configs"}} {
		one := k.folder + "/{name}"
		routes = append(routes,
			route{method: "GET", path: k.folder, id: "list" + k.name, about: "All of a namespace, by name.", parameters: paging, answers: map[int]string{200: k.name + "List"}, handle: listItems(k.kind)},
			route{method: "POST", path: k.folder, id: "create" + k.name, about: "Make one that must not exist.", parameters: changing, body: k.name + "New", answers: map[int]string{200: k.name, 201: k.name}, handle: putItem(k.kind, k.folder, true)},
			route{method: "GET", path: one, id: "get" + k.name, about: "One, as it is.", parameters: append([]string{"If-None-Match"}, reading...), answers: map[int]string{200: k.name, 304: noBody}, handle: getItem(k.kind)},
			route{method: "PUT", path: one, id: "put" + k.name, about: "Make one, or replace it.", parameters: changing, body: k.name + "Input", answers: map[int]string{200: k.name, 201: k.name}, handle: putItem(k.kind, k.folder, false)},
			route{method: "DELETE", path: one, id: "remove" + k.name, about: "Remove one. Its history stays.", parameters: changing, answers: map[int]string{200: k.name, 204: noBody}, handle: removeItem(k.kind, access.Write)},
			route{method: "GET", path: one + "/history", id: "history" + k.name, about: "Its versions that are kept, oldest first.", parameters: []string{"namespace"}, answers: map[int]string{200: k.name + "List"}, handle: history(k.kind)},
			route{method: "GET", path: one + "/history/{version}", id: "version" + k.name, about: "One of its versions.", parameters: []string{"namespace"}, answers: map[int]string{200: k.name}, handle: version(k.kind)},
			route{method: "POST", path: one + "/rollback", id: "rollback" + k.name, about: "Make an earlier version the next one.", parameters: changing, body: "Rollback", answers: map[int]string{200: k.name, 201: k.name}, handle: rollback(k.kind, k.folder)},
			route{method: "GET", path: one + "/rollout", id: "rollout" + k.name, about: "Which clients of this replica run which version, and who has refused the newest, and why.", parameters: []string{"namespace", "limit"}, answers: map[int]string{200: "Rollout"}, handle: rollout(k.kind)},
			route{method: "GET", path: one + "/rollout/watch", id: "watchRollout" + k.name, about: "The same as server-sent events: an event rollout at once and when it has changed, and removed at the end.", parameters: []string{"namespace", "limit", "Last-Event-ID"}, answers: map[int]string{200: streamBody}, stream: true, handle: watchRollout(k.kind)},
			route{method: "GET", path: k.rollouts, id: "rollouts" + k.name, about: "The rollouts of a namespace's resources, by name, without their clients.", parameters: paging, answers: map[int]string{200: "RolloutList"}, handle: listRollouts(k.kind)},
		)
	}
	for i := range routes {
		routes[i].context = contextOf(routes[i].path)
	}
	return routes
}

// shown is an item as the client may have it, by itself or in a list: without what is secret
// in it, or, with secret, in a later version of it. Its tag is then of what is shown, since
// one of the whole document would tell whoever guesses its content that the guess is right.
func (q *request) shown(i *catalog.Item, listed, secret bool) (*catalog.Item, error) {
	c, ok := i.Resource.(*resource.Config)
	if !ok || !c.Secret && !secret || !listed && q.caller.May(access.Secrets, i.Namespace) {
		return i, nil
	}
	one := *c
	one.Secret = true
	one = one.Masked()
	body, err := json.Marshal(one)
	return &catalog.Item{Ref: i.Ref, Path: i.Path, Revision: i.Revision, Version: i.Version, Body: body, Resource: &one}, err
}

func getItem(k resource.Kind) func(*request) error {
	return func(q *request) error {
		r, err := q.ref(k, access.Read)
		if err != nil {
			return err
		}
		stale, err := q.flag("stale")
		if err != nil {
			return err
		}
		i, age, err := q.api.plane.Get(q.Context(), r, stale)
		if err != nil {
			return err
		}
		q.age(stale, age)
		if i, err = q.shown(i, false, false); err != nil {
			return err
		}
		return q.item(http.StatusOK, i, i.Body)
	}
}

// A page is what is asked for of a list.
type page struct {
	limit   int
	after   string
	matches func(names ...string) bool
	// revision was known before the list is read, so that whoever watches from it misses
	// nothing, and age is how old that may be.
	revision int64
	age      float64
}

// A list is a page's answer.
type list[T any] struct {
	Items    []T     `json:"items"`
	Next     string  `json:"next,omitempty"`
	Revision int64   `json:"revision"`
	Watch    string  `json:"watch"`
	Age      float64 `json:"age_seconds"`
}

func listOf[T any](q *request, p page, items []T, next string) list[T] {
	return list[T]{Items: items, Next: next, Revision: p.revision, Watch: q.api.plane.Token(p.revision).String(), Age: p.age}
}

// documents answers with a page of documents, all of which are secret where secret is set.
func (q *request) documents(p page, items []*catalog.Item, next string, secret bool) error {
	bodies := make([]json.RawMessage, len(items))
	for n, i := range items {
		one, err := q.shown(i, true, secret)
		if err != nil {
			return err
		}
		bodies[n] = one.Body
	}
	return q.json(http.StatusOK, listOf(q, p, bodies, next))
}

// page reads what all lists have.
func (q *request) page() (p page, err error) {
	if p.limit, err = q.limit(); err != nil {
		return p, err
	}
	if p.after, err = q.after(); err != nil {
		return p, err
	}
	if p.matches, err = q.search(); err != nil {
		return p, err
	}
	stale, err := q.flag("stale")
	if err != nil {
		return p, err
	}
	where := resource.Ref{Kind: resource.Policies, Namespace: q.namespace(), Name: "x"}
	if err := where.Check(); err != nil {
		return p, plane.Badf("%v", err)
	}
	if err := q.may(access.Read, where.Namespace); err != nil {
		return p, err
	}
	old, err := q.api.plane.Sync(q.Context(), stale)
	p.age = q.age(stale, old)
	p.revision, _ = q.api.plane.Catalog().Revision()
	return p, err
}

// items reads a page of policies or configurations.
func (q *request) items(k resource.Kind) (p page, items []*catalog.Item, next string, err error) {
	if p, err = q.page(); err != nil {
		return p, nil, "", err
	}
	prefix, after := string(k)+"/"+q.namespace()+"/", ""
	if p.after != "" {
		after = prefix + p.after
	}
	items, more := q.api.plane.Catalog().Page(prefix, after, p.limit, func(i *catalog.Item) bool { return p.matches(i.Name) })
	if more {
		next = items[len(items)-1].Name
	}
	return p, items, next, nil
}

func listItems(k resource.Kind) func(*request) error {
	return func(q *request) error {
		p, items, next, err := q.items(k)
		if err != nil {
			return err
		}
		return q.documents(p, items, next, false)
	}
}

func listNamespaces(q *request) error {
	limit, err := q.limit()
	if err != nil {
		return err
	}
	stale, err := q.flag("stale")
	if err != nil {
		return err
	}
	age, err := q.api.plane.Sync(q.Context(), stale)
	if err != nil {
		return err
	}
	q.age(stale, age)
	names, more := q.api.plane.Catalog().Namespaces(limit, func(name string) bool { return q.caller.May(access.Read, name) })
	if names == nil {
		names = []string{}
	}
	return q.json(http.StatusOK, map[string]any{"items": names, "more": more})
}

func listServices(q *request) error {
	p, err := q.page()
	if err != nil {
		return err
	}
	names, counts, more := q.api.plane.Catalog().Services(q.namespace(), p.after, p.limit, func(name string) bool { return p.matches(name) })
	type service struct {
		Name      string `json:"name"`
		Instances int    `json:"instances"`
	}
	items, next := []service{}, ""
	for i, n := range names {
		items = append(items, service{n, counts[i]})
	}
	if more {
		next = names[len(names)-1]
	}
	return q.json(http.StatusOK, listOf(q, p, items, next))
}

// An instanceView is an instance with what this replica knows of its health.
type instanceView struct {
	*resource.Instance
	// Overdue says that it is silent for longer than it said, and kept because so many
	// are.
	Overdue bool `json:"overdue"`
	// Heard is how many seconds ago it was heard, if its heartbeats come to this replica.
	Heard *float64 `json:"heard_seconds,omitempty"`
}

func listInstances(q *request) error {
	p, err := q.page()
	if err != nil {
		return err
	}
	r := resource.Ref{Kind: resource.Instances, Namespace: q.namespace(), Name: q.PathValue("name"), ID: "x"}
	if err := r.Check(); err != nil {
		return plane.Badf("%v", err)
	}
	zone, status := q.parameter("zone"), resource.Status(q.parameter("status"))
	switch status {
	case "", resource.Up, resource.Down, resource.Draining:
	default:
		return plane.Badf("status: %.40q: must be up, down or draining", status)
	}
	prefix, after := string(resource.Instances)+"/"+r.Namespace+"/"+r.Name+"/", ""
	if p.after != "" {
		after = prefix + p.after
	}
	found, more := q.api.plane.Catalog().Page(prefix, after, p.limit, func(i *catalog.Item) bool {
		one := i.Resource.(*resource.Instance)
		return (zone == "" || one.Zone == zone) && (status == "" || one.Status == status) && p.matches(one.ID, one.Address, one.Zone)
	})
	items, next := []instanceView{}, ""
	for _, i := range found {
		one := instanceView{Instance: i.Resource.(*resource.Instance), Overdue: q.api.plane.Overdue(i.Ref)}
		if silence, ok := q.api.plane.Silence(one.Instance); ok {
			seconds := silence.Seconds()
			one.Heard = &seconds
		}
		items = append(items, one)
	}
	if more {
		next = found[len(found)-1].ID
	}
	return q.json(http.StatusOK, struct {
		list[instanceView]
		Protected bool `json:"protected"`
	}{listOf(q, p, items, next), q.api.plane.Pulse().Protected})
}

// notGiven is in a text until the document has one: no JSON text is this, which is not
// UTF-8. A document without a content must not empty what there is.
const notGiven = "\xff"

func missingField(name string) error {
	return resource.Invalid{{Pointer: "#/" + name, Detail: "must be given"}}
}

// putItem makes or replaces a policy or a configuration.
func putItem(k resource.Kind, folder string, create bool) func(*request) error {
	return func(q *request) error {
		o, err := q.options()
		if err != nil {
			return err
		}
		var doc any
		var r resource.Ref
		switch k {
		case resource.Policies:
			p := new(resource.Policy)
			if err := q.body(p); err != nil {
				return err
			}
			if err := q.identity(&p.Namespace, &p.Name, "/name", create); err != nil {
				return err
			}
			doc, r = p, p.Ref()
		case resource.Configs:
			c := &resource.Config{Content: notGiven}
			if err := q.body(c); err != nil {
				return err
			}
			if c.Content == notGiven {
				return missingField("content")
			}
			if err := q.identity(&c.Namespace, &c.Name, "/name", create); err != nil {
				return err
			}
			doc, r = c, c.Ref()
		default:
			return fmt.Errorf("%s is not put", k)
		}
		if err := q.may(access.Write, r.Namespace); err != nil {
			return err
		}
		put := q.api.plane.Put
		if create {
			put = q.api.plane.Create
		}
		result, err := put(q.Context(), q.caller, doc, o)
		if err != nil {
			return err
		}
		return q.result(result, placeOf(folder, r))
	}
}

// identity joins what the address and the document say of a name: they may not
// contradict.
func (q *request) identity(namespace, name *string, pointer string, create bool) error {
	if asked := q.parameter("namespace"); asked != "" && *namespace != "" && *namespace != asked {
		return resource.Invalid{{Pointer: "#/namespace", Detail: fmt.Sprintf("is %.80q, and the address says %.80q", *namespace, asked)}}
	}
	if *namespace == "" {
		*namespace = q.namespace()
	}
	if create {
		return nil
	}
	asked := q.PathValue("name")
	if *name != "" && *name != asked {
		return resource.Invalid{{Pointer: "#" + pointer, Detail: fmt.Sprintf("is %.80q, and the address says %.80q", *name, asked)}}
	}
	*name = asked
	return nil
}

func removeItem(k resource.Kind, what access.Permission) func(*request) error {
	return func(q *request) error {
		r, err := q.ref(k, what)
		if err != nil {
			return err
		}
		o, err := q.options()
		if err != nil {
			return err
		}
		result, err := q.api.plane.Remove(q.Context(), q.caller, r, o)
		if err != nil {
			return err
		}
		if result.DryRun {
			result.Removed = false // nothing was: it is shown what would be
		}
		return q.result(result, "")
	}
}

func history(k resource.Kind) func(*request) error {
	return func(q *request) error {
		r, err := q.ref(k, access.Read)
		if err != nil {
			return err
		}
		var p page
		p.revision, _ = q.api.plane.Catalog().Revision()
		items, err := q.api.plane.History(q.Context(), r)
		if err != nil {
			return err
		}
		newest, ok := items[len(items)-1].Resource.(*resource.Config)
		return q.documents(p, items, "", ok && newest.Secret)
	}
}

func version(k resource.Kind) func(*request) error {
	return func(q *request) error {
		r, err := q.ref(k, access.Read)
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(q.PathValue("version"), 10, 64)
		if err != nil || n < 1 {
			return plane.Badf("version: %.40q: must be a number from 1", q.PathValue("version"))
		}
		i, err := q.api.plane.Version(q.Context(), r, n)
		if err != nil {
			return err
		}
		secret, err := q.api.plane.Secret(q.Context(), r)
		if err != nil {
			return err
		}
		if i, err = q.shown(i, false, secret); err != nil {
			return err
		}
		return q.item(http.StatusOK, i, i.Body)
	}
}

func rollback(k resource.Kind, folder string) func(*request) error {
	return func(q *request) error {
		r, err := q.ref(k, access.Write)
		if err != nil {
			return err
		}
		o, err := q.options()
		if err != nil {
			return err
		}
		var body struct {
			Version int64 `json:"version"`
		}
		if err := q.body(&body); err != nil {
			return err
		}
		if body.Version < 1 {
			return resource.Invalid{{Pointer: "#/version", Detail: "must be a number from 1"}}
		}
		result, err := q.api.plane.Rollback(q.Context(), q.caller, r, body.Version, o)
		if err != nil {
			return err
		}
		return q.result(result, placeOf(folder, r))
	}
}

// placeOf is where a policy or a configuration is.
func placeOf(folder string, r resource.Ref) string {
	return folder + "/" + url.PathEscape(r.Name) + "?namespace=" + url.QueryEscape(r.Namespace)
}

func listRollouts(k resource.Kind) func(*request) error {
	return func(q *request) error {
		p, items, next, err := q.items(k)
		if err != nil {
			return err
		}
		rollouts := make([]push.Rollout, len(items))
		for n, i := range items {
			rollouts[n] = q.api.plane.Ledger().Rollout(i.Ref, i.Version, 0)
		}
		return q.json(http.StatusOK, listOf(q, p, rollouts, next))
	}
}

func rollout(k resource.Kind) func(*request) error {
	return func(q *request) error {
		r, err := q.ref(k, access.Read)
		if err != nil {
			return err
		}
		limit, err := q.limit()
		if err != nil {
			return err
		}
		out, err := q.api.plane.Rollout(q.Context(), r, limit)
		if err != nil {
			return err
		}
		return q.json(http.StatusOK, out)
	}
}

func serviceRollout(q *request) error {
	r := resource.Ref{Kind: resource.Instances, Namespace: q.namespace(), Name: q.PathValue("name"), ID: "x"}
	if err := r.Check(); err != nil {
		return plane.Badf("%v", err)
	}
	if err := q.may(access.Read, r.Namespace); err != nil {
		return err
	}
	limit, err := q.limit()
	if err != nil {
		return err
	}
	out, err := q.api.plane.ServiceRollout(q.Context(), r.Namespace, r.Name, limit)
	if err != nil {
		return err
	}
	return q.json(http.StatusOK, out)
}

func register(q *request) error {
	o, err := q.options()
	if err != nil {
		return err
	}
	i := &resource.Instance{Weight: resource.DefaultWeight}
	if err := q.body(i); err != nil {
		return err
	}
	if err := q.identity(&i.Namespace, &i.Service, "/service", false); err != nil {
		return err
	}
	if id := q.PathValue("id"); i.ID != "" && i.ID != id {
		return resource.Invalid{{Pointer: "#/id", Detail: fmt.Sprintf("is %.80q, and the address says %.80q", i.ID, id)}}
	}
	i.ID = q.PathValue("id")
	if err := q.may(access.Register, i.Namespace); err != nil {
		return err
	}
	result, err := q.api.plane.Register(q.Context(), q.caller, i, o)
	if err != nil {
		return err
	}
	return q.result(result, q.URL.Path+"?namespace="+url.QueryEscape(i.Namespace))
}

func heartbeat(q *request) error {
	r, err := q.ref(resource.Instances, access.Register)
	if err != nil {
		return err
	}
	if err := q.api.plane.Heartbeat(q.Context(), q.caller, r); err != nil {
		return err
	}
	q.begun = true
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

// maxFaults bounds the faults that are told of one request.
const maxFaults = 32

// maxTogether is how many heartbeats or answers one request may have.
const maxTogether = 10_000

func heartbeats(q *request) error {
	type member struct {
		Namespace string `json:"namespace"`
		Service   string `json:"service"`
		ID        string `json:"id"`
	}
	var body struct {
		Instances []member `json:"instances"`
	}
	if err := q.body(&body); err != nil {
		return err
	}
	if body.Instances == nil {
		return missingField("instances")
	}
	if len(body.Instances) > maxTogether {
		return resource.Invalid{{Pointer: "#/instances", Detail: fmt.Sprintf("has %d entries: must have %d at most", len(body.Instances), maxTogether)}}
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
	// One that is refused is no reason to leave others unheard: they would expire.
	type failure struct {
		member
		Type   string `json:"type"`
		Detail string `json:"detail"`
	}
	unknown, failed := []member{}, []failure{}
	var first, broken error // the first refusal, and the first that is this side's fault
	for i, err := range q.beats(refs) {
		if err == nil {
			continue
		}
		p := asProblem(err)
		if p.kind == plane.Missing {
			unknown = append(unknown, body.Instances[i])
			continue
		}
		if first == nil {
			first = err
		}
		if broken == nil && p.kind.ServerFault() {
			broken = err
		}
		failed = append(failed, failure{body.Instances[i], p.Type, p.Detail})
	}
	if len(failed) > 0 && len(failed) == len(refs) {
		return first // so that a client tries another replica, as with one heartbeat
	}
	if broken != nil {
		q.api.log.Warn("heartbeats failed", "failed", len(failed), "of", len(refs), "first", broken)
	}
	return q.json(http.StatusOK, map[string]any{"unknown": unknown, "failed": failed})
}

// beats notes heartbeats of instances that the principal may register, and returns what became
// of each.
func (q *request) beats(refs []resource.Ref) []error {
	errs := make([]error, len(refs))
	denied := map[string]error{} // by namespace; nil is permitted
	var places []int
	var permitted []resource.Ref
	for i, r := range refs {
		err, asked := denied[r.Namespace]
		if !asked {
			err = q.may(access.Register, r.Namespace)
			denied[r.Namespace] = err
		}
		if errs[i] = err; err == nil {
			places, permitted = append(places, i), append(permitted, r)
		}
	}
	for n, err := range q.api.plane.Heartbeats(q.Context(), q.caller, permitted) {
		errs[places[n]] = err
	}
	return errs
}

// maxClient bounds a client's name, in characters.
const maxClient = 253

// isClient tells whether text may be the name of a client, or none.
func isClient(text string) bool {
	return utf8.RuneCountInString(text) <= maxClient && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' })
}

// client reads who a reader of configuration says it is.
func (q *request) client() (resource.Client, error) {
	query := q.query()
	c := resource.Client{ID: query.Get("client")}
	if !isClient(c.ID) {
		return c, plane.Badf("client: must have %d characters at most, none of them a control character", maxClient)
	}
	for _, text := range query["label"] {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" || len(c.Labels) == q.api.plane.Limits().Labels {
			return c, plane.Badf("label: %.80q: want NAME=VALUE, %d times at most", text, q.api.plane.Limits().Labels)
		}
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		c.Labels[name] = value
	}
	return c, nil
}

// releasedField tells whether the content is a gray release's.
const releasedField = "Dyno-Released"

func configContent(q *request) error {
	r, err := q.ref(resource.Configs, access.Read)
	if err != nil {
		return err
	}
	stale, err := q.flag("stale")
	if err != nil {
		return err
	}
	who, err := q.client()
	if err != nil {
		return err
	}
	i, age, err := q.api.plane.Get(q.Context(), r, stale)
	if err != nil {
		return err
	}
	c := i.Resource.(*resource.Config)
	if c.Secret {
		if err := q.may(access.Secrets, r.Namespace); err != nil {
			return err
		}
	}
	content, released := c.For(who)
	q.age(stale, age)
	h := q.w.Header()
	tag := resource.Tag(i.Version, []byte(content))
	h.Set("ETag", tag)
	h.Set("Cache-Control", "no-cache")
	h.Set(releasedField, strconv.FormatBool(released))
	// It is served as it is; a browser must not take it for a page of ours.
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox")
	if noneMatch(q.Header.Get("If-None-Match"), tag) {
		q.begun = true
		q.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	kind := c.ContentType
	if kind == "" {
		kind = "text/plain; charset=utf-8"
	}
	return q.write(http.StatusOK, kind, []byte(content))
}

func release(q *request) error {
	return q.change(func(r resource.Ref, o plane.Options) (plane.Result, error) {
		body := resource.Release{Content: notGiven}
		if err := q.body(&body); err != nil {
			return plane.Result{}, err
		}
		if body.Content == notGiven {
			return plane.Result{}, missingField("content")
		}
		if body.Since != 0 {
			return plane.Result{}, resource.Invalid{{Pointer: "#/since", Detail: "is not the client's to say"}}
		}
		return q.api.plane.Release(q.Context(), q.caller, r, body, o)
	})
}

func endRelease(promote bool) func(*request) error {
	return func(q *request) error {
		return q.change(func(r resource.Ref, o plane.Options) (plane.Result, error) {
			return q.api.plane.EndRelease(q.Context(), q.caller, r, promote, o)
		})
	}
}

// change is a change of a configuration that exists.
func (q *request) change(do func(resource.Ref, plane.Options) (plane.Result, error)) error {
	r, err := q.ref(resource.Configs, access.Write)
	if err != nil {
		return err
	}
	o, err := q.options()
	if err != nil {
		return err
	}
	result, err := do(r, o)
	if err != nil {
		return err
	}
	return q.result(result, "")
}

func acknowledge(q *request) error {
	var body struct {
		Client string     `json:"client"`
		Acks   []push.Ack `json:"acks"`
	}
	if err := q.body(&body); err != nil {
		return err
	}
	if body.Acks == nil {
		return missingField("acks")
	}
	if body.Client == "" || !isClient(body.Client) || len(body.Acks) > maxTogether {
		return resource.Invalid{{Pointer: "#", Detail: fmt.Sprintf("client must have 1 to %d characters, and there may be %d acks at most", maxClient, maxTogether)}}
	}
	for i := range body.Acks {
		a := &body.Acks[i]
		at := fmt.Sprintf("#/acks/%d", i)
		if a.Namespace == "" {
			a.Namespace = resource.DefaultNamespace
		}
		if err := a.Check(); err != nil || a.ID != "" && a.Kind != resource.Instances || a.Version < 1 || a.State != push.Applied && a.State != push.Refused {
			return resource.Invalid{{Pointer: at, Detail: "must name a resource, a version from 1 and the state applied or refused"}}
		}
		if err := q.may(access.Read, a.Namespace); err != nil {
			return err
		}
	}
	news, errs := q.api.plane.Ack(q.Context(), q.caller.ClientPrefix+body.Client, body.Acks)
	// One that is refused is no reason to leave others out: a client answers to many at once.
	type refused struct {
		resource.Ref
		Version int64  `json:"version"`
		Detail  string `json:"detail"`
	}
	list := []refused{}
	var faults resource.Invalid
	for i, err := range errs {
		if err == nil {
			continue
		}
		var never *plane.Unpublished
		if !errors.As(err, &never) {
			return err
		}
		list = append(list, refused{body.Acks[i].Ref, never.Version, err.Error()})
		faults = append(faults, resource.Fault{Pointer: fmt.Sprintf("#/acks/%d/version", i), Detail: err.Error()})
	}
	if len(list) > 0 && len(list) == len(errs) {
		return faults[:min(len(faults), maxFaults)]
	}
	return q.json(http.StatusOK, map[string]any{"news": news, "refused": list})
}

func readAudit(q *request) error {
	limit, err := q.limit()
	if err != nil {
		return err
	}
	after, err := q.after()
	if err != nil {
		return err
	}
	var from time.Time
	if text, given := q.given("from"); given {
		if from, err = time.Parse(time.RFC3339, text); err != nil {
			return plane.Badf("from: %.40q: must be a time such as 2026-01-02T03:04:05Z", text)
		}
	}
	// Whoever may read none of it is told so, before anything is read.
	if !q.caller.MayAnywhere(access.Audit) {
		return q.may(access.Audit, q.namespace())
	}
	page, err := q.api.plane.Audit(q.Context(), audit.Query{
		After: after, From: from, Limit: limit, May: func(namespace string) bool { return q.caller.May(access.Audit, namespace) },
	})
	if err != nil {
		return err
	}
	out := map[string]any{"items": page.Items}
	if page.Next != "" {
		out["next"] = page.Next
	}
	return q.json(http.StatusOK, out)
}

func status(q *request) error {
	st, err := q.api.plane.Store().Status(q.Context())
	if err != nil {
		return err
	}
	c := q.api.plane.Catalog()
	revision, _ := c.Revision()
	return q.json(http.StatusOK, map[string]any{
		"store": st, "revision": revision, "age_seconds": q.api.plane.Age().Seconds(), "liveness": q.api.plane.Pulse(), "limits": q.api.plane.Limits(),
		"resources": map[resource.Kind]int{resource.Policies: c.Count(resource.Policies), resource.Configs: c.Count(resource.Configs), resource.Instances: c.Count(resource.Instances)},
		"push":      q.api.plane.Hub().Counts(),
	})
}

func writeBackup(q *request) error {
	if err := q.may(access.Administer, access.AllNamespaces); err != nil {
		return err
	}
	if err := q.unhurried(); err != nil {
		return err
	}
	q.w.Header().Set("Content-Type", backupBody)
	q.begun = true
	if err := backup.Write(q.Context(), flushing{q}, q.api.plane.Store()); err != nil {
		// The head is written: the backup has no end, which its reader finds out.
		q.api.log.Warn("backup is cut off", "error", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

// flushing has a client that reads slowly fail rather than hold up for ever.
type flushing struct{ q *request }

func (f flushing) Write(p []byte) (int, error) {
	if err := f.q.deadline(); err != nil {
		return 0, err
	}
	return f.q.w.Write(p)
}

func reclaim(q *request) error {
	if err := q.may(access.Administer, access.AllNamespaces); err != nil {
		return err
	}
	if err := q.unhurried(); err != nil {
		return err
	}
	// Half a reclaim is none: it goes on when the client has gone.
	if err := q.api.plane.Store().Reclaim(context.WithoutCancel(q.Context())); err != nil {
		return err
	}
	q.begun = true
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}
