package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"dyno/services/control/access"
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
}

// Answers beside JSON by a schema's name.
const (
	noBody     = ""
	textBody   = "text/plain"
	streamBody = "text/event-stream"
	backupBody = "application/x-ndjson"
)

// changing and reading are the parameters that changes and lists have.
var (
	changing = []string{"namespace", "dry_run", "If-Match", "If-None-Match", "Idempotency-Key"}
	reading  = []string{"namespace", "stale"}
	paging   = []string{"namespace", "stale", "limit", "after"}
)

// table is all operations.
func (a *API) table() []route {
	routes := []route{
		{method: "GET", path: "/v1/services", id: "listServices", about: "The services of a namespace.", parameters: paging, answers: map[int]string{200: "ServiceList"}, handle: listServices},
		{method: "GET", path: "/v1/services/{name}/instances", id: "listInstances", about: "A service's instances.", parameters: append([]string{"zone", "status"}, paging...), answers: map[int]string{200: "InstanceList"}, handle: listInstances},
		{method: "GET", path: "/v1/services/{name}/instances/{id}", id: "getInstance", about: "One instance.", parameters: append([]string{"If-None-Match"}, reading...), answers: map[int]string{200: "Instance", 304: noBody}, handle: getItem(resource.Instances)},
		{method: "PUT", path: "/v1/services/{name}/instances/{id}", id: "registerInstance", about: "Register an instance, or change it. Registering what is known already is a heartbeat.", parameters: changing, body: "InstanceInput", answers: map[int]string{200: "Instance", 201: "Instance"}, handle: register},
		{method: "DELETE", path: "/v1/services/{name}/instances/{id}", id: "removeInstance", about: "Take an instance off.", parameters: changing, answers: map[int]string{200: "Instance", 204: noBody}, handle: removeItem(resource.Instances, access.Register)},
		{method: "POST", path: "/v1/services/{name}/instances/{id}/heartbeat", id: "heartbeat", about: "Say that an instance is alive. 404 asks to register again.", parameters: []string{"namespace"}, answers: map[int]string{204: noBody}, handle: heartbeat},
		{method: "POST", path: "/v1/heartbeats", id: "heartbeats", about: "Say that many instances are alive.", body: "Heartbeats", answers: map[int]string{200: "HeartbeatsAnswer"}, handle: heartbeats},

		{method: "GET", path: "/v1/configs/{name}/content", id: "configContent", about: "The content that a client is to have, by the gray release.", parameters: []string{"namespace", "stale", "client", "label", "If-None-Match"}, answers: map[int]string{200: textBody, 304: noBody}, handle: configContent},
		{method: "PUT", path: "/v1/configs/{name}/release", id: "release", about: "Begin a gray release, or change it.", parameters: changing, body: "Release", answers: map[int]string{200: "Config"}, handle: release},
		{method: "DELETE", path: "/v1/configs/{name}/release", id: "withdraw", about: "End a gray release: nobody has it any more.", parameters: changing, answers: map[int]string{200: "Config"}, handle: endRelease(false)},
		{method: "POST", path: "/v1/configs/{name}/promote", id: "promote", about: "End a gray release: everybody has it.", parameters: changing, answers: map[int]string{200: "Config"}, handle: endRelease(true)},

		{method: "GET", path: "/v1/watch", id: "watch", about: "What changes: server-sent events if they are accepted, else a long poll.", parameters: []string{"namespace", "kind", "name", "since", "Last-Event-ID", "wait", "client", "label"}, answers: map[int]string{200: streamBody + " WatchAnswer"}, stream: true, handle: watch},
		{method: "POST", path: "/v1/acks", id: "acknowledge", about: "Say what a client has made of what it was sent.", body: "Acks", answers: map[int]string{200: "AcksAnswer"}, handle: acknowledge},

		{method: "GET", path: "/v1/audit", id: "audit", about: "Who changed what, oldest first.", parameters: []string{"limit", "after"}, answers: map[int]string{200: "AuditList"}, handle: audit},
		{method: "GET", path: "/v1/status", id: "status", about: "How the control plane is.", answers: map[int]string{200: "Status"}, handle: status},
		{method: "GET", path: "/v1/backup", id: "backup", about: "Everything as of one revision; it is whole if its last line has a SHA-256.", answers: map[int]string{200: backupBody}, stream: true, handle: backup},
		{method: "POST", path: "/v1/reclaim", id: "reclaim", about: "Compact and defragment the database, and end its alarm. Nothing is answered meanwhile, for about a second per gigabyte.", answers: map[int]string{204: noBody}, handle: reclaim},
		{method: "GET", path: "/v1/openapi.json", id: "openapi", about: "This description.", answers: map[int]string{200: "object"}, handle: func(q *request) error { return q.write(http.StatusOK, "application/json", a.document) }},
	}
	for _, k := range []struct {
		kind         resource.Kind
		folder, name string
	}{{resource.Policies, "/v1/policies", "Policy"}, {resource.Configs, "/v1/configs", "Config"}} {
		one := k.folder + "/{name}"
		routes = append(routes,
			route{method: "GET", path: k.folder, id: "list" + k.name, about: "All of a namespace, by name.", parameters: paging, answers: map[int]string{200: k.name + "List"}, handle: listItems(k.kind)},
			route{method: "POST", path: k.folder, id: "create" + k.name, about: "Make one that must not exist.", parameters: changing, body: k.name + "Input", answers: map[int]string{200: k.name, 201: k.name}, handle: putItem(k.kind, k.folder, true)},
			route{method: "GET", path: one, id: "get" + k.name, about: "One, as it is.", parameters: append([]string{"If-None-Match"}, reading...), answers: map[int]string{200: k.name, 304: noBody}, handle: getItem(k.kind)},
			route{method: "PUT", path: one, id: "put" + k.name, about: "Make one, or replace it.", parameters: changing, body: k.name + "Input", answers: map[int]string{200: k.name, 201: k.name}, handle: putItem(k.kind, k.folder, false)},
			route{method: "DELETE", path: one, id: "remove" + k.name, about: "Remove one. Its history stays.", parameters: changing, answers: map[int]string{200: k.name, 204: noBody}, handle: removeItem(k.kind, access.Write)},
			route{method: "GET", path: one + "/history", id: "history" + k.name, about: "Its versions that are kept, oldest first.", parameters: []string{"namespace"}, answers: map[int]string{200: k.name + "List"}, handle: history(k.kind)},
			route{method: "GET", path: one + "/history/{version}", id: "version" + k.name, about: "One of its versions.", parameters: []string{"namespace"}, answers: map[int]string{200: k.name}, handle: version(k.kind)},
			route{method: "POST", path: one + "/rollback", id: "rollback" + k.name, about: "Make an earlier version the next one.", parameters: changing, body: "Rollback", answers: map[int]string{200: k.name, 201: k.name}, handle: rollback(k.kind)},
			route{method: "GET", path: one + "/rollout", id: "rollout" + k.name, about: "Which clients of this replica run which version, and who has refused the newest, and why.", parameters: []string{"namespace", "limit"}, answers: map[int]string{200: "Rollout"}, handle: rollout(k.kind)},
		)
	}
	return routes
}

