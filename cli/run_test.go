package cli

import (
	"path/filepath"
	"sync"
	"testing"
)

// Runs that begin in one second have a folder each.
func TestMakeNumbered(t *testing.T) {
	name := filepath.Join(t.TempDir(), "runs", "a-20260102-030405")
	var (
		mu       sync.Mutex // guards made
		made     = map[string]bool{}
		starting sync.WaitGroup
	)
	for range 8 {
		starting.Go(func() {
			dir, err := makeNumbered(name)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || made[dir] {
				t.Errorf("%s once more, %v", dir, err)
			}
			made[dir] = true
		})
	}
	starting.Wait()
	if !made[name] || !made[name+"-8"] {
		t.Error(made)
	}
}
