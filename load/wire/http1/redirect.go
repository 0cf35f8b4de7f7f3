package http1

import (
	"net/url"
	"slices"
	"strings"

	"dyno/load/wire"
)

// MaxRedirects is how many redirects an exchange follows in a row.
const MaxRedirects = 10

// maxTargets bounds the redirects that are remembered.
const maxTargets = 1024

// The beginnings of errors about redirects that are not followed.
const (
	toOtherHost   = "redirect to another host or port: "
	toOtherScheme = "redirect to another scheme: "
	toNoAddress   = "redirect to an invalid address: "
	tooMany       = "more than 10 redirects in a row, the last one to "
)

// The requests of an exchange that follows redirects, see Request.Following.
const (
	repeated = 1 // as the first
	asGet    = 2 // by GET, without a body
)

// Following returns the requests to prepare of an exchange that follows redirects: r, r with a
// target that varies, and that by GET without a body.
func (r Request) Following() []Request {
	again := r
	again.Target, again.VariesTarget = "", true
	get := again
	if get.Method != headMethod {
		get.Method = "GET"
	}
	get.Body = nil
	get.Header = slices.DeleteFunc(slices.Clone(r.Header), func(f Field) bool {
		return strings.HasPrefix(strings.ToLower(f.Name), "content-")
	})
	return []Request{r, again, get}
}

// LocationFields are the fields that responses to requests that follow redirects deliver.
func LocationFields() []string { return []string{"location"} }

// Redirects follows the redirects of one server, in HTTP/1.1 and HTTP/2. It follows them as curl
// does: 303 makes of every method but HEAD a GET without a body, and 301 and 302 do so of POST.
type Redirects struct {
	first  url.URL  // what is asked for first
	hosts  []string // that are the server, as Endpoint.Host has them
	method string

	targets  map[string]resolved // by target and location
	key      []byte
	refusals wire.Refusals
}

var _ wire.Follower = (*Redirects)(nil)

// A resolved is what a redirect leads to.
type resolved struct {
	target string
	fault  []byte // why it is not followed; nil if it is
	last   []byte // the text if it is one too many
}

// NewRedirects returns what follows the redirects of responses to a request that is sent to an
// endpoint.
func NewRedirects(end Endpoint, r Request) *Redirects {
	f := &Redirects{method: r.Method, targets: map[string]resolved{}}
	f.first = url.URL{Scheme: "http", Host: end.Host, Path: "/"}
	if end.Secure {
		f.first.Scheme = "https"
	}
	// Servers know themselves by the Host field. It may be another name than that in the URL.
	for _, host := range []string{end.Host, r.Host} {
		if e, err := ParseURL(f.first.Scheme + "://" + host + "/"); err == nil {
			f.hosts = append(f.hosts, strings.ToLower(e.Host))
			f.first.Host = host
		}
	}
	if u, err := f.first.Parse(r.Target); err == nil {
		f.first = *u
	}
	return f
}

// Follow implements wire.Follower.
func (f *Redirects) Follow(t *wire.Trail, status int) (follows bool, err error) {
	request := repeated
	switch status {
	case 301, 302:
		if f.method == "POST" {
			request = asGet
		}
	case 303:
		request = asGet
	case 307, 308:
	default:
		return false, nil
	}
	if len(t.Location) == 0 {
		return false, nil
	}
	to := f.resolve(t)
	switch {
	case to.fault != nil:
		return false, f.refusals.Error(wire.StatusError(status), to.fault)
	case t.Redirects == MaxRedirects:
		return false, f.refusals.Error(wire.StatusError(status), to.last)
	}
	t.Request = max(t.Request, request) // what has become a GET remains one
	t.Target = append(t.Target[:0], to.target...)
	t.Redirects++
	return true, nil
}

// resolve returns what a redirect leads to. Servers repeat themselves, and what is known costs
// nothing.
func (f *Redirects) resolve(t *wire.Trail) resolved {
	f.key = append(append(append(f.key[:0], t.Target...), 0), t.Location...)
	to, found := f.targets[string(f.key)]
	if !found {
		if len(f.targets) == maxTargets {
			clear(f.targets)
		}
		to = f.parse(string(t.Target), string(t.Location))
		f.targets[string(f.key)] = to
	}
	return to
}

func (f *Redirects) parse(target, location string) resolved {
	shown, _, _ := strings.Cut(location, "?")
	from, err := f.first.Parse(target)
	if err != nil {
		return resolved{fault: refusal(toNoAddress, shown)}
	}
	u, err := from.Parse(location)
	if err != nil {
		return resolved{fault: refusal(toNoAddress, shown)}
	}
	u.Fragment, u.RawFragment = "", "" // is never sent
	if u.Scheme != f.first.Scheme {
		return resolved{fault: refusal(toOtherScheme, withoutQuery(u))}
	}
	e, err := ParseURL(u.String())
	switch {
	case err != nil:
		return resolved{fault: refusal(toNoAddress, withoutQuery(u))}
	case !slices.Contains(f.hosts, strings.ToLower(e.Host)):
		return resolved{fault: refusal(toOtherHost, withoutQuery(u))}
	}
	return resolved{target: e.Target, last: refusal(tooMany, withoutQuery(u))}
}

// withoutQuery is an address as it is shown: a query may hold credentials.
func withoutQuery(u *url.URL) string {
	shown := *u
	if shown.RawQuery != "" {
		shown.RawQuery = "…"
	}
	return shown.Redacted()
}

// refusal is the text of an error about an address, no longer than errors may be.
func refusal(why, address string) []byte {
	why += address
	return []byte(why[:min(len(why), wire.MaxText)])
}
