package serve

import (
	"github.com/spf13/cobra"

	"dyno/internal/settings"
	"dyno/services/relay"
)

func relayCommand() *cobra.Command {
	c := relay.Defaults()
	return serviceCommand(&cobra.Command{
		Use:   "relay",
		Short: "Forward TCP connections, by a chosen concurrency model",
		Long: `Forward TCP connections, by a chosen concurrency model.

A name in --to is looked up at the start, every 30 s, and when none of its addresses accepts a
connection. The addresses are tried in turn, IPv4 first, each for its share of --connect-timeout.
Connections begin with the address that accepted last.`,
		Example: `  dyno serve relay --listen 127.0.0.1:7001 --to 127.0.0.1:7000 --model epoll
  dyno serve relay --listen 127.0.0.1:7001 --to 127.0.0.1:7000 --network delay=20ms,jitter=5ms`,
	}, settings.New(&c), func(cmd *cobra.Command, s *settings.Settings) (service, error) {
		if err := s.Validate(c.Check); err != nil {
			return nil, err
		}
		c.Logger = logger(cmd.ErrOrStderr(), s.Verbose)
		return relay.New(c)
	})
}
