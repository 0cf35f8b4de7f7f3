// Package rest is the API of a directory, for operators: teams, users, keys and limits, providers and deployments, what was
// changed, and what was used. One table has its operations, and the description in OpenAPI is made from it.
package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"dyno/services/bot/directory"
	"dyno/services/bot/reply"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
	"dyno/services/internal/serve"
)

// Config says what the API is of.
type Config struct {
	Directory                  *directory.Directory
	Managed                    bool // changes are possible
	Archive                    func() Archive
	Usage                      func(ctx context.Context, by store.Grouping, from, to time.Time, most int) ([]store.Usage, error)
	Prices                     func(ctx context.Context) (map[string]json.RawMessage, error)
	Erase                      func(ctx context.Context, user string, by directory.If) error
	States                     func() []upstream.State                             // of this gateway's deployments
	Reset                      func(id string) bool                                // ends a deployment's cool-downs, here; false without one
	Used                       func(ctx context.Context, limits []*directory.Item) // sets what was used of them
	StoreTimeout, WriteTimeout time.Duration
}

// Archive says how the archive keeps up.
type Archive struct {
	Kind    string `json:"kind"`
	Pending int    `json:"pending"` // records that wait
	Failing bool   `json:"failing"`
}

// Path is what all paths begin with.
const Path = "/api/v1/"

// Bounds of requests and answers.
const (
	maxBody      = 256 << 10
	defaultLimit = 100
	maxLimit     = 1000
	maxUsage     = 10_000 // groups
	maxSpan      = 400 * 24 * time.Hour
)

// A request is one under way.
type request struct {
	*http.Request
	Config
	kind directory.Kind
	body []byte
	by   directory.If
}

// A route is one operation.
type route struct {
	method, path, id, about string
	kind                    directory.Kind
	parameters              []string
	status                  int
	body, answer            string // names of schemas; "" is none
	handle                  func(ctx context.Context, q *request) (any, error)
}

func routes() (list []route) {
	for _, k := range directory.Kinds() {
		all, one, name := Path+string(k), Path+string(k)+"/{id}", k.One()
		list = append(list,
			route{"GET", all, "list" + name, "The " + string(k) + ", by their IDs.", k, []string{"limit", "after", "search", "key", "team", "user", "used"}, 200, "", name + "List", listItems},
			route{"POST", all, "create" + name, "Make a " + name + ".", k, nil, 201, name, name + "Made", create},
			route{"GET", one, "get" + name, "One " + name + ".", k, nil, 200, "", name, get},
			route{"PATCH", one, "update" + name, "Replace the members of a " + name + " that the body has; null removes one.", k, []string{"If-Match"}, 200, name, name, patch},
			route{"DELETE", one, "delete" + name, "Delete a " + name + ", and limits that it has.", k, []string{"If-Match"}, 204, "", "", remove},
		)
	}
	return append(list,
		route{"POST", Path + "keys/{id}/rotate", "rotatekey", "Give a key another secret.", directory.Keys, []string{"If-Match"}, 200, "rotation", "keyMade", rotate},
		route{"DELETE", Path + "users/{id}/data", "eraseuser", "Delete what there is of a user, but for amounts in the ledger.", directory.Users, nil, 204, "", "", func(ctx context.Context, q *request) (any, error) { return nil, q.Erase(ctx, q.PathValue("id"), q.by) }},
		route{"POST", Path + "deployments/{id}/reset", "resetdeployment", "End the cool-downs of a deployment and its provider, at this gateway.", directory.Deployments, nil, 204, "", "", reset},
		route{"GET", Path + "audit", "listaudit", "Who changed what, the newest first.", "", []string{"limit", "before"}, 200, "", "auditList", audit},
		route{"GET", Path + "usage", "usage", "What was used, in groups.", "", []string{"group", "from", "to"}, 200, "", "usageList", usage},
		route{"GET", Path + "prices", "listprices", "What the prices of the ledger are, by their names.", "", nil, 200, "", "priceList", func(ctx context.Context, q *request) (any, error) {
			prices, err := q.Prices(ctx)
			return map[string]any{"prices": prices}, err
		}},
		route{"GET", Path + "me", "me", "Who asks, and the role: reader or editor.", "", nil, 200, "", "operator", me},
		route{"GET", Path + "archive", "archive", "How the archive keeps up.", "", nil, 200, "", "archive", func(_ context.Context, q *request) (any, error) { return q.Archive(), nil }},
		route{"GET", Path + "openapi.json", "openapi", "This description.", "", nil, 200, "", "object", func(context.Context, *request) (any, error) { return description(), nil }},
	)
}

