package foreign

import (
	"encoding/base64"
	"net/url"
	"strings"

	"dyno/lab/plan"
)

// BasicAuth is the header field that carries user:password (RFC 7617).
func BasicAuth(user string) plan.Header {
	return plan.Header{Name: "Authorization", Value: "Basic " + base64.StdEncoding.EncodeToString([]byte(user))}
}

// UserInURL is the header field for a user and a password as they stand in a URL.
func UserInURL(inURL string) plan.Header {
	user, password, _ := strings.Cut(inURL, ":")
	plain := func(text string) string {
		if decoded, err := url.PathUnescape(text); err == nil {
			return decoded
		}
		return text
	}
	return BasicAuth(plain(user) + ":" + plain(password))
}
