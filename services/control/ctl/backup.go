package ctl

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"dyno/services/control/client"
)

func (s *session) backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write everything as of one revision to a file",
		Long: `Write everything as of one revision to a file, - for standard output. It has secrets, and can
be read by its owner only. It is checked to be whole; a file is not there before it is.

An empty store has it by: dyno serve control --restore FILE`,
		Example: "  dyno ctl backup backup.jsonl",
		Args:    exactly(1, "a file"),
	}
	cmd.RunE = s.asked(func(cmd *cobra.Command, args []string, c *client.Client) (err error) {
		answer, err := c.Do(cmd.Context(), client.Request{Method: http.MethodGet, Path: "/v1/backup", Stream: true})
		if err != nil {
			return err
		}
		defer answer.Body.Close() //nolint:errcheck // it was only read
		if args[0] == "-" {
			_, err := whole(answer.Body, cmd.OutOrStdout())
			return err
		}
		f, err := os.CreateTemp(filepath.Dir(args[0]), filepath.Base(args[0])+".*") // for its owner only
		if err != nil {
			return &Failure{codeUsage, err, ""}
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
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d keys\n", args[0], keys)
		return err
	})
	return cmd
}

// whole copies a backup, and says how many keys it has. Its last line has the SHA-256 of
// all lines before it; without that, it is cut off.
func whole(from io.Reader, to io.Writer) (keys int64, err error) {
	var (
		reader = bufio.NewReaderSize(from, 64<<10)
		sum    = sha256.New()
		last   = lastLine{sum: sum}
	)
	for {
		part, err := reader.ReadSlice('\n')
		if _, err := to.Write(part); err != nil {
			return 0, err
		}
		last.add(part)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("the backup is cut off: %w", err)
		}
	}
	var trailer struct {
		Keys   int64  `json:"keys"`
		SHA256 string `json:"sha256"`
	}
	if json.Unmarshal(last.line, &trailer) != nil || trailer.SHA256 != hex.EncodeToString(sum.Sum(nil)) {
		return 0, errors.New("the backup is cut off, or was changed on its way")
	}
	return trailer.Keys, nil
}

// A lastLine adds up all lines but the last, as far as that is short.
type lastLine struct {
	sum  hash.Hash
	line []byte
	over bool // the line has ended
}

// maxTrailer bounds a last line, in bytes.
const maxTrailer = 1 << 10

func (l *lastLine) add(part []byte) {
	if len(part) == 0 {
		return
	}
	if l.over || len(l.line)+len(part) > maxTrailer {
		_, _ = l.sum.Write(l.line) // a hash takes everything
		l.line = l.line[:0]
	}
	if len(part) > maxTrailer {
		_, _ = l.sum.Write(part)
	} else {
		l.line = append(l.line, part...)
	}
	l.over = part[len(part)-1] == '\n'
}
