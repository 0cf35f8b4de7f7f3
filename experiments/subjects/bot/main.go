// Command bot-variants is dyno-bot with the alternative parts of report R2. A ladder shows what each part
// contributes in a whole gateway. Its micro commands measure single parts.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"dyno/experiments/subjects/bot/cachetables"
	"dyno/experiments/subjects/bot/codec"
	"dyno/experiments/subjects/bot/layering"
	"dyno/experiments/subjects/bot/micro"
	"dyno/services/bot"
	"dyno/services/bot/buffer"
	"dyno/services/bot/cache"
	"dyno/services/bot/middleware"
	"dyno/services/bot/openai"
	"dyno/services/bot/program"
)

func main() {
	os.Exit(program.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr, extend))
}

// variants say which parts the gateway has. All are the gateway's own by default.
type variants struct {
	pool, prealloc bool
	library        codec.Library
	form           layering.Form
	unmatched      bool
	table          cachetables.Kind
	writes         micro.Writes
}

// extend adds the flags of the variants, and the micro commands.
func extend(cmd *cobra.Command) func(*bot.Config) error {
	v := variants{pool: true, prealloc: true, library: codec.Standard, form: layering.Composed, table: cachetables.Sharded, writes: micro.Batch}
	cmd.Use = "bot-variants"
	cmd.Example = ""
	f := cmd.Flags()
	f.BoolVar(&v.pool, "buffer-pool", v.pool, "use buffers of requests and replies, and readers of streams again")
	f.StringVar((*string)(&v.library), "json", string(v.library), "the library that reads and writes JSON: std, v2 (with GOEXPERIMENT=jsonv2), sonic or jsoniter")
	f.BoolVar(&v.prealloc, "json-prealloc", v.prealloc, "make buffers as large as is expected, and encode into them")
	f.StringVar((*string)(&v.form), "middleware", string(v.form), "layers around routes: composed once, or per-request, with defer")
	f.BoolVar(&v.unmatched, "unmatched-middleware", v.unmatched, "leave in the layers that a route does not need")
	f.StringVar((*string)(&v.table), "cache-kind", string(v.table), "how the cache keeps answers: sharded, rwmutex or snapshot")
	f.StringVar((*string)(&v.writes), "archive-writes", string(v.writes), "how records are written: batch or single")
	cmd.AddCommand(microCommand())
	return func(c *bot.Config) error { return v.apply(c) }
}

// apply sets the parts.
func (v variants) apply(c *bot.Config) error {
	json, err := codec.New(v.library)
	if v.writes != micro.Batch && v.writes != micro.Single {
		err = errors.Join(err, fmt.Errorf("archive writes %q: must be batch or single", string(v.writes)))
	}
	if err := errors.Join(err, v.form.Validate(), v.table.Validate()); err != nil {
		return err
	}
	json.Ahead = v.prealloc
	if v.writes == micro.Single {
		c.Batch.Most = 1
	}
	c.Parts = bot.Parts{
		Codec:   openai.Codec{JSON: json},
		Buffers: &buffer.Pool{},
		Readers: &openai.ReaderPool{},
		Around: func(layers []middleware.Layer, method, path string, h middleware.Handler) middleware.Handler {
			return v.form.Around(v.unmatched, layers, method, path, h)
		},
		Table: func(bytes int64) cache.Table[*bot.CachedAnswer] {
			return cachetables.New[*bot.CachedAnswer](v.table, bytes)
		},
	}
	if !v.pool {
		c.Parts.Buffers, c.Parts.Readers = newBuffers{}, newReaders{}
	}
	if !v.prealloc {
		c.Parts.Buffers = growing{c.Parts.Buffers}
	}
	return nil
}

// newBuffers uses no buffer twice.
type newBuffers struct{}

func (newBuffers) Get(size int) *buffer.Buffer { return buffer.New(size) }
func (newBuffers) Put(*buffer.Buffer)          {}

// newReaders uses no reader twice.
type newReaders struct{}

func (newReaders) Get(from io.Reader) *openai.Reader { return openai.NewReader(from) }
func (newReaders) Put(*openai.Reader)                {}

// growing lends buffers that grow as they are filled, whatever is expected.
type growing struct{ buffer.Lender }

func (g growing) Get(int) *buffer.Buffer { return g.Lender.Get(0) }
