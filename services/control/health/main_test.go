package health

import (
	"testing"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
