package tool

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// AddedCredentials returns what [Auth] has added to the headers and the query of a request, in the forms in which a server may repeat it: as it
// was sent, without its scheme, and the password alone. Whoever shows a server's words masks them or leaves them out.
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
