// Package imports makes experiments from files of other tools: scripts, recordings, logs, and
// descriptions of services. Each format has a package with its importer. What these share is in draft.
package imports

import (
	"dyno/cli/imports/curl"
	"dyno/cli/imports/draft"
	"dyno/cli/imports/ghz"
	"dyno/cli/imports/har"
	"dyno/cli/imports/jmeter"
	"dyno/cli/imports/k6"
	"dyno/cli/imports/locust"
	"dyno/cli/imports/nginxlog"
	"dyno/cli/imports/openapi"
	"dyno/cli/imports/postman"
	"dyno/cli/imports/proto"
	"dyno/cli/imports/vegeta"
	"dyno/cli/imports/wrk"
)

// Formats returns the formats by name.
func Formats() []draft.Format {
	return []draft.Format{
		curl.Format(), ghz.Format(), har.Format(), jmeter.Format(), k6.Format(), locust.Format(), nginxlog.Format(),
		openapi.Format(), postman.Format(), proto.Format(), vegeta.Format(), wrk.Format(),
	}
}

// Read imports a file. The errors that it returns are about the whole file.
func Read(s draft.Source) (*draft.Result, error) { return draft.Read(Formats(), s) }
