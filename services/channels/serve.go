package channels

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	"dyno/services/internal/serve"
)

// ServeConfig configures Serve.
type ServeConfig struct {
	Channels Config
	Logger   *slog.Logger
	Stdin    *os.File  // for a stdin source
	Stdout   io.Writer // for a stdout sink
}

// Serve runs channels with the life cycle, metrics and health of a service, until their
// sources or ctx have ended. It returns the errors.
func Serve(ctx context.Context, c ServeConfig) (err error) {
	var server *Server
	host, err := serve.New(serve.Config{
		Name:          "channels",
		AdminListener: c.Channels.AdminListener,
		AllowRemote:   c.Channels.AllowRemote,
		DrainTimeout:  c.Channels.withDefaults().DrainTimeout,
		Logger:        c.Logger,
		Reload:        func() error { server.Reopen(); return nil },
	})
	if err != nil {
		return err
	}
	server, err = New(c.Channels, host.Logger(), host.Registry(), c.Stdin, c.Stdout)
	if err != nil {
		return err
	}
	if err := host.Listen(); err != nil {
		return errors.Join(err, server.Close())
	}
	// The channels may end by themselves: when all sources have ended.
	ctx, ended := context.WithCancel(ctx)
	defer ended()
	work, drain := context.WithCancel(context.WithoutCancel(ctx))
	defer drain()
	done := make(chan struct{})
	return host.Run(ctx, serve.Part{
		Name: "channels",
		Serve: func() error {
			defer close(done)
			err := server.Serve(work)
			ended()
			return err
		},
		Drain: func(context.Context) int {
			drain()
			<-done // bounded by the channels' own drain timeout
			return 0
		},
	})
}
