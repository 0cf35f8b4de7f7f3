package health

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"dyno/services/control/resource"
)

// A prober asks instances. Each check has a connection of its own: that the instance accepts one is a part of it.
type prober struct {
	commands string
	dialer   net.Dialer
	web      [2]*http.Client // the second verifies certificates
}

func newProber(commands string) *prober {
	p := &prober{commands: commands}
	for n := range p.web {
		p.web[n] = &http.Client{
			Transport: &http.Transport{
				DisableKeepAlives: true, DisableCompression: true, DialContext: p.dialer.DialContext, MaxResponseHeaderBytes: 64 << 10,
				TLSClientConfig: tlsConfig("", n == 1),
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return p
}

// tlsConfig accepts any certificate unless it must be verified: instances often have one of an authority of their own.
func tlsConfig(name string, verify bool) *tls.Config {
	return &tls.Config{ServerName: name, InsecureSkipVerify: !verify, MinVersion: tls.VersionTLS12} //nolint:gosec // see above
}

// probe makes a check, within the time of ctx.
func (p *prober) probe(ctx context.Context, t *Target) (resource.Health, string) {
	health, output := resource.Passing, ""
	var err error
	switch t.Check.Type {
	case "http":
		health, output, err = p.http(ctx, t)
	case "tcp":
		err = p.tcp(ctx, t)
	case "grpc":
		err = p.grpc(ctx, t)
	case "tls":
		health, output, err = p.tls(ctx, t)
	case "command":
		health, output, err = p.command(ctx, t)
	default:
		err = fmt.Errorf("there is no check of type %q", t.Check.Type)
	}
	if err != nil {
		health, output = resource.Critical, err.Error()
		if errors.Is(err, context.DeadlineExceeded) {
			output = fmt.Sprintf("no answer within %v", t.Check.Limit())
		}
	}
	return health, printable(output)
}

// printable returns the start of a text as one line of UTF-8.
func printable(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if len(text) > resource.MaxOutput {
		text = strings.ToValidUTF8(text[:resource.MaxOutput], "")
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
}

func (t *Target) hostPort() string { return net.JoinHostPort(t.Address, strconv.Itoa(t.Port)) }

func (p *prober) http(ctx context.Context, t *Target) (resource.Health, string, error) {
	at := url.URL{Scheme: "http", Host: t.hostPort(), Path: "/"}
	if t.Check.TLS {
		at.Scheme = "https"
	}
	text := at.Scheme + "://" + at.Host + "/" + strings.TrimPrefix(t.Check.Path, "/")
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, text, nil)
	if err != nil {
		return "", "", err
	}
	q.Host = t.Check.Host
	q.Header.Set("User-Agent", "dyno-control")
	client := p.web[0]
	if t.Check.Verify {
		client = p.web[1]
	}
	if t.Check.TLS && t.Check.Host != "" { // the name in TLS is that of the transport
		own := client.Transport.(*http.Transport).Clone()
		own.TLSClientConfig.ServerName = t.Check.Host
		client = &http.Client{Transport: own, CheckRedirect: client.CheckRedirect}
	}
	answer, err := client.Do(q)
	if err != nil {
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err // without the address, which is known
		}
		return "", "", err
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	some, _ := io.ReadAll(io.LimitReader(answer.Body, resource.MaxOutput))
	output := answer.Status + " " + string(some)
	switch {
	case answer.StatusCode < http.StatusBadRequest:
		return resource.Passing, output, nil
	case answer.StatusCode == http.StatusTooManyRequests:
		return resource.Warning, output, nil
	}
	return resource.Critical, output, nil
}

func (p *prober) tcp(ctx context.Context, t *Target) error {
	c, err := p.dialer.DialContext(ctx, "tcp", t.hostPort())
	if err != nil {
		return err
	}
	return c.Close()
}

func (p *prober) grpc(ctx context.Context, t *Target) error {
	how := insecure.NewCredentials()
	if t.Check.TLS {
		how = credentials.NewTLS(tlsConfig(t.Check.Host, t.Check.Verify))
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(how), grpc.WithUserAgent("dyno-control"), grpc.WithDisableServiceConfig(), grpc.WithNoProxy()}
	if t.Check.Host != "" {
		options = append(options, grpc.WithAuthority(t.Check.Host))
	}
	c, err := grpc.NewClient("passthrough:///"+t.hostPort(), options...)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // the answer is there
	answer, err := healthpb.NewHealthClient(c).Check(ctx, &healthpb.HealthCheckRequest{Service: t.Check.Service})
	if err != nil {
		return err
	}
	if s := answer.GetStatus(); s != healthpb.HealthCheckResponse_SERVING {
		return errors.New(s.String())
	}
	return nil
}

// tls makes a handshake and looks how long the certificate is still valid.
func (p *prober) tls(ctx context.Context, t *Target) (resource.Health, string, error) {
	name := t.Check.Host
	if name == "" {
		name = t.Address
	}
	c, err := (&tls.Dialer{NetDialer: &p.dialer, Config: tlsConfig(name, t.Check.Verify)}).DialContext(ctx, "tcp", t.hostPort())
	if err != nil {
		return "", "", err
	}
	defer c.Close() //nolint:errcheck // the certificates are there
	return expiry(c.(*tls.Conn).ConnectionState().PeerCertificates, t.Check.Remaining(), time.Now())
}

// expiry judges certificates by the first that expires: a chain is only as good as that one.
func expiry(list []*x509.Certificate, remaining time.Duration, now time.Time) (resource.Health, string, error) {
	if len(list) == 0 {
		return "", "", errors.New("it has no certificate")
	}
	first := list[0]
	for _, one := range list[1:] {
		if one.NotAfter.Before(first.NotAfter) {
			first = one
		}
	}
	output := fmt.Sprintf("the certificate of %s ends at %s", first.Subject, first.NotAfter.UTC().Format(time.RFC3339))
	switch left := first.NotAfter.Sub(now); {
	case left <= 0:
		return resource.Critical, output, nil
	case left < remaining:
		return resource.Warning, output, nil
	}
	return resource.Passing, output, nil
}

// command runs a program of the operator's folder, with the instance's address in its environment.
func (p *prober) command(ctx context.Context, t *Target) (resource.Health, string, error) {
	if p.commands == "" {
		return "", "", errors.New("no commands are permitted: the operator must give --check-commands")
	}
	c := exec.CommandContext(ctx, filepath.Join(p.commands, t.Check.Command), t.Check.Arguments...) //nolint:gosec // its name has no slash, and the folder is the operator's
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "DYNO_ADDRESS=" + t.Address, "DYNO_PORT=" + strconv.Itoa(t.Port)}
	c.WaitDelay = time.Second // children may keep its output open
	var out output
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if ctx.Err() != nil {
		return "", "", context.Cause(ctx)
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		if exit.ExitCode() == 1 {
			return resource.Warning, out.String(), nil
		}
		return resource.Critical, out.String() + " (" + exit.String() + ")", nil
	}
	return resource.Passing, out.String(), err
}

// output keeps the start of what a program writes.
type output struct{ bytes.Buffer }

func (o *output) Write(p []byte) (int, error) {
	_, _ = o.Buffer.Write(p[:min(len(p), resource.MaxOutput-o.Len())])
	return len(p), nil
}
