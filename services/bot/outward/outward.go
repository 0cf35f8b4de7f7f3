// Package outward is how the gateway calls others: upstreams, plugins and whoever
// publishes keys. What is called is named by configuration, by names that others
// resolve, and by answers that redirect; none of these may lead to what only this
// machine or its network can reach (server-side request forgery).
//
// A Policy decides on addresses, not on names: it is asked when a connection is made,
// with the address that the name has resolved to at that moment. Redirects are not
// followed, and no proxy of the environment is used.
package outward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"dyno/internal/contentcoding"
)

// ErrRefused says that an address may not be called.
var ErrRefused = errors.New("address not allowed")

// A Policy says which addresses may be called: those of the public internet, and what
// is allowed in addition. The zero value allows nothing else.
type Policy struct {
	// Allow are networks that may be called although they are not public, such as
	// 127.0.0.0/8 for an upstream on this machine.
	Allow []netip.Prefix

	inside bool // nothing but Allow
}

// RequireTLSOrAllowlist is the policy for a URL that a secret is sent to, or whose answer is believed: what goes over the public
// internet without TLS can be read and changed on the way. An http:// URL must lead to a network of Allow.
func (p Policy) RequireTLSOrAllowlist(url string) Policy {
	p.inside = p.inside || len(url) >= 5 && strings.EqualFold(url[:5], "http:")
	return p
}

// ParseNetworks reads networks ("10.0.0.0/8") and single addresses ("127.0.0.1").
func ParseNetworks(texts []string) ([]netip.Prefix, error) {
	var (
		prefixes []netip.Prefix
		errs     []error
	)
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if a, bad := netip.ParseAddr(text); bad == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%q: want a network such as 127.0.0.0/8 or an address", text))
			continue
		}
		prefixes = append(prefixes, p.Masked())
	}
	return prefixes, errors.Join(errs...)
}

// special are the networks that are not the public internet's (the special-purpose
// registries of RFC 6890, as IANA has them), but for those below that carry an IPv4
// address. 168.63.129.16 is public by its number, and in Azure the host of every virtual
// machine, which hands out its settings.
var special = func() (list []netip.Prefix) {
	for _, text := range []string{
		"10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "168.63.129.16/32", "172.16.0.0/12",
		"192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16",
		"192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"::/128", "::1/128", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23", "2001:db8::/32", "2620:4f:8000::/48",
		"3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	} {
		list = append(list, netip.MustParsePrefix(text))
	}
	return append(list, netip.PrefixFrom(netip.IPv4Unspecified(), 8)) // "this network"
}()

// carriers are networks whose addresses carry an IPv4 address, which is what is called
// in the end: after that many bytes.
var carriers = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12}, // NAT64 (RFC 6052)
	{netip.MustParsePrefix("2002::/16"), 2},     // 6to4 (RFC 3056)
	{netip.MustParsePrefix("::/96"), 12},        // IPv4-compatible (RFC 4291)
}

// Check returns nil if an address may be called, otherwise an error that is ErrRefused.
func (p Policy) Check(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	for _, allowed := range p.Allow {
		if allowed.Contains(a) {
			return nil
		}
	}
	for _, s := range special {
		if s.Contains(a) {
			return fmt.Errorf("%w: %s is in %s, which is not public: allow it explicitly if it is meant", ErrRefused, a, s)
		}
	}
	for _, c := range carriers {
		if b := a.As16(); a.Is6() && c.prefix.Contains(a) {
			return p.Check(netip.AddrFrom4([4]byte(b[c.at : c.at+4])))
		}
	}
	if !a.IsGlobalUnicast() {
		return fmt.Errorf("%w: %s", ErrRefused, a)
	}
	if p.inside {
		return fmt.Errorf("%w: %s is public, and what goes there over http:// can be read and changed on the way: use https://, or allow its network explicitly if that is meant", ErrRefused, a)
	}
	return nil
}

