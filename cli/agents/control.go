package agents

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"dyno/internal/exit"
	"dyno/internal/secretfile"
	"dyno/lab/fleet/registry"
	"dyno/services/control/client"
)

// Environment variables that stand for flags.
const (
	controlVariable      = "DYNO_CONTROL_PLANE"
	controlTokenVariable = "DYNO_CONTROL_PLANE_TOKEN_FILE"
)

// defaultControl is where the example of dyno fleet has its control plane.
const defaultControl = "http://127.0.0.1:7100"

const controlsHint = "is the control plane running? dyno serve control --listen 127.0.0.1:7100 --data fleet.d starts one; --control-plane or " + controlVariable + " says where it is"

// A ControlPlane is the one that knows a fleet.
type ControlPlane struct {
	servers   []string
	TokenFile string
}

// Flags adds the flags that name it.
func (c *ControlPlane) Flags(f *pflag.FlagSet) {
	f.StringArrayVar(&c.servers, "control-plane", nil, "the fleet's control plane is at `URL` (default "+controlVariable+"); may be repeated, for its replicas")
	f.StringVar(&c.TokenFile, "control-plane-token-file", "", "`FILE` with the token to show to the control plane (default "+controlTokenVariable+")")
}

// Addresses returns the addresses that the flag or the environment has.
func (c *ControlPlane) Addresses() []string {
	if len(c.servers) > 0 {
		return c.servers
	}
	return strings.FieldsFunc(os.Getenv(controlVariable), func(r rune) bool { return r == ',' || r == ' ' })
}

// SetDefault has the default address stand where neither the flag nor the environment has one.
func (c *ControlPlane) SetDefault() {
	if len(c.Addresses()) == 0 {
		c.servers = []string{defaultControl}
	}
}

// Open returns a namespace of the registry at some addresses.
func (c *ControlPlane) Open(namespace string, addresses []string, log *slog.Logger) (*registry.Registry, error) {
	var token string
	if name := cmp.Or(c.TokenFile, os.Getenv(controlTokenVariable)); name != "" {
		text, err := secretfile.Read(name)
		if err != nil {
			return nil, exit.With(exit.Usage, fmt.Errorf("--control-plane-token-file: %w", err), "")
		}
		token = strings.TrimSpace(string(text))
	}
	r, err := registry.Open(registry.Config{Namespace: namespace, Servers: addresses, Token: token, Logger: log})
	if err != nil {
		return nil, exit.With(exit.Usage, fmt.Errorf("--control-plane: %w", err), "as in: --control-plane "+defaultControl)
	}
	return r, nil
}

// Existing returns a namespace of the registry where the flag, the environment or the default has it.
func (c *ControlPlane) Existing(namespace string) (*registry.Registry, error) {
	addresses := c.Addresses()
	if len(addresses) == 0 {
		addresses = []string{defaultControl}
	}
	return c.Open(namespace, addresses, nil)
}

// Use opens an existing namespace of the registry for a function, and explains its error.
func (c *ControlPlane) Use(namespace string, use func(*registry.Registry) error) error {
	r, err := c.Existing(namespace)
	if err != nil {
		return err
	}
	defer r.Close()
	return Explain(use(r))
}

// Explain gives an error of the registry its exit code and a hint.
func Explain(err error) error {
	var (
		unreachable *client.Unreachable
		taken       *registry.NameTakenError
		held        *registry.HeldError
		reserved    *registry.ReservedError
		broken      *registry.BrokenError
	)
	switch {
	case errors.As(err, &unreachable):
		return exit.With(exit.Target, fmt.Errorf("--control-plane: %w", err), controlsHint)
	case errors.As(err, &taken):
		return exit.With(exit.Usage, err, "give this one another name with --name")
	case errors.As(err, &held), errors.As(err, &reserved):
		return exit.With(exit.Usage, err, "wait until it has ended, or choose other agents with --fleet")
	case errors.As(err, &broken):
		return exit.With(exit.Usage, err, "dyno fleet remove NAME removes what cannot be read")
	case errors.Is(err, registry.ErrUnknown):
		return exit.With(exit.Usage, err, "dyno fleet list shows the agents")
	}
	return err
}
