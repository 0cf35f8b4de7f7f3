package messages

import (
	"strings"

	"dyno/services/bot/dialect"
	"dyno/services/bot/openai"
)

// kinds are the types of errors, by their statuses. 529 is the API's own.
var kinds = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error", 409: "conflict_error",
	413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 503: "overloaded_error", 504: "timeout_error", 529: "overloaded_error",
}

// AppendFault appends an error for clients. The message names param, the field at fault; id is the request's. Both may
// be "".
func AppendFault(b []byte, status int, param string, f openai.Fault, id string) []byte {
	if !strings.HasPrefix(f.Message, param) {
		f.Message = param + ": " + f.Message
	}
	return dialect.Append(b, faultFields(status, f).Set("request_id", id))
}

// faultFields returns an error. Its type is the upstream's if it is one of the API, and else follows from the status.
func faultFields(status int, f openai.Fault) dialect.Fields {
	kind, ok := kinds[status]
	if !ok && status > 500 {
		kind = kinds[500]
	} else if !ok {
		kind = kinds[400]
	}
	for _, own := range kinds {
		if f.Type == own {
			kind = own
		}
	}
	return dialect.Fields{"type": "error", "error": dialect.Fields{"type": kind, "message": f.Message}}
}
