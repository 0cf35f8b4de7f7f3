package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"dyno/internal/roles"
	"dyno/lab/fleet/agent"
	"dyno/lab/generator"
	"dyno/lab/remote"
)

// TestMain lets the test binary be an agent, and the processes that carry parts of a load.
func TestMain(m *testing.M) {
	as := func(role func([]string) int) func([]string) error {
		return func(args []string) error {
			os.Exit(role(args))
			return nil
		}
	}
	part, host := generator.Role(nil), remote.Role()
	roles.Main(m, map[string]func([]string) error{
		part.Name: as(part.Main),
		host.Name: as(host.Main),
		"agent": func(args []string) error {
			c := config(args[0])
			if len(args) > 1 {
				c.Listen, c.Version = args[1], args[2]
			}
			s, err := agent.New(context.Background(), c)
			if err != nil {
				return err
			}
			fmt.Println(s.Addr())
			return s.Serve(context.Background())
		},
	})
}

// config is that of an agent with a name, which listens at a port that nobody else has.
func config(name string) agent.Config {
	c := agent.Defaults()
	c.Listen, c.Name, c.Version, c.Logger, c.Lines = "127.0.0.1:0", name, "v1", slog.New(slog.DiscardHandler), &agent.Lines{}
	return c
}
