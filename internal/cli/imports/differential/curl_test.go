package differential

import "testing"

var curl = tool{
	format:  "curl",
	program: "curl",
	live:    true,
	inOrder: true,
	command: func(file string) []string { return []string{"bash", file} },
}

func TestCurl(t *testing.T) { curl.compareFiles(t) }
