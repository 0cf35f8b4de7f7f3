package serve

import (
	"github.com/spf13/cobra"

	"dyno/internal/settings"
	"dyno/services/echo"
)

func echoCommand() *cobra.Command {
	c := echo.Defaults()
	return serviceCommand(&cobra.Command{
		Use:   "echo",
		Short: "Echo over TCP and HTTP/1.1",
		Example: `  dyno serve echo --tcp 127.0.0.1:7000
  dyno serve echo --http 127.0.0.1:8080 --admin 127.0.0.1:8081`,
	}, settings.New(&c), func(cmd *cobra.Command, s *settings.Settings) (service, error) {
		if err := s.Validate(c.Check); err != nil {
			return nil, err
		}
		c.Logger = logger(cmd.ErrOrStderr(), s.Verbose)
		return echo.New(c)
	})
}
