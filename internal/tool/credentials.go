package tool

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// AddedCredentials returns the credentials that [Auth] has added to the headers and the query of a request, in each form in which a server may
// repeat them: as they were sent, without the scheme, and the password alone. They must be masked in text from the server.
func AddedCredentials(before, after *http.Request) []string {
	var added []string
	query := before.URL.Query()
	for name, values := range after.URL.Query() {
		if slices.Equal(values, query[name]) {
			continue
		}
		for _, v := range values {
			added = append(added, v, url.QueryEscape(v))
		}
	}
	for name, values := range after.Header {
		if slices.Equal(values, before.Header[name]) {
			continue
		}
		for _, v := range values {
			_, token, _ := strings.Cut(v, " ")
			basic := http.Request{Header: http.Header{"Authorization": {v}}}
			_, password, _ := basic.BasicAuth()
			added = append(added, v, token, password)
		}
	}
	return slices.DeleteFunc(added, func(v string) bool { return v == "" })
}