// document is what a client may be shown of an item, by itself or in a list.
func (q *request) document(i *catalog.Item, listed bool) ([]byte, error) {
	c, ok := i.Resource.(*resource.Config)
	if !ok || !c.Secret || !listed && q.principal.May(access.Secrets, i.Namespace) {
		return i.Body, nil
	}
	return json.Marshal(c.Masked())
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
		body, err := q.document(i, false)
		if err != nil {
			return err
		}
		return q.item(http.StatusOK, i, body)
	}
}

// A list is a page of documents.
type list struct {
	Items    []json.RawMessage `json:"items"`
	Next     string            `json:"next,omitempty"`
	Revision int64             `json:"revision"`
	Age      float64           `json:"age_seconds"`
}

func (q *request) list(items []*catalog.Item, next string, revision int64, age float64) error {
	l := list{Items: make([]json.RawMessage, len(items)), Next: next, Revision: revision, Age: age}
	for n, i := range items {
		body, err := q.document(i, true)
		if err != nil {
			return err
		}
		l.Items[n] = body
	}
	return q.json(http.StatusOK, l)
}

// page reads what all lists have.
func (q *request) page() (limit int, after string, age float64, err error) {
	if limit, err = q.limit(); err != nil {
		return 0, "", 0, err
	}
	if after, err = q.after(); err != nil {
		return 0, "", 0, err
	}
	stale, err := q.flag("stale")
	if err != nil {
		return 0, "", 0, err
	}
	if err := q.may(access.Read, q.namespace()); err != nil {
		return 0, "", 0, err
	}
	old, err := q.api.plane.Sync(q.Context(), stale)
	if err != nil {
		return 0, "", 0, err
	}
	return limit, after, q.age(stale, old), nil
}

func listItems(k resource.Kind) func(*request) error {
	return func(q *request) error {
		limit, after, age, err := q.page()
		if err != nil {
			return err
		}
		r := resource.Ref{Kind: k, Namespace: q.namespace(), Name: "x"}
		if err := r.Check(); err != nil {
			return badParameter("%v", err)
		}
		prefix := string(k) + "/" + r.Namespace + "/"
		if after != "" {
			after = prefix + after
		}
		items, more := q.api.plane.Catalog().List(prefix, after, limit, nil)
		next := ""
		if more {
			next = items[len(items)-1].Name
		}
		revision, _ := q.api.plane.Catalog().Revision()
		return q.list(items, next, revision, age)
	}
}

