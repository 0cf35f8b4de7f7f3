package store

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// TestLog: etcd's warnings reach the log with their fields, and what is no warning of ours
// does not.
func TestLog(t *testing.T) {
	var text bytes.Buffer
	l := zap.New(zapCore{handler: slog.NewTextHandler(&text, nil)}).With(zap.String("member", "a"))
	l.Info("fine")
	l.Warn(ownStoreWarnings[0] + ". This is not recommended for production.")
	l.Warn("slow disk", zap.Int("ms", 5))
	l.Error("broken")
	if got := text.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `level=WARN msg="etcd: slow disk"`) ||
		!strings.Contains(got, "member=a") || !strings.Contains(got, "ms=5") || !strings.Contains(got, "level=ERROR") {
		t.Errorf("log:\n%s", got)
	}
}
