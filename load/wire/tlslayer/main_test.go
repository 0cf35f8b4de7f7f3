package tlslayer

import (
	"testing"

	"dyno/internal/leak"
)

// A handshake's coroutine is a goroutine: one that was not ended fails the tests.
func TestMain(m *testing.M) { leak.Main(m) }