func listServices(q *request) error {
	limit, after, age, err := q.page()
	if err != nil {
		return err
	}
	names, counts, more := q.api.plane.Catalog().Services(q.namespace(), after, limit)
	type service struct {
		Name      string `json:"name"`
		Instances int    `json:"instances"`
	}
	revision, _ := q.api.plane.Catalog().Revision()
	out := struct {
		Items    []service `json:"items"`
		Next     string    `json:"next,omitempty"`
		Revision int64     `json:"revision"`
		Age      float64   `json:"age_seconds"`
	}{Items: []service{}, Revision: revision, Age: age}
	for i, n := range names {
		out.Items = append(out.Items, service{n, counts[i]})
	}
	if more {
		out.Next = names[len(names)-1]
	}
	return q.json(http.StatusOK, out)
}

// An instanceView is an instance with what this replica knows of its health.
type instanceView struct {
	*resource.Instance
	// Overdue says that it is silent for longer than it said, and kept because so many
	// are.
	Overdue bool `json:"overdue"`
}

func listInstances(q *request) error {
	limit, after, age, err := q.page()
	if err != nil {
		return err
	}
	r := resource.Ref{Kind: resource.Instances, Namespace: q.namespace(), Name: q.PathValue("name"), ID: "x"}
	if err := r.Check(); err != nil {
		return badParameter("%v", err)
	}
	zone, status := q.URL.Query().Get("zone"), resource.Status(q.URL.Query().Get("status"))
	prefix := string(resource.Instances) + "/" + r.Namespace + "/" + r.Name + "/"
	if after != "" {
		after = prefix + after
	}
	items, more := q.api.plane.Catalog().List(prefix, after, limit, func(i *catalog.Item) bool {
		one := i.Resource.(*resource.Instance)
		return (zone == "" || one.Zone == zone) && (status == "" || one.Status == status)
	})
	revision, _ := q.api.plane.Catalog().Revision()
	out := struct {
		Items     []instanceView `json:"items"`
		Next      string         `json:"next,omitempty"`
		Revision  int64          `json:"revision"`
		Age       float64        `json:"age_seconds"`
		Protected bool           `json:"protected"`
	}{Items: []instanceView{}, Revision: revision, Age: age, Protected: q.api.plane.Pulse().Protected}
	for _, i := range items {
		out.Items = append(out.Items, instanceView{i.Resource.(*resource.Instance), q.api.plane.Overdue(i.Ref)})
	}
	if more {
		out.Next = items[len(items)-1].ID
	}
	return q.json(http.StatusOK, out)
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
			c := new(resource.Config)
			if err := q.body(c); err != nil {
				return err
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
		result, err := put(q.Context(), q.caller(), doc, o)
		if err != nil {
			return err
		}
		return q.result(result, folder+"/"+url.PathEscape(r.Name)+"?namespace="+url.QueryEscape(r.Namespace))
	}
}

// identity joins what the address and the document say of a name: they may not
// contradict.
func (q *request) identity(namespace, name *string, pointer string, create bool) error {
	if asked := q.URL.Query().Get("namespace"); asked != "" && *namespace != "" && *namespace != asked {
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
		result, err := q.api.plane.Remove(q.Context(), q.caller(), r, o)
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
		items, err := q.api.plane.History(q.Context(), r)
		if err != nil {
			return err
		}
		revision, _ := q.api.plane.Catalog().Revision()
		return q.list(items, "", revision, 0)
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
			return badParameter("version: %.40q: must be a number from 1", q.PathValue("version"))
		}
		i, err := q.api.plane.Version(q.Context(), r, n)
		if err != nil {
			return err
		}
		body, err := q.document(i, false)
		if err != nil {
			return err
		}
		return q.item(http.StatusOK, i, body)
	}
}

func rollback(k resource.Kind) func(*request) error {
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
		result, err := q.api.plane.Rollback(q.Context(), q.caller(), r, body.Version, o)
		if err != nil {
			return err
		}
		return q.result(result, q.URL.Path)
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
	result, err := q.api.plane.Register(q.Context(), q.caller(), i, o)
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
	if err := q.api.plane.Heartbeat(q.Context(), q.caller(), r); err != nil {
		return err
	}
	q.begun = true
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

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
	if len(body.Instances) > maxTogether {
		return resource.Invalid{{Pointer: "#/instances", Detail: fmt.Sprintf("has %d entries: must have %d at most", len(body.Instances), maxTogether)}}
	}
	unknown := []member{}
	checked := map[string]bool{}
	for i, m := range body.Instances {
		if m.Namespace == "" {
			m.Namespace = resource.DefaultNamespace
		}
		if !checked[m.Namespace] {
			if err := q.may(access.Register, m.Namespace); err != nil {
				return err
			}
			checked[m.Namespace] = true
		}
		r := resource.Ref{Kind: resource.Instances, Namespace: m.Namespace, Name: m.Service, ID: m.ID}
		if r.Check() != nil {
			return resource.Invalid{{Pointer: fmt.Sprintf("#/instances/%d", i), Detail: "names no instance"}}
		}
		switch err := q.api.plane.Heartbeat(q.Context(), q.caller(), r); {
		case err == nil:
		case asProblem(err).Kind == "missing":
			unknown = append(unknown, m)
		default:
			return err
		}
	}
	return q.json(http.StatusOK, map[string]any{"unknown": unknown})
}

