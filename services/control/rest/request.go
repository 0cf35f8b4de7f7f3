package rest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"dyno/services/control/catalog"
	"dyno/services/control/format"
	"dyno/services/control/plane"
	"dyno/services/control/resource"
)

// A request is one on its way, with who asks.
type request struct {
	*http.Request
	api    *API
	route  *route
	w      http.ResponseWriter
	caller plane.Caller
	begun  bool       // the answer's head was written
	asked  url.Values // of the query; nil before it was asked for, and where there is none
	values [8]string  // of header fields of the answer; the first used are
	used   int
}

// set sets a header field of the answer, by its name in canonical form. Unlike Header.Set
// it does not look at the name and, for some fields, allocates nothing.
func (q *request) set(name, value string) {
	if q.used == len(q.values) {
		q.w.Header()[name] = []string{value}
		return
	}
	q.values[q.used] = value
	q.used++
	q.w.Header()[name] = q.values[q.used-1 : q.used : q.used]
}

// parameter is the first value of a parameter behind the path; "" is none.
func (q *request) parameter(name string) string {
	value, _ := q.given(name)
	return value
}

// given is the same, and whether there is one, which may be empty. Where nothing is escaped,
// which is nearly always, it is found without making a map of all of them.
func (q *request) given(name string) (value string, ok bool) {
	rest := q.URL.RawQuery
	if strings.ContainsAny(rest, "%+;") {
		list := q.query()[name]
		if len(list) == 0 {
			return "", false
		}
		return list[0], true
	}
	for rest != "" {
		var one string
		one, rest, _ = strings.Cut(rest, "&")
		if one == "" {
			continue
		}
		if key, value, _ := strings.Cut(one, "="); key == name {
			return value, true
		}
	}
	return "", false
}

// query is the parameters behind the path, read once. Only Get and reading it by name make
// sense of it: it may be nil.
func (q *request) query() url.Values {
	if q.asked == nil && q.URL.RawQuery != "" {
		q.asked = q.URL.Query()
	}
	return q.asked
}

// readable returns why the parameters behind the path cannot be read. Half of them would be
// another request, and names that are not UTF-8 would be shown as those of others.
func (q *request) readable() error {
	text := q.URL.RawQuery
	if !strings.ContainsAny(text, "%;") && utf8.ValidString(text) {
		return nil
	}
	values, err := url.ParseQuery(text)
	if err != nil {
		return plane.BadParameterf("the query cannot be read: %v", err)
	}
	q.asked = values
	for name, list := range values {
		if !utf8.ValidString(name) || slices.ContainsFunc(list, func(v string) bool { return !utf8.ValidString(v) }) {
			return plane.BadParameterf("%.40q: must be UTF-8", name)
		}
	}
	return nil
}

// namespace is the query's.
func (q *request) namespace() string {
	if n := q.parameter("namespace"); n != "" {
		return n
	}
	return resource.DefaultNamespace
}

// ref is the resource that the path names.
func (q *request) ref(k resource.Kind) (resource.Ref, error) {
	r := resource.Ref{Kind: k, Namespace: q.namespace(), Name: q.PathValue("name"), ID: q.PathValue("id")}
	checked := r
	checked.ID = cmp.Or(r.ID, "x") // the path may be a service's
	if err := checked.Check(); err != nil {
		return r, plane.BadParameterf("%v", err)
	}
	return r, nil
}

// flag reads a boolean of the query.
func (q *request) flag(name string) (bool, error) {
	switch text, given := q.given(name); {
	case !given, text == "false":
		return false, nil
	case text == "true":
		return true, nil
	}
	return false, plane.BadParameterf("%s: must be true or false", name)
}

// limit reads how long a page may be.
func (q *request) limit() (int, error) {
	text, given := q.given("limit")
	if !given {
		return plane.DefaultLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, plane.BadParameterf("limit: must be a number from 1 to %d", plane.MaxLimit)
	}
	return n, nil
}

// page reads what all lists have.
func (q *request) page() (page plane.Page, err error) {
	if page.Limit, err = q.limit(); err != nil {
		return page, err
	}
	page.After, page.Search = q.parameter("after"), q.parameter("search")
	page.Stale, err = q.flag("stale")
	return page, err
}

// options reads what goes with a change.
func (q *request) options() (o plane.Options, err error) {
	if o.IfMatch, err = q.condition("If-Match"); err != nil {
		return o, err
	}
	if o.IfNoneMatch, err = q.condition("If-None-Match"); err != nil {
		return o, err
	}
	o.Key = q.Header.Get("Idempotency-Key")
	o.DryRun, err = q.flag("dry_run")
	return o, err
}