// Handler returns the API's handler.
func Handler(c Config) http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes() {
		mux.HandleFunc(r.method+" "+r.path, func(w http.ResponseWriter, h *http.Request) {
			ctx, cancel := context.WithTimeout(h.Context(), c.StoreTimeout)
			defer cancel()
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			q := &request{Request: h, Config: c, kind: r.kind}
			err := q.read(w)
			if !c.Managed && r.method != http.MethodGet {
				err = &directory.Error{Status: http.StatusConflict, Code: "not_managed", Text: "nothing can be made or changed at run time without manage_keys: change the configuration's file, and send SIGHUP"}
			}
			var answer any
			if err == nil {
				answer, err = r.handle(ctx, q)
			}
			switch {
			case err != nil:
				refusal(err).Answer(w, reply.FormOf(Path), c.WriteTimeout)
				return
			case r.status == http.StatusNoContent:
				reply.NoContent.Answer(w, reply.FormOf(Path), c.WriteTimeout)
				return
			}
			if i, ok := answer.(directory.Item); ok {
				w.Header().Set("ETag", strconv.Quote(strconv.FormatInt(i.Version, 10)))
			}
			text, _ := json.Marshal(answer) // of plain members
			reply.Body(w, c.WriteTimeout, r.status, text)
		})
	}
	mux.HandleFunc(Path, func(w http.ResponseWriter, r *http.Request) {
		reply.Refuse(http.StatusNotFound, "not_found", "nothing is served by %s %s: see %sopenapi.json", r.Method, r.URL.Path, Path).Answer(w, reply.FormOf(Path), c.WriteTimeout)
	})
	return mux
}

// read reads the body, who asks, and which version is to be changed. The admin listener has checked that.
func (q *request) read(w http.ResponseWriter) (err error) {
	if q.body, err = io.ReadAll(http.MaxBytesReader(w, q.Body, maxBody)); err != nil {
		return &directory.Error{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Text: fmt.Sprintf("the body has more than %d bytes, or is not whole", maxBody)}
	}
	q.by.By = serve.OperatorOf(q.Request).Name
	if text := q.Header.Get("If-Match"); text != "" && text != "*" {
		if q.by.Version, err = strconv.ParseInt(strings.Trim(text, `"`), 10, 64); err != nil || q.by.Version < 1 {
			return invalid("If-Match", "%q is no version of an item", text)
		}
	}
	return nil
}

// refusal returns the answer to an error.
func refusal(err error) *reply.Refusal {
	if e, ok := errors.AsType[*directory.Error](err); ok {
		return &reply.Refusal{Status: e.Status, Code: e.Code, Param: e.Field, Text: e.Error()}
	}
	return &reply.Refusal{Status: http.StatusServiceUnavailable, Code: "directory_unavailable", Text: err.Error(), After: time.Second}
}

func invalid(field, format string, args ...any) error {
	return &directory.Error{Status: http.StatusBadRequest, Code: "invalid", Field: field, Text: fmt.Sprintf(format, args...)}
}

// number reads a parameter of the query.
func (q *request) number(name string, otherwise, most int64) (int64, error) {
	text := q.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > most {
		return 0, invalid(name, "%q is not possible: 1 to %d", text, most)
	}
	return n, nil
}

// me says who asks. Without manage_keys, everybody may only read.
func me(_ context.Context, q *request) (any, error) {
	who := serve.OperatorOf(q.Request)
	if !q.Managed {
		who.Role = serve.Reader
	}
	return who, nil
}

// A list is a page of items.
type list struct {
	Items []directory.Item `json:"items"`
	Next  string           `json:"next,omitempty"` // after what the next page begins
}

func listItems(ctx context.Context, q *request) (any, error) {
	v := q.URL.Query()
	used, most := v.Get("used") == "true", int64(maxLimit)
	if used {
		most = defaultLimit // each may have many limits
	}
	n, err := q.number("limit", defaultLimit, most)
	if err != nil {
		return nil, err
	}
	l := list{Items: q.Directory.List(q.kind, store.Part{Key: v.Get("key"), Team: v.Get("team"), Owner: v.Get("user")}, v.Get("search"), v.Get("after"), int(n)+1)}
	if len(l.Items) > int(n) {
		l.Items = l.Items[:n]
		l.Next = l.Items[n-1].ID
	}
	q.addStates(l.Items)
	if used {
		q.addUsed(ctx, l.Items)
	}
	return l, nil
}

// addStates adds the states of deployments.
func (q *request) addStates(items []directory.Item) {
	if q.kind != directory.Deployments {
		return
	}
	states := map[string]*upstream.State{}
	for _, s := range q.States() {
		states[s.ID] = &s
	}
	for n := range items {
		items[n].State = states[items[n].ID]
	}
}

// addUsed adds what was used of limits, or the limits of other items with that: one question for all of them.
func (q *request) addUsed(ctx context.Context, items []directory.Item) {
	var limits []*directory.Item
	for n := range items {
		if q.kind == directory.Limits {
			limits = append(limits, &items[n])
			continue
		}
		items[n].Limits = q.Directory.Limits(q.kind, items[n].ID)
		for m := range items[n].Limits {
			limits = append(limits, &items[n].Limits[m])
		}
	}
	q.Used(ctx, limits)
}