// client reads who a reader of configuration says it is.
func (q *request) client() (resource.Client, error) {
	query := q.URL.Query()
	c := resource.Client{ID: query.Get("client")}
	if len(c.ID) > 253 || strings.ContainsFunc(c.ID, func(r rune) bool { return r < ' ' }) {
		return c, badParameter("client: must have 253 bytes at most")
	}
	for _, text := range query["label"] {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" || len(c.Labels) == q.api.plane.Limits().Labels {
			return c, badParameter("label: %.80q: want NAME=VALUE, %d times at most", text, q.api.plane.Limits().Labels)
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
		var body resource.Release
		if err := q.body(&body); err != nil {
			return plane.Result{}, err
		}
		if body.Since != 0 {
			return plane.Result{}, resource.Invalid{{Pointer: "#/since", Detail: "is not the client's to say"}}
		}
		return q.api.plane.Release(q.Context(), q.caller(), r, body, o)
	})
}

func endRelease(promote bool) func(*request) error {
	return func(q *request) error {
		return q.change(func(r resource.Ref, o plane.Options) (plane.Result, error) {
			return q.api.plane.EndRelease(q.Context(), q.caller(), r, promote, o)
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

// ledgerName is a client's in the ledger: nobody can answer for another principal's.
func (q *request) ledgerName(client string) string {
	if q.api.cfg.Book == nil {
		return client
	}
	return q.principal.Name + "/" + client
}

func acknowledge(q *request) error {
	var body struct {
		Client string     `json:"client"`
		Acks   []push.Ack `json:"acks"`
	}
	if err := q.body(&body); err != nil {
		return err
	}
	if body.Client == "" || len(body.Acks) > maxTogether {
		return resource.Invalid{{Pointer: "#", Detail: fmt.Sprintf("client must be given, and %d acks at most", maxTogether)}}
	}
	for i := range body.Acks {
		a := &body.Acks[i]
		at := fmt.Sprintf("#/acks/%d", i)
		if a.Namespace == "" {
			a.Namespace = resource.DefaultNamespace
		}
		if err := a.Check(); err != nil || a.Version < 1 || a.State != push.Applied && a.State != push.Refused {
			return resource.Invalid{{Pointer: at, Detail: "must name a resource, a version from 1 and the state applied or refused"}}
		}
		if err := q.may(access.Read, a.Namespace); err != nil {
			return err
		}
	}
	return q.json(http.StatusOK, map[string]int{"news": q.api.plane.Ack(q.ledgerName(body.Client), body.Acks)})
}

func audit(q *request) error {
	limit, err := q.limit()
	if err != nil {
		return err
	}
	after, err := q.after()
	if err != nil {
		return err
	}
	list, last, more, err := q.api.plane.Audit(q.Context(), after, limit)
	if err != nil {
		return err
	}
	seen := []resource.Audit{}
	for _, a := range list {
		if q.principal.May(access.Audit, a.Namespace) {
			seen = append(seen, a)
		}
	}
	if len(seen) == 0 && len(list) > 0 && !q.principal.May(access.Audit, access.AllNamespaces) {
		// Whoever may read none of it is told so, as anywhere else.
		may := false
		for _, g := range q.principal.Grants {
			may = may || q.principal.May(access.Audit, g.Namespace)
		}
		if !may {
			return q.may(access.Audit, q.namespace())
		}
	}
	out := map[string]any{"items": seen}
	if more {
		out["next"] = last
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

func backup(q *request) error {
	if err := q.may(access.Administer, access.AllNamespaces); err != nil {
		return err
	}
	q.unhurried()
	q.w.Header().Set("Content-Type", backupBody)
	q.begun = true
	if err := q.api.plane.Store().Backup(q.Context(), flushing{q}); err != nil {
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
	q.unhurried()
	// Half a reclaim is none: it goes on when the client has gone.
	if err := q.api.plane.Store().Reclaim(context.WithoutCancel(q.Context())); err != nil {
		return err
	}
	q.begun = true
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}