// condition reads the tags of a header field, which may be given more than once; "" is that
// it is not given. An empty one is refused: a change without the condition that somebody
// meant to give would be made of whatever there is.
func (q *request) condition(name string) (string, error) {
	fields := q.Header[name]
	if len(fields) == 0 {
		return "", nil
	}
	text := strings.Join(fields, ",")
	if strings.Trim(text, " \t,") == "" {
		return "", plane.BadParameterf("%s: is empty: want entity tags, or *", strings.ToLower(name))
	}
	return text, nil
}

// jsonBody is the media type of documents.
const jsonBody = "application/json"

// body reads a JSON document into a struct.
func (q *request) body(into any) error {
	if field := q.Header.Get("Content-Type"); field != "" && field != jsonBody {
		kind, _, err := mime.ParseMediaType(field)
		if f, ok := q.api.cfg.Formats.Of(kind); ok && f != nil {
			return q.formatted(f, into)
		}
		if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
			return &plane.Problem{Kind: wrongMedia, Detail: fmt.Sprintf("content type %.80q: want application/json, or for a resource application/x-protobuf", field)}
		}
	}
	text, err := q.bytes()
	if err != nil {
		return err
	}
	return resource.Decode(text, into)
}

// maxBody bounds a request's body: a document, and what JSON makes of it at the worst.
const maxBody = 2 * resource.MaxDocument

func (q *request) bytes() ([]byte, error) {
	if q.ContentLength > maxBody {
		return nil, tooLarge(&http.MaxBytesError{Limit: maxBody})
	}
	if n := q.ContentLength; n >= 0 {
		text := make([]byte, n)
		if _, err := io.ReadFull(q.Body, text); err != nil {
			return nil, plane.BadParameterf("the body is cut off: %v", err)
		}
		return text, nil
	}
	text, err := io.ReadAll(http.MaxBytesReader(q.w, q.Body, maxBody))
	if long := (*http.MaxBytesError)(nil); errors.As(err, &long) {
		return nil, tooLarge(long)
	} else if err != nil {
		return nil, plane.BadParameterf("the body cannot be read: %v", err)
	}
	return text, nil
}

func tooLarge(err *http.MaxBytesError) error {
	return &plane.Problem{Kind: plane.TooLarge, Detail: err.Error()}
}

// write answers with a body.
func (q *request) write(status int, kind string, body []byte) error {
	q.set("Content-Type", kind)
	q.set("Content-Length", strconv.Itoa(len(body)))
	q.begun = true
	q.w.WriteHeader(status)
	_, _ = q.w.Write(body) // a client that has gone needs no answer
	return nil
}

func (q *request) json(status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return q.write(status, jsonBody, body)
}

// Header fields of our own.
const (
	revisionField = "Dyno-Revision"    // of the store, when the resource was last changed
	ageField      = "Dyno-Age-Seconds" // how old what a stale read says may be
	dryRunField   = "Dyno-Dry-Run"
	repeatedField = "Idempotency-Replayed"

	heartbeatField = "Dyno-Heartbeat-Seconds" // after so long without a change, a stream has a comment
)

// item answers with a resource in the format that the client has chosen, unless it has that already.
func (q *request) item(status int, i *catalog.Item) error {
	tag, kind, body := i.Tag(), jsonBody, i.Body
	if f := q.accepted(); f != nil {
		d, err := format.New(i.Ref, i.Version, i.Revision, nil, body)
		if err != nil {
			return err
		}
		d.Tag = tag
		if body, err = f.Append(nil, d); err != nil {
			return err
		}
		tag, kind = "W/"+tag, f.MediaTypes()[0] // the same in other bytes (RFC 9110, section 8.8.1)
	}
	q.set("Vary", "Accept")
	q.set("Etag", tag)
	q.set("Cache-Control", "no-cache")
	if i.Revision > 0 {
		q.set(revisionField, strconv.FormatInt(i.Revision, 10))
	}
	if q.Method == http.MethodGet && plane.MatchesTag(q.Header.Get("If-None-Match"), i.Tag(), true) {
		q.begun = true
		q.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return q.write(status, kind, body)
}

// result answers a change.
func (q *request) result(r plane.Result, location string) error {
	if r.Repeated {
		q.set(repeatedField, "true")
	}
	if r.DryRun {
		q.set(dryRunField, "true")
	}
	if r.Removed {
		q.begun = true
		q.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	status := http.StatusOK
	if r.Created && !r.DryRun {
		status = http.StatusCreated
		q.set("Location", location)
	}
	return q.item(status, r.Item)
}

// age labels a stale read.
func (q *request) age(stale bool, age time.Duration) float64 {
	seconds := math.Round(age.Seconds()*1e3) / 1e3
	if stale {
		q.set(ageField, strconv.FormatFloat(seconds, 'f', -1, 64))
	}
	return seconds
}
