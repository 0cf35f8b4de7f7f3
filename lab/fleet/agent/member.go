package agent

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"dyno/internal/secretfile"
	"dyno/lab/fleet/identity"
)

// joinToken returns the join token; empty: there is none. It removes the token from the environment.
func (c *Config) joinToken() (string, error) {
	text := os.Getenv(JoinTokenVariable)
	if err := os.Unsetenv(JoinTokenVariable); err != nil {
		return "", err
	}
	if c.JoinTokenFile == "" {
		return strings.TrimSpace(text), nil
	}
	file, err := secretfile.Read(c.JoinTokenFile)
	if err != nil {
		return "", fmt.Errorf("--join-token-file: %w", err)
	}
	return strings.TrimSpace(string(file)), nil
}

func (c *Config) memberFile() string { return filepath.Join(c.Identity, identity.MemberFile) }

// member returns the agent's membership of its fleet. It joins the fleet if there is no valid certificate. It returns
// nil without a folder for the certificate.
func (c *Config) member(ctx context.Context) (*identity.Member, error) {
	if c.Identity == "" {
		return nil, nil
	}
	token, err := c.joinToken()
	if err != nil {
		return nil, err
	}
	m, err := identity.Load(c.memberFile())
	if _, invalid := errors.AsType[x509.CertificateInvalidError](err); errors.Is(err, os.ErrNotExist) || invalid {
		if c.Join == "" || token == "" {
			return nil, fmt.Errorf("--identity: %s has no certificate that holds: join a fleet with --join HOST:PORT and a token, as dyno fleet authority prints them", c.Identity)
		}
		m, err = c.join(ctx, c.Join, token)
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
	return s.member.Keep(ctx, s.config.Join, s.config.memberFile(), s.config.Logger)
}