func get(_ context.Context, q *request) (any, error) {
	i, ok := q.Directory.Get(q.kind, q.PathValue("id"))
	if !ok {
		return nil, &directory.Error{Status: http.StatusNotFound, Code: "not_found", Text: fmt.Sprintf("there is no %s %q", q.kind.One(), q.PathValue("id"))}
	}
	items := []directory.Item{i}
	q.addStates(items)
	return items[0], nil
}

func create(ctx context.Context, q *request) (any, error) {
	i, secret, err := q.Directory.Create(ctx, q.kind, q.body, q.by)
	i.Secret = secret // shown once
	return i, err
}

func patch(ctx context.Context, q *request) (any, error) {
	return q.Directory.Patch(ctx, q.kind, q.PathValue("id"), q.body, q.by)
}

func remove(ctx context.Context, q *request) (any, error) {
	return nil, q.Directory.Delete(ctx, q.kind, q.PathValue("id"), q.by)
}

// A rotation says how long the secret before works on.
type rotation struct {
	Grace int64 `json:"grace_seconds"`
}

func rotate(ctx context.Context, q *request) (any, error) {
	var r rotation
	if len(q.body) > 0 {
		if err := directory.Decode(q.body, &r); err != nil {
			return nil, err
		}
	}
	i, secret, err := q.Directory.Rotate(ctx, q.PathValue("id"), time.Duration(min(r.Grace, math.MaxInt32))*time.Second, q.by)
	i.Secret = secret
	return i, err
}

func reset(ctx context.Context, q *request) (any, error) {
	id := q.PathValue("id")
	if !q.Reset(id) {
		return nil, &directory.Error{Status: http.StatusNotFound, Code: "not_found", Text: fmt.Sprintf("this gateway has no deployment %q", id)}
	}
	return nil, q.Directory.Reset(ctx, id, q.by)
}

// A change is an entry of the audit.
type change struct {
	Version int64           `json:"version"`
	At      time.Time       `json:"at"`
	By      string          `json:"by"`
	Action  string          `json:"action"`
	Kind    string          `json:"kind"`
	ID      string          `json:"id"`
	Before  json.RawMessage `json:"before,omitempty"`
	After   json.RawMessage `json:"after,omitempty"`
}

func audit(ctx context.Context, q *request) (any, error) {
	n, err := q.number("limit", defaultLimit, maxLimit)
	if err != nil {
		return nil, err
	}
	before, err := q.number("before", math.MaxInt64, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	audits, err := q.Directory.Audits(ctx, before, int(n))
	changes := make([]change, 0, len(audits))
	for _, a := range audits {
		changes = append(changes, change{a.Version, a.At, a.By, a.Action, a.Kind, a.ID, json.RawMessage(a.Before), json.RawMessage(a.After)})
	}
	return map[string]any{"changes": changes}, err
}

// A group is the usage of one group.
type group struct {
	Key        string `json:"key,omitempty"`
	Team       string `json:"team,omitempty"`
	User       string `json:"user,omitempty"`
	Model      string `json:"model,omitempty"`
	Day        string `json:"day,omitempty"`
	Requests   int64  `json:"requests"`
	Prompt     int64  `json:"prompt_tokens"`
	Completion int64  `json:"completion_tokens"`
	Money      int64  `json:"money"`
}

func usage(ctx context.Context, q *request) (any, error) {
	v := q.URL.Query()
	var by store.Grouping
	for name := range strings.SplitSeq(v.Get("group"), ",") {
		is, known := map[string]*bool{"key": &by.Key, "team": &by.Team, "user": &by.Owner, "model": &by.Model, "day": &by.Day}[name]
		if known {
			*is = true
		} else if name != "" {
			return nil, invalid("group", "%q is not one of key, team, user, model and day", name)
		}
	}
	to := time.Now().UTC()
	from := to.Truncate(24 * time.Hour)
	for name, at := range map[string]*time.Time{"from": &from, "to": &to} {
		if text := v.Get(name); text != "" {
			day, err := time.Parse(time.DateOnly, text)
			if err != nil {
				day, err = time.Parse(time.RFC3339, text)
			}
			if err != nil {
				return nil, invalid(name, "%q is no day and no time, such as 2030-01-02 or 2030-01-02T15:04:05Z", text)
			}
			*at = day
		}
	}
	if from.After(to) || to.Sub(from) > maxSpan {
		return nil, invalid("from", "is after to, or more than %d days before it", maxSpan/24/time.Hour)
	}
	found, err := q.Usage(ctx, by, from, to, maxUsage+1)
	if err != nil {
		return nil, err
	}
	groups := make([]group, 0, len(found))
	for _, u := range found[:min(len(found), maxUsage)] {
		g := group{u.Key, u.Team, u.Owner, u.Model, "", u.Requests, u.Prompt, u.Completion, u.Money}
		if by.Day {
			g.Day = time.Unix(u.Day*86400, 0).UTC().Format(time.DateOnly)
		}
		groups = append(groups, g)
	}
	return map[string]any{"from": from, "to": to, "groups": groups, "truncated": len(found) > maxUsage}, nil
}
