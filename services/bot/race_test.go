//go:build race

package bot

// raced tells whether the race detector is at work.
const raced = true
