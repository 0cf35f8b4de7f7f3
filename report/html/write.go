package html

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"dyno/judge/history"
	"dyno/report"
	"dyno/report/assets"
	"dyno/report/changes"
	"dyno/report/figure"
	"dyno/results/rundir"
)

// Write writes a judged run as one HTML page. Its size is bounded by what Make keeps,
// some 3 MB for the longest runs.
func Write(w io.Writer, f *rundir.Folder) error {
	var text strings.Builder
	if err := report.Text(&text, f); err != nil {
		return fmt.Errorf("report as html: %w", err)
	}
	return write(w, f.Run.Name, text.String(), Make(f))
}

// WriteHistory writes the histories of experiments as one HTML page.
func WriteHistory(w io.Writer, h *history.History) error {
	var text strings.Builder
	if err := changes.History(&text, h); err != nil {
		return err
	}
	shown := history.History{Experiments: slices.Clone(h.Experiments)} // folders that cannot be read are not shared
	names := []string{}
	for i := range shown.Experiments {
		e := &shown.Experiments[i]
		e.Runs = slices.Clone(e.Runs)
		for j := range e.Runs {
			e.Runs[j].Machine = "" // readers of the mailed page should not see the host's name
		}
		if e.Baseline != nil {
			base := *e.Baseline
			base.Machine, e.Baseline = "", &base
		}
		if !slices.Contains(names, e.Name) {
			names = append(names, e.Name)
		}
	}
	return write(w, strings.Join(names, ", "), text.String(), struct {
		Version int              `json:"version"`
		History *history.History `json:"history"`
	}{Version, &shown})
}

// write writes a page: a document, and the text for browsers without scripts.
func write(w io.Writer, title, text string, document any) error {
	data, err := packed(document)
	if err != nil {
		return fmt.Errorf("report as html: %w", err)
	}
	var b bytes.Buffer
	b.WriteString("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n")
	fmt.Fprintf(&b, "<meta http-equiv=\"Content-Security-Policy\" content=\"%s\">\n", policy(assets.Script, assets.Style))
	b.WriteString("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n")
	fmt.Fprintf(&b, "<title>%s</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>%s</style>\n", html.EscapeString(figure.Printable(title)), assets.Style)
	fmt.Fprintf(&b, "<div id=\"report\"></div>\n<noscript><pre>%s</pre></noscript>\n", html.EscapeString(text))
	fmt.Fprintf(&b, "<script type=\"application/gzip\" id=\"document\">%s</script>\n<script>%s</script>\n</html>\n", data, assets.Script)
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("report as html: %w", err)
	}
	return nil
}

// packed is the document in the form in which the page reads it: JSON, compressed, in
// base64, so that nothing in it can end the element that holds it.
func packed(d any) (string, error) {
	var b bytes.Buffer
	encode := base64.NewEncoder(base64.StdEncoding, &b)
	compress, err := gzip.NewWriterLevel(encode, gzip.BestSpeed+4)
	if err != nil {
		return "", err
	}
	if err := json.NewEncoder(compress).Encode(d); err != nil {
		return "", err
	}
	if err := compress.Close(); err != nil {
		return "", err
	}
	if err := encode.Close(); err != nil {
		return "", err
	}
	return b.String(), nil
}

// policy forbids the page every request, and every script and style but its own
// (Content Security Policy Level 3, W3C).
func policy(script, style string) string {
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; script-src " + hash(script) + "; style-src " + hash(style) + "; img-src data:; base-uri 'none'; form-action 'none'"
}