// CheckURL returns what is wrong with a URL before anything is called: it must be
// http or https with a host, and without a user. A host that is an address must be
// allowed, and in the usual form; a name is looked up when it is called.
func (p Policy) CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("want a URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%q: must begin with http:// or https://", text)
	case u.Hostname() == "":
		return fmt.Errorf("%q: has no host", text)
	case u.User != nil:
		return fmt.Errorf("%q: must have no user and password", u.Redacted())
	case u.Fragment != "":
		return fmt.Errorf("%q: must have no fragment", text)
	}
	host := u.Hostname()
	if a, err := netip.ParseAddr(host); err == nil {
		return p.Check(a)
	}
	if name := strings.TrimSuffix(strings.ToLower(host), "."); name == "localhost" || strings.HasSuffix(name, ".localhost") { // RFC 6761
		return p.Check(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r > '\x7f' }) {
		return fmt.Errorf("%q: host: must be in ASCII (xn--…): other characters are mapped before they are looked up", text)
	}
	if numeric(host) {
		return fmt.Errorf("%w: %q: host: write an address as 127.0.0.1 or [::1]: who reads this one as an address disagrees on which", ErrRefused, text)
	}
	return nil
}

// numeric tells whether a host would be taken for an IPv4 address by those who read its
// short, decimal, octal and hexadecimal forms (the URL Standard, section 3.5: it ends in a
// number).
func numeric(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	digits := "0123456789"
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		last, digits = hex, "0123456789abcdef"
		if last == "" {
			return true
		}
	}
	return last != "" && strings.Trim(last, digits) == ""
}

// control refuses a connection to an address that a name has resolved to.
func (p Policy) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %q", ErrRefused, address)
	}
	return p.Check(a.Addr())
}

// Config says how connections are used.
type Config struct {
	Policy Policy
	// MaxConnections bounds the connections to one host, those in use included; 0 is no
	// bound. Further requests wait.
	MaxConnections int
	// MaxIdle bounds the connections to one host that are kept for later.
	MaxIdle int
	// IdleTimeout is for how long.
	IdleTimeout time.Duration
	// HTTP2 speaks HTTP/2, without TLS too.
	HTTP2 bool
}

// Times of a connection.
const (
	dialTimeout      = 5 * time.Second
	pingAfter        = 10 * time.Second // of HTTP/2, when nothing comes
	pingTimeout      = 5 * time.Second
	handshakeTimeout = 5 * time.Second
)

// connBuffer is the size of both buffers of a connection, which each stream under way has. What is
// larger goes past them.
const connBuffer = 1 << 10

// NewTransport returns what calls others by a policy. Requests have no timeout but
// their contexts.
func NewTransport(c Config) *http.Transport {
	t := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: dialTimeout, ControlContext: c.Policy.control}).DialContext,
		TLSHandshakeTimeout:    handshakeTimeout,
		MaxIdleConns:           0,
		MaxIdleConnsPerHost:    c.MaxIdle,
		MaxConnsPerHost:        c.MaxConnections,
		IdleConnTimeout:        c.IdleTimeout,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // streams are passed on as they come
		WriteBufferSize:        connBuffer,
		ReadBufferSize:         connBuffer,
	}
	if c.HTTP2 {
		t.Protocols = new(http.Protocols)
		t.Protocols.SetHTTP2(true)
		t.Protocols.SetUnencryptedHTTP2(true)
		// A connection whose packets vanish on the way would have all streams until the kernel gives it up, after a
		// quarter of an hour.
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout}
	}
	return t
}

// NewClient returns a client that follows no redirect: its answer is the redirect. It asks for bodies without a coding, and
// decodes those that have one.
func NewClient(t http.RoundTripper) *http.Client {
	return &http.Client{Transport: plain{t}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// maxDecoded bounds what a body decodes to. Who reads it has a bound of their own.
const maxDecoded = 16 << 20

// plain decodes bodies.
type plain struct{ http.RoundTripper }

func (t plain) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Accept-Encoding", "identity")
	resp, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	text, err := contentcoding.NewReader(resp.Body, strings.Join(resp.Header.Values("Content-Encoding"), ","), maxDecoded)
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	if text != io.Reader(resp.Body) {
		resp.Body, resp.ContentLength = body{text, resp.Body}, -1
	}
	return resp, nil
}

// body reads what is decoded, and closes what it comes from.
type body struct {
	io.Reader
	io.Closer
}
