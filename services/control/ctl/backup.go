package ctl

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"dyno/internal/exit"
	"dyno/internal/terminal"
	"dyno/services/control/backup"
	"dyno/services/control/client"
)

func (s *session) backupCommand() *cobra.Command {
	return s.asking(&cobra.Command{
		Use:   "backup FILE",
		Short: "Write everything as of one revision to a file",
		Long: `Write everything as of one revision to a file, - for standard output. It has secrets, and can
be read by its owner only. It is checked to be whole; a file is not there before it is.

An empty store has it by: dyno serve control --restore FILE`,
		Example: "  dyno ctl backup backup.jsonl",
		Args:    exactly(1, "a file"),
	}, func(c *call, args []string) (err error) {
		answer, err := c.Do(c.ctx(), client.Request{Method: http.MethodGet, Path: "/v1/backup", Stream: true})
		if err != nil {
			return err
		}
		defer answer.Body.Close() //nolint:errcheck // it was only read
		if args[0] == "-" {
			_, err := whole(answer.Body, terminal.Data(c.out))
			return err
		}
		f, err := os.CreateTemp(filepath.Dir(args[0]), filepath.Base(args[0])+".*") // for its owner only
		if err != nil {
			return exit.With(exit.Usage, err, "")
		}
		keys, err := whole(answer.Body, f)
		if err == nil {
			err = f.Sync()
		}
		err = errors.Join(err, f.Close())
		if err == nil {
			err = os.Rename(f.Name(), args[0])
		}
		if err != nil {
			return errors.Join(err, os.Remove(f.Name()))
		}
		return c.say("%s: %d keys", args[0], keys)
	})
}

// whole copies a backup, checks it and returns how many keys it has.
func whole(from io.Reader, to io.Writer) (keys int64, err error) {
	return backup.Read(io.TeeReader(from, to), func(string, []byte) error { return nil })
}
