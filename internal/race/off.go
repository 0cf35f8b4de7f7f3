//go:build !race

package race

// Enabled tells whether this program was built with the race detector.
const Enabled = false
