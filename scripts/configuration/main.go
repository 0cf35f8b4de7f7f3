// Command configuration writes the tables of the services' configurations into the documents that end in
// -configuration.md. The tags of the structs declare the fields. A table stands between <!-- fields --> and <!--
// /fields -->; the rest of a document is written by hand.
//
//	configuration    from the repository's root
package main

import (
	"bytes"
	"fmt"
	"os"

	"dyno/internal/settings"
	"dyno/services/bot"
	"dyno/services/channels"
	control "dyno/services/control/program"
	"dyno/services/echo"
	"dyno/services/events"
	"dyno/services/llm"
	"dyno/services/relay"
)

// configurations are the services' own, by the beginning of the document's name.
var configurations = map[string]any{
	"bot": bot.Config{}, "channels": channels.Config{}, "control": control.Options{}, "echo": echo.Config{}, "events": events.Config{}, "llm": llm.Config{}, "relay": relay.Config{},
}

func main() {
	for name, config := range configurations {
		if err := write("docs/services/"+name+"-configuration.md", settings.Table(config)); err != nil {
			fmt.Fprintln(os.Stderr, "configuration:", err)
			os.Exit(1)
		}
	}
}

// write replaces the table in a document.
func write(path string, table []byte) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := []byte("<!-- fields -->\n"), []byte("<!-- /fields -->")
	head, rest, found := bytes.Cut(text, begin)
	_, tail, closed := bytes.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s: want <!-- fields --> and <!-- /fields -->", path)
	}
	return os.WriteFile(path, bytes.Join([][]byte{head, begin, table, end, tail}, nil), 0o644) //nolint:gosec // a document of the repository
}
