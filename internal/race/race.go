// Package race tells tests whether the race detector is at work. It makes code several times
// slower, allocates by itself and keeps memory of its own.
package race
