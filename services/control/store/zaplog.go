package store

import (
	"context"
	"log/slog"
	"strings"

	"go.uber.org/zap/zapcore"
)

// zapCore passes etcd's records to a slog.Handler, from warnings on: lower levels do not help operators of the
// control plane.
type zapCore struct {
	handler slog.Handler
	fields  []zapcore.Field
}

var _ zapcore.Core = zapCore{}

// ownStoreWarnings are warnings of an embedded etcd at every start: it has no listeners for clients, and no users.
var ownStoreWarnings = []string{"Running http and grpc server on single port", "simple token is not cryptographically signed"}

func (c zapCore) Enabled(l zapcore.Level) bool { return l >= zapcore.WarnLevel }

func (c zapCore) With(fields []zapcore.Field) zapcore.Core {
	return zapCore{c.handler, append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

func (c zapCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

func (c zapCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	level := slog.LevelWarn
	if e.Level >= zapcore.ErrorLevel {
		level = slog.LevelError
	}
	for _, text := range ownStoreWarnings {
		if strings.HasPrefix(e.Message, text) {
			return nil
		}
	}
	ctx := context.Background()
	if !c.handler.Enabled(ctx, level) {
		return nil
	}
	r := slog.NewRecord(e.Time, level, "etcd: "+e.Message, 0)
	encoder := zapcore.NewMapObjectEncoder()
	for _, f := range c.fields {
		f.AddTo(encoder)
	}
	for _, f := range fields {
		f.AddTo(encoder)
	}
	for name, value := range encoder.Fields {
		r.AddAttrs(slog.Any(name, value))
	}
	return c.handler.Handle(ctx, r)
}

func (c zapCore) Sync() error { return nil }
