package http1

import (
	"encoding/base64"
	"errors"
	"net"
	"net/url"
	"strings"
)

// A Proxy is a forward proxy: what is asked for goes to it, and it asks the target.
type Proxy struct {
	Address       string // host:port
	authorization string // the value of Proxy-Authorization; empty: there is none
}

// ParseProxy reads the URL of a proxy, which may lack its scheme. An error does not repeat it, as it
// may hold a password.
func ParseProxy(raw string) (Proxy, error) {
	if raw != "" && !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || u.Port() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return Proxy{}, errors.New("want http://host:port or http://user:password@host:port")
	}
	p := Proxy{Address: net.JoinHostPort(u.Hostname(), u.Port())}
	if u.User != nil {
		password, _ := u.User.Password()
		p.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return p, nil
}

// Through returns a request to an endpoint without TLS as the proxy wants it (RFC 9112, section
// 3.2.2).
func (p Proxy) Through(r Request, end Endpoint) Request {
	r.Origin = "http://" + end.Host
	if p.authorization != "" {
		r.Header = append(r.Header[:len(r.Header):len(r.Header)], Field{Name: "Proxy-Authorization", Value: p.authorization})
	}
	return r
}

// Tunnel returns what clients are configured with that ask for a tunnel to an address, host:port (RFC
// 9110, section 9.3.6). All bytes after a good response are the target's.
func (p Proxy) Tunnel(address string) Config {
	request := tunnelMethod + " " + address + " HTTP/1.1\r\nHost: " + address + "\r\nUser-Agent: " + userAgent + "\r\n"
	if p.authorization != "" {
		request += "Proxy-Authorization: " + p.authorization + "\r\n"
	}
	return Config{Request: []byte(request + "\r\n"), Accept: func(status int) bool { return status < 300 }}
}
