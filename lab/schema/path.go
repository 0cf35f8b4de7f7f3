package schema

import "strings"

// Parent returns the path without its last step: load.stages[2].rate,
// load.stages[2], load.stages, load, "".
func Parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// Join appends a step to a path.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Clip shortens text for a message.
func Clip(s string) string {
	const longest = 60
	if r := []rune(s); len(r) > longest {
		return string(r[:longest]) + "…"
	}
	return s
}
