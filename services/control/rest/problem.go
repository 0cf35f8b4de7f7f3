package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"dyno/services/control/plane"
	"dyno/services/control/resource"
)

// A problem is an error response by RFC 9457.
type problem struct {
	Type   string           `json:"type"`
	Title  string           `json:"title"`
	Status int              `json:"status"`
	Detail string           `json:"detail"`
	Errors resource.Invalid `json:"errors,omitempty"`
	// Primary is the address for the request, if this one is a follower.
	Primary string `json:"primary,omitempty"`

	kind  plane.ProblemKind
	after time.Duration
}

// The kinds of problems that only HTTP has.
const (
	noPath      plane.ProblemKind = "path"
	noMethod    plane.ProblemKind = "method"
	otherOrigin plane.ProblemKind = "origin"
	wrongHost   plane.ProblemKind = "host"
	wrongMedia  plane.ProblemKind = "media"
)

// problems has the status and the title of each kind. A kind that is not here counts as plane.Internal.
var problems = map[plane.ProblemKind]struct {
	status int
	title  string
}{
	noPath:      {http.StatusNotFound, "no such path"},
	noMethod:    {http.StatusMethodNotAllowed, "no such operation"},
	otherOrigin: {http.StatusForbidden, "another origin"},
	wrongHost:   {http.StatusMisdirectedRequest, "another host"},
	wrongMedia:  {http.StatusUnsupportedMediaType, "another media type is needed"},

	plane.BadToken:        {http.StatusUnauthorized, "not known"},
	plane.BadCertificate:  {http.StatusUnauthorized, "not known"},
	plane.RateExceeded:    {http.StatusTooManyRequests, "too many requests"},
	plane.NotPermitted:    {http.StatusForbidden, "not permitted"},
	plane.NotValid:        {http.StatusUnprocessableEntity, "the document is not valid"},
	plane.BadParameter:    {http.StatusBadRequest, "a parameter is not valid"},
	plane.TooLarge:        {http.StatusRequestEntityTooLarge, "the document is too large"},
	plane.Missing:         {http.StatusNotFound, "no such resource"},
	plane.Exists:          {http.StatusConflict, "the resource exists"},
	plane.Precondition:    {http.StatusPreconditionFailed, "a condition does not hold"},
	plane.KeyReused:       {http.StatusUnprocessableEntity, "the key was used for another change"},
	plane.Contended:       {http.StatusConflict, "others change the resource"},
	plane.Held:            {http.StatusConflict, "another session has it"},
	plane.Follower:        {http.StatusMisdirectedRequest, "a follower changes nothing"},
	plane.InUse:           {http.StatusConflict, "the resource is in use"},
	plane.Peers:           {http.StatusConflict, "the members stay as they are"},
	plane.TooMany:         {http.StatusForbidden, "there may be no more"},
	plane.Busy:            {http.StatusServiceUnavailable, "too many requests wait"},
	plane.NoSpace:         {http.StatusInsufficientStorage, "the database is full"},
	plane.DiskFull:        {http.StatusInsufficientStorage, "the disk is full"},
	plane.Uncertain:       {http.StatusGatewayTimeout, "whether it was done is not known"},
	plane.Unavailable:     {http.StatusServiceUnavailable, "the store does not answer"},
	plane.Closed:          {http.StatusServiceUnavailable, "the server ends"},
	plane.TooManyWatchers: {http.StatusServiceUnavailable, "too many watch"},
	plane.Internal:        {http.StatusInternalServerError, "something is wrong here"},
}

// kinds returns all kinds of problems, in order.
func kinds() []string {
	var list []string
	for k := range problems {
		list = append(list, string(k))
	}
	slices.Sort(list)
	return list
}

// typePrefix begins the types of problems.
const typePrefix = "urn:dyno:control:"

// asProblem turns an operation's error into an answer.
func asProblem(err error) problem {
	why := plane.ProblemOf(err)
	as, ok := problems[why.Kind]
	if !ok {
		why = plane.Unexpected
		as = problems[why.Kind]
	}
	p := problem{Type: typePrefix + string(why.Kind), Title: as.title, Status: as.status, Detail: why.Detail, Primary: why.Primary, kind: why.Kind, after: why.After}
	switch why.Kind {
	case plane.NotValid:
		if len(why.Faults) > 1 {
			p.Detail = fmt.Sprintf("%d faults", len(why.Faults))
		}
		p.Errors = why.Faults
	case plane.Uncertain:
		p.Detail += "; repeat it with the same Idempotency-Key"
	}
	return p
}

func writeProblem(w http.ResponseWriter, p problem) {
	body, _ := json.Marshal(p) // texts only: it cannot fail
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // a client that has gone needs no answer
}
