package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/experiments/subjects/bot/cachetables"
	"dyno/experiments/subjects/bot/codec"
	"dyno/experiments/subjects/bot/layering"
	"dyno/experiments/subjects/bot/micro"
	"dyno/services/bot"
)

// microCommand returns the programs that measure single pieces.
func microCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "micro",
		Short: "Measure single pieces: layers around routes, JSON libraries, caches, ways to write rows",
		Long: `Each program measures one thing once and prints its figures as one line of JSON.
An experiment with "protocol: program" repeats and interleaves them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}

	layers := micro.Middleware{Form: layering.Composed, Layers: 5, Matched: 2, Duration: time.Second}
	f := measuring(cmd, "middleware", "A request's way through the layers around a route", func() (micro.Program, error) { return layers, nil })
	f.StringVar((*string)(&layers.Form), "form", string(layers.Form), "composed or per-request")
	f.IntVar(&layers.Layers, "layers", layers.Layers, "how many layers there are")
	f.IntVar(&layers.Matched, "matched", layers.Matched, "how many of them the route needs")
	f.BoolVar(&layers.Unmatched, "unmatched", layers.Unmatched, "leave in the others")
	f.DurationVar(&layers.Duration, "duration", layers.Duration, "how long to measure")

	text := micro.JSON{Library: codec.Standard, Operation: micro.Both, Bytes: 2 << 10, Duration: time.Second}
	f = measuring(cmd, "json", "Decoding and encoding a model's answer", func() (micro.Program, error) { return text, nil })
	f.StringVar((*string)(&text.Library), "library", string(text.Library), "std, v2 (with GOEXPERIMENT=jsonv2), sonic or jsoniter")
	f.BoolVar(&text.Prealloc, "prealloc", text.Prealloc, "encode into a buffer that has room")
	f.StringVar(&text.Operation, "operation", text.Operation, "decode, encode or both")
	f.IntVar(&text.Bytes, "bytes", text.Bytes, "of the answer's text")
	f.DurationVar(&text.Duration, "duration", text.Duration, "how long to measure")

	kept := micro.Cache{Kind: cachetables.Sharded, Goroutines: 8, Keys: 10_000, Writes: 0.01, Duration: time.Second}
	f = measuring(cmd, "cache", "Accesses to a cache whose values come and go", func() (micro.Program, error) { return kept, nil })
	f.StringVar((*string)(&kept.Kind), "kind", string(kept.Kind), "sharded, rwmutex or snapshot")
	f.IntVar(&kept.Goroutines, "goroutines", kept.Goroutines, "how many use it")
	f.IntVar(&kept.Keys, "keys", kept.Keys, "how many keys are asked for")
	f.Float64Var(&kept.Writes, "writes", kept.Writes, "the share of accesses that put a new value in")
	f.DurationVar(&kept.Duration, "duration", kept.Duration, "how long to measure")

	rows := micro.Rows{Archive: bot.ArchiveSQLite, Writes: micro.Batch, Rows: 1000, Timeout: 3 * time.Second, Duration: time.Second}
	var postgresFile string
	f = measuring(cmd, "rows", "Rows of the ledger written to a database", func() (micro.Program, error) {
		if postgresFile == "" {
			return rows, nil
		}
		text, err := os.ReadFile(postgresFile)
		if err != nil {
			return nil, fmt.Errorf("--postgres-file: %w", err)
		}
		rows.Postgres = strings.TrimSpace(string(text))
		return rows, nil
	})
	f.StringVar((*string)(&rows.Archive), "archive", string(rows.Archive), "sqlite or postgres")
	f.StringVar(&rows.File, "file", rows.File, "SQLite's `FILE`; none is a temporary one")
	f.BoolVar(&rows.Sync, "sync", rows.Sync, "have SQLite wait for the disk")
	f.StringVar(&postgresFile, "postgres-file", "", "`FILE` of PostgreSQL's connection string")
	f.StringVar((*string)(&rows.Writes), "writes", string(rows.Writes), "single, batch, or copy (PostgreSQL's)")
	f.IntVar(&rows.Rows, "rows", rows.Rows, "rows of a round: written by themselves, or at once")
	f.DurationVar(&rows.Timeout, "timeout", rows.Timeout, "bound on one write")
	f.DurationVar(&rows.Duration, "duration", rows.Duration, "how long to measure, in whole rounds")
	return cmd
}

// measuring adds a program to a command, and returns its flags.
func measuring(parent *cobra.Command, name, short string, configured func() (micro.Program, error)) *pflag.FlagSet {
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := configured()
			if err != nil {
				return err
			}
			result, err := p.Run(cmd.Context())
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
		},
	}
	parent.AddCommand(cmd)
	return cmd.Flags()
}
