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
	"dyno/services/control/plane"
	"dyno/services/control/resource"
)

// A request is a request in progress, with its caller.
type request struct {
	*http.Request
	api           *API
	route         *route
	w             http.ResponseWriter
	caller        plane.Caller
	headerWritten bool       // the response's header was written
	asked         url.Values // of the query; nil before it is parsed, or without one
	values        [8]string  // of the response's header fields; the first used ones
	used          int
}

// set sets a header field of the response, by its canonical name. Unlike Header.Set it does not check the name, and
// allocates nothing for the first fields.
func (q *request) set(name, value string) {
	if q.used == len(q.values) {
		q.w.Header()[name] = []string{value}
		return
	}
	q.values[q.used] = value
	q.used++
	q.w.Header()[name] = q.values[q.used-1 : q.used : q.used]
}

// parameter returns the first value of a query parameter; "" is none.
func (q *request) parameter(name string) string {
	value, _ := q.given(name)
	return value
}

// given returns the first value of a query parameter, and whether there is one, which may be empty. Most queries have
// nothing escaped: then it searches the text, and makes no map of all parameters.
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

// query returns the query's parameters, parsed once. It may be nil: use only Get and look-ups by name.
func (q *request) query() url.Values {
	if q.asked == nil && q.URL.RawQuery != "" {
		q.asked = q.URL.Query()
	}
	return q.asked
}

// readable returns why the query cannot be parsed, or which parameter no operation has. A part of a query would be a
// different request: of all instances instead of some.
func (q *request) readable() error {
	text := q.URL.RawQuery
	for one := range strings.SplitSeq(text, "&") {
		name, _, _ := strings.Cut(one, "=")
		name, _ = url.QueryUnescape(name)
		if _, known := parameters[name]; name != "" && !known {
			return plane.BadParameterf("%.40q: no operation has such a parameter", name)
		}
	}
	if !strings.ContainsAny(text, "%;") && utf8.ValidString(text) {
		return nil
	}
	values, err := url.ParseQuery(text)
	if err != nil {
		return plane.BadParameterf("the query cannot be read: %v", err)
	}
	q.asked = values
	for name, list := range values {
		if slices.ContainsFunc(list, func(v string) bool { return !utf8.ValidString(v) }) {
			return plane.BadParameterf("%.40q: must be UTF-8", name)
		}
	}
	return nil
}

// namespace returns the query's namespace.
func (q *request) namespace() string {
	if n := q.parameter("namespace"); n != "" {
		return n
	}
	return resource.DefaultNamespace
}

// namespaceOf returns the namespace of a resource of a kind.
func (q *request) namespaceOf(k resource.Kind) string {
	if k.OfAccess() {
		return resource.Everywhere
	}
	return q.namespace()
}

// ref returns the resource that the path names.
func (q *request) ref(k resource.Kind) (resource.Ref, error) {
	r := resource.Ref{Kind: k, Namespace: q.namespaceOf(k), Name: q.PathValue("name"), ID: q.PathValue("id")}
	checked := r
	checked.ID = cmp.Or(r.ID, "x") // the path may be a service's
	if err := checked.Check(); err != nil {
		return r, plane.BadParameterf("%v", err)
	}
	return r, nil
}

// parsed parses a parameter of the query, which must be as want says; otherwise is its value if it is not given.
func parsed[T any](q *request, name string, otherwise T, parse func(string) (T, error), want string) (T, error) {
	text, given := q.given(name)
	if !given {
		return otherwise, nil
	}
	value, err := parse(text)
	if err != nil {
		return otherwise, plane.BadParameterf("%s: %.40q: must be %s", name, text, want)
	}
	return value, nil
}

// flag parses a boolean of the query.
func (q *request) flag(name string) (bool, error) {
	return parsed(q, name, false, func(text string) (bool, error) {
		if text != "true" && text != "false" {
			return false, strconv.ErrSyntax
		}
		return text == "true", nil
	}, "true or false")
}

// limit parses the length of a page.
func (q *request) limit() (int, error) {
	return parsed(q, "limit", plane.DefaultLimit, strconv.Atoi, limitRule)
}

var limitRule = "a number from 1 to " + strconv.Itoa(plane.MaxLimit)

// page parses the parameters that all lists have.
func (q *request) page() (page plane.Page, err error) {
	if page.Limit, err = q.limit(); err != nil {
		return page, err
	}
	page.After, page.Prefix, page.Search = q.parameter("after"), q.parameter("prefix"), q.parameter("search")
	page.Stale, err = q.flag("stale")
	return page, err
}

