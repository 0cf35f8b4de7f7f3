//go:build race

package engine_test

// raced tells whether the race detector is at work.
const raced = true
