// Package outward makes the gateway's calls to upstreams, plugins and publishers of keys. Configuration, DNS and
// redirects choose the address. None of these may lead to addresses that only this machine or its network can reach
// (server-side request forgery).
//
// A Policy decides on addresses, not on names: it checks each new connection, with the address that the name has
// resolved to. Redirects are not followed, and proxies of the environment are ignored.
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

// A Policy says which addresses may be called: those of the public internet, and those of Allow. The zero value
// allows only the former.
type Policy struct {
	// Allow lists further networks that may be called, such as 127.0.0.0/8 for an upstream on this machine.
	Allow []netip.Prefix

	inside bool // nothing but Allow
}

// RequireTLSOrAllowlist returns the policy for a URL that gets a secret, or whose answer is trusted. Without TLS,
// messages can be read and changed on the public internet. So an http:// URL must lead to a network of Allow.
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

// special are the networks outside of the public internet (IANA's special-purpose registries, RFC 6890). The carriers
// below are excepted. 168.63.129.16 looks public; in Azure it is the host of every virtual machine, which serves its
// settings.
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

// carriers are networks whose addresses contain the IPv4 address that is really called, after a number of bytes.
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
		return fmt.Errorf("%w: %s is public, and others can read and change http:// on the way: use https://, or allow its network if that is meant", ErrRefused, a)
	}
	return nil
}

// CheckURL validates a URL before any call: it must be http or https with a host, and without a user. An address as
// host must be allowed, and in the usual form; a name is looked up at the call.
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
		return fmt.Errorf("%w: %q: host: write an address as 127.0.0.1 or [::1]: programs read this one as different addresses", ErrRefused, text)
	}
	return nil
}

// numeric reports whether a host could be read as an IPv4 address in a short, decimal, octal or hexadecimal form. By
// the URL Standard, section 3.5, such a host ends in a number.
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

// Config configures connections.
type Config struct {
	Policy Policy
	// MaxConnections bounds the connections to one host, in use and idle; 0 is no bound. Further requests wait.
	MaxConnections int
	// MaxIdle bounds the idle connections to one host.
	MaxIdle int
	// IdleTimeout is for how long they are kept.
	IdleTimeout time.Duration
	// HTTP2 speaks HTTP/2, without TLS too.
	HTTP2 bool
}

// Times of a connection.
const (
	dialTimeout      = 5 * time.Second
	pingAfter        = 10 * time.Second // in HTTP/2, after silence
	pingTimeout      = 5 * time.Second
	handshakeTimeout = 5 * time.Second
)

// connBuffer is the size of both buffers of a connection, which each running stream has. Larger messages bypass them.
const connBuffer = 1 << 10

// NewTransport returns a transport with a policy. Only contexts bound its requests.
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
		// Without pings, a connection that loses all packets would keep its streams for a quarter of an hour.
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout}
	}
	return t
}

// NewClient returns a client that follows no redirect, and returns it instead. It asks for bodies without a coding,
// and decodes those that have one.
func NewClient(t http.RoundTripper) *http.Client {
	return &http.Client{Transport: plain{t}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// maxDecoded bounds a decoded body. Its readers have bounds of their own.
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

// body reads the decoded body, and closes the encoded one.
type body struct {
	io.Reader
	io.Closer
}
