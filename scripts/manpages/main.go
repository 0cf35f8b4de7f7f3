// Manpages writes dyno's manual pages, one for each command, and its completions for bash, fish and zsh.
//
//	manpages FOLDER      writes FOLDER/man1/*.1 and FOLDER/{bash,fish,zsh}/*
//
// SOURCE_DATE_EPOCH is the date on the pages. The same sources make the same bytes.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"dyno/cli"
	"dyno/internal/buildinfo"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manpages FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1], cli.Root()); err != nil {
		fmt.Fprintln(os.Stderr, "manpages:", err)
		os.Exit(1)
	}
}

func write(folder string, root *cobra.Command) error {
	seconds, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	date := time.Unix(seconds, 0).UTC()
	file := func(name string) string { return filepath.Join(folder, name) }
	for _, f := range []string{"man1", "bash", "fish", "zsh"} {
		if err := os.MkdirAll(file(f), 0o755); err != nil { //nolint:gosec // for everybody to read
			return err
		}
	}
	root.DisableAutoGenTag = true
	return errors.Join(
		doc.GenManTree(root, &doc.GenManHeader{Section: "1", Date: &date, Source: "dyno " + buildinfo.Version(), Manual: "dyno"}, file("man1")),
		root.GenBashCompletionFileV2(file("bash/dyno"), true),
		root.GenFishCompletionFile(file("fish/dyno.fish"), true),
		root.GenZshCompletionFile(file("zsh/_dyno")),
	)
}
