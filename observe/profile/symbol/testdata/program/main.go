// Program prints some of its own stacks, innermost first and with a blank line after
// each: where in its file a function is, and what its run time calls it. Functions
// that were inlined have lines of their own.
package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

//go:noinline
func outer(n int) []uintptr { return middle(n) }

func middle(n int) []uintptr { return deeper(n) }

func deeper(n int) []uintptr { return inner(n) }

//go:noinline
func inner(int) []uintptr {
	pcs := make([]uintptr, 8)
	return pcs[:runtime.Callers(1, pcs)]
}

type list[T any] struct{ items []T }

//go:noinline
func (l *list[T]) at(n int) []uintptr {
	l.items = append(l.items, *new(T))
	return middle(n)
}

func main() {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		panic(err)
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	for _, pcs := range [][]uintptr{outer(1), (&list[int]{}).at(1), new(list[string]).at(2)} {
		frames := runtime.CallersFrames(pcs)
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if offset, ok := offset(string(maps), exe, uint64(f.PC)); ok {
				os.Stdout.WriteString(strconv.FormatUint(offset, 10) + " " + f.Function + "\n")
			}
		}
		os.Stdout.WriteString("\n")
	}
}

func offset(maps, exe string, pc uint64) (uint64, bool) {
	for _, line := range strings.Split(maps, "\n") {
		f := strings.Fields(line)
		if len(f) < 6 || f[5] != exe {
			continue
		}
		from, to, _ := strings.Cut(f[0], "-")
		start, _ := strconv.ParseUint(from, 16, 64)
		end, _ := strconv.ParseUint(to, 16, 64)
		at, _ := strconv.ParseUint(f[2], 16, 64)
		if start <= pc && pc < end {
			return pc - start + at, true
		}
	}
	return 0, false
}
