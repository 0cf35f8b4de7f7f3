package bot

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"dyno/services/bot/reply"
)

// maxNameBytes bounds the names that clients give: of users, bots and histories.
const maxNameBytes = 128

// validName reports whether a text may be a name. Call it before invalid bytes are replaced: names that differ only
// in these would become equal.
func validName(s string) bool {
	return s != "" && len(s) <= maxNameBytes && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// refuseName refuses the name in a field.
func refuseName(field string) *reply.Refusal {
	return &reply.Refusal{Status: http.StatusBadRequest, Param: field, Text: fmt.Sprintf("%s: must have 1 to %d bytes of UTF-8, without control characters", field, maxNameBytes)}
}

// queryNames returns names from a request's query; "" is a missing one. It refuses names that cannot be decoded or
// occur twice: other programs could read them differently.
func queryNames(r *http.Request, fields ...string) (url.Values, *reply.Refusal) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, reply.Refuse(http.StatusBadRequest, "", "query: %v", err)
	}
	for _, field := range fields {
		if len(q[field]) > 1 {
			return nil, &reply.Refusal{Status: http.StatusBadRequest, Param: field, Text: field + ": is there twice"}
		}
		if name := q.Get(field); name != "" && !validName(name) {
			return nil, refuseName(field)
		}
	}
	return q, nil
}
