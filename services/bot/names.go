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

// validName tells whether a text may be a name. It is asked before anything replaces bytes that are not UTF-8: names that
// differ in these alone would become one.
func validName(s string) bool {
	return s != "" && len(s) <= maxNameBytes && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// refuseName refuses the name in a field.
func refuseName(field string) *reply.Refusal {
	return &reply.Refusal{Status: http.StatusBadRequest, Param: field, Text: fmt.Sprintf("%s: must have 1 to %d bytes of UTF-8, without control characters", field, maxNameBytes)}
}

// queryNames reads the names that a request has in its query; "" is one that is not there. What cannot be decoded, or is
// there twice, could be another name to somebody else.
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
