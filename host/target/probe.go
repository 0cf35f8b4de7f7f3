package target

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"time"
)

// attemptTimeout bounds one attempt of a probe.
const attemptTimeout = time.Second

// address returns the address on which the process is to listen, if the probe names one.
func (p Probe) address() (network, addr string) {
	switch {
	case p.TCP != "":
		return "tcp", p.TCP
	case p.Unix != "":
		return "unix", p.Unix
	case p.HTTP != "":
		u, err := url.Parse(p.HTTP)
		if err != nil {
			return "", ""
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		return "tcp", net.JoinHostPort(u.Hostname(), port)
	}
	return "", ""
}

// pattern returns the regular expression to look for in the output, or nil.
func (p Probe) pattern() *regexp.Regexp {
	if p.Output == "" {
		return nil
	}
	return regexp.MustCompile(p.Output) // Validate has checked it
}

// attempt tries once and returns nil when the process is ready.
func (p Probe) attempt(ctx context.Context, out *output) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	switch {
	case p.HTTP != "":
		return get(ctx, p.HTTP)
	case p.Output != "":
		select {
		case <-out.matched:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("no line of output matches %q", p.Output)
		}
	}
	if network, addr := p.address(); network != "" {
		return connect(ctx, network, addr)
	}
	return nil
}

// connect succeeds when a listener accepts.
func connect(ctx context.Context, network, addr string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	// A TCP socket can connect to itself if the port is ephemeral.
	if network == "tcp" && c.LocalAddr().String() == c.RemoteAddr().String() {
		return errors.New("nothing listens")
	}
	return nil
}

// get succeeds when the server answers with any status below 500. It follows no redirect,
// uses no proxy and trusts any certificate: the only question is whether the server is
// up.
func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	t := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}
	res, err := t.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10) // lets the connection of a small answer end in order
	if res.StatusCode >= 500 {
		return fmt.Errorf("get %s: status %d", url, res.StatusCode)
	}
	return nil
}
