package manual

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link matches the target of a link in Markdown.
var link = regexp.MustCompile(`\]\(([^)\s#]+)[^)]*\)`)

// Links between documents lead to files. scripts/site.sh looks at their anchors, too.
func TestLinks(t *testing.T) {
	paths := []string{"../../README.md", "../../README.zh-CN.md"}
	for name := range readPages(t) {
		paths = append(paths, filepath.Join(documents, name))
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(found[1], ":") {
				continue // a URL
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), found[1])); err != nil {
				t.Errorf("%s: a link leads nowhere: %s", path, found[1])
			}
		}
	}
}
