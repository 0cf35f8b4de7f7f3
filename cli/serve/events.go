package serve

import (
	"github.com/spf13/cobra"

	"dyno/internal/settings"
	"dyno/services/events"
)

func eventsCommand() *cobra.Command {
	c := events.Defaults()
	return serviceCommand(&cobra.Command{
		Use:   "events",
		Short: "Publish and subscribe to server-sent events",
		Long: `Publish and subscribe to server-sent events.

Subscribe:  curl -N 'http://HOST/events?topic=news'
Publish:    curl -d topic=news -d data=hello http://HOST/events
            curl --data-binary @file 'http://HOST/publish?topic=news'

/.well-known/mercure is the same as /events: clients of the Mercure protocol work.
An update's id cannot be "earliest" or begin with "dyno:", and its type cannot be "gap".
On loopback, requests of other sites' pages need a token, or --allow-origin or --publish-origin.
With --admin, /subscribers lists the subscribers that are furthest behind.`,
		Example: `  dyno serve events --listen 127.0.0.1:7000
  dyno serve events --listen 127.0.0.1:7000 --history file --file events.db`,
	}, settings.New(&c), func(cmd *cobra.Command, s *settings.Settings) (service, error) {
		c.Complete(s.Given)
		if err := s.Validate(c.Check); err != nil {
			return nil, err
		}
		c.Logger = logger(cmd.ErrOrStderr(), s.Verbose)
		return events.New(c)
	})
}
