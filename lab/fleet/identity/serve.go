package identity

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// The bounds of the server.
const (
	headerTimeout  = 5 * time.Second
	idleTimeout    = time.Minute
	maxHeaderBytes = 16 << 10
)

// Serve lets machines join at a listener, and closes it when ctx ends. The coordinator's certificate is the
// server's.
func (a *Authority) Serve(ctx context.Context, l net.Listener, coordinator *Member, trust Trust, log *slog.Logger) error {
	server := &http.Server{
		Handler: a.Handler(trust, log), ReadHeaderTimeout: headerTimeout, ReadTimeout: joinTimeout, WriteTimeout: joinTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // its error is that of a listener that is closed
	err := server.Serve(tls.NewListener(l, coordinator.Joining()))
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