// options parses the options of a change.
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

// condition returns the tags of a header field, which may occur several times; "" means that it is absent. An empty
// field is refused: otherwise a change that was meant to be conditional would overwrite any state.
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

// body decodes a JSON document into a struct. It must have one of some members, if any are named.
func (q *request) body(into any, needs ...string) error {
	if field := q.Header.Get("Content-Type"); field != "" && field != jsonBody {
		kind, _, err := mime.ParseMediaType(field)
		if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
			return &plane.Problem{Kind: wrongMedia, Detail: fmt.Sprintf("content type %.80q: want application/json", field)}
		}
	}
	text, err := q.bytes()
	if err != nil {
		return err
	}
	return resource.Decode(text, into, needs...)
}

func (q *request) bytes() ([]byte, error) {
	maxBody := int64(2 * q.api.plane.Limits().Document()) // escaped by JSON in the worst case
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

// write sends a response with a body.
func (q *request) write(status int, kind string, body []byte) error {
	q.set("Content-Type", kind)
	q.set("Content-Length", strconv.Itoa(len(body)))
	q.headerWritten = true
	q.w.WriteHeader(status)
	_, _ = q.w.Write(body) // a client that has gone needs no answer
	return nil
}

// noContent answers an operation that has only an error to tell.
func (q *request) noContent(err error) error {
	if err != nil {
		return err
	}
	q.headerWritten = true
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

// answer sends the result of an operation.
func (q *request) answer(value any, err error) error {
	if err != nil {
		return err
	}
	return q.json(http.StatusOK, value)
}

func (q *request) json(status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return q.write(status, jsonBody, body)
}

// The API's own header fields.
const (
	revisionField = "Dyno-Revision"    // the store's revision of the resource's last change
	ageField      = "Dyno-Age-Seconds" // the possible age of a stale read
	dryRunField   = "Dyno-Dry-Run"
	// limitationField says what a data plane cannot do of a policy.
	limitationField = "Dyno-Limitation"
	repeatedField   = "Idempotency-Replayed"

	watchField     = "Dyno-Watch"             // the token to wait from for a change of what was read
	heartbeatField = "Dyno-Heartbeat-Seconds" // a stream sends a comment after this time without a change
)

// item sends a resource.
func (q *request) item(status int, i *catalog.Item) error {
	if i.Revision > 0 {
		q.set(revisionField, strconv.FormatInt(i.Revision, 10))
	}
	return q.tagged(status, i.Tag(), jsonBody, i.Body)
}

// tagged sends a response with an entity tag, unless the client has it already.
func (q *request) tagged(status int, tag, kind string, body []byte) error {
	q.set("Etag", tag)
	q.set("Cache-Control", "no-cache")
	if q.Method == http.MethodGet && plane.MatchesTag(q.Header.Get("If-None-Match"), tag, true) {
		q.headerWritten = true
		q.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return q.write(status, kind, body)
}

// result sends the result of a change.
func (q *request) result(r plane.Result, err error) error {
	if err != nil {
		return err
	}
	if r.Repeated {
		q.set(repeatedField, "true")
	}
	if r.DryRun {
		q.set(dryRunField, "true")
	}
	if r.Removed && !r.DryRun {
		return q.noContent(nil)
	}
	status := http.StatusOK
	if r.Created && !r.DryRun {
		status = http.StatusCreated
		q.set("Location", placeOf(r.Ref))
	}
	return q.item(status, r.Item)
}

// maxLimitations bounds the fields that say what data planes cannot do.
const maxLimitations = 32

// limitations says what connected data planes cannot do of a policy: a field for each, with the kind of data plane, the
// place in the policy and a text.
func (q *request) limitations(rules []resource.Rule) {
	list := q.api.plane.Limitations(&resource.Policy{Rules: rules})
	for _, l := range list[:min(len(list), maxLimitations)] {
		q.w.Header().Add(limitationField, l.DataPlane+" "+l.Pointer+" "+l.Detail)
	}
}

// age labels a stale read, and all reads of a follower.
func (q *request) age(stale bool, age time.Duration) float64 {
	seconds := math.Round(age.Seconds()*1e3) / 1e3
	if stale || age > 0 {
		q.set(ageField, strconv.FormatFloat(seconds, 'f', -1, 64))
	}
	return seconds
}
