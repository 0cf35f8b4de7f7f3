package foreign

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/textproto"
	"path/filepath"
	"regexp"
	"strings"
)

// formOption is what follows a field's value, as in curl.
var formOption = regexp.MustCompile(`;(type|filename)=`)

// EncodeForm encodes the fields of a form, which are written as curl has them, and returns its
// content type.
func EncodeForm(fields []string, boundary string, read func(string) (string, error)) (body, kind string, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary(boundary); err != nil {
		return "", "", err
	}
	for _, field := range fields {
		if err := addField(w, field, read); err != nil {
			return "", "", err
		}
	}
	err = w.Close()
	return b.String(), w.FormDataContentType(), err
}

func addField(w *multipart.Writer, field string, read func(string) (string, error)) (err error) {
	name, value, found := strings.Cut(field, "=")
	if !found || name == "" {
		return errors.New("a field without a name or =; want name=value or name=@FILE")
	}
	value, options := cutOptions(value)
	file, isFile := strings.CutPrefix(value, "@")
	text, isText := strings.CutPrefix(value, "<")
	filename, isNamed := options["filename"]
	switch {
	case isFile && file == "" || isText && text == "":
		return fmt.Errorf("%s: no file is named; want %s=@FILE", name, name)
	case isFile:
		if value, err = read(file); !isNamed {
			filename = filepath.Base(file)
		}
	case isText:
		value, err = read(text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	h := textproto.MIMEHeader{"Content-Disposition": {multipart.FileContentDisposition(name, filename)}}
	if !isFile && !isNamed {
		h["Content-Disposition"][0] = strings.TrimSuffix(h["Content-Disposition"][0], `; filename=""`)
	}
	kind := options["type"]
	if isFile {
		kind = cmp.Or(kind, mime.TypeByExtension(filepath.Ext(filename)), "application/octet-stream")
	}
	if strings.ContainsAny(kind, "\r\n") {
		return fmt.Errorf("%s: the type holds a line break; remove it", name)
	}
	if kind != "" {
		h.Set("Content-Type", kind)
	}
	part, err := w.CreatePart(h)
	if err == nil {
		_, err = io.WriteString(part, value)
	}
	return err
}

// cutOptions takes ;type= and ;filename= off a field's value.
func cutOptions(value string) (string, map[string]string) {
	options := map[string]string{}
	all := formOption.FindAllStringSubmatchIndex(value, -1)
	for i := len(all) - 1; i >= 0; i-- {
		options[value[all[i][2]:all[i][3]]] = value[all[i][1]:]
		value = value[:all[i][0]]
	}
	return value, options
}
