package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"dyno/internal/buildinfo"
	"dyno/internal/exit"
)

func TestMainSaysWhatFailed(t *testing.T) {
	full := errors.New("the disk is full")
	for _, test := range []struct {
		name string
		args []string
		run  func(*cobra.Command, []string) error
		code int
		says string
	}{
		{"done", nil, func(*cobra.Command, []string) error { return nil }, exit.Done, ""},
		{"failed", nil, func(*cobra.Command, []string) error { return full }, exit.Failed, "program: the disk is full\n"},
		{"a failure of its own", nil, func(*cobra.Command, []string) error {
			return fmt.Errorf("opening: %w", exit.With(7, full, "make room"))
		}, 7, "program: opening: the disk is full\nhint: make room\n"},
		{"an argument", []string{"x"}, nil, exit.Usage, "program: unexpected argument \"x\"\nhint: it has flags only: --help lists them\n"},
		{"a flag", []string{"--x"}, nil, exit.Usage, "program: unknown flag: --x\nhint: program --help lists the flags\n"},
		{"a value", []string{"--wait", "5"}, nil, exit.Usage, "program: --wait: \"5\" is not a duration; such as 5s or 250ms\nhint: program --help lists the flags\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			cmd := &cobra.Command{Use: "program", Args: NoArgs, RunE: test.run}
			cmd.Flags().Duration("wait", 0, "")
			if test.run == nil {
				cmd.RunE = func(*cobra.Command, []string) error { return errors.New("it ran") }
			}
			if code := Main(t.Context(), cmd, append([]string{}, test.args...), &stdout, &stderr); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if stderr.String() != test.says || stdout.Len() > 0 {
				t.Errorf("said %q and %q, want %q", &stderr, &stdout, test.says)
			}
		})
	}
}

func TestMainShowsTheVersion(t *testing.T) {
	var stdout, stderr bytes.Buffer
	cmd := &cobra.Command{Use: "program", RunE: func(*cobra.Command, []string) error { return errors.New("it ran") }}
	if code := Main(t.Context(), cmd, []string{"--version"}, &stdout, &stderr); code != exit.Done || stdout.String() != "program version "+buildinfo.Text()+"\n" {
		t.Errorf("exit code %d, %q, %q", code, &stdout, &stderr)
	}
}

// The first signal is the command's to act on.
func TestSignalsEndTheContext(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		var ended error
		cmd := &cobra.Command{Use: "program", RunE: func(cmd *cobra.Command, _ []string) error {
			if err := syscall.Kill(syscall.Getpid(), signal); err != nil {
				return err
			}
			<-cmd.Context().Done()
			ended = cmd.Context().Err()
			return nil
		}}
		if code := Main(t.Context(), cmd, []string{}, t.Output(), t.Output()); code != exit.Done || !errors.Is(ended, context.Canceled) {
			t.Errorf("%v: exit code %d, context %v", signal, code, ended)
		}
	}
}

// TestLibrariesLog: what they write by package log is a record of the service's log.
func TestLibrariesLog(t *testing.T) {
	before, flags, writer := slog.Default(), log.Flags(), log.Writer()
	t.Cleanup(func() {
		slog.SetDefault(before)
		log.SetFlags(flags)
		log.SetOutput(writer)
	})
	var out bytes.Buffer
	Logger(&out, false)
	log.Print("something is odd")
	var record struct{ Level, Msg string }
	if err := json.Unmarshal(out.Bytes(), &record); err != nil || record.Level != "INFO" || record.Msg != "something is odd" {
		t.Errorf("%v: %s", err, &out)
	}
}
