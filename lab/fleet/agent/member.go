package agent

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"dyno/lab/fleet/identity"
)

// splitJoin returns the token and the address of join: [TOKEN@]HOST:PORT.
func splitJoin(join string) (token, address string, err error) {
	address = join
	if at := strings.LastIndexByte(join, '@'); at >= 0 {
		token, address = join[:at], join[at+1:]
	}
	_, _, err = net.SplitHostPort(address)
	return token, address, err
}

func (c *Config) memberFile() string { return filepath.Join(c.Identity, identity.MemberFile) }

// member returns the agent as a member of its fleet, which it joins if it has no certificate that still holds. It is
// nil without a folder for that.
func (c *Config) member(ctx context.Context) (*identity.Member, error) {
	if c.Identity == "" {
		return nil, nil
	}
	token, address, _ := splitJoin(c.Join)
	m, err := identity.Load(c.memberFile())
	if _, invalid := errors.AsType[x509.CertificateInvalidError](err); errors.Is(err, os.ErrNotExist) || invalid {
		if token == "" {
			return nil, fmt.Errorf("--identity: %s has no certificate that holds: join a fleet with --join TOKEN@HOST:PORT, as dyno fleet authority prints it", c.Identity)
		}
		m, err = c.join(ctx, address, token)
	}
	switch {
	case err != nil:
		return nil, err
	case m.Peer().Role != identity.Agent:
		return nil, fmt.Errorf("--identity: %s has the certificate of a %s: use another folder", c.Identity, m.Peer().Role)
	case c.Name != "" && c.Name != m.Peer().Name:
		return nil, fmt.Errorf("--name: %s has the certificate of %s: leave out --name, or use another folder with --identity", c.Identity, m.Peer().Name)
	}
	return m, nil
}

func (c *Config) join(ctx context.Context, address, token string) (*identity.Member, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Identity, 0o700); err != nil {
		return nil, fmt.Errorf("--identity: %w", err)
	}
	m, err := identity.Join(ctx, address, token, cmp.Or(c.Name, strings.ToLower(host)))
	if err != nil {
		return nil, fmt.Errorf("--join: %w", err)
	}
	if err := m.Save(c.memberFile()); err != nil {
		return nil, fmt.Errorf("--identity: %w", err)
	}
	return m, nil
}

// keep renews the certificate until ctx ends. It returns an error when the certificate has ended.
func (s *Server) keep(ctx context.Context) error {
	if s.config.Join == "" {
		s.config.Logger.Warn("the certificate is not renewed: --join HOST:PORT says where", "ends", s.member.Ends())
		<-ctx.Done()
		return nil
	}
	_, address, _ := splitJoin(s.config.Join)
	return s.member.Keep(ctx, address, s.config.memberFile(), s.config.Logger)
}
