package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"dyno/cli/arguments"
	"dyno/cli/imports"
	"dyno/cli/imports/draft"
	"dyno/internal/exit"
	"dyno/internal/nearest"
	"dyno/internal/terminal"
)

func (a *app) importCommand() *cobra.Command {
	var s draft.Source
	var names []string
	long := `Import writes an experiment that sends what a file of another tool sends, to standard output
or to a new file. It lists on standard error, by line, what the experiment does not have of the
file, or has in another form. Formats:
`
	for _, f := range imports.Formats() {
		names = append(names, f.Name)
		long += fmt.Sprintf("\n  %-10s %s", f.Name, f.About)
	}
	cmd := &cobra.Command{
		Use:   "import FORMAT FILE",
		Short: "Make an experiment of a script, a recording or a log of another tool",
		Long:  long,
		Example: `  dyno import curl requests.sh
  dyno import har -o shop.yaml shop.har
  dyno import k6 -o shop.yaml shop.js
  dyno import nginx-log --url http://127.0.0.1:8080 -o mix.yaml access.log`,
		ValidArgs: names,
		Args:      arguments.ExactArgs(2, "a format and a file"),
		RunE: func(_ *cobra.Command, args []string) error {
			s.Format, s.File = args[0], args[1]
			if !slices.Contains(names, s.Format) {
				return exit.Misused(nearest.Hint(s.Format, names), "%q is no format", s.Format)
			}
			return a.importFile(s)
		},
	}
	cmd.Flags().StringVarP(&s.Out, "out", "o", "", "the `FILE` to create (default: standard output)")
	cmd.Flags().BoolVar(&s.AllowFiles, "allow-files", false, "read files that the imported one names outside of its own folder")
	cmd.Flags().BoolVar(&s.NoCorrelate, "no-correlate", false, "har, jmeter, postman: send the values that were recorded, also those that responses gave")
	cmd.Flags().BoolVar(&s.NoStatic, "no-static", false, "har, jmeter, postman: leave out images, fonts, style sheets and scripts")
	cmd.Flags().BoolVar(&s.NoThink, "no-think", false, "no pauses between requests")
	cmd.Flags().StringVar(&s.Recorded, "recorded", "", "jmeter: the XML `FILE` that a listener below the recorder wrote (default: the one that the plan names)")
	cmd.Flags().StringVar(&s.URL, "url", "", "the `URL` of the server to load, in place of that in the file")
	return cmd
}

// importFile writes the experiment and the files that it needs, and lists what it leaves out.
func (a *app) importFile(s draft.Source) (err error) {
	s.Options = fileOptions()
	result, err := imports.Read(s)
	if err != nil {
		hint := ""
		if other := (*draft.OtherFormatError)(nil); errors.As(err, &other) {
			hint = fmt.Sprintf("the file has the form of another format: dyno import %s %s", other.Format, s.File)
		}
		return exit.With(exit.Usage, err, hint)
	}
	defer func() { // of what could not be completed nothing stays
		if err != nil && s.Out != "" {
			for _, f := range result.Files {
				err = errors.Join(err, os.Remove(filepath.Join(filepath.Dir(s.Out), f.Name)))
			}
		}
	}()
	written := 0
	for _, f := range result.Files {
		mode := anyone
		if f.Private {
			mode = 0o600
		}
		if err := create(filepath.Join(filepath.Dir(s.Out), f.Name), f.Content, mode); err != nil {
			result.Files = result.Files[:written]
			return err
		}
		written++
	}
	if s.Out != "" {
		err = create(s.Out, result.Text, anyone)
	} else {
		_, err = a.stdout.Write(result.Text)
	}
	if err != nil {
		return err
	}
	for _, i := range result.Items {
		fmt.Fprintln(a.stderr, itemText(s.File, i))
	}
	return nil
}

// itemText is a line on what was not carried over.
func itemText(file string, i draft.Item) string {
	text := file
	if i.Line > 0 {
		text = fmt.Sprintf("%s:%d", file, i.Line)
	}
	text += fmt.Sprintf(": %s: %s", terminal.Line(i.What), i.Why)
	if i.Hint != "" {
		text += "; " + i.Hint
	}
	return text
}

// anyone is the mode of a file that has no secrets, before the umask.
const anyone fs.FileMode = 0o666

// create writes a file that is not there yet.
func create(name string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if errors.Is(err, fs.ErrExist) {
		return exit.With(exit.Usage, fmt.Errorf("--out: %w", err), "it is not overwritten; name another file")
	}
	if err != nil {
		return exit.With(exit.Usage, fmt.Errorf("--out: %w", err), "")
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
