package http1

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// An Endpoint is what an http or https URL says: where to connect to, and what to ask for.
type Endpoint struct {
	Secure  bool   // by TLS: it is an https URL
	Address string // host:port, as net.Dial takes it; IPv6 in brackets, with its zone
	Host    string // for Request.Host, or HTTP/2's authority
	Target  string // for Request.Target
}

// ParseURL reads an absolute http or https URL. A fragment is left out, as it is never
// sent. An error names the URL and what would be right.
func ParseURL(raw string) (Endpoint, error) {
	e, err := parseURL(raw)
	if err != nil {
		return Endpoint{}, fmt.Errorf("url %q: %w", raw, err)
	}
	return e, nil
}

func parseURL(raw string) (Endpoint, error) {
	scheme, _, found := strings.Cut(raw, "://")
	usual := "80"
	secure := strings.EqualFold(scheme, "https")
	switch {
	case !found:
		return Endpoint{}, errors.New("no scheme: want http://host/path")
	case secure:
		usual = "443"
	case !strings.EqualFold(scheme, "http"):
		return Endpoint{}, fmt.Errorf("scheme %q: want http or https", scheme)
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The URL stands before the message already.
		if e := (*url.Error)(nil); errors.As(err, &e) {
			err = e.Err
		}
		return Endpoint{}, err
	}
	name, port := u.Hostname(), u.Port()
	switch {
	case u.User != nil:
		return Endpoint{}, errors.New("user and password: want them in an authorization header")
	case name == "":
		return Endpoint{}, errors.New("no host: want http://host/path")
	}
	if port == "" {
		port = usual
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return Endpoint{}, fmt.Errorf("port %q: want 1 to 65535", port)
	}
	port = strconv.FormatUint(n, 10) // without leading zeros
	e := Endpoint{Secure: secure, Address: net.JoinHostPort(name, port), Target: u.RequestURI()}

	// A zone means something on this machine only (RFC 6874, section 3).
	e.Host, _, _ = strings.Cut(name, "%")
	if strings.Contains(name, ":") {
		e.Host = "[" + e.Host + "]"
	}
	if port != usual {
		e.Host += ":" + port
	}
	if !isHost(e.Host) {
		return Endpoint{}, fmt.Errorf("host %q: want ASCII (punycode for other scripts)", name)
	}
	return e, checkTarget("GET", e.Target)
}
