package bot

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"dyno/internal/fields"
	"dyno/services/bot/outward"
	"dyno/services/internal/oidc"
	"dyno/services/internal/serve"
)

// Operators configures who may use the admin listener by a token of an OpenID Connect issuer.
type Operators struct {
	OIDC    oidc.Config `yaml:",inline"`
	Editors []string    `yaml:"oidc_editors" flag:"oidc-editor" doc:"groups whose people may use the pages of admin, and change what these change"`
	Readers []string    `yaml:"oidc_readers" flag:"oidc-reader" doc:"groups whose people may see those pages"`
}

// check reports faults of operators.
func (o Operators) check(r *fields.Report, policy outward.Policy, admin string) {
	o.OIDC.Check(r)
	if o.OIDC.Issuer == "" {
		r.Check(len(o.Editors)+len(o.Readers) == 0, "oidc_issuer", "is missing: groups are those of its tokens", "give an issuer")
		return
	}
	r.Error("oidc_issuer", policy.RequireTLSOrAllowlist(o.OIDC.Issuer).CheckURL(o.OIDC.Issuer))
	r.Check(admin != "", "oidc_issuer", "goes with an admin listener, which its people use", "give --admin")
	r.Check(len(o.Editors)+len(o.Readers) > 0, "oidc_editors", "is missing, as is oidc_readers: nobody would have a role", "give groups")
}

// role returns the role of a person.
func (o Operators) role(groups []string) serve.Role {
	has := func(some []string) bool {
		return slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(some, g) })
	}
	switch {
	case has(o.Editors):
		return serve.Editor
	case has(o.Readers):
		return serve.Reader
	}
	return ""
}

// openOperators returns what knows operators by their tokens; nil without an issuer.
func (g *Gateway) openOperators() (func(token string) (serve.Operator, error), error) {
	o := g.cfg.Operators
	if o.OIDC.Issuer == "" {
		return nil, nil //nolint:nilnil // nobody is known
	}
	policy, err := g.cfg.policy()
	if err != nil {
		return nil, err
	}
	transport := outward.NewTransport(outward.Config{Policy: policy.RequireTLSOrAllowlist(o.OIDC.Issuer), MaxIdle: 1, IdleTimeout: time.Minute})
	o.OIDC.Client, o.OIDC.Logger = &http.Client{Transport: transport}, g.cfg.Logger
	people := oidc.New(o.OIDC)
	g.waitAtClose(func() { people.Close(); transport.CloseIdleConnections() })
	return func(token string) (serve.Operator, error) {
		p, err := people.Verify(token)
		switch {
		case errors.Is(err, oidc.ErrUnavailable):
			return serve.Operator{}, fmt.Errorf("%w: %w", serve.ErrUnavailable, err)
		case err == nil && !validName(p.Name):
			err = fmt.Errorf("token: has no name of 1 to %d bytes", maxNameBytes)
		}
		return serve.Operator{Name: "oidc:" + p.Name, Role: o.role(p.Groups)}, err
	}, nil
}
